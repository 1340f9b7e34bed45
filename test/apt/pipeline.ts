/**
 * apt asks for the first file alone and then writes ten requests at once; answers come in the order of the requests, whole.
 */
import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { connect } from 'node:net'
import { join } from 'node:path'
import t from 'tap'
import { type PackageSpec, poolPath } from '../fixtures/archive/package-file.ts'
import { noLab, report, setUp } from '../fixtures/cache/lab.ts'

const packages: PackageSpec[] = Array.from({ length: 40 }, (_, i) => ({
  name: `pack${String(i).padStart(2, '0')}`,
  version: `1.${i}+x~${i}`,
  // Small and large in turn, so that order is not a matter of size.
  size: i % 3 === 0 ? 200_000 : 500,
}))
const names = packages.map(spec => spec.name)

t.setTimeout(600_000)

t.test('bursts of pipelined requests', { skip: noLab }, async t => {
  const lab = await setUp(t, { packages })
  const settings = { 'Debug::Acquire::http': 'true' }

  for (const state of ['cold', 'warm']) {
    await t.test(`${state}: apt's own bursts`, async t => {
      const apt = await lab.apt(state, { settings })
      t.equal((await apt.update()).code, 0)
      const install = await apt.download(...names)
      t.equal(install.code, 0, report(install))
      t.equal((await apt.downloaded()).length, packages.length)
      t.notMatch(install.output, /^(Err|Ign):/m)
    })
  }

  await t.test('all forty in one write, read slowly', async t => {
    const wanted = packages.map(spec => `/debian/${poolPath(spec)}`)
    const text = wanted.map(
      path => `GET ${lab.origin.url}${path} HTTP/1.1\r\nHost: ${lab.origin.authority}\r\n\r\n`,
    )
    const received = await exchange(lab.proxy.port, text.join(''), wanted.length)
    const expected = await Promise.all(
      wanted.map(async path => sha256(await readFile(join(lab.archive.root, path)))),
    )
    t.strictSame(received.map(sha256), expected)
  })
})

function sha256(content: Buffer): string {
  return createHash('sha256').update(content).digest('hex')
}

/** Writes `text` at once and takes the contents of so many 200 answers framed by Content-Length off the connection. */
function exchange(port: number, text: string, answers: number): Promise<Buffer[]> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, '127.0.0.1', () => socket.write(text))
    const contents: Buffer[] = []
    let waiting = Buffer.alloc(0)
    socket.setTimeout(20_000, () => socket.destroy(new Error('no byte for 20 s')))
    socket.on('error', reject)
    socket.on('close', () => reject(new Error(`closed after ${contents.length} answers`)))
    socket.on('data', chunk => {
      waiting = Buffer.concat([waiting, chunk])
      for (;;) {
        const end = waiting.indexOf('\r\n\r\n')
        if (end < 0) break
        const head = waiting.subarray(0, end).toString('latin1')
        const length = Number(/^content-length: (\d+)/im.exec(head)?.[1] ?? Number.NaN)
        if (!head.startsWith('HTTP/1.1 200') || Number.isNaN(length)) {
          return void socket.destroy(new Error(`unexpected head: ${head}`))
        }
        if (waiting.length < end + 4 + length) break
        contents.push(waiting.subarray(end + 4, end + 4 + length))
        waiting = waiting.subarray(end + 4 + length)
      }
      if (contents.length === answers) {
        resolve(contents)
        socket.destroy()
      }
      // A reader slower than the writer, so that the proxy's buffers fill.
      socket.pause()
      setTimeout(() => socket.resume(), 1)
    })
  })
}
