/**
 * Everything by way of a parent proxy: http in absolute-form, https and tunnels by CONNECT, and what it refuses.
 */
import { connect } from 'node:net'
import { join } from 'node:path'
import t from 'tap'
import { TestCache } from '../fixtures/cache/cache.ts'
import { makeAuthority } from '../fixtures/certificates/certificate.ts'
import { type Answer, reply, ScriptedOrigin } from '../fixtures/http/scripted-origin.ts'
import { tunnelTo } from '../fixtures/http/tunnel-to.ts'

const deb = '/debian/pool/main/h/hello_1_all.deb'
const credentials = `Basic ${Buffer.from('ann:s3cret/x').toString('base64')}`

t.test('http goes to the parent in absolute-form, with our credentials for it', async t => {
  const parent = await ScriptedOrigin.listen(t)
  const cache = await TestCache.start(t, {
    settings: {
      domains: ['archive.example.org'],
      parent_proxy: `http://ann:s3cret%2Fx@127.0.0.1:${parent.port}`,
    },
  })
  parent.at('*', reply({ content: 'by the parent' }))
  const url = `http://archive.example.org${deb}`
  t.equal((await cache.warm(url)).text, 'by the parent')
  t.equal((await cache.get(url)).fields.get('X-Cache'), 'HIT')
  const [asked] = parent.requests
  t.equal(asked?.target, url)
  t.equal(asked?.fields.get('Host'), 'archive.example.org')
  t.equal(asked?.fields.get('Proxy-Authorization'), credentials)
  for (const secret of ['s3cret', credentials.slice(6)]) t.notOk(await cache.betrays(secret))
  t.notMatch((await cache.get('/_cachesvc/')).text, 's3cret')
})

t.test('https and tunnels go through a CONNECT of ours', async t => {
  const authority = makeAuthority()
  const tls = authority.issue({ names: ['archive.example.org'] })
  const ca = join(t.testdir({ 'ca.pem': authority.cert }), 'ca.pem')
  const origin = await ScriptedOrigin.listen(t, { tls })
  origin.at(deb, reply({ content: 'secure' }))
  const parent = await ScriptedOrigin.listen(t)
  parent.at('*', tunnelTo(origin.port))
  const cache = await TestCache.start(t, {
    settings: {
      domains: ['archive.example.org'],
      https: { origin_ca: [ca] },
      parent_proxy: `http://ann:s3cret%2Fx@127.0.0.1:${parent.port}`,
    },
  })
  t.equal((await cache.warm(`http://HTTPS///archive.example.org${deb}`)).text, 'secure')
  const [asked] = parent.requests
  t.equal(asked?.method, 'CONNECT')
  t.equal(asked?.target, 'archive.example.org:443')
  t.equal(asked?.fields.get('Proxy-Authorization'), credentials)
  t.notOk(origin.requests[0]?.fields.has('Proxy-Authorization'), 'which are the parent’s alone')

  const client = await cache.client()
  await client.request('CONNECT', 'archive.example.org:443')
  t.equal((await client.response({ to: 'CONNECT' })).status, 200)
  const secure = await client.secure(t, { ca: [authority.cert], servername: 'archive.example.org' })
  t.equal((await secure.get(deb)).text, 'secure')
  t.equal(parent.requests[1]?.fields.get('Proxy-Authorization'), credentials)
})

t.test('a parent that refuses or is away is 503 with a text', async t => {
  const parent = await ScriptedOrigin.listen(t)
  const cache = await TestCache.start(t, {
    settings: {
      domains: ['archive.example.org'],
      parent_proxy: `http://127.0.0.1:${parent.port}`,
    },
  })
  const urls = [`http://archive.example.org${deb}`, `http://HTTPS///archive.example.org${deb}`]
  parent.at('*', reply({ status: 407, fields: { 'Proxy-Authenticate': 'Basic realm="p"' } }))
  for (const url of urls) {
    const answer = await cache.get(url)
    t.equal(answer.status, 503, url)
    t.match(answer.text, 'did not accept our credentials')
    t.notOk(answer.fields.has('Proxy-Authenticate'))
  }
  await parent.close()
  for (const url of urls) {
    const answer = await cache.get(url)
    t.equal(answer.status, 503, url)
    t.match(answer.text, 'parent proxy could not be reached')
  }
})

