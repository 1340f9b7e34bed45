/**
 * Denied packages and the real apt: it prints the reason, and goes on with the rest. Who was given a package before, over 20 clients and
 * a process that is killed.
 */
import { mkdir, writeFile } from 'node:fs/promises'
import { get } from 'node:http'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import t from 'tap'
import { packageRoot } from '../../lib/package.ts'
import { directoryFor, noLab, report, setUp } from '../fixtures/cache/lab.ts'
import { peerUnderTest } from '../fixtures/cache/proxy-process.ts'
import { attempt } from '../fixtures/process/command.ts'
import { until } from '../fixtures/time/until.ts'

const packagesOf = (alpha: string, beta: string) => [
  { name: 'alpha', version: alpha, size: 20_000 },
  { name: 'beta', version: beta, size: 20_000 },
]

t.setTimeout(300_000)

t.test('apt, a list that changes, and recall', { skip: noLab || peerUnderTest }, async t => {
  const directory = directoryFor(t)
  const list = join(directory, 'deny.yaml')
  await mkdir(directory, { recursive: true })
  await writeFile(list, '')
  const packages = packagesOf('1.0', '1.0')
  const lab = await setUp(t, { directory, packages, settings: { deny: list } })
  const { archive, origin } = lab
  const machine = await lab.apt('machine')
  t.equal((await machine.update()).code, 0)
  t.equal((await machine.download('alpha', 'beta')).code, 0)
  const installed = ['alpha', 'beta'].map(
    name =>
      `Package: ${name}\nStatus: install ok installed\nVersion: 1.0\nArchitecture: amd64\nMaintainer: x\nDescription: x\n`,
  )
  await writeFile(join(directory, 'machine/status'), installed.join('\n'))
  await archive.publish(packagesOf('1.1', '1.1'))
  t.equal((await machine.update()).code, 0)

  const url = `${origin.url}/debian/pool/main/a/alpha/alpha_1.1_amd64.deb`
  /** A request of the client 127.0.0.n. */
  const ask = (n: number, of = url) =>
    new Promise<{ status: number; reason: string }>((resolve, reject) => {
      const options = { host: '127.0.0.1', port: lab.proxy.port, path: of, agent: false }
      const request = get({ ...options, localAddress: `127.0.0.${n}` }, response => {
        const { statusCode: status = 0, statusMessage: reason = '' } = response
        text(response).then(() => resolve({ status, reason }), reject)
      })
      request.on('error', reject)
    })
  const given = Array.from({ length: 20 }, (_, n) => n + 2).filter(n => n % 3 === 0)
  for (const n of given.slice(0, 3)) t.equal((await ask(n)).status, 200)

  const recall = (...words: readonly string[]) =>
    attempt(join(packageRoot(), 'bin/cachesvc'), [
      'recall',
      `--config=${join(directory, 'proxy/cachesvc.yaml')}`,
      ...words,
    ])
  const clients = async (...words: readonly string[]) => {
    const { stdout } = await recall('--json', ...words)
    return new Set(JSON.parse(stdout.toString()).map((one: { client: string }) => one.client)).size
  }
  await until(async () => (await clients('alpha', '1.1')) === 3)
  lab.replace(await lab.proxy.restart(undefined, 'SIGKILL'))
  for (const n of given.slice(3)) t.equal((await ask(n)).status, 200)

  await writeFile(
    list,
    '- package: alpha\n  versions: ">= 1.1, << 1.2"\n  reason: "EXAMPLE-1: it deletes files"\n',
  )
  const begun = Date.now()
  await until(async () => (await ask(2)).status === 403)
  t.comment(`refused ${Date.now() - begun} ms after the change of the file`)
  for (let n = 2; n < 22; n += 1)
    t.equal((await ask(n)).reason, 'alpha 1.1 is denied by this proxy: EXAMPLE-1: it deletes files')

  await t.test('apt prints the reason, and upgrades the rest', async t => {
    const refused = await machine.run('apt-get', 'upgrade', '--yes', '--download-only')
    t.equal(refused.code, 100, report(refused))
    t.match(refused.errors.join(), /403 +alpha 1\.1 is denied by this proxy: EXAMPLE-1/)
    t.strictSame(
      (await machine.downloaded()).filter(name => name.includes('1.1')),
      ['beta_1.1_amd64.deb'],
    )
    // `true` in place of dpkg installs nothing, so that apt names what it had planned.
    const upgrade = ['upgrade', '--yes', '--fix-missing', '-o', 'Dir::Bin::dpkg=/bin/true']
    const rest = await machine.run('apt-get', ...upgrade)
    t.match(rest.output, /Affected packages: beta:amd64\n/, report(rest))
    await archive.publish(packagesOf('1.2', '1.1'))
    t.equal((await machine.update()).code, 0)
    const next = await machine.run('apt-get', 'upgrade', '--yes', '--download-only')
    t.equal(next.code, 0, report(next))
  })

  // The client 127.0.0.2 has asked until it was refused.
  const expected = [2, ...given].map(n => `127.0.0.${n}`).sort()
  await until(async () => (await clients('alpha', '1.1')) === expected.length)
  const { stdout } = await recall('alpha', '>= 1.1, << 1.2')
  const lines = stdout.toString().trimEnd().split('\n')
  t.strictSame(
    lines.slice(0, -1).map(line => line.split('\t')[0]),
    expected,
  )
  t.match(lines.at(-1), /^8 clients; the record begins /)
  t.comment(stdout.toString())
  const explained = await attempt(join(packageRoot(), 'bin/cachesvc'), [
    'explain',
    `--config=${join(directory, 'proxy/cachesvc.yaml')}`,
    url,
  ])
  t.match(explained.stdout.toString(), /is refused\. alpha 1\.1 is denied by this proxy: EXAMPLE-1/)
})
