/**
 * What the policy refuses, on the wire: 403 and a sentence that names the rule, for fetches, tunnels, redirects and names that
 * lead to private addresses.
 */
import t, { type Test } from 'tap'
import { TestCache } from '../fixtures/cache/cache.ts'
import { ScriptedDns } from '../fixtures/http/dns.ts'
import type { RawResponse } from '../fixtures/http/raw-client.ts'
import { file, reply, ScriptedOrigin } from '../fixtures/http/scripted-origin.ts'

const deb = '/debian/pool/main/h/hello_1_all.deb'

async function connect(cache: TestCache, authority: string): Promise<RawResponse> {
  const client = await cache.client()
  await client.request('CONNECT', authority, { Host: authority })
  return client.response({ to: 'CONNECT' })
}

function isRefused(t: Test, answer: RawResponse, rule: RegExp): void {
  t.equal(answer.status, 403)
  t.match(answer.text, rule)
  t.equal(answer.fields.get('Content-Type'), 'text/plain; charset=utf-8')
}

t.test('a client outside `clients` may neither fetch nor tunnel, but see the pages', async t => {
  const cache = await TestCache.start(t, { settings: { clients: ['192.0.2.0/24'] } })
  isRefused(t, await cache.get(`http://archive.example.org${deb}`), /`clients`/)
  isRefused(t, await connect(cache, 'archive.example.org:443'), /`clients`/)
  t.equal((await cache.get('/_cachesvc/')).status, 200)
})

t.test('a host under no list is refused by `domains`', async t => {
  const cache = await TestCache.start(t, { settings: { domains: ['archive.example.org'] } })
  isRefused(t, await cache.get(`http://other.example.org${deb}`), /`domains`/)
  isRefused(t, await connect(cache, 'other.example.org:443'), /`domains`/)
  const head = await cache.head(`http://other.example.org${deb}`)
  t.equal(head.status, 403)
  t.equal(head.content.length, 0)
})

t.test(
  'a host of `private_domains` is reached at a private address, and others as before',
  async t => {
    const origin = await ScriptedOrigin.listen(t)
    origin.at(deb, file({ content: 'hello' }))
    const dns = new ScriptedDns({
      'repo.corp.example.org': ['127.0.0.1'],
      'other.example.org': ['127.0.0.1'],
    })
    const settings = {
      private_domains: [`repo.corp.example.org:${origin.port}`],
      ports: [origin.port],
    }
    const cache = await TestCache.start(t, { settings, lookup: dns.lookup })
    t.equal((await cache.get(`http://repo.corp.example.org:${origin.port}${deb}`)).text, 'hello')
    const other = await cache.get(`http://other.example.org:${origin.port}${deb}`)
    isRefused(
      t,
      other,
      /leads to 127\.0\.0\.1, .*add other\.example\.org:\d+ or the network to `private_domains`/,
    )
  },
)

t.test('a port that is not open is refused by `ports` and `connect_ports`', async t => {
  const cache = await TestCache.start(t, { settings: { domains: ['archive.example.org'] } })
  isRefused(t, await cache.get(`http://archive.example.org:22${deb}`), /`ports`/)
  isRefused(t, await connect(cache, 'archive.example.org:22'), /`connect_ports`/)
})

t.test('tunnels are refused by `https.prevent`', async t => {
  const cache = await TestCache.start(t, { settings: { https: { prevent: true } } })
  isRefused(t, await connect(cache, 'archive.example.org:443'), /`https\.prevent`/)
})

t.test('without lists private addresses are refused, written out or in DNS', async t => {
  const dns = new ScriptedDns({
    'inside.example.org': ['10.0.0.1', '::1'],
    'mapped.example.org': ['::ffff:127.0.0.1'],
  })
  const cache = await TestCache.start(t, { lookup: dns.lookup, settings: { domains: [] } })
  for (const host of [
    '10.0.0.1',
    '[::ffff:10.0.0.1]',
    'inside.example.org',
    'mapped.example.org',
  ]) {
    isRefused(t, await cache.get(`http://${host}${deb}`), /not public|public address/)
    isRefused(t, await connect(cache, `${host}:443`), /not public|public address/)
  }
  const credentials = { Authorization: 'Basic YTpi' }
  isRefused(t, await cache.get(`http://inside.example.org${deb}`, credentials), /not public/)
  const asked = cache.log.lines.filter(({ facts }) => facts['target'] !== undefined)
  const reasons = new Set(asked.map(({ facts }) => facts['because']))
  t.strictSame([...reasons], ['public-address'])
  t.equal((await cache.totals()).tunnel, 0)
})

t.test('a request that has been here before is refused as a loop', async t => {
  const origin = await ScriptedOrigin.listen(t)
  const cache = await TestCache.start(t, { origins: [origin] })
  origin.at(deb, reply({ content: 'hello' }))
  await cache.get(origin.url(deb))
  const via = origin.requests[0]?.fields.get('Via') ?? ''
  isRefused(t, await cache.get(origin.url(deb), { Via: `1.1 other, ${via}` }), /back to this proxy/)
  t.equal((await cache.get(origin.url(deb), { Via: '1.1 other' })).status, 200)
})

t.test('our own address is refused as a loop, by any of its names', async t => {
  const cache = await TestCache.start(t, {
    settings: { index: { hostnames: ['cache.example.org'] } },
  })
  for (const host of ['localhost', '127.0.0.2', '[::1]', 'cache.example.org']) {
    isRefused(t, await connect(cache, `${host}:${cache.port}`), /back to this proxy/)
  }
  // In absolute-form our own address with an archive's path is the prefix mode; a prefix that names us again is a circle.
  const url = `http://127.0.0.1:${cache.port}/127.0.0.1:${cache.port}${deb}`
  isRefused(t, await cache.get(url), /back to this proxy/)
})

t.test('a redirect to a host outside the policy is refused with the rule', async t => {
  const origin = await ScriptedOrigin.listen(t)
  const cache = await TestCache.start(t, { origins: [origin] })
  const to = (location: string) => reply({ status: 302, fields: { Location: location } })
  origin.at('/outside', to(`http://other.example.org${deb}`))
  origin.at('/private', to('http://169.254.169.254/latest/meta-data'))
  origin.at('/port', to(`http://127.0.0.1:1${deb}`))
  origin.at('/self', to(`http://127.0.0.1:${cache.port}/_cachesvc/`))
  for (const path of ['/outside', '/private', '/port']) {
    isRefused(t, await cache.get(origin.url(path)), /redirect.*`domains`/s)
  }
  isRefused(t, await cache.get(origin.url('/self')), /redirect.*back to this proxy/s)
  t.strictSame(await cache.stored(), [])
})

t.test('what was stored is still given when its host has moved to a private address', async t => {
  const dns = new ScriptedDns({ 'archive.example.org': ['127.0.0.1'] })
  const origin = await ScriptedOrigin.listen(t)
  const path = '/debian/dists/stable/InRelease'
  origin.at(path, file({ content: 'signed', etag: '"1"' }))
  const host = `archive.example.org:${origin.port}`
  const cache = await TestCache.start(t, { lookup: dns.lookup, settings: { domains: [host] } })
  await cache.warm(`http://${host}${path}`)
  await cache.restart({ domains: [], ports: [origin.port] })
  const answer = await cache.get(`http://${host}${path}`, { 'Cache-Control': 'max-age=0' })
  t.equal(answer.text, 'signed')
  t.match(answer.fields.get('Cache-Status'), 'stale-origin-failed')
})
