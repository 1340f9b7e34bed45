/**
 * An origin that confirms nothing while clients ask: each answer says why, and after ten minutes the operator reads it once in the log, and
 * in the status, on the pages and in the metrics until the origin confirms.
 */
import t, { type Test } from 'tap'
import { UnconfirmedOrigins } from '../../lib/cache/fetch/unconfirmed-origins.ts'
import { failureOf, OriginFailure } from '../../lib/http/client/errors.ts'
import type { TargetUri } from '../../lib/http/message/target.ts'
import { TestCache } from '../fixtures/cache/cache.ts'
import { file, reply, ScriptedOrigin } from '../fixtures/http/scripted-origin.ts'
import { createMemoryLog } from '../fixtures/log/memory-log.ts'
import { Gate } from '../fixtures/time/gate.ts'
import { ManualClock } from '../fixtures/time/manual-clock.ts'

const minute = 60_000
const index = '/debian/dists/stable/main/binary-all/Packages.gz'
const insist = { 'Cache-Control': 'max-age=0' }
const there = file({ content: 'hello', etag: '"1"' })

async function started(t: Test) {
  const origin = await ScriptedOrigin.listen(t)
  const clock = new ManualClock(Date.now())
  const cache = await TestCache.start(t, { origins: [origin], clock })
  origin.at(index, there)
  await cache.warm(origin.url(index))
  const warnings = () =>
    cache.log.lines.filter(({ message }) => /confirms nothing/.test(message ?? ''))
  const healthz = async () => (await cache.get('/_cachesvc/healthz')).text
  return { origin, clock, cache, warnings, healthz, url: origin.url(index) }
}

t.test('an origin that limits us for ten minutes is reported once, until it confirms', async t => {
  const { origin, clock, cache, warnings, healthz, url } = await started(t)
  const name = new URL(url).host
  origin.at(index, reply({ status: 429, fields: { 'Retry-After': 120 } }))
  const answer = await cache.get(url, insist)
  t.equal(answer.text, 'hello')
  t.match(answer.fields.get('Cache-Status'), /detail=stale-origin-failed;.*failure=origin-429/)
  const line = cache.log.lines.filter(({ facts }) => facts['target'] !== undefined).at(-1)
  t.match(line?.facts, { because: 'stale-origin-failed', failure: 'origin-429' })
  t.equal(await healthz(), 'ok\n', 'not at the first failure')
  for (let n = 0; n < 3; n += 1) {
    clock.advance(5 * minute)
    await cache.get(url, insist)
  }
  t.equal(warnings().length, 1)
  t.match(warnings()[0]?.facts, { origin: name, because: 'origin-429', address: '127.0.0.1' })
  const sentence = `${name} has confirmed nothing for 15 min`
  t.match(await healthz(), sentence)
  t.match(await healthz(), 'origin-429, at 127.0.0.1')
  t.match((await cache.get('/_cachesvc/')).text, 'has confirmed nothing')
  t.equal(await cache.metric('cachesvc_unconfirmed_origins'), 1)
  t.match(
    (await cache.get('/_cachesvc/metrics')).text,
    `cachesvc_origin_unconfirmed_seconds{origin="${name}",because="origin-429"} 900`,
  )
  t.match(await cache.command({ do: 'status' }), { out: new RegExp(sentence) })
  const { out } = (await cache.command({ do: 'status', json: true })) as { out: string }
  t.match(JSON.parse(out).unconfirmed, [{ origin: name, because: 'origin-429', seconds: 900 }])
  const explained = await cache.get(`/_cachesvc/explain?url=${encodeURIComponent(url)}`)
  t.match(explained.text, 'origin-429')

  origin.at(index, there)
  // The pause after an answer that said that the origin fails.
  clock.advance(2 * minute)
  t.equal((await cache.get(url, insist)).status, 200)
  t.equal(await healthz(), 'ok\n')
  t.equal(await cache.metric('cachesvc_unconfirmed_origins'), 0)
  origin.at(index, reply({ status: 503 }))
  await cache.get(url, insist)
  t.equal(await healthz(), 'ok\n', 'it begins again')
})