t.test('parents that name each other answer at once', async t => {
  // Each is the parent of the other; the ports are known when both listen.
  const [one, two] = [await ScriptedOrigin.listen(t), await ScriptedOrigin.listen(t)]
  const behind = (parent: ScriptedOrigin) =>
    TestCache.start(t, {
      settings: {
        domains: ['archive.example.org', '.example.net'],
        parent_proxy: `http://127.0.0.1:${parent.port}`,
      },
    })
  const [first, second] = [await behind(one), await behind(two)]
  const chains: string[] = []
  const joined = (to: TestCache) => async (answer: Answer) => {
    chains.push(answer.request.fields.get('Via') ?? '')
    const far = connect(to.port, '127.0.0.1')
    t.teardown(() => far.destroy())
    const near = answer.takeOver()
    const { method, target, fields } = answer.request
    const lines = [...fields].map(([name, value]) => `${name}: ${value}\r\n`)
    far.write(`${method} ${target} HTTP/1.1\r\n${lines.join('')}\r\n`)
    near.pipe(far).pipe(near)
    far.on('error', () => near.destroy())
    near.on('error', () => far.destroy())
  }
  one.at('*', joined(second))
  two.at('*', joined(first))
  // The clocks of both stand still, so nothing ends by a deadline.
  const url = `http://archive.example.org${deb}`
  t.match((await first.get(url)).text, `parent proxy 127.0.0.1:${one.port}`)
  t.equal(chains.length, 2)
  t.match(chains[1], /^1\.1 cachesvc-[0-9a-f]+, 1\.1 cachesvc-[0-9a-f]+$/)
  const head = await first.client()
  t.not((await head.headOf(url)).status, 200)
  t.equal((await first.get(`http://HTTPS///archive.example.org${deb}`)).status, 503)
  const client = await first.client()
  await client.request('CONNECT', 'archive.example.org:443')
  const refused = await client.response({ to: 'CONNECT' })
  t.equal(refused.status, 503)
  t.match(refused.text, `by way of the parent proxy 127.0.0.1:${one.port}`)
})

t.test('without lists a private address is refused before the parent hears of it', async t => {
  const parent = await ScriptedOrigin.listen(t)
  const cache = await TestCache.start(t, {
    settings: { domains: [], parent_proxy: `http://127.0.0.1:${parent.port}` },
  })
  const answer = await cache.get('http://10.0.0.1/x')
  t.equal(answer.status, 403)
  t.equal(parent.requests.length, 0)
})

t.test('hosts of `except` are asked directly, as files and as tunnels', async t => {
  const parent = await ScriptedOrigin.listen(t)
  parent.at('*', reply({ content: 'by the parent' }))
  const origin = await ScriptedOrigin.listen(t)
  origin.at(deb, reply({ content: 'directly' }))
  const cache = await TestCache.start(t, {
    settings: {
      domains: [`127.0.0.1:${origin.port}`, '.example.org'],
      parent_proxy: {
        url: `http://127.0.0.1:${parent.port}`,
        except: [`127.0.0.1:${origin.port}`, '.inside.example.org'],
      },
    },
  })
  t.equal((await cache.get(origin.url(deb))).text, 'directly')
  t.equal((await cache.get(`http://archive.example.org${deb}`)).text, 'by the parent')
  t.equal(parent.requests.length, 1)
  const client = await cache.client()
  await client.request('CONNECT', `127.0.0.1:${origin.port}`)
  t.equal((await client.response({ to: 'CONNECT' })).status, 200)
  t.equal(parent.requests.length, 1)
})

t.test('what a parent refuses is told as its own, and a stored file is better', async t => {
  const parent = await ScriptedOrigin.listen(t)
  const cache = await TestCache.start(t, {
    settings: {
      domains: ['archive.example.org'],
      parent_proxy: `http://127.0.0.1:${parent.port}`,
    },
  })
  const release = 'http://archive.example.org/debian/dists/stable/InRelease'
  parent.at('*', reply({ content: 'a release', fields: { ETag: '"1"' } }))
  t.equal((await cache.warm(release)).status, 200)
  for (const status of [403, 451, 400]) {
    parent.at('*', reply({ status, content: 'blocked' }))
    const stored = await cache.get(release, { 'Cache-Control': 'max-age=0' })
    t.equal(stored.status, 200, `${status} does not beat what is stored`)
    t.equal(stored.text, 'a release')
    const refused = await cache.get(`http://archive.example.org${deb}`)
    t.equal(refused.status, status)
    t.match(refused.text, `The parent proxy 127.0.0.1:${parent.port} answered ${status}`)
    t.match(refused.text, 'parent_proxy.except')
  }
  parent.at('*', reply({ status: 404 }))
  const missing = await cache.get(`http://archive.example.org${deb}`)
  t.match(missing.text, 'The origin archive.example.org, asked by way of the parent proxy')
  // That the origin has this Release file no more is believed when it has the other.
  parent.at(release.replace('InRelease', 'Release'), reply({ content: 'another' }))
  t.equal((await cache.get(release, { 'Cache-Control': 'max-age=0' })).status, 404)
})
