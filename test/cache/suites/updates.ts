/**
 * Suites updated as a whole: whatever a mirror does in the middle of an update, clients get a Release and indexes that fit each
 * other.
 */
import t from 'tap'
import { openStore } from '../../../lib/cache/store/store.ts'
import { silentLog } from '../../../lib/log/log.ts'
import {
  asked,
  type ChangingArchive,
  changingArchive,
  changingArchives,
} from '../../fixtures/archive/changing-archive.ts'
import { hexOf } from '../../fixtures/archive/tiny-archive.ts'
import { file, reply } from '../../fixtures/http/scripted-origin.ts'
import { keep } from '../../fixtures/store/opened.ts'

t.test('a new Release comes with its indexes, by hash and by name', async t => {
  const archiveAt = await changingArchives(t)
  for (const byHash of [true, false]) {
    const archive = archiveAt(byHash ? 'hashed' : 'plain')
    const first = await archive.ofDay(1, { byHash })
    archive.serve(first)
    t.strictSame(await archive.update(), { day: '1', fits: true })
    archive.serve(await archive.ofDay(2, { byHash }))
    await archive.until('2', t)
    const old = first.get(archive.index) ?? Buffer.alloc(0)
    const kept = await archive.get(archive.hashed(old))
    t.ok(kept.content.equals(old), 'what the generation before had can still be had by hash')
  }
})

t.test('while a mirror has only half of an update, clients get the one before', async t => {
  const archiveAt = await changingArchives(t)
  for (const byHash of [true, false]) {
    const archive = archiveAt(byHash ? 'hashed' : 'plain')
    archive.serve(await archive.ofDay(1, { byHash }))
    await archive.update()
    const next = await archive.ofDay(2, { byHash })
    archive.serve(next, path => path === archive.release)
    for (let n = 0; n < 4; n += 1) {
      t.strictSame(await archive.update(), { day: '1', fits: true })
    }
    archive.serve(next)
    await archive.until('2', t)
  }
})

t.test('the answer says that the one before was given', async t => {
  const archive = await changingArchive(t)
  archive.serve(await archive.ofDay(1))
  await archive.update()
  archive.serve(await archive.ofDay(2), path => path === archive.release)
  const answer = await archive.get(archive.release)
  t.match(answer.fields.get('Cache-Status'), 'detail=stale-suite-incomplete')
  t.equal(answer.fields.get('X-Cache'), 'HIT')
  const { length } = archive.origin.seen(`/${archive.release}`)
  await archive.get(archive.release)
  t.equal(archive.origin.seen(`/${archive.release}`).length, length, 'asked again after a while')
})

t.test('that a file of the one before is gone is not said while it is given', async t => {
  const archive = await changingArchive(t)
  archive.serve(await archive.ofDay(1))
  await archive.update()
  const other = `${archive.suite}/main/binary-all/Packages.xz`
  t.equal((await archive.get(other)).status, 404)
  archive.serve(await archive.ofDay(2), path => path === archive.release)
  await archive.update()
  const answer = await archive.get(other)
  t.equal(answer.status, 503)
  t.match(answer.fields.get('Cache-Status'), 'detail=SUITE_BEHIND')
})

t.test('a mirror that has its indexes before its Release', async t => {
  const archive = await changingArchive(t)
  archive.serve(await archive.ofDay(1))
  await archive.update()
  const next = await archive.ofDay(2)
  archive.serve(next, path => path !== archive.release)
  t.strictSame(await archive.update(), { day: '1', fits: true })
  archive.serve(next)
  await archive.until('2', t)
})

t.test('a client in the middle of its update ends it with the indexes of its Release', async t => {
  const archive = await changingArchive(t)
  archive.serve(await archive.ofDay(1))
  await archive.update()
  const url = (path: string): string => archive.origin.url(`/${path}`)
  const client = await archive.cache.client()
  const own = await client.get(url(archive.release), asked)
  archive.serve(await archive.ofDay(2))
  await archive.until('2', t)
  // Another client at the same address has the newer one by now; the connection tells them apart.
  const packages = await client.get(url(archive.index), asked)
  t.ok(own.text.includes(hexOf('sha256', packages.content)))
})

