/**
 * Ranges that lie far ahead of what has arrived, on the wire: a client that resumes a file which the cache lacks gets its bytes while the
 * beginning is still arriving, as it would from the origin, and the file is stored whole.
 */
import { createHash } from 'node:crypto'
import t, { type Test } from 'tap'
import { TestCache } from '../fixtures/cache/cache.ts'
import type { RawClient } from '../fixtures/http/raw-client.ts'
import {
  type FileOptions,
  file,
  reply,
  type Script,
  ScriptedOrigin,
} from '../fixtures/http/scripted-origin.ts'
import { Gate } from '../fixtures/time/gate.ts'
import { ManualClock } from '../fixtures/time/manual-clock.ts'

t.setTimeout(120_000)

const content = Buffer.from(Array.from({ length: 400_000 }, (_, i) => (i * 7 + (i >> 8)) % 256))
const deb = '/debian/pool/main/h/hello_1_all.deb'
const old = 'Wed, 01 Jan 2025 00:00:00 GMT'
const dated = { lastModified: old, fields: { Date: 'Fri, 10 Jan 2025 00:00:00 GMT' } }
const promised = `/debian/dists/stable/main/by-hash/SHA256/${createHash('sha256').update(content).digest('hex')}`

interface Setting {
  readonly origin: ScriptedOrigin
  readonly cache: TestCache
  readonly clock: ManualClock
  /** Lets the rest of the whole file come. */
  readonly rest: Gate
}

/** A cache whose origin sends the whole file up to its first 100,000 bytes, and ranges as `part` says. */
async function slowOrigin(t: Test, path: string, whole: Partial<FileOptions>, part?: Script) {
  const rest = new Gate()
  const origin = await ScriptedOrigin.listen(t)
  const clock = new ManualClock(Date.now())
  const cache = await TestCache.start(t, { origins: [origin], clock })
  const slowly = file({ content, ...whole, pauses: [{ at: 100_000, gate: rest }] })
  const ranged = part ?? file({ content, ...whole })
  origin.at(path, answer => (answer.request.fields.has('Range') ? ranged(answer) : slowly(answer)))
  return { origin, cache, clock, rest }
}

/** Asks for a range, and lets time pass until the head is there. */
async function headOf(
  { cache, clock }: Pick<Setting, 'cache' | 'clock'>,
  client: RawClient,
  url: string,
  range = 'bytes=390000-',
) {
  await client.request('GET', url, { Range: range })
  const head = client.head()
  let here = false
  void head.then(() => {
    here = true
  })
  await cache.until(() => here)
  t.ok(clock.elapsed() < 30_000, 'apt is still there')
  return head
}

/** The whole file is stored in the end, and the next client gets it from there. */
async function isStored(t: Test, { cache, origin, rest }: Setting, path: string): Promise<void> {
  rest.open()
  await cache.quiet()
  const hit = await cache.get(origin.url(path))
  t.equal(hit.fields.get('X-Cache'), 'HIT')
  t.ok(hit.content.equals(content))
}

const kinds: ReadonlyArray<readonly [string, string, Partial<FileOptions>, string | undefined]> = [
  ['a strong ETag', deb, { etag: '"1"' }, '"1"'],
  ['an ETag and a digest', promised, { etag: '"1"' }, '"1"'],
  ['a date and a digest', promised, dated, old],
  ['a date alone', deb, dated, undefined],
  ['no validator', deb, {}, undefined],
]
for (const [name, path, whole, ifRange] of kinds) {
  t.test(`the end of a file with ${name} comes before its beginning`, async t => {
    const setting = await slowOrigin(t, path, whole)
    const { origin, cache } = setting
    const client = await cache.client()
    const head = await headOf(setting, client, origin.url(path))
    t.equal(head.status, 206)
    t.equal(head.fields.get('Content-Range'), 'bytes 390000-399999/400000')
    t.match(head.fields.get('Cache-Status'), /fwd=partial; detail=range-ahead$/)
    t.ok((await client.bytes(10_000)).equals(content.subarray(390_000)))
    const [first, ahead] = origin.seen(path)
    t.notOk(first?.fields.has('Range'), 'the whole file is fetched')
    t.equal(ahead?.fields.get('Range'), 'bytes=390000-399999')
    t.equal(ahead?.fields.get('If-Range'), ifRange)
    await isStored(t, setting, path)
    t.equal(origin.seen(path).length, 2)
  })
}

t.test('the last bytes, and a range in the middle, come at once too', async t => {
  for (const [range, first, last] of [
    ['bytes=-100', 399_900, 399_999],
    ['bytes=300000-300099', 300_000, 300_099],
  ] as const) {
    const setting = await slowOrigin(t, deb, { etag: '"1"' })
    const client = await setting.cache.client()
    const head = await headOf(setting, client, setting.origin.url(deb), range)
    t.equal(head.fields.get('Content-Range'), `bytes ${first}-${last}/400000`)
    t.ok((await client.bytes(100)).equals(content.subarray(first, last + 1)))
    await isStored(t, setting, deb)
  }
})

