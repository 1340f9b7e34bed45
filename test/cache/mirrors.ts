/**
 * Several origins of one archive, on the wire: one that is down, refuses, lags behind or falls silent stays invisible to clients.
 */
import { createHash } from 'node:crypto'
import t, { type Test } from 'tap'
import { TestCache } from '../fixtures/cache/cache.ts'
import type { RawResponse } from '../fixtures/http/raw-client.ts'
import { file, reply, type Script, ScriptedOrigin } from '../fixtures/http/scripted-origin.ts'
import { Gate } from '../fixtures/time/gate.ts'
import { ManualClock } from '../fixtures/time/manual-clock.ts'

const path = '/pool/main/h/hello_1_all.deb'
const index = '/dists/stable/InRelease'
const content = Buffer.alloc(200_000, 'the quick brown fox ')
const never = new Gate()

/** A cache in front of an archive at two origins, the preferred one first. */
async function pair(t: Test) {
  const [first, second] = [await ScriptedOrigin.listen(t), await ScriptedOrigin.listen(t)]
  const clock = new ManualClock(Date.now())
  const cache = await TestCache.start(t, {
    origins: [first, second],
    clock,
    settings: { archives: [{ origins: [first, second].map(one => one.url('/debian')) }] },
  })
  const at = (where: string, preferred: Script, other: Script): void => {
    first.at(`/debian${where}`, preferred)
    second.at(`/debian${where}`, other)
  }
  return { first, second, cache, at, clock }
}

/** Fetches the file and lets the time pass that the origins take. */
async function fetched(first: ScriptedOrigin, cache: TestCache): Promise<RawResponse> {
  const client = await cache.client()
  await client.request('GET', first.url(`/debian${path}`))
  const received = client.response()
  await first.arrived(`/debian${path}`)
  await cache.quiet()
  return received
}

const good = file({ content, etag: '"1"' })
const reset: Script = answer => answer.reset()
const fresh = { 'Cache-Control': 'max-age=0' }
const [older, newer] = ['Wed, 01 Jan 2025 00:00:00 GMT', 'Thu, 02 Jan 2025 00:00:00 GMT']

const ills: ReadonlyArray<readonly [string, Script]> = [
  ['503', reply({ status: 503, fields: { 'Retry-After': '3' } })],
  ['429', reply({ status: 429 })],
  ['403', reply({ status: 403, content: '<html>' })],
  ['404', reply({ status: 404 })],
  ['401', reply({ status: 401 })],
  ['408', reply({ status: 408 })],
  ['a login page', reply({ content: '<html>', fields: { 'Content-Type': 'text/html' } })],
  ['a reset', answer => answer.reset()],
  ['no HTTP', answer => answer.write('SSH-2.0-OpenSSH_9.2\r\n\r\n').then(() => answer.end())],
  ['a redirect to nowhere', reply({ status: 302, fields: { Location: 'ftp://x.example.org/' } })],
]
for (const [name, ill] of ills) {
  t.test(`${name} of the preferred origin: the other one has the file`, async t => {
    const { first, second, cache, at } = await pair(t)
    at(path, ill, good)
    const answer = await cache.warm(first.url(`/debian${path}`))
    t.equal(answer.status, 200)
    t.ok(answer.content.equals(content))
    t.equal(await cache.metric('cachesvc_failovers_total'), 1)
    t.strictSame(await cache.stored(), [first.url(`/debian${path}`)], 'under the preferred name')
    const hit = await cache.get(second.url(`/debian${path}`))
    t.equal(hit.fields.get('X-Cache'), 'HIT', 'asked for by the name of the other')
  })
}

t.test('an origin that is not there: the other one has the file', async t => {
  const { first, cache, at } = await pair(t)
  at(path, good, good)
  await first.close()
  t.ok((await cache.get(first.url(`/debian${path}`))).content.equals(content))
})