t.test('a client that keeps its own Release after a 304 gets the index of that', async t => {
  const archive = await changingArchive(t)
  const url = (path: string): string => archive.origin.url(`/${path}`)
  archive.serve(await archive.ofDay(1))
  await archive.update()
  const { fields } = await archive.get(archive.release)
  const [own, tag] = [fields.get('Last-Modified') ?? '', fields.get('ETag') ?? '']
  const next = await archive.ofDay(2)
  const later = new Date(Date.parse(own) + 3600_000).toUTCString()
  const cases: ReadonlyArray<readonly [condition: Record<string, string>, newer: boolean]> = [
    [{ 'If-Modified-Since': own }, false],
    [{ 'If-None-Match': tag }, false],
    [{ 'If-Modified-Since': later }, true],
    [{ 'If-None-Match': '*' }, true],
  ]
  for (const [condition, newer] of cases) {
    archive.serve(next, path => path === archive.release)
    const answer = await archive.cache.get(url(archive.release), { ...asked, ...condition })
    t.equal(answer.status, 304)
    archive.serve(next, path => path === archive.index)
    const index = await archive.get(archive.index)
    t.equal(index.content.equals(next.get(archive.index) ?? Buffer.alloc(0)), newer)
    archive.remove([archive.index])
    await archive.settle()
  }
})

t.test('a 304 for a signature says nothing of the Release a client has', async t => {
  const archive = await changingArchive(t)
  const signature = `${archive.suite}/Release.gpg`
  const first = await archive.ofDay(1)
  archive.serve(first.set(signature, Buffer.from('signature')))
  await archive.update()
  for (const path of [signature, archive.release]) await archive.get(path)
  const url = archive.origin.url(`/${signature}`)
  const answer = await archive.cache.get(url, { ...asked, 'If-None-Match': '*' })
  t.equal(answer.status, 304)
  archive.serve(await archive.ofDay(2), path => path === archive.index)
  const index = await archive.get(archive.index)
  t.ok(index.content.equals(first.get(archive.index) ?? Buffer.alloc(0)))
})

t.test('a mirror that goes back to an older archive is not followed', async t => {
  const archive = await changingArchive(t)
  archive.serve(await archive.ofDay(2))
  await archive.update()
  archive.serve(await archive.ofDay(1))
  t.strictSame(await archive.update(), { day: '2', fits: true })
  const answer = await archive.get(archive.release)
  t.match(answer.fields.get('Cache-Status'), 'detail=stale-suite-refused')
  archive.serve(await archive.ofDay(3))
  await archive.until('3', t)
})

t.test('clients wait so long for a new generation and no longer', async t => {
  const archive = await changingArchive(t)
  archive.serve(await archive.ofDay(1))
  await archive.update()
  archive.serve(await archive.ofDay(2), path => path === archive.release)
  archive.origin.at(`/${archive.index}`, async answer => {
    await answer.write('HTTP/1.1 200 OK\r\nContent-Length: 10000\r\n\r\n')
  })
  let done = false
  const answer = archive.get(archive.release).finally(() => {
    done = true
  })
  await archive.cache.until(() => done)
  t.match((await answer).text, 'Version: 1')
})

/** What keeps the next Release file of an archive from being stored. */
const obstacles: Readonly<
  Record<string, (archive: ChangingArchive) => Promise<Readonly<Record<string, string>>>>
