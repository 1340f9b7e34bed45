/**
 * What is counted, end to end: every request on the wire against the statistics interface.
 */
import t, { type Test } from 'tap'
import { noCounters } from '../../lib/cache/stats/statistics.ts'
import { TestCache } from '../fixtures/cache/cache.ts'
import { file, reply, ScriptedOrigin } from '../fixtures/http/scripted-origin.ts'
import { Gate } from '../fixtures/time/gate.ts'

const deb = '/debian/pool/main/h/hello_1_all.deb'
const release = '/debian/dists/stable/InRelease'
const insist = { 'Cache-Control': 'max-age=0' }
const content = 'x'.repeat(1000)

async function begun(t: Test) {
  const origin = await ScriptedOrigin.listen(t)
  const cache = await TestCache.start(t, { origins: [origin] })
  origin.at('*', file({ content, etag: '"1"' }))
  /** What one step adds to the totals. */
  const adds = async (step: () => Promise<unknown>, expected: Partial<typeof noCounters>) => {
    await cache.quiet()
    const before = await cache.totals()
    await step()
    await cache.quiet()
    const after = await cache.totals()
    const names = Object.keys(noCounters) as ReadonlyArray<keyof typeof noCounters>
    const added = Object.fromEntries(names.map(name => [name, after[name] - before[name]]))
    t.strictSame(added, { ...noCounters, ...expected })
    t.equal(after.requests, after.hits + after.misses + after.tunnel)
  }
  return { origin, cache, adds, url: origin.url(deb), index: origin.url(release) }
}

t.test('a miss and a hit', async t => {
  const { cache, adds, url } = await begun(t)
  await adds(() => cache.get(url), {
    requests: 1,
    misses: 1,
    traffic_down: 1000,
    traffic_up: 1000,
  })
  await adds(() => cache.get(url), { requests: 1, hits: 1, traffic_up: 1000 })
})

t.test('ranges, 304 and HEAD count what was sent', async t => {
  const { cache, adds, url } = await begun(t)
  await adds(() => cache.head(url), { requests: 1, misses: 1 })
  await adds(() => cache.get(url, { Range: 'bytes=0-9' }), {
    requests: 1,
    misses: 1,
    traffic_down: 1000,
    traffic_up: 10,
  })
  await adds(() => cache.get(url, { Range: 'bytes=990-' }), {
    requests: 1,
    hits: 1,
    traffic_up: 10,
  })
  await adds(() => cache.get(url, { 'If-None-Match': '"1"' }), { requests: 1, hits: 1 })
  await adds(() => cache.head(url), { requests: 1, hits: 1 })
})

t.test('a revalidation is a hit, changed content a miss, a stale answer a hit', async t => {
  const { origin, cache, adds, index } = await begun(t)
  await cache.get(index)
  await adds(() => cache.get(index, insist), { requests: 1, hits: 1, traffic_up: 1000 })
  await adds(() => cache.get(index, { ...insist, 'If-None-Match': '"1"' }), {
    requests: 1,
    hits: 1,
  })
  origin.at(release, file({ content: 'second', etag: '"2"' }))
  await adds(() => cache.get(index, insist), {
    requests: 1,
    misses: 1,
    traffic_down: 6,
    traffic_up: 6,
  })
  origin.at(release, reply({ status: 503, content: 'an error page' }))
  await adds(() => cache.get(index, insist), { requests: 1, hits: 1, traffic_up: 6 })
})

t.test('bytes that two clients share are fetched once and sent twice', async t => {
  const { origin, cache, adds, url } = await begun(t)
  const gate = new Gate()
  origin.at(deb, file({ content, pauses: [{ at: 10, gate }] }))
  await adds(
    async () => {
      const both = [cache.get(url), cache.get(url)]
      await gate.reached
      gate.open()
      await Promise.all(both)
    },
    { requests: 2, misses: 2, traffic_down: 1000, traffic_up: 2000 },
  )
})

t.test('a client that leaves counts what it got; the fetch counts what came', async t => {
  const { origin, cache, adds, url } = await begun(t)
  const gate = new Gate()
  origin.at(deb, file({ content, pauses: [{ at: 10, gate }] }))
  await adds(
    async () => {
      const client = await cache.client()
      await client.request('GET', url)
      await client.head()
      await client.bytes(10)
      await client.reset()
      await cache.until(async () => (await cache.totals()).misses === 1)
      gate.open()
    },
    { requests: 1, misses: 1, traffic_down: 1000, traffic_up: 10 },
  )
})

t.test('refusals, errors, pages and 405 are not counted', async t => {
  const { origin, cache, adds } = await begun(t)
  origin.at('/lost', reply({ status: 404, content: 'not here' }))
  origin.at('/ill', reply({ status: 500, content: 'ill' }))
  await adds(async () => {
    await cache.get(origin.url('/lost'))
    await cache.get(origin.url('/ill'))
    await cache.get('http://other.example.org/a.deb')
    await cache.get('/_cachesvc/')
    await cache.get('/')
    const client = await cache.client()
    await client.request('POST', origin.url(deb))
    await client.response()
  }, {})
})

t.test('what is passed through is a miss with its bytes', async t => {
  const { cache, adds, url } = await begun(t)
  await adds(() => cache.get(url, { Authorization: 'Basic YTpi' }), {
    requests: 1,
    misses: 1,
    traffic_down: 1000,
    traffic_up: 1000,
  })
})

t.test('a tunnel is a tunnel: its bytes in both directions, and nowhere else', async t => {
  const { cache, adds } = await begun(t)
  const far = await ScriptedOrigin.listen(t)
  await cache.reload({ domains: [`127.0.0.1:${far.port}`], freshness: { floor: '0s' } })
  far.at('*', answer => {
    answer.takeOver().end('pong!')
  })
  const ping = 'GET / HTTP/1.1\r\nHost: a\r\n\r\n'
  await adds(
    async () => {
      const client = await cache.client()
      await client.request('CONNECT', `127.0.0.1:${far.port}`)
      t.equal((await client.response({ to: 'CONNECT' })).status, 200)
      await client.write(ping)
      t.equal((await client.bytes(5)).toString(), 'pong!')
      client.end()
      await client.ended
    },
    { requests: 1, tunnel: 1, tunnel_transfer: ping.length + 5 },
  )
  await adds(async () => {
    const client = await cache.client()
    await client.request('CONNECT', 'other.example.org:443')
    t.equal((await client.response()).status, 403)
  }, {})
})

t.test('the metrics say the same as the statistics', async t => {
  const { cache, url } = await begun(t)
  await cache.warm(url)
  await cache.get(url)
  const { text } = await cache.get('/_cachesvc/metrics')
  t.match(text, /^cachesvc_requests_total\{outcome="hit"\} 1$/m)
  t.match(text, /^cachesvc_requests_total\{outcome="miss"\} 1$/m)
  t.match(text, /^cachesvc_fetched_bytes_total 1000$/m)
  // What a start finds on the disk is counted behind it.
  await cache.until(async () => (await cache.metric('cachesvc_stored_objects')) === 1)
})
