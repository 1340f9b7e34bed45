/**
 * A disk that is full or fails, on the wire: clients are served, nothing is stored, readiness is red until there is room.
 */
import { cp, open, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { TestCache } from '../fixtures/cache/cache.ts'
import type { RawResponse } from '../fixtures/http/raw-client.ts'
import { file, reply, ScriptedOrigin } from '../fixtures/http/scripted-origin.ts'
import { type Call, scriptedFiles } from '../fixtures/store/files.ts'
import { mountTmpfs, withTmpfs } from '../fixtures/store/tmpfs.ts'
import { Gate } from '../fixtures/time/gate.ts'
import { ManualClock } from '../fixtures/time/manual-clock.ts'

const deb = '/debian/pool/main/h/hello_1_all.deb'
const release = '/debian/dists/stable/InRelease'
const content = Buffer.alloc(3_000_000, 'the quick brown fox ')
const insist = { 'Cache-Control': 'max-age=0' }

/** Fills a file system to the last byte; the answer makes room again. */
async function fillUp(directory: string): Promise<() => Promise<void>> {
  const name = join(directory, 'ballast')
  const handle = await open(name, 'w')
  try {
    for (const block of [Buffer.alloc(65_536), Buffer.alloc(512)]) {
      for (;;) if ((await handle.write(block)).bytesWritten < block.length) break
    }
  } catch {
    // Full.
  } finally {
    await handle.close()
  }
  return () => rm(name)
}

t.test('a disk that fills up in the middle of a fill', withTmpfs, async t => {
  const origin = await ScriptedOrigin.listen(t)
  const clock = new ManualClock(Date.now())
  const directory = mountTmpfs(t, 'size=8m')
  const cache = await TestCache.start(t, { origins: [origin], directory, clock })
  const half = new Gate()
  origin.at(deb, file({ content, etag: '"1"', pauses: [{ at: 1_000_000, gate: half }] }))
  for (const path of ['/small', '/another']) {
    origin.at(path, file({ content: 'small', etag: '"1"' }))
  }
  await cache.warm(origin.url('/small'))
  const [one, other] = [await cache.client(), await cache.client()]
  await one.request('GET', origin.url(deb))
  await one.head()
  t.equal((await one.bytes(1_000_000)).length, 1_000_000)
  const makeRoom = await fillUp(directory)
  await other.request('GET', origin.url(deb))
  await other.head()
  half.open()
  const [rest, all] = await Promise.all([one.bytes(2_000_000), other.bytes(3_000_000)])
  t.ok(rest.equals(content.subarray(1_000_000)))
  t.ok(all.equals(content))

  t.match(cache.log.lines.find(({ message }) => /the disk fails/.test(message))?.facts, {
    because: /no space/,
  })
  const red = await cache.get('/_cachesvc/healthz')
  t.equal(red.status, 503)
  t.match(red.text, 'no space left')
  const missed = cache.log.lines.filter(({ facts }) => facts?.['target'] === origin.url(deb)).at(-1)
  t.match(missed?.facts?.['notStored'], /no space left/, 'the log says so at the end')
  t.match((await cache.get('/_cachesvc/')).text, /served, not stored: .*no space left/)
  const explained = await cache.get(`/_cachesvc/explain?url=${encodeURIComponent(origin.url(deb))}`)
  t.match(explained.text, /the last response could not be stored: .*no space left/)
  t.match(await cache.command({ do: 'status' }), { out: /Store .*, full\n/ })
  const next = await cache.get(origin.url('/another'))
  t.match(next.fields.get('X-Cache'), /^MISS \(not stored: .*no space left/)
  t.equal((await cache.get(origin.url('/small'))).fields.get('X-Cache'), 'HIT')
  t.strictSame(await cache.files('v2/tmp'), [])

  await makeRoom()
  await cache.until(async () => (await cache.get('/_cachesvc/healthz')).status === 200)
  t.ok((await cache.warm(origin.url(deb))).content.equals(content))
  t.equal((await cache.get(origin.url(deb))).fields.get('X-Cache'), 'HIT')
})

t.test(
  'a disk that is full at the start: red, serving, and green when there is room',
  withTmpfs,
  async t => {
    const origin = await ScriptedOrigin.listen(t)
    const clock = new ManualClock(Date.now())
    const directory = mountTmpfs(t, 'size=4m')
    const cache = await TestCache.start(t, { origins: [origin], directory, clock })
    for (const path of [release, '/small']) origin.at(path, file({ content: 'first', etag: '"1"' }))
    origin.at(deb, file({ content, etag: '"1"' }))
    await cache.warm(origin.url(release))
    await cache.stop()
    const makeRoom = await fillUp(directory)
    await cache.restart()

    t.equal((await cache.get('/_cachesvc/healthz')).status, 503)
    t.equal((await cache.get(origin.url(release))).fields.get('X-Cache'), 'HIT')
    t.ok((await cache.get(origin.url(deb))).content.equals(content))
    t.equal((await cache.get(origin.url('/small'))).text, 'first')
    t.equal((await cache.get(origin.url(release), insist)).text, 'first', 'a 304 needs no disk')
    origin.at(release, file({ content: 'second', etag: '"2"' }))
    t.equal((await cache.get(origin.url(release), insist)).text, 'second', 'new content does reach')

    await makeRoom()
    await cache.until(async () => (await cache.get('/_cachesvc/healthz')).status === 200)
    await cache.warm(origin.url(deb))
    t.equal((await cache.get(origin.url(deb))).fields.get('X-Cache'), 'HIT')
  },
)

t.test('a first start on a full disk', withTmpfs, async t => {
  const origin = await ScriptedOrigin.listen(t)
  const directory = mountTmpfs(t, 'size=2m')
  const makeRoom = await fillUp(directory)
  const clock = new ManualClock(Date.now())
  const cache = await TestCache.start(t, { origins: [origin], directory, clock })
  origin.at(deb, file({ content: 'hello', etag: '"1"' }))
  t.equal((await cache.get(origin.url(deb))).text, 'hello')
  t.equal((await cache.get('/_cachesvc/healthz')).status, 503)
  await makeRoom()
  await cache.until(async () => (await cache.get('/_cachesvc/healthz')).status === 200)
  await cache.warm(origin.url(deb))
  t.equal((await cache.get(origin.url(deb))).fields.get('X-Cache'), 'HIT')
})

t.test('a cache directory that cannot be used refuses to start, in one sentence', async t => {
  const place = t.testdir({ file: 'not a directory' })
  await t.rejects(TestCache.start(t, { directory: join(place, 'file') }), {
    message: /^The cache directory .* is not a directory.*\.$/,
  })
  const cache = await TestCache.start(t)
  await t.rejects(TestCache.start(t, { directory: cache.directory }), {
    message: /is in use by process \d+/,
  })
})

t.test('a file system that is read-only refuses to start', withTmpfs, async t => {
  const directory = mountTmpfs(t, 'size=1m,ro')
  await t.rejects(TestCache.start(t, { directory }), { message: /read-only/ })
})

t.test('a disk that breaks: every write fails, everybody is served', async t => {
  const origin = await ScriptedOrigin.listen(t)
  const scripted = scriptedFiles()
  let failing: Call | undefined
  const clock = new ManualClock(Date.now())
  const cache = await TestCache.start(t, {
    origins: [origin],
    clock,
    disk: { files: scripted.files },
  })
  scripted.decide = (call, about) => {
    const content = about.endsWith('.part') || about.includes('/blobs/')
    return content && call === failing ? { code: 'EIO' } : 'done'
  }
  for (const how of ['open', 'writev', 'rename'] as const) {
    failing = how
    const path = `/pool/a_${how}.deb`
    origin.at(path, file({ content, etag: '"1"' }))
    t.ok((await cache.get(origin.url(path))).content.equals(content), how)
    const part = await cache.get(origin.url(path), { Range: 'bytes=100-199' })
    t.equal(part.status, 206)
    t.ok(part.content.equals(content.subarray(100, 200)))
    await cache.quiet()
    t.equal((await cache.get('/_cachesvc/healthz')).status, 503, how)
    failing = undefined
    await cache.until(async () => (await cache.get('/_cachesvc/healthz')).status === 200)
  }
  t.strictSame(await cache.stored(), [])
  t.strictSame(await cache.files('v2/tmp'), [])
})

t.test('statistics that cannot be written stop nothing', withTmpfs, async t => {
  const directory = mountTmpfs(t, 'size=2m')
  const cache = await TestCache.start(t, { directory })
  await writeFile(join(directory, 'x'), 'x')
  await fillUp(directory)
  await cache.get('/_cachesvc/')
  await cache.stop()
  t.pass('stopped')
})

t.test('a file that is hashed after a crash has not gone when the origin says so', async t => {
  const origin = await ScriptedOrigin.listen(t)
  const bytes = Buffer.alloc(5 << 20, 'x')
  bytes.write('!<arch>\n')
  origin.at(deb, file({ content: bytes, etag: '"1"' }))
  const clock = new ManualClock(Date.now())
  const before = await TestCache.start(t, { origins: [origin], clock })
  await before.warm(origin.url(deb))
  const log = join(before.directory, 'v2/entries.log')
  await before.until(async () => (await readFile(log, 'utf8')).includes(origin.url(deb)))
  const directory = join(t.testdir({}), 'left')
  await cp(join(before.directory, 'v2'), join(directory, 'v2'), { recursive: true })
  const scripted = scriptedFiles()
  scripted.decide = (call, about) =>
    call === 'readv' && about.includes('/blobs/') ? 'hang' : 'done'
  const disk = { files: scripted.files }
  const cache = await TestCache.start(t, { origins: [origin], clock, directory, disk })
  origin.at(deb, reply({ status: 404, content: 'gone' }))
  let answer: RawResponse | undefined
  const asked = cache.get(origin.url(deb)).then(found => {
    answer = found
  })
  await cache.until(() => {
    clock.advance(500)
    return answer !== undefined
  })
  await asked
  t.equal(answer?.status, 503)
  t.match(answer?.text, 'CONTENT_UNPROVEN')
  scripted.decide = () => 'done'
  scripted.release()
  await cache.until(async () => (await cache.get(origin.url(deb))).status === 200)
  t.ok((await cache.get(origin.url(deb))).content.equals(bytes))
})
