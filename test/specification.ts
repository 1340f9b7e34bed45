import t, { type Test } from 'tap'
import { packageVersion } from '../lib/package.ts'
import { TestCache } from './fixtures/cache/cache.ts'
import { RawClient, type RawResponse } from './fixtures/http/raw-client.ts'
import { file, ScriptedOrigin } from './fixtures/http/scripted-origin.ts'
import { ManualClock } from './fixtures/time/manual-clock.ts'

const deb = '/debian/pool/main/h/hello_1_all.deb'
const pages = ['/_cachesvc/', '/_cachesvc/cache', '/_cachesvc/stats', '/_cachesvc/setup']
const standard = ['/robots.txt', '/.well-known/security.txt', '/favicon.ico']
const certificates = ['/_cachesvc/cachesvc.crt', '/_cachesvc/revocation.crl']
const good = [...pages, '/_cachesvc/api/stats', ...standard]
const everything = [...good, ...certificates, '/_cachesvc', '/']

const listen = ['127.0.0.1:0', '127.0.0.1:0']

async function ask(
  t: Test,
  port: number,
  target: string,
  { method = 'GET', host = `127.0.0.1:${port}` } = {},
): Promise<RawResponse> {
  const client = await RawClient.connect(t, port)
  await client.request(method, target, { Host: host })
  const answer = await client.response({ to: method })
  client.end()
  return answer
}

async function started(t: Test, settings = {}) {
  const origin = await ScriptedOrigin.listen(t)
  origin.at('*', file({ content: 'hello', etag: '"1"' }))
  const cache = await TestCache.start(t, { origins: [origin], settings: { listen, ...settings } })
  return { cache, origin, url: origin.url(deb) }
}

t.test(
  '1. requests from the cache are hits, from upstream misses, tunnels are counted',
  async t => {
    const { cache, origin, url } = await started(t)
    await cache.warm(url)
    await cache.get(url)
    const client = await cache.client()
    await client.request('CONNECT', `127.0.0.1:${origin.port}`)
    await client.response({ to: 'CONNECT' })
    t.match(await cache.totals(), { requests: 3, hits: 1, misses: 1, tunnel: 1 })
  },
)

t.test('1. the interface is on every configured listener', async t => {
  const { cache } = await started(t)
  t.equal(cache.ports.length, 2)
  for (const port of cache.ports) {
    for (const path of good) t.equal((await ask(t, port, path)).status, 200, `${port} ${path}`)
  }
})

t.test('1. the first index.hostnames value is the host of the setup examples', async t => {
  const index = { hostnames: ['cache.example.org', 'second.example.org'] }
  const { cache } = await started(t, { index })
  const { text } = await cache.get('/_cachesvc/setup')
  t.match(text, `http://cache.example.org:${cache.port}`)
  t.notMatch(text, 'second.example.org')
})

t.test('1. without one it is an IPv4 address', async t => {
  const { cache } = await started(t)
  t.match((await cache.get('/_cachesvc/setup')).text, /http:\/\/\d+\.\d+\.\d+\.\d+:\d+/)
})

t.test('1. index.enable does not control access', async t => {
  const { cache } = await started(t, { index: { enable: false } })
  for (const path of good) t.equal((await cache.get(path)).status, 200, path)
  t.equal((await cache.get('/')).status, 406)
  t.equal((await cache.get('/_cachesvc')).status, 307)
})

t.test('2. the statistics response has exactly its fields, in plain bytes', async t => {
  const { cache, url } = await started(t)
  await cache.warm(url)
  const value = JSON.parse((await cache.get('/_cachesvc/api/stats')).text)
  t.strictSame(Object.keys(value).sort(), ['daily', 'oldest_day', 'totals'])
  const counters = {
    requests: 1,
    hits: 0,
    misses: 1,
    tunnel: 0,
    traffic_down: 5,
    traffic_up: 5,
    tunnel_transfer: 0,
  }
  t.strictSame(value.totals, counters)
  t.strictSame(value.daily, [{ date: value.oldest_day, ...counters }])
  t.match(value.oldest_day, /^\d{4}-\d{2}-\d{2}$/)
})

t.test('2. daily has at most 14 days, newest first; totals include the others', async t => {
  const origin = await ScriptedOrigin.listen(t)
  origin.at('*', file({ content: 'hello' }))
  const clock = new ManualClock(Date.parse('2025-03-01T12:00:00Z'))
  const cache = await TestCache.start(t, { origins: [origin], clock })
  for (let day = 0; day < 16; day += 1) {
    await cache.warm(origin.url(deb))
    clock.advance(24 * 3_600_000)
  }
  const { totals, daily, oldest_day } = JSON.parse((await cache.get('/_cachesvc/api/stats')).text)
  const dates: string[] = daily.map(({ date }: { date: string }) => date)
  t.equal(dates.length, 14)
  t.strictSame(dates, [...dates].sort().reverse())
  t.equal(totals.requests, 16)
  t.equal(oldest_day, '2025-03-01')
})

