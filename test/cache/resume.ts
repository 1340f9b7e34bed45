/**
 * Fills that break, on the wire: continued where they stopped when the origin can prove that it is the same file, and cut at
 * the client when it cannot. Whatever happens, nobody takes a part for the whole and nothing wrong is stored.
 */
import { createHash } from 'node:crypto'
import t, { type Test } from 'tap'
import { TestCache } from '../fixtures/cache/cache.ts'
import type { RawClient } from '../fixtures/http/raw-client.ts'
import {
  file,
  inTurn,
  reply,
  type Script,
  ScriptedOrigin,
} from '../fixtures/http/scripted-origin.ts'
import { ManualClock } from '../fixtures/time/manual-clock.ts'

const deb = '/debian/pool/main/h/hello_1_all.deb'
const content = Buffer.alloc(200_000, 'the quick brown fox ')
const old = 'Wed, 01 Jan 2025 00:00:00 GMT'
const cut = { at: 120_000, by: 'reset' } as const

interface Setting {
  readonly origin: ScriptedOrigin
  readonly cache: TestCache
  readonly client: RawClient
}

/** A client that has begun to receive what the scripts, a request each, answer. */
function begun(t: Test, ...scripts: readonly Script[]): Promise<Setting> {
  return begunAt(t, deb, ...scripts)
}

async function begunAt(t: Test, path: string, ...scripts: readonly Script[]): Promise<Setting> {
  const origin = await ScriptedOrigin.listen(t)
  const cache = await TestCache.start(t, { origins: [origin], clock: new ManualClock(Date.now()) })
  origin.at(path, inTurn(...scripts))
  const client = await cache.client()
  await client.request('GET', origin.url(path))
  await origin.arrived(path)
  return { origin, cache, client }
}

/** The client gets every byte and the file is stored. */
async function isHealed(t: Test, { cache, origin, client }: Setting, path = deb): Promise<void> {
  const received = client.response()
  await cache.quiet()
  t.ok((await received).content.equals(content), 'the client has the whole file')
  const hit = await cache.get(origin.url(path))
  t.equal(hit.fields.get('X-Cache'), 'HIT')
  t.ok(hit.content.equals(content))
}

/** The client is cut before the end and nothing is stored. */
async function isCut(t: Test, { cache, client }: Setting): Promise<void> {
  t.equal((await client.head()).status, 200)
  const received = client.rest()
  await cache.quiet()
  t.ok((await received).length < content.length, 'the client has less than the file')
  t.strictSame(await cache.stored(), [])
  t.strictSame(await cache.files('v2/tmp'), [])
}

const fin = { at: 120_000, by: 'fin' } as const
const dated = { lastModified: old, fields: { Date: 'Fri, 10 Jan 2025 00:00:00 GMT' } }
const promised = `/dists/stable/main/by-hash/SHA256/${createHash('sha256').update(content).digest('hex')}`
const validators: ReadonlyArray<readonly [string, object, string, string]> = [
  ['a strong ETag', { etag: '"1"' }, '"1"', deb],
  ['an old Last-Modified, and a digest,', dated, old, promised],
]
for (const [name, given, sent, path] of validators) {
  for (const how of [cut, fin]) {
    t.test(`with ${name} a fill cut by ${how.by} goes on where it stopped`, async t => {
      const whole = { content, ...given }
      const setting = await begunAt(t, path, file({ ...whole, cut: how }), file(whole))
      await isHealed(t, setting, path)
      const [, again] = setting.origin.requests
      t.match(again?.fields.get('Range'), /^bytes=\d+-$/)
      t.equal(again?.fields.get('If-Range'), sent)
      t.ok(setting.cache.log.lines.some(({ message }) => /resuming/.test(message)))
    })
  }
}

t.test('a fill that is cut again and again goes on as long as it moves', async t => {
  const whole = { content, etag: '"1"' }
  const short = file({ ...whole, cut: { at: 20_000, by: 'reset' } })
  const setting = await begun(t, short, short, short, short, short, short, file(whole))
  await isHealed(t, setting)
  t.ok(setting.origin.requests.length > 5)
})

t.test('an origin that is away for a moment is asked again', async t => {
  const whole = { content, etag: '"1"' }
  const away: Script = answer => answer.reset()
  await isHealed(t, await begun(t, file({ ...whole, cut }), away, away, file(whole)))
})

t.test('an origin that stays away is given up, and the client is cut', async t => {
  const away: Script = answer => answer.reset()
  const setting = await begun(t, file({ content, etag: '"1"', cut }), away)
  await isCut(t, setting)
  t.ok(setting.origin.requests.length < 12)
  t.ok(setting.cache.log.lines.some(({ message }) => message === 'fetch failed'))
})

t.test('without a validator the whole is asked for again and compared', async t => {
  const setting = await begun(t, reply({ content, cut }), reply({ content }))
  await isHealed(t, setting)
  t.notOk(setting.origin.requests[1]?.fields.has('Range'))
  t.notOk(setting.origin.requests[1]?.fields.has('If-Range'))
})