t.test('a preferred origin that says nothing is left after ten seconds', async t => {
  const { first, cache, at } = await pair(t)
  at(path, file({ content, etag: '"1"', before: never }), good)
  t.ok((await fetched(first, cache)).content.equals(content))
})

t.test('an origin that falls silent in the middle: the rest comes from the other one', async t => {
  const { first, second, cache, at } = await pair(t)
  const silent = file({ content, etag: '"1"', pauses: [{ at: 120_000, gate: never }] })
  at(path, silent, good)
  t.ok((await fetched(first, cache)).content.equals(content), 'one whole file')
  t.equal(second.seen(`/debian${path}`)[0]?.fields.get('Range'), undefined, 'no part of a stranger')
  t.equal((await cache.get(first.url(`/debian${path}`))).fields.get('X-Cache'), 'HIT')
})

t.test('with other entity tags the whole file of the other origin is compared', async t => {
  const { first, cache, at } = await pair(t)
  const dated = { content, lastModified: 'Wed, 01 Jan 2025 00:00:00 GMT' }
  const cut = { at: 120_000, by: 'reset' } as const
  at(path, file({ ...dated, etag: '"one"', cut }), file({ ...dated, etag: '"two"' }))
  t.ok((await fetched(first, cache)).content.equals(content))
})

t.test('a 404 of all is a 404', async t => {
  const { first, second, cache } = await pair(t)
  t.equal((await cache.get(first.url(`/debian${path}`))).status, 404)
  t.equal(second.seen(`/debian${path}`).length, 1)
})

t.test('all down: 503, and what is stored is served', async t => {
  const { first, cache, at } = await pair(t)
  const down = reply({ status: 503 })
  at(index, file({ content: 'release', etag: '"1"' }), down)
  await cache.warm(first.url(`/debian${index}`))
  at(index, down, down)
  at(path, down, down)
  const fields = { 'Cache-Control': 'max-age=0' }
  t.equal((await cache.get(first.url(`/debian${index}`), fields)).text, 'release')
  t.equal((await cache.get(first.url(`/debian${path}`))).status, 503)
})

t.test('a mirror that lags behind does not remove what the preferred origin had', async t => {
  const { first, cache, at } = await pair(t)
  at(index, file({ content: 'release', etag: '"1"' }), reply({ status: 404 }))
  await cache.warm(first.url(`/debian${index}`))
  at(index, answer => answer.reset(), reply({ status: 404 }))
  const fields = { 'Cache-Control': 'max-age=0' }
  t.equal((await cache.get(first.url(`/debian${index}`), fields)).text, 'release')
  t.strictSame(await cache.stored(), [first.url(`/debian${index}`)])
  at(index, reply({ status: 404 }), reply({ status: 404 }))
  at('/dists/stable/Release', file({ content: 'release' }), reply({ status: 404 }))
  t.equal((await cache.get(first.url(`/debian${index}`), fields)).status, 404, 'all say so')
  t.strictSame(await cache.stored(), [])
})

t.test('two contents by one entity tag are not joined', async t => {
  const { first, cache, at } = await pair(t)
  const same = { etag: '"677481c0-61a80"', lastModified: older }
  const other = Buffer.alloc(content.length, 'another file')
  at(
    path,
    file({ ...same, content, cut: { at: 120_000, by: 'reset' } }),
    file({ ...same, content: other }),
  )
  t.ok((await fetched(first, cache)).content.equals(content), 'the first origin has the rest')
})

const continued: ReadonlyArray<readonly [string, Script]> = [
  ['the same bytes with other validators', file({ content, etag: '"b"', lastModified: newer })],
  ['credentials', reply({ status: 401 })],
  ['another file', file({ content: 'short', etag: '"c"' })],
]
for (const [name, script] of continued) {
  t.test(`a transfer breaks off, the other origin has ${name}: it is completed`, async t => {
    const { first, cache, at } = await pair(t)
    const whole = { content, etag: '"1"', lastModified: older }
    const inTurn = [file({ ...whole, cut: { at: 120_000, by: 'reset' } })]
    at(path, answer => (inTurn.shift() ?? file(whole))(answer), script)
    t.ok((await fetched(first, cache)).content.equals(content))
  })
}