t.test('2. the pages show their contents', async t => {
  const { cache, url } = await started(t, { passthrough_domains: ['pass.example.org'] })
  t.equal((await cache.get(url)).status, 200)
  const index = (await cache.get('/_cachesvc/')).text
  for (const content of [packageVersion(), `:${cache.port}`, 'Tunnel', 'pass.example.org']) {
    t.match(index, content)
  }
  const stored = (await cache.get('/_cachesvc/cache')).text
  const contents = [
    /\bobjects?\b/,
    /\bbytes\b/,
    /All that is used/,
    /no client asked for in 90 days/,
  ]
  for (const content of contents) t.match(stored, content)
  t.match((await cache.get('/_cachesvc/stats')).text, 'Lifetime totals')
  t.match((await cache.get('/_cachesvc/setup')).text, 'Acquire::http::Proxy')
})

t.test('4. and 7. on every listener / is 406 and /_cachesvc a temporary redirect', async t => {
  const { cache } = await started(t)
  for (const port of cache.ports) {
    const root = await ask(t, port, '/')
    t.equal(root.status, 406)
    t.match(root.reason, /^Not Acceptable/)
    t.match(root.text, '<meta http-equiv="refresh" content="0; url=/_cachesvc/">')
    const bare = await ask(t, port, '/_cachesvc')
    t.ok([302, 307].includes(bare.status))
    t.equal(bare.fields.get('Location'), '/_cachesvc/')
  }
})

t.test('4. every answer of the interface has the three fields, once each', async t => {
  const { cache } = await started(t)
  for (const path of [...everything, '/_cachesvc/lost', '/_cachesvc/healthz']) {
    for (const method of ['GET', 'HEAD', 'POST']) {
      const { fields } = await ask(t, cache.port, path, { method })
      t.strictSame(fields.all('Cache-Control'), ['no-store'], `${method} ${path}`)
      t.strictSame(fields.all('X-Content-Type-Options'), ['nosniff'])
      t.strictSame(fields.all('X-Frame-Options'), ['DENY'])
    }
  }
})

t.test('4. HEAD is GET without content', async t => {
  const { cache } = await started(t)
  for (const path of everything) {
    const [get, head] = [await cache.get(path), await cache.head(path)]
    t.equal(head.status, get.status, path)
    t.equal(head.reason, get.reason)
    t.equal(head.fields.get('Content-Type'), get.fields.get('Content-Type'))
    if (!path.includes('stats')) {
      t.equal(head.fields.get('Content-Length'), get.fields.get('Content-Length'), path)
    }
  }
})

t.test(
  '4. methods other than GET and HEAD are 405, but for the checks of load balancers',
  async t => {
    const { cache } = await started(t)
    t.equal((await ask(t, cache.port, '/', { method: 'OPTIONS' })).status, 200)
    for (const path of everything) {
      for (const method of ['POST', 'PUT', 'DELETE', 'OPTIONS', 'PATCH']) {
        if (method === 'OPTIONS' && path === '/') continue
        const answer = await ask(t, cache.port, path, { method })
        t.equal(answer.status, 405, `${method} ${path}`)
        t.equal(answer.fields.get('Allow'), 'GET, HEAD')
      }
    }
  },
)

t.test('4. query parameters change nothing', async t => {
  const { cache } = await started(t)
  for (const path of [...good, '/_cachesvc', '/']) {
    const [bare, asked] = [await cache.get(path), await cache.get(`${path}?x=1&y`)]
    t.equal(asked.status, bare.status, path)
    t.equal(asked.fields.get('Location'), bare.fields.get('Location'))
  }
})

t.test('4. a proxy client reaches it in absolute-form, by any name of ours', async t => {
  const { cache } = await started(t, { index: { hostnames: ['cache.example.org'] } })
  for (const host of ['127.0.0.1', 'localhost', 'cache.example.org', 'CACHE.example.org']) {
    for (const path of good) {
      const url = `http://${host}:${cache.port}${path}`
      t.equal((await ask(t, cache.port, url, { host })).status, 200, url)
    }
    t.equal((await ask(t, cache.port, `http://${host}:${cache.port}/`)).status, 406)
    t.equal((await ask(t, cache.port, `http://${host}:${cache.ports[1]}/`)).status, 406)
  }
})

t.test('4. it is answered before the proxy path, whatever Host says', async t => {
  const { cache, origin } = await started(t)
  for (const host of ['archive.example.org', `127.0.0.1:${origin.port}`, 'localhost', 'x:1']) {
    for (const path of good) t.equal((await ask(t, cache.port, path, { host })).status, 200, path)
    t.equal((await ask(t, cache.port, '/', { host })).status, 406)
  }
  t.equal(origin.requests.length, 0)
})

t.test('4. the same paths of a foreign host are that host’s, in absolute-form', async t => {
  const { cache, origin } = await started(t)
  for (const path of ['/robots.txt', '/', '/_cachesvc/api/stats']) {
    t.equal((await cache.get(origin.url(path))).text, 'hello', path)
  }
})

t.test('5. there is no authentication, even for clients that may not use the proxy', async t => {
  const { cache, url } = await started(t, { clients: ['192.0.2.0/24'] })
  t.equal((await cache.get(url)).status, 403)
  for (const path of good) {
    const answer = await cache.get(path, { Authorization: 'Basic bm86Ym9keQ==' })
    t.equal(answer.status, 200, path)
    t.notOk(answer.fields.has('WWW-Authenticate'))
    t.equal((await cache.get(path)).status, 200)
  }
})

t.test('7. a refusal is logged with its reason', async t => {
  const { cache } = await started(t)
  await cache.get('http://other.example.org/x')
  const line = cache.log.lines.find(({ facts }) => facts['status'] === 403)
  t.match(line?.facts, { outcome: 'refused', because: 'domains' })
})