t.test('a silent origin is reported with the phase and the address', async t => {
  const { origin, clock, cache, warnings, url } = await started(t)
  origin.at(index, reply({ before: new Gate() }))
  for (let n = 0; n < 4; n += 1) {
    const client = await cache.client()
    await client.request('GET', url, insist)
    let done = false
    const answer = client.response().finally(() => {
      done = true
    })
    await cache.until(() => done)
    t.match((await answer).fields.get('Cache-Status'), /failure=(slow|ORIGIN_FIELDS_TIMEOUT)/)
    for (let passed = 0; passed < 5; passed += 1) {
      clock.advance(minute)
      await cache.get('/_cachesvc/healthz')
    }
  }
  const [warning] = warnings()
  t.match(warning?.facts, { because: 'ORIGIN_FIELDS_TIMEOUT', phase: 'fields' })
  t.match(warning?.facts, { address: '127.0.0.1' })
})

const uri = (host: string): TargetUri => ({ scheme: 'http', host, port: 80, path: '/x' })
const one = uri('one.example.org')

function memory() {
  const clock = new ManualClock(Date.now())
  const log = createMemoryLog()
  const origins = new UnconfirmedOrigins({ clock, log })
  return { clock, log, origins, reported: () => origins.reported.map(({ origin }) => origin) }
}

const coded = (code: string) => Object.assign(new Error(code), { code })
const refused = failureOf('connect', 'one.example.org', { cause: coded('ECONNREFUSED') })

t.test('what says nothing about an origin is not noted', t => {
  const { clock, origins, reported } = memory()
  for (let n = 0; n < 3; n += 1) {
    origins.failed(one, new OriginFailure('ORIGIN_ABORTED', 'one', {}), true)
    origins.failed(one, failureOf('queue', 'one', { after: 1 }), true)
    clock.advance(10 * minute)
  }
  t.strictSame([reported(), origins.trouble(one)], [[], undefined])
  t.end()
})

t.test('a name that clients invent is not reported, unless a file of it is stored', t => {
  const { clock, origins, reported } = memory()
  const lost = failureOf('dns', 'one', { cause: coded('ENOTFOUND') })
  for (const stored of [false, false, true]) {
    origins.failed(one, lost, stored)
    t.strictSame(reported(), stored ? ['one.example.org:80'] : [])
    clock.advance(10 * minute)
  }
  t.end()
})

t.test('a slow answer keeps the reason of the last failure', t => {
  const { origins } = memory()
  origins.slow(one)
  t.match(origins.trouble(one), { because: 'slow' })
  origins.failed(one, refused, true)
  origins.slow(one)
  t.match(origins.trouble(one), { because: 'ORIGIN_CONNECT_REFUSED', phase: 'connect' })
  t.end()
})

t.test('an origin that nobody asks any more is not reported after a day', t => {
  const { clock, origins, reported } = memory()
  origins.failed(one, refused, true)
  clock.advance(10 * minute)
  origins.failed(one, refused, true)
  t.equal(reported().length, 1)
  clock.advance(24 * 60 * minute)
  t.equal(reported().length, 0)
  t.end()
})

t.test('names that clients invent do not make it forget an origin with stored files', t => {
  const { clock, origins, reported } = memory()
  origins.failed(one, refused, true)
  for (let n = 0; n < 1100; n += 1) origins.failed(uri(`h${n}.example.org`), refused, false)
  clock.advance(11 * minute)
  origins.failed(one, refused, true)
  t.strictSame(reported(), ['one.example.org:80'])
  t.end()
})

t.test('the memory has a bound', t => {
  const { clock, origins, reported } = memory()
  for (let n = 0; n < 2; n += 1) {
    for (let i = 0; i < 1500; i += 1) origins.failed(uri(`h${i}.example.org`), refused, true)
    clock.advance(10 * minute)
  }
  t.ok(reported().length <= 1000)
  t.end()
})
