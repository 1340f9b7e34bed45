/**
 * The ways clients ask, on the wire: as a proxy, steered by DNS, by URL prefix, for https origins, through a tunnel, ten at
 * once.
 */
import { join } from 'node:path'
import t from 'tap'
import { TestCache } from '../fixtures/cache/cache.ts'
import { makeAuthority } from '../fixtures/certificates/certificate.ts'
import { ScriptedDns } from '../fixtures/http/dns.ts'
import { file, reply, ScriptedOrigin } from '../fixtures/http/scripted-origin.ts'
import { Gate } from '../fixtures/time/gate.ts'

const deb = '/debian/pool/main/h/hello_1_all.deb'

t.test('a configured proxy is asked in absolute-form', async t => {
  const origin = await ScriptedOrigin.listen(t)
  const cache = await TestCache.start(t, { origins: [origin] })
  origin.at(deb, file({ content: 'hello', etag: '"1"' }))

  const head = await cache.head(origin.url(deb))
  t.equal(head.status, 200)
  t.equal(head.fields.get('Content-Length'), '5')
  t.equal(head.fields.get('X-Cache'), 'MISS')
  const miss = await cache.warm(origin.url(deb))
  t.equal(miss.text, 'hello')
  t.equal(miss.fields.get('X-Cache'), 'MISS')
  const hit = await cache.get(origin.url(deb))
  t.equal(hit.text, 'hello')
  t.equal(hit.fields.get('X-Cache'), 'HIT')
  t.equal((await cache.head(origin.url(deb))).fields.get('Content-Length'), '5')
  t.strictSame(
    origin.requests.map(({ method }) => method),
    ['HEAD', 'GET'],
  )
})

t.test(
  'the origin is asked by path, with its own Host, our Via and nothing of the client',
  async t => {
    const origin = await ScriptedOrigin.listen(t)
    const cache = await TestCache.start(t, { origins: [origin] })
    origin.at('*', reply({ content: 'hello' }))
    await cache.get(origin.url(`${deb}?a=b`), {
      Cookie: 'c=1',
      'Accept-Encoding': 'gzip',
      'X-Forwarded-For': '192.0.2.1',
      'Proxy-Authorization': 'Basic YTpi',
    })
    const [asked] = origin.requests
    t.equal(asked?.target, `${deb}?a=b`)
    t.equal(asked?.fields.get('Host'), `127.0.0.1:${origin.port}`)
    t.match(asked?.fields.get('Via'), /^1\.1 cachesvc-/)
    const names = ['Cookie', 'Accept-Encoding', 'X-Forwarded-For', 'Proxy-Authorization', 'Range']
    for (const name of names) t.notOk(asked?.fields.has(name), name)
  },
)

t.test('a steered client names the archive in Host', async t => {
  const origin = await ScriptedOrigin.listen(t)
  const cache = await TestCache.start(t, { origins: [origin] })
  origin.at(deb, reply({ content: 'hello' }))
  const answer = await cache.get('/pool/x', { Host: `127.0.0.1:${origin.port}` })
  // Any name of ours with a port that is not http's is ours: such a client has mapped our port.
  t.equal(answer.status, 404)

  const dns = new ScriptedDns({ 'archive.example.org': ['127.0.0.1'] })
  const steered = await TestCache.start(t, {
    lookup: dns.lookup,
    settings: { domains: [`archive.example.org:${origin.port}`] },
  })
  const found = await steered.get(deb, { Host: `archive.example.org:${origin.port}` })
  t.equal(found.text, 'hello')
  t.equal(origin.requests[0]?.fields.get('Host'), `archive.example.org:${origin.port}`)
})

t.test('a sources.list may begin with our address', async t => {
  const origin = await ScriptedOrigin.listen(t)
  const cache = await TestCache.start(t, { origins: [origin] })
  origin.at(deb, reply({ content: 'hello' }))
  t.equal((await cache.warm(`/127.0.0.1:${origin.port}${deb}`)).text, 'hello')
  const proxied = await cache.get(origin.url(deb))
  t.equal(proxied.fields.get('X-Cache'), 'HIT', 'under the key it has for a proxy')
  const lost = await cache.get('/kali/dists/stable/InRelease')
  t.equal(lost.status, 404)
  t.match(lost.text, 'The path names no host')
  t.match(lost.reason, 'The path names no host', 'apt shows this and not the text')
})

