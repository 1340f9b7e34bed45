/**
 * Several origins of one archive, on the wire: one that is down, refuses, lags behind or falls silent stays invisible to clients.
 */
import t, { type Test } from 'tap'
import { ManualClock } from '../../lib/async/clock.ts'
import { TestCache } from '../fixtures/cache.ts'
import { Gate } from '../fixtures/gate.ts'
import { file, reply, type Script, ScriptedOrigin } from '../fixtures/scripted-origin.ts'

const path = '/pool/main/h/hello_1_all.deb'
const index = '/dists/stable/InRelease'
const content = Buffer.alloc(200_000, 'the quick brown fox ')
const never = new Gate()

/** A cache in front of an archive at two origins, the preferred one first. */
async function pair(t: Test) {
  const [first, second] = [await ScriptedOrigin.listen(t), await ScriptedOrigin.listen(t)]
  const cache = await TestCache.start(t, {
    origins: [first, second],
    clock: new ManualClock(Date.now()),
    settings: { archives: [{ origins: [first, second].map(one => one.url('/debian')) }] },
  })
  const at = (where: string, preferred: Script, other: Script): void => {
    first.at(`/debian${where}`, preferred)
    second.at(`/debian${where}`, other)
  }
  return { first, second, cache, at }
}

const good = file({ content, etag: '"1"' })

const ills: ReadonlyArray<readonly [string, Script]> = [
  ['503', reply({ status: 503, fields: { 'Retry-After': '3' } })],
  ['429', reply({ status: 429 })],
  ['403', reply({ status: 403, content: '<html>' })],
  ['404', reply({ status: 404 })],
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
  const client = await cache.client()
  await client.request('GET', first.url(`/debian${path}`))
  const received = client.response()
  await first.arrived(`/debian${path}`)
  await cache.quiet()
  t.ok((await received).content.equals(content))
})

t.test('an origin that falls silent in the middle: the rest comes from the other one', async t => {
  const { first, second, cache, at } = await pair(t)
  const silent = file({ content, etag: '"1"', pauses: [{ at: 120_000, gate: never }] })
  at(path, silent, good)
  const client = await cache.client()
  await client.request('GET', first.url(`/debian${path}`))
  const received = client.response()
  await first.arrived(`/debian${path}`)
  await cache.quiet()
  t.ok((await received).content.equals(content), 'one whole file')
  t.match(second.seen(`/debian${path}`)[0]?.fields.get('Range'), /^bytes=\d+-$/)
  t.equal((await cache.get(first.url(`/debian${path}`))).fields.get('X-Cache'), 'HIT')
})

t.test('with other entity tags the whole file of the other origin is compared', async t => {
  const { first, cache, at } = await pair(t)
  const dated = { content, lastModified: 'Wed, 01 Jan 2025 00:00:00 GMT' }
  const cut = { at: 120_000, by: 'reset' } as const
  at(path, file({ ...dated, etag: '"one"', cut }), file({ ...dated, etag: '"two"' }))
  const client = await cache.client()
  await client.request('GET', first.url(`/debian${path}`))
  const received = client.response()
  await first.arrived(`/debian${path}`)
  await cache.quiet()
  t.ok((await received).content.equals(content))
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
  t.equal((await cache.get(first.url(`/debian${index}`), fields)).status, 404, 'all say so')
  t.strictSame(await cache.stored(), [])
})