t.test('the rest comes from the second origin when a redirect of the first breaks off', async t => {
  const { first, second, cache, at } = await pair(t)
  const redirect = reply({ status: 302, fields: { Location: first.url('/elsewhere') } })
  at(path, redirect, good)
  first.at('/elsewhere', file({ content, etag: '"1"', cut: { at: 0, by: 'reset' } }))
  const client = await cache.client()
  await client.request('GET', first.url(`/debian${path}`))
  const received = client.response()
  await first.arrived('/elsewhere')
  await cache.quiet()
  t.ok((await received).content.equals(content))
  t.equal(second.seen(`/debian${path}`).length, 1)
})

t.test('wrong content by a digest: the next request goes to the other origin', async t => {
  const { first, cache, at, clock } = await pair(t)
  const digest = createHash('sha256').update(content).digest('hex')
  const named = `/dists/stable/main/by-hash/SHA256/${digest}`
  at(named, file({ content: Buffer.alloc(content.length, 'wrong'), etag: '"0"' }), good)
  const client = await cache.client()
  await client.request('GET', first.url(`/debian${named}`))
  await client.head()
  t.ok((await client.rest()).length < content.length)
  await cache.quiet()
  clock.advance(2_000)
  t.ok((await cache.get(first.url(`/debian${named}`))).content.equals(content))
})

for (const [name, validators] of [
  ['an entity tag', { etag: '"1"' }],
  ['no validator', {}],
] as const) {
  t.test(`nothing removes a file with ${name} while an origin is down`, async t => {
    const { first, cache, at } = await pair(t)
    const url = first.url(`/debian${index}`)
    at(index, file({ content: 'release', ...validators }), reply({ status: 404 }))
    await cache.warm(url)
    at(index, reset, reply({ status: 404 }))
    t.equal((await cache.get(url, fresh)).text, 'release')
    t.equal((await cache.head(url, fresh)).status, 200)
    t.strictSame(await cache.stored(), [url])
  })
}

t.test('a 404 beside a failure is not remembered', async t => {
  const { first, cache, at } = await pair(t)
  const url = first.url(`/debian${path}`)
  at(path, reset, reply({ status: 404 }))
  t.equal((await cache.get(url)).status, 404)
  at(path, good, reply({ status: 404 }))
  t.equal((await cache.get(url)).status, 200)
})

t.test('an older file of a mirror does not replace a newer one', async t => {
  const { first, cache, at } = await pair(t)
  const url = first.url(`/debian${index}`)
  const lagging = file({ content: 'old', lastModified: older, etag: '"old"' })
  at(index, file({ content: 'new', lastModified: newer, etag: '"new"' }), lagging)
  t.equal((await cache.warm(url)).text, 'new')
  at(index, reset, lagging)
  t.equal((await cache.warm(url, fresh)).text, 'new')
  at(index, lagging, lagging)
  t.equal((await cache.warm(url, fresh)).text, 'old', 'all origins went back')
})

t.test('a directory that an origin refuses says nothing of its files', async t => {
  const { first, second, cache, at } = await pair(t)
  at('/pool/', reply({ status: 403 }), reply({ status: 404 }))
  at(path, good, good)
  await cache.get(first.url('/debian/pool/'))
  t.equal((await cache.get(first.url(`/debian${path}`))).status, 200)
  t.equal(second.seen(`/debian${path}`).length, 0)
})

t.test('when all origins send wrong content, that is what the client is told', async t => {
  const { first, cache, at } = await pair(t)
  const page = reply({ content: '<html>', fields: { 'Content-Type': 'text/html' } })
  at(path, page, page)
  const answer = await cache.get(first.url(`/debian${path}`))
  t.equal(answer.status, 520)
  t.equal(answer.reason, 'The origin answered with something that is not this file')
})