t.test('a sources.list may begin with a prefix that apt-cacher-ng comes with', async t => {
  const origin = await ScriptedOrigin.listen(t)
  const to = `http://127.0.0.1:${origin.port}`
  const dns = new ScriptedDns({})
  const cache = await TestCache.start(t, {
    origins: [origin],
    lookup: dns.lookup,
    settings: {
      domains: ['deb.debian.org', 'archive.ubuntu.com', `127.0.0.1:${origin.port}`],
      overrides: { ubuntu_server: `${to}/mirror` },
      remap: [{ from: 'deb.debian.org/debian', to: `${to}/own` }],
    },
  })
  origin.at('/own/dists/stable/x', reply({ content: 'of the remap rule' }))
  origin.at('/mirror/ubuntu/dists/noble/x', reply({ content: 'of ubuntu_server' }))
  t.equal((await cache.get('/debian/dists/stable/x')).text, 'of the remap rule')
  t.equal((await cache.get('/ubuntu/dists/noble/x')).text, 'of ubuntu_server')
  const refused = await cache.get('/debian-security/dists/stable-security/x')
  t.equal(refused.status, 403)
  t.match(refused.reason, /^security\.debian\.org.* is refused by `domains`/)
})

t.test(
  'by our address, an archive’s page is nobody’s site and says nothing about ours',
  async t => {
    const origin = await ScriptedOrigin.listen(t)
    const cache = await TestCache.start(t, { origins: [origin] })
    const page = {
      content: '<script>fetch("/_cachesvc/")</script>',
      fields: {
        'Content-Type': 'text/html',
        'Content-Security-Policy': 'default-src *',
        'Set-Cookie': 'a=b',
        'Strict-Transport-Security': 'max-age=1000',
        'Service-Worker-Allowed': '/',
        'Access-Control-Allow-Origin': '*',
        'Clear-Site-Data': '"*"',
      },
    }
    origin.at('/page.html', reply(page))
    const prefixed = `/${origin.host}:${origin.port}/page.html`
    for (const fields of [
      {},
      {},
      { Authorization: 'Basic YTpi' },
      { 'If-Modified-Since': later },
    ]) {
      const { fields: sent } = await cache.warm(prefixed, fields)
      t.strictSame(sent.all('content-security-policy'), ['sandbox'])
      t.strictSame(sent.all('x-content-type-options'), ['nosniff'])
      for (const name of Object.keys(page.fields).slice(2)) t.notOk(sent.has(name), name)
    }
    const proxied = await cache.get(origin.url('/page.html'))
    t.equal(proxied.fields.get('Content-Security-Policy'), 'default-src *', 'its own site')
    t.equal(proxied.fields.get('Access-Control-Allow-Origin'), '*')
  },
)

const later = 'Fri, 31 Dec 2100 23:59:59 GMT'

t.test('http://HTTPS///host asks an https origin, whose own authority is trusted', async t => {
  const authority = makeAuthority()
  const tls = authority.issue({ names: ['127.0.0.1'] })
  const origin = await ScriptedOrigin.listen(t, { tls })
  origin.at(deb, reply({ content: 'hello' }))
  const ca = join(t.testdir({ 'our-ca.pem': authority.cert }), 'our-ca.pem')
  const domains = [`127.0.0.1:${origin.port}`]
  const cache = await TestCache.start(t, {
    settings: { domains, https: { origin_ca: [ca] } },
  })

  t.equal((await cache.warm(`http://HTTPS///127.0.0.1:${origin.port}${deb}`)).text, 'hello')
  const others = [`/HTTPS///127.0.0.1:${origin.port}${deb}`, origin.url(deb)]
  for (const url of others) t.equal((await cache.get(url)).fields.get('X-Cache'), 'HIT', url)
  t.strictSame(await cache.stored(), [origin.url(deb)])

  const strict = await TestCache.start(t, { settings: { domains } })
  const refused = await strict.get(`http://HTTPS///127.0.0.1:${origin.port}${deb}`)
  t.equal(refused.status, 503)
  t.match(refused.text, /certificate/)
})

t.test('an authority file that is none is one sentence at the start', async t => {
  const missing = join(t.testdir(), 'missing.pem')
  await t.rejects(TestCache.start(t, { settings: { https: { origin_ca: [missing] } } }), {
    message: `https.origin_ca names ${missing}, which cannot be used: there is no such file`,
  })
  const key = join(t.testdir({ 'key.pem': makeAuthority().key }), 'key.pem')
  await t.rejects(TestCache.start(t, { settings: { https: { origin_ca: [key] } } }), {
    message: `https.origin_ca names ${key}, which cannot be used: it has no certificate in PEM form`,
  })
})

