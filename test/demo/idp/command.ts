import { once } from 'node:events'
import { writeFile } from 'node:fs/promises'
import { type AddressInfo, createServer } from 'node:net'
import { join } from 'node:path'
import t from 'tap'
import { makeAuthority } from '../../fixtures/certificates/certificate.ts'
import { attempt } from '../../fixtures/process/command.ts'

t.setTimeout(600_000)

/** What a command says that does not start. */
async function refused(...parameters: readonly string[]) {
  const program = ['dist/bin/authproxy.js', ...parameters]
  const { code, stderr } = await attempt(process.execPath, program, { deadline: 300_000 })
  return { ...JSON.parse(stderr), exit: code }
}

t.test(
  'a port that is taken is said in one sentence, with the option that names another',
  async t => {
    const other = createServer().listen(0, '127.0.0.1')
    t.teardown(() => other.close())
    await once(other, 'listening')
    const { port } = other.address() as AddressInfo
    for (const [option, ...parameters] of [
      ['--listen', 'dev-idp', '--listen', `127.0.0.1:${port}`],
      ['--port', 'demo', '--port', `${port}`],
    ] as const) {
      const said = await refused(...parameters)
      t.equal(said.exit, 78)
      // The demonstration takes the port behind its own as well, which may be that of another program.
      t.match(
        said.message,
        /^cannot start: cannot listen on 127.0.0.1:\d+: another process listens there; name another port with --\w+$/,
      )
      t.ok(said.message.endsWith(option))
      t.equal(said.error, undefined, 'no trace')
    }
  },
)

t.test('a file that assertions cannot be encrypted to is refused at the start', async t => {
  const directory = t.testdir()
  const listen = ['dev-idp', '--listen', '127.0.0.1:0']
  for (const [name, content, why] of [
    ['absent.crt', undefined, 'there is no such file'],
    ['text.crt', 'no certificate', 'it is not a certificate in PEM form'],
    ['elliptic.crt', makeAuthority().cert, 'its key is not RSA'],
  ] as const) {
    const file = join(directory, name)
    if (content !== undefined) await writeFile(file, content)
    const { exit, message } = await refused(...listen, '--encrypt-to', file)
    t.equal(exit, 1)
    t.equal(message, `cannot start: assertions cannot be encrypted to ${file}: ${why}`)
  }
})
