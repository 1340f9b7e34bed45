/**
 * Real apt runs while the service is restarted, with a slow client that the old process is sending a file. The variable
 * CACHESVC_RESTARTS makes more of them.
 */
import { once } from 'node:events'
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { get, type IncomingMessage } from 'node:http'
import { connect } from 'node:net'
import { join } from 'node:path'
import t from 'tap'
import { Apt } from '../fixtures/archive/apt.ts'
import { Archive } from '../fixtures/archive/archive.ts'
import { ArchiveOrigin } from '../fixtures/archive/archive-origin.ts'
import { directoryFor, fetchThrough, noLab, report } from '../fixtures/cache/lab.ts'
import { peerUnderTest } from '../fixtures/cache/proxy-process.ts'
import { lacking } from '../fixtures/process/command.ts'
import { SocketActivated } from '../fixtures/process/socket-activated.ts'

t.setTimeout(600_000)

const rounds = Number(process.env['CACHESVC_RESTARTS'] ?? 2)
/** More than the kernel keeps for a client that reads nothing. */
const large = 24_000_000
const path = '/debian/pool/main/l/large/large_1.0_amd64.deb'
const launcher = join(import.meta.dirname, '../../../bin/cachesvc')
const skip = noLab || peerUnderTest || lacking('perl')

t.test('restarts during runs of apt, with a slow client', { skip }, async t => {
  const directory = directoryFor(t)
  const archive = await Archive.create([
    { name: 'alpha', version: '1.0', size: 60_000 },
    { name: 'beta', version: '2.0', size: 900_000 },
    { name: 'large', version: '1.0', size: large },
  ])
  t.teardown(() => archive.close())
  const origin = await ArchiveOrigin.start({ root: archive.root })
  t.teardown(() => origin.close())
  const config = join(directory, 'cachesvc.yaml')
  const settings = {
    cache_directory: join(directory, 'cache'),
    domains: [`127.0.0.1:${origin.port}`],
    freshness: { floor: '0s' },
    timeouts: { drain: '5m' },
  }
  await writeFile(config, JSON.stringify(settings))
  const service = await SocketActivated.start(launcher, ['--config', config])
  t.teardown(() => service.stop())
  const { port } = service
  const whole = await readFile(join(archive.root, path))
  t.ok((await fetchThrough(port, origin.url + path)).content.equals(whole))

  const watch = probe(port)
  for (let round = 1; round <= rounds; round += 1) {
    const slow = await begin(port, origin.url + path)
    const ended = service.restart()
    const run = async (number: number) => {
      const place = join(directory, `apt-${round}-${number}`)
      await mkdir(place)
      const proxy = `http://127.0.0.1:${port}`
      const sources = [{ uri: `${origin.url}/debian`, suite: 'test', components: ['main'] }]
      const apt = await Apt.create({ directory: place, keyring: archive.keyring, proxy, sources })
      const update = await apt.update()
      t.equal(update.code, 0, `update ${round}.${number}`, report(update))
      const install = await apt.download('alpha', 'beta')
      t.equal(install.code, 0, `install ${round}.${number}`, report(install))
      t.notMatch(update.output + install.output, /^(?:Err|Ign|W|E):/m, 'apt noticed nothing')
    }
    const during = run(1)
    await run(2)
    t.ok((await rest(slow)).equals(whole), 'the slow client has its file')
    await Promise.all([during, run(3)])
    t.equal(await ended, '0')
  }
  const { refused, longest, count } = await watch.end()
  t.equal(refused, 0, `of ${count} connections none is refused`)
  t.comment(`${rounds} restarts, ${count} probes, the longest answered after ${longest} ms`)
})

/** A response whose head has come, and of which no more is read. */
async function begin(port: number, url: string): Promise<IncomingMessage> {
  const headers = { Host: new URL(url).host }
  const [response] = await once(get({ port, path: url, headers, agent: false }), 'response')
  return response
}

async function rest(response: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = []
  for await (const chunk of response) chunks.push(chunk)
  return Buffer.concat(chunks)
}

/** Connects again and again and asks for the health of the service: how often it is refused, and the longest wait for an answer. */
function probe(port: number) {
  const counted = { refused: 0, longest: 0, count: 0 }
  let ended = false
  const ask = () =>
    new Promise<void>(resolve => {
      const begun = performance.now()
      const socket = connect(port, '127.0.0.1')
      socket.write('GET /_cachesvc/healthz HTTP/1.0\r\nHost: cache\r\n\r\n')
      socket.once('data', () => {
        counted.longest = Math.max(counted.longest, Math.round(performance.now() - begun))
      })
      socket.once('error', () => (counted.refused += 1))
      socket.once('close', () => resolve())
      socket.resume()
    })
  const done = (async () => {
    while (!ended) {
      counted.count += 1
      await ask()
      await new Promise(resolve => setTimeout(resolve, 20))
    }
  })()
  const end = async () => {
    ended = true
    await done
    return counted
  }
  return { end }
}