t.test('CONNECT joins the client to the far end', async t => {
  const authority = makeAuthority()
  const origin = await ScriptedOrigin.listen(t, { tls: authority.issue({ names: ['localhost'] }) })
  origin.at(deb, reply({ content: 'hello' }))
  const cache = await TestCache.start(t, { origins: [origin] })
  const client = await cache.client()
  await client.request('CONNECT', `127.0.0.1:${origin.port}`, {
    Host: `127.0.0.1:${origin.port}`,
  })
  t.equal((await client.response({ to: 'CONNECT' })).status, 200)
  const secure = await client.secure(t, { ca: [authority.cert], servername: 'localhost' })
  t.equal((await secure.get(deb)).text, 'hello')
  secure.end()
  await cache.until(async () => (await cache.totals()).tunnel_transfer > 1000)
  t.strictSame(await cache.stored(), [])
})

t.test('a connection is kept from one request to the next', async t => {
  const origin = await ScriptedOrigin.listen(t)
  const cache = await TestCache.start(t, { origins: [origin] })
  origin.at(deb, reply({ content: 'hello' }))
  const client = await cache.client()
  for (const status of [200, 404, 200, 406, 405, 200]) {
    const path = status === 404 ? '/lost' : status === 406 ? '/' : deb
    const target = status === 406 ? '/' : origin.url(path)
    await client.request(status === 405 ? 'POST' : 'GET', target, {
      Host: `127.0.0.1:${status === 406 ? cache.port : origin.port}`,
    })
    t.equal((await client.response()).status, status)
  }
  t.equal((await client.finish()).length, 0)
})

t.test('ten pipelined requests are answered in their order: hits, misses and errors', async t => {
  const origin = await ScriptedOrigin.listen(t)
  const cache = await TestCache.start(t, { origins: [origin] })
  const slow = new Gate()
  for (const n of [1, 4, 7]) origin.at(`/pool/a_${n}.deb`, reply({ content: `hit ${n}` }))
  for (const n of [1, 4, 7]) await cache.warm(origin.url(`/pool/a_${n}.deb`))
  origin.at('/pool/a_0.deb', reply({ content: 'miss 0', before: slow }))
  origin.at('/pool/a_3.deb', reply({ content: 'miss 3', framing: 'chunked' }))
  origin.at('/pool/a_5.deb', reply({ status: 500 }))
  origin.at('/pool/a_8.deb', reply({ content: 'miss 8' }))
  origin.at('/pool/a_9.deb', reply({ content: 'x'.repeat(100_000) }))

  const client = await cache.client()
  const targets = Array.from({ length: 10 }, (_, n) =>
    n === 6 ? 'http://other.example.org/a.deb' : origin.url(`/pool/a_${n}.deb`),
  )
  const heads = targets.map(url => `GET ${url} HTTP/1.1\r\nHost: ${new URL(url).host}\r\n\r\n`)
  await client.write(heads.join(''))
  await origin.arrived('/pool/a_9.deb')
  slow.open()
  const seen: string[] = []
  for (const _ of targets) {
    const { status, text } = await client.response()
    seen.push(`${status} ${status === 200 ? text.slice(0, 6).trim() : ''}`.trim())
  }
  t.strictSame(seen, [
    '200 miss 0',
    '200 hit 1',
    '404',
    '200 miss 3',
    '200 hit 4',
    '503',
    '403',
    '200 hit 7',
    '200 miss 8',
    '200 xxxxxx',
  ])
  t.equal((await client.finish()).length, 0)
})

t.test('the check of a load balancer is answered, with a Host or without', async t => {
  const cache = await TestCache.start(t, {})
  for (const head of [
    'OPTIONS / HTTP/1.0',
    'OPTIONS * HTTP/1.0',
    'HEAD /_cachesvc/healthz HTTP/1.0',
  ]) {
    const client = await cache.client()
    await client.write(`${head}\r\n\r\n`)
    t.equal((await client.response({ to: 'HEAD' })).status, 200, head)
  }
  const client = await cache.client()
  await client.request('OPTIONS', '*', { Host: 'balancer.example.org' })
  const answer = await client.response()
  t.equal(answer.status, 200)
  t.equal(answer.fields.get('Allow'), 'GET, HEAD, OPTIONS')
})

t.test('other methods are answered 405 and reach nobody', async t => {
  const origin = await ScriptedOrigin.listen(t)
  const cache = await TestCache.start(t, { origins: [origin] })
  const client = await cache.client()
  for (const method of ['POST', 'PUT', 'DELETE', 'PATCH', 'OPTIONS', 'TRACE']) {
    await client.request(method, origin.url(deb), { Host: 'archive.example.org' })
    const answer = await client.response()
    t.equal(answer.status, 405, method)
    t.equal(answer.fields.get('Allow'), 'GET, HEAD, CONNECT')
  }
  const refused = () => cache.log.lines.filter(({ facts }) => facts['because'] === 'method')
  await cache.until(() => refused().length === 6)
  t.ok(refused().every(({ facts }) => facts['outcome'] === 'refused'))
  t.equal(origin.requests.length, 0)
})