> = {
  'the disk has no room': async ({ cache, origin }) => {
    const domains = [`127.0.0.1:${origin.port}`]
    await cache.reload({ freshness: { floor: '0s' }, domains, retention: { free: '900T' } })
    await cache.until(() => cache.log.lines.some(({ message }) => message.startsWith('retention:')))
    return {}
  },
  'the origin forbids it': async () => ({ 'Cache-Control': 'private' }),
}
for (const [obstacle, erect] of Object.entries(obstacles)) {
  t.test(`a Release that cannot be stored, because ${obstacle}`, async t => {
    const archive = await changingArchive(t)
    archive.serve(await archive.ofDay(1))
    await archive.update()
    await archive.update()
    const fields = await erect(archive)
    const publish = async (day: number): Promise<void> => {
      const next = await archive.ofDay(day)
      archive.serve(next)
      const content = next.get(archive.release) ?? ''
      archive.origin.at(`/${archive.release}`, file({ content, fields }))
    }
    await publish(1)
    t.match((await archive.get(archive.release)).fields.get('Cache-Status'), 'detail=validated')
    await publish(2)
    for (let n = 0; n < 3; n += 1) {
      t.strictSame(await archive.update(), { day: '2', fits: true }, 'served through')
    }
  })
}

t.test('what finds out whether a slow origin is back takes no half of an update', async t => {
  const archive = await changingArchive(t)
  archive.serve(await archive.ofDay(1))
  await archive.update()
  archive.origin.at(`/${archive.release}`, () => new Promise(() => undefined))
  let done = false
  const slow = archive.get(archive.release).finally(() => {
    done = true
  })
  await archive.cache.until(() => done)
  t.match((await slow).fields.get('Cache-Status'), 'detail=stale-origin-slow')
  archive.serve(await archive.ofDay(2), path => path === archive.release)
  for (let n = 0; n < 3; n += 1) {
    t.match((await archive.get(archive.release)).text, 'Version: 1')
    await archive.cache.quiet()
  }
})

t.test('an origin that has gone, and one that says no, as ever', async t => {
  const archive = await changingArchive(t)
  archive.serve(await archive.ofDay(1))
  await archive.update()
  archive.origin.at(`/${archive.release}`, reply({ status: 503, content: 'busy' }))
  const stale = await archive.get(archive.release)
  t.match(stale.fields.get('Cache-Status'), 'detail=stale-origin-failed')
  archive.origin.at(`/${archive.release}`, reply({ status: 404, content: 'gone' }))
  // An origin that fails is left alone for five seconds.
  archive.clock.advance(5000)
  // The origin still has the other Release file, so the suite is not gone with it.
  const other = archive.release.replace(/InRelease$/, 'Release')
  archive.origin.at(`/${other}`, reply({ content: 'Suite: stable\n' }))
  t.equal((await archive.get(archive.release)).status, 404)
  t.equal((await archive.get(archive.release)).status, 404, 'and it is not stored any more')
})

t.test('Valid-Until that comes close makes a fresh Release be asked about', async t => {
  const settings = { freshness: { floor: '0s', index: '1d' } }
  const archive = await changingArchive(t, { settings, now: Date.parse('2025-01-01T01:10:00Z') })
  const more = 'Valid-Until: Wed, 01 Jan 2025 02:40:00 UTC\n'
  archive.serve(await archive.ofDay(1, { more }))
  await archive.update()
  const plainly = async (): Promise<string | undefined> => {
    const answer = await archive.cache.get(archive.origin.url(`/${archive.release}`))
    return /detail=([\w-]+)/.exec(answer.fields.get('Cache-Status') ?? '')?.[1]
  }
  t.equal(await plainly(), 'fresh')
  archive.clock.advance(82 * 60_000)
  t.equal(await plainly(), 'validated')
  t.equal(await plainly(), 'validated')
})

t.test('what a crash in the middle of an update has left is removed at the next start', async t => {
  const archive = await changingArchive(t)
  const { cache, clock, origin } = archive
  archive.serve(await archive.ofDay(1))
  await archive.update()
  const before = await cache.stored()
  await cache.stop()
  const store = await openStore({ directory: cache.directory, clock, log: silentLog, memory: 0 })
  for (const path of [archive.release, `${archive.suite}/Release.gpg`, archive.index]) {
    await keep(store, `${origin.url(`/${path}`)}#incoming`, Buffer.from(path))
  }
  await store.close()
  await cache.restart()
  t.strictSame(await cache.stored(), before)
})