t.test(
  'a date alone does not join two parts where no digest would show that they differ',
  async t => {
    const setting = await begun(t, file({ content, ...dated, cut }), file({ content, ...dated }))
    await isHealed(t, setting)
    t.notOk(setting.origin.requests[1]?.fields.has('Range'), 'the whole is asked for, and compared')
  },
)

t.test('a weak ETag and a young date are no validators to resume by', async t => {
  const now = new Date().toUTCString()
  const given = { content, etag: 'W/"1"', lastModified: now, fields: { Date: now } }
  const setting = await begun(t, file({ ...given, cut }), file(given))
  await isHealed(t, setting)
  t.notOk(setting.origin.requests[1]?.fields.has('Range'))
})

t.test('a 200 in place of a 206 goes on when it begins with the same bytes', async t => {
  const whole = { content, etag: '"1"' }
  await isHealed(t, await begun(t, file({ ...whole, cut }), file({ ...whole, ranges: 'ignored' })))
})

t.test('content of unknown length is resumed, too', async t => {
  const chunked = { content, etag: '"1"', framing: 'chunked' } as const
  await isHealed(t, await begun(t, file({ ...chunked, cut }), file({ ...chunked })))
})

const other = Buffer.alloc(content.length, 'lazy dogs sleep well ')
const partOf = (fields: Record<string, string>, from: Buffer): Script =>
  reply({ status: 206, fields: { ETag: '"1"', ...fields }, content: from })

const wrong: ReadonlyArray<readonly [string, Script]> = [
  ['a 206 that begins elsewhere', file({ content, etag: '"1"', ranges: 'wrong-start' })],
  ['a 206 of a file of another length', file({ content, etag: '"1"', ranges: 'wrong-total' })],
  [
    'a 206 with another validator',
    file({ content: other, etag: '"2"', ranges: 'ignores-if-range' }),
  ],
  [
    'a 206 in another coding',
    partOf(
      { 'Content-Encoding': 'gzip', 'Content-Range': 'bytes 120000-199999/200000' },
      content.subarray(120_000),
    ),
  ],
  ['a 206 without Content-Range', partOf({}, content.subarray(120_000))],
  ['a 200 with another validator and content', file({ content: other, etag: '"2"' })],
  ['a 200 of another length', file({ content: content.subarray(1), etag: '"2"' })],
  ['a 200 that is shorter than what came', file({ content: 'short', etag: '"2"' })],
  ['a 404', reply({ status: 404 })],
  ['a 416', reply({ status: 416 })],
]
for (const [name, second] of wrong) {
  t.test(`resumed with ${name}, the client is cut and nothing is stored`, async t => {
    const setting = await begun(t, file({ content, etag: '"1"', cut }), second)
    await isCut(t, setting)
  })
}

t.test('without a known length, a part that does not reach the end is not the end', async t => {
  const first = file({ content, etag: '"1"', framing: 'chunked', cut })
  const half: Script = answer => {
    const from = Number(/\d+/.exec(answer.request.fields.get('Range') ?? '')?.[0])
    const range = `bytes ${from}-${from + 999}/${content.length}`
    const part = content.subarray(from, from + 1000)
    return partOf({ 'Content-Range': range }, part)(answer)
  }
  await isCut(t, await begun(t, first, half, file({ content, etag: '"1"' })))
})

t.test('a file that was replaced is not joined to its elder: the date has changed', async t => {
  const longer = Buffer.concat([content.subarray(0, 150_000), other.subarray(150_000)])
  const young = 'Wed, 08 Jan 2025 00:00:00 GMT'
  const fields = { Date: 'Fri, 10 Jan 2025 00:00:00 GMT' }
  const first = file({ content, lastModified: old, fields, cut })
  const setting = await begun(t, first, file({ content: longer, lastModified: young, fields }))
  await isCut(t, setting)
})

t.test('Content-Length says more than comes: never complete, never stored', async t => {
  const setting = await begun(
    t,
    reply({
      content: content.subarray(1),
      claims: content.length,
      framing: 'length',
      cut: { at: content.length - 1, by: 'fin' },
    }),
  )
  await isCut(t, setting)
})

t.test('Content-Length says less than comes: what was announced is all there is', async t => {
  const origin = await ScriptedOrigin.listen(t)
  const cache = await TestCache.start(t, { origins: [origin] })
  origin.at(deb, async answer => {
    await answer.write(
      'HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhelloHTTP/1.1 200 OK\r\nEvil: 1\r\n\r\n',
    )
  })
  origin.at('/next', reply({ content: 'next' }))
  t.equal((await cache.warm(origin.url(deb))).text, 'hello')
  t.equal((await cache.get(origin.url('/next'))).text, 'next', 'what follows answers nobody')
})
