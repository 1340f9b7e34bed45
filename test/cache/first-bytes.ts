/**
 * The first package after an update, on the wire: its first bytes leave while the index that names it is still being read, of small
 * ones 25 ms after the origin's. Wrong content reaches no client whole, however it is framed.
 */
import t, { type Test } from 'tap'
import { changingArchive } from '../fixtures/archive/changing-archive.ts'
import type { RawClient } from '../fixtures/http/raw-client.ts'
import { reply } from '../fixtures/http/scripted-origin.ts'
import { scriptedFiles } from '../fixtures/store/files.ts'

t.setTimeout(120_000)

type Framing = 'length' | 'chunked' | 'close'

/** An archive of which each new day is adopted only when `adopt` says so. */
async function slowlyAdopted(t: Test) {
  const scripted = scriptedFiles()
  const settings = { suites: { wait: '20s' } }
  const archive = await changingArchive(t, { settings, disk: { files: scripted.files } })
  const { cache, clock, origin, root } = archive
  archive.serve(await archive.ofDay(1))
  await archive.until('1', t)
  // What follows an adoption hangs, and with it the next adoption.
  scripted.decide = (call, about) =>
    call === 'readdir' && about.endsWith('/suites') ? 'hang' : 'done'
  t.teardown(() => {
    scripted.decide = () => 'done'
    scripted.release()
  })
  let day = 1
  /** The next day, of which the client has the Release file and no index has been read. */
  const next = async (right: string): Promise<string> => {
    day += 1
    const path = `pool/main/n/n_${day}_all.deb`
    archive.serve(await archive.ofDay(day, { packages: { [path]: right } }))
    await cache.until(async () => {
      const { text } = await archive.get(archive.release)
      return text.startsWith(`Version: ${day}\n`)
    })
    return `/${root}/${path}`
  }
  archive.serve(await archive.ofDay(2))
  await next('the adoption of this day is not held up, what follows it is')
  await archive.settle()
  return { cache, clock, origin, next, adopt: () => scripted.release(), archive }
}

/** Asks for a file with a client of its own. */
async function asks(client: RawClient, url: string, version: string): Promise<void> {
  await client.write(`GET ${url} HTTP/${version}\r\nHost: ${new URL(url).host}\r\n\r\n`)
}

const lies: Readonly<Record<string, (right: string) => string>> = {
  right: right => right,
  'another last byte': right => `${right.slice(0, -1)}X`,
  shorter: right => right.slice(0, -5),
  longer: right => `${right}and more`,
}

/** How long the right content is, and whether the index is read after the client has got the first bytes. */
const cases = [
  { size: 3000, late: true },
  { size: 3000, late: false },
  { size: 100_000, late: true },
]

const framings: readonly (readonly [Framing, version: string])[] = [
  ['length', '1.1'],
  ['length', '1.0'],
  ['chunked', '1.1'],
  ['close', '1.0'],
]

for (const [framing, version] of framings) {
  t.test(`from an origin with ${framing}, to a client of HTTP/${version}`, async t => {
    const { cache, clock, origin, next, adopt } = await slowlyAdopted(t)
    for (const { size, late } of cases) {
      for (const [name, lie] of Object.entries(lies)) {
        const what = `${size} bytes, ${name}, adopted ${late ? 'late' : 'at once'}`
        const right = what.padEnd(size, `${what} `)
        const target = await next(right)
        origin.at(target, reply({ content: lie(right), framing }))
        const client = await cache.client()
        await asks(client, origin.url(target), version)
        await origin.arrived(target)
        if (late) {
          await cache.until(
            async () => {
              await cache.metric('cachesvc_fetches_under_way')
              clock.advance(20)
              return client.socket.bytesRead > 0
            },
            () => false,
          )
          t.equal(await cache.metric('cachesvc_suites_being_adopted'), 1, what)
        }
        adopt()
        const answer = await client.response().catch(() => undefined)
        if (name === 'right') t.equal(answer?.text, right, what)
        // A reset that comes together with bytes looks like an end to libuv, so the length counts here, too.
        else if (late) t.not(answer?.text, lie(right), what)
        else t.match(answer, { status: 520, reason: /: the origin sent/ }, what)
        await cache.until(async () => (await cache.metric('cachesvc_suites_being_adopted')) === 0)
        await cache.quiet()
        t.equal((await cache.stored()).includes(origin.url(target)), name === 'right', what)
      }
    }
  })
}