const unfit: ReadonlyArray<readonly [string, Script]> = [
  ['ignores ranges', file({ content, etag: '"1"', ranges: 'ignored' })],
  ['begins elsewhere', file({ content, etag: '"1"', ranges: 'wrong-start' })],
  ['says another length', file({ content, etag: '"1"', ranges: 'wrong-total' })],
  [
    'has another file now',
    file({ content: Buffer.from(content.toReversed()), etag: '"2"', ranges: 'ignores-if-range' }),
  ],
  ['fails', reply({ status: 503, content: 'busy' })],
  ['resets', answer => answer.reset()],
]
for (const [name, part] of unfit) {
  t.test(
    `where the origin ${name}, the head is sent and the transfer brings the bytes`,
    async t => {
      const setting = await slowOrigin(t, deb, { etag: '"1"' }, part)
      const { origin, cache, rest } = setting
      const client = await cache.client()
      const head = await headOf(setting, client, origin.url(deb))
      t.equal(head.status, 206)
      rest.open()
      t.ok((await client.bytes(10_000)).equals(content.subarray(390_000)))
      await isStored(t, setting, deb)
    },
  )
}

t.test('a range that the transfer reaches soon is not asked for', async t => {
  const setting = await slowOrigin(t, deb, { etag: '"1"' })
  const { origin, cache, rest } = setting
  const client = await cache.client()
  await client.request('GET', origin.url(deb), { Range: 'bytes=390000-' })
  await origin.arrived(deb)
  rest.open()
  const response = await client.response()
  t.equal(response.status, 206)
  t.ok(response.content.equals(content.subarray(390_000)))
  t.match(response.fields.get('Cache-Status'), /detail=absent/)
  await isStored(t, setting, deb)
  t.equal(origin.seen(deb).length, 1)
})

t.test('an If-Range that does not hold gets the whole file', async t => {
  const setting = await slowOrigin(t, deb, { etag: '"1"' })
  const { origin, cache, rest } = setting
  const client = await cache.client()
  await client.request('GET', origin.url(deb), { Range: 'bytes=390000-', 'If-Range': '"0"' })
  await origin.arrived(deb)
  rest.open()
  const response = await client.response()
  t.equal(response.status, 200)
  t.ok(response.content.equals(content))
  t.equal(origin.seen(deb).length, 1)
})

t.test('an origin is asked for few ranges at a time, and again when one has ended', async t => {
  const held = new Gate()
  const part = file({ content, etag: '"1"', pauses: [{ at: 1, gate: held }] })
  const setting = await slowOrigin(t, deb, { etag: '"1"' }, part)
  const { origin, cache, clock } = setting
  const url = origin.url(deb)
  const clients: RawClient[] = []
  for (let n = 0; n < 6; n += 1) {
    const client = await cache.client()
    clients.push(client)
    await headOf(setting, client, url)
    clock.advance(0)
  }
  const ranges = () => origin.seen(deb).filter(({ fields }) => fields.has('Range')).length
  t.equal(ranges(), 4, 'two of six wait for the transfer')
  held.open()
  for (const client of clients.slice(0, 4)) await client.bytes(10_000)
  const another = await cache.client()
  await headOf(setting, another, url)
  t.ok((await another.bytes(10_000)).equals(content.subarray(390_000)))
  t.equal(ranges(), 5)
  await isStored(t, setting, deb)
  for (const client of clients.slice(4)) {
    t.ok((await client.bytes(10_000)).equals(content.subarray(390_000)))
  }
})

t.test('ranges leave the connections of an archive that allows two', async t => {
  const rest = new Gate()
  const origin = await ScriptedOrigin.listen(t)
  const clock = new ManualClock(Date.now())
  const archives = [{ origins: [origin.url('/debian')], connections: 2 }]
  const cache = await TestCache.start(t, { origins: [origin], clock, settings: { archives } })
  origin.at(deb, file({ content, etag: '"1"', pauses: [{ at: 100_000, gate: rest }] }))
  origin.at('/debian/other', reply({ content: 'other' }))
  const client = await cache.client()
  await headOf({ cache, clock }, client, origin.url(deb))
  t.equal((await cache.get(origin.url('/debian/other'))).text, 'other')
  t.equal(origin.seen(deb).length, 1)
  await isStored(t, { origin, cache, clock, rest }, deb)
})

t.test('a client that leaves frees its place, and the transfer goes on', async t => {
  const held = new Gate()
  const part = file({ content, etag: '"1"', pauses: [{ at: 1, gate: held }] })
  const setting = await slowOrigin(t, deb, { etag: '"1"' }, part)
  const { origin, cache } = setting
  for (let n = 0; n < 6; n += 1) {
    const client = await cache.client()
    const head = await headOf(setting, client, origin.url(deb))
    t.match(head.fields.get('Cache-Status'), /range-ahead/)
    await client.reset()
    await origin.seen(deb).at(-1)?.gone
  }
  held.open()
  await isStored(t, setting, deb)
})
