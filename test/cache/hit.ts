/**
 * The hit, on the wire: conditions, ranges, what the fields say, and what happens when the disk has lost the bytes.
 */
import { readFile, rm, symlink, truncate, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { TestCache } from '../fixtures/cache/cache.ts'
import { file, reply, ScriptedOrigin } from '../fixtures/http/scripted-origin.ts'
import { ManualClock } from '../fixtures/time/manual-clock.ts'

const deb = '/debian/pool/main/h/hello_1_all.deb'
const release = '/debian/dists/stable/InRelease'
const date = 'Wed, 01 Jan 2025 00:00:00 GMT'
const content = Buffer.from(Array.from({ length: 2000 }, (_, n) => `${n} `).join(''))

/** A cache that has the file, and an origin that is gone. */
async function warmed(t: Test, more: { bytes?: Buffer } = {}) {
  const origin = await ScriptedOrigin.listen(t)
  const clock = new ManualClock(Date.parse('2025-03-14T12:00:00Z'))
  const cache = await TestCache.start(t, { origins: [origin], clock })
  const fields = { 'Content-Type': 'application/vnd.debian.binary-package' }
  origin.at(deb, file({ content: more.bytes ?? content, etag: '"1"', lastModified: date, fields }))
  const url = origin.url(deb)
  await cache.warm(url)
  return { origin, clock, cache, url }
}

t.test('a hit needs no network, and says what it is', async t => {
  const { origin, clock, cache, url } = await warmed(t)
  await origin.close()
  clock.advance(90_000)
  const hit = await cache.get(url)
  t.equal(hit.status, 200)
  t.ok(hit.content.equals(content))
  t.equal(hit.fields.get('X-Cache'), 'HIT')
  t.equal(hit.fields.get('Cache-Status'), 'cachesvc; hit; detail=immutable')
  // Storing took a moment by the same clock.
  t.match(hit.fields.get('Age'), /^9\d$/)
  t.equal(hit.fields.get('ETag'), '"1"')
  t.equal(hit.fields.get('Last-Modified'), date)
  t.equal(hit.fields.get('Content-Type'), 'application/vnd.debian.binary-package')
  t.equal(hit.fields.get('Accept-Ranges'), 'bytes')
  t.match(hit.fields.get('Via'), /^1\.1 cachesvc-/)
  for (const name of ['Age', 'X-Cache', 'Cache-Status', 'Via', 'Date', 'Last-Modified']) {
    t.equal(hit.fields.all(name).length, 1, name)
  }
})

t.test('conditions of a hit', async t => {
  const { cache, url } = await warmed(t)
  const cases = [
    [{ 'If-None-Match': '"1"' }, 304],
    [{ 'If-None-Match': 'W/"1"' }, 304],
    [{ 'If-None-Match': '"0", "1"' }, 304],
    [{ 'If-None-Match': '*' }, 304],
    [{ 'If-None-Match': '"2"' }, 200],
    [{ 'If-Modified-Since': date }, 304],
    [{ 'If-Modified-Since': 'Thu, 02 Jan 2025 00:00:00 GMT' }, 304],
    [{ 'If-Modified-Since': 'Tue, 31 Dec 2024 00:00:00 GMT' }, 200],
    [{ 'If-Modified-Since': 'yesterday' }, 200],
    [{ 'If-None-Match': '"2"', 'If-Modified-Since': date }, 200],
    [{ Range: 'bytes=0-4', 'If-None-Match': '"1"' }, 304],
  ] as const
  for (const [fields, status] of cases) {
    const answer = await cache.get(url, fields)
    t.equal(answer.status, status, JSON.stringify(fields))
    t.equal(answer.fields.get('X-Cache'), 'HIT')
    t.equal(answer.fields.get('ETag'), '"1"')
    t.equal((await cache.head(url, fields)).status, status)
  }
})

t.test('ranges of a hit, small and large', async t => {
  for (const bytes of [content, Buffer.alloc(700_000, 'large content ')]) {
    const { cache, url } = await warmed(t, { bytes })
    const { length } = bytes
    const cases: ReadonlyArray<readonly [string, number, number]> = [
      ['bytes=0-4', 0, 4],
      ['bytes=100-', 100, length - 1],
      ['bytes=-7', length - 7, length - 1],
      [`bytes=5-${length * 2}`, 5, length - 1],
      ['bytes=-999999999', 0, length - 1],
    ]
    for (const [range, first, last] of cases) {
      const part = await cache.get(url, { Range: range })
      t.equal(part.status, 206, range)
      t.equal(part.fields.get('Content-Range'), `bytes ${first}-${last}/${length}`)
      t.ok(part.content.equals(bytes.subarray(first, last + 1)))
    }
    const several = await cache.get(url, { Range: 'bytes=0-1, 5000-5001, -2' })
    t.equal(several.status, 206)
    const [, boundary] = /boundary=(\S+)$/.exec(several.fields.get('Content-Type') ?? '') ?? []
    t.equal(several.text.split(`--${boundary}`).length, 5)
    t.match(several.text, 'Content-Type: application/vnd.debian.binary-package')
    const behind = await cache.get(url, { Range: `bytes=${length}-` })
    t.equal(behind.status, 416)
    t.equal(behind.fields.get('Content-Range'), `bytes */${length}`)
    for (const nonsense of ['bytes=5-1', 'lines=1-2', 'bytes=a-b', 'bytes=']) {
      t.equal((await cache.get(url, { Range: nonsense })).status, 200, nonsense)
    }
    t.equal((await cache.head(url, { Range: 'bytes=0-4' })).status, 200, 'only GET has ranges')
  }
})

t.test('If-Range of a hit', async t => {
  const { cache, url } = await warmed(t)
  const cases = [
    ['"1"', 206],
    [date, 206],
    ['"2"', 200],
    ['W/"1"', 200],
    ['Thu, 02 Jan 2025 00:00:00 GMT', 200],
  ] as const
  for (const [validator, status] of cases) {
    const answer = await cache.get(url, { Range: 'bytes=3-', 'If-Range': validator })
    t.equal(answer.status, status, validator)
  }
})

t.test(
  'Last-Modified stays what it is, byte for byte: restarts, revalidations, no validator',
  async t => {
    const origin = await ScriptedOrigin.listen(t)
    const clock = new ManualClock(Date.parse('2025-03-14T12:00:00.100Z'))
    const cache = await TestCache.start(t, { origins: [origin], clock })
    // A clock that jumps while the disk is asked for something would make that late.
    const anHour = async () => {
      await cache.quiet()
      clock.advance(3_600_000)
    }
    const dates = async () => {
      const answers = [await cache.get(origin.url(deb)), await cache.get(origin.url(release))]
      return answers.map(({ fields }) => fields.get('Last-Modified'))
    }
    origin.at('*', reply({ content: 'no validators here' }))
    const first = [await cache.warm(origin.url(deb)), await cache.warm(origin.url(release))]
    const given = first.map(({ fields }) => fields.get('Last-Modified'))
    for (const one of given) t.match(one, /^Fri, 14 Mar 2025 12:00:0\d GMT$/)
    await anHour()
    t.strictSame(await dates(), given, 'after a revalidation that brought the same bytes')
    await cache.quiet()
    await cache.restart()
    await anHour()
    t.strictSame(await dates(), given, 'after a restart')
    const resumed = { Range: 'bytes=3-', 'If-Range': given[1] ?? '' }
    t.equal((await cache.get(origin.url(release), resumed)).status, 206)

    origin.at(release, reply({ content: 'other content now' }))
    await anHour()
    t.not((await dates())[1], given[1], 'other bytes have another date')
    t.equal((await cache.get(origin.url(release), resumed)).status, 200)
  },
)

t.test('bytes that are gone, shorter, or not to be read are fetched again', async t => {
  const mishaps: ReadonlyArray<readonly [string, (blob: string) => Promise<unknown>]> = [
    ['gone', blob => rm(blob)],
    ['shorter', blob => truncate(blob, 10)],
    ['longer', blob => writeFile(blob, Buffer.concat([content, content]))],
    [
      'a link to itself',
      async blob => {
        await rm(blob)
        await symlink(blob, blob)
      },
    ],
  ]
  for (const bytes of [content, Buffer.alloc(700_000, 'large content ')]) {
    for (const [name, spoil] of mishaps) {
      const { origin, cache, url } = await warmed(t, { bytes })
      const [blob = ''] = await cache.files('v2/blobs')
      await spoil(blob)
      const again = await cache.warm(url)
      t.ok(again.content.equals(bytes), name)
      t.equal(again.fields.get('X-Cache'), 'MISS', name)
      t.equal(origin.requests.length, 2, name)
      if (name !== 'a link to itself') {
        t.equal((await cache.get(url)).fields.get('X-Cache'), 'HIT', name)
      }
    }
  }
})

t.test('an entry that is damaged is a miss', async t => {
  const { cache, url } = await warmed(t)
  await cache.stop()
  const log = join(cache.directory, 'v2/entries.log')
  const bytes = await readFile(log)
  bytes.write('????', bytes.indexOf('http://'))
  await writeFile(log, bytes)
  await cache.restart()
  t.equal((await cache.warm(url)).fields.get('X-Cache'), 'MISS')
  t.equal((await cache.get(url)).fields.get('X-Cache'), 'HIT')
})

t.test('everything is there after a restart', async t => {
  const { origin, cache, url } = await warmed(t)
  await cache.restart()
  t.equal((await cache.get(url)).fields.get('X-Cache'), 'HIT')
  t.equal(origin.requests.length, 1)
})
