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
  t.notMatch((await cache.get('/_cachesvc/configuration')).text, 's3cret')
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
  const overview = async () => (await cache.get('/_cachesvc/')).text
  const caution = `the parent proxy 127.0.0.1:${parent.port} fails`
  t.match(await overview(), caution)
  const again = await ScriptedOrigin.listen(t, { port: parent.port })
  again.at('*', reply({ content: 'by the parent' }))
  t.equal((await cache.get(urls[0] ?? '')).text, 'by the parent')
  t.notMatch(await overview(), caution)
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
  t.match(refused.text, `through the parent proxy 127.0.0.1:${one.port}`)
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
  t.match(missing.text, 'The origin archive.example.org, asked through the parent proxy')
  // That the origin has this Release file no more is believed when it has the other.
  parent.at(release.replace('InRelease', 'Release'), reply({ content: 'another' }))
  t.equal((await cache.get(release, { 'Cache-Control': 'max-age=0' })).status, 404)
})

t.test('a list: the next parent when one is away, and where all of it can be read', async t => {
  const [dead, second] = [await ScriptedOrigin.listen(t), await ScriptedOrigin.listen(t)]
  await dead.close()
  second.at('*', reply({ content: 'by the second' }))
  const [one, two] = [`127.0.0.1:${dead.port}`, `127.0.0.1:${second.port}`]
  const cache = await TestCache.start(t, {
    settings: {
      domains: ['.example.org', '127.0.0.1'],
      parent_proxy: [
        { url: `http://ann:s3cret@${one}`, except: ['.inside.example.org'] },
        { url: `http://bob:hunter2@${two}`, only: ['archive.example.org'] },
      ],
    },
  })
  const url = `http://archive.example.org${deb}`
  t.equal((await cache.warm(url)).text, 'by the second')
  const authorization = second.requests[0]?.fields.get('Proxy-Authorization')
  t.equal(authorization, `Basic ${Buffer.from('bob:hunter2').toString('base64')}`)
  const parentOf = (target: string) =>
    cache.log.lines
      .filter(({ facts }) => facts['target'] === target)
      .map(({ facts }) => facts['parent'])
  t.strictSame(parentOf(url).slice(-1), [two], 'the log names the one that was used')
  t.match(
    cache.log.lines.filter(({ level }) => level === 'warn'),
    [
      {
        message: 'a parent proxy fails, the next way is taken',
        facts: { parent: one, error: /.*/ },
      },
    ],
  )

  const status = await cache.command({ do: 'status' })
  t.match(status, {
    out: new RegExp(
      `Parents +${one}: 0 answered, 1 failed, fails now\\n +${two}: 1 answered, 0 failed\\n`,
    ),
  })
  const caution = `the parent proxy ${one} fails: parent proxy ${one} could not be used for archive.example.org`
  t.match(status, { out: `with something to look after\n  ${caution}` })
  t.match((await cache.get('/_cachesvc/')).text, caution)
  // Every client may read this page, and the reason names an origin that one of them asked for.
  t.equal((await cache.get('/_cachesvc/healthz')).text, 'ok\n')
  const page = (await cache.get('/_cachesvc/configuration')).text
  t.match(
    page,
    `<code>${one}</code>, except for .inside.example.org <span class="tag">Fails</span>`,
  )
  t.match(page, `<code>${two}</code> for archive.example.org only`)
  const metrics = (await cache.get('/_cachesvc/metrics')).text
  t.match(metrics, `cachesvc_parent_failing{parent="${one}"} 1`)
  t.match(metrics, `cachesvc_parent_requests_total{parent="${two}",result="answered"} 1`)
  const explained = (of: string) => cache.command({ do: 'explain', of })
  const both = {
    out: `the parent proxy ${one}; when that fails, through ${two}. ${one} fails now: parent proxy`,
  }
  t.match(await explained(url), both)
  t.match(await explained('http://a.inside.example.org/x'), { out: /no parent proxy/ })
  t.match(await explained('http://other.example.org/x'), { out: new RegExp(`parent proxy ${one}`) })

  const client = await cache.client()
  await client.request('CONNECT', 'archive.example.org:443')
  await client.response({ to: 'CONNECT' })
  t.equal(second.requests[1]?.method, 'CONNECT')
  const lost = await cache.get('http://other.example.org/x')
  t.match(lost.text, `through the parent proxy ${one}, ORIGIN_PARENT_PROXY_FAILED`)
  const refused = reply({ status: 403 })
  second.at('*', refused)
  const said = await cache.get(`${url}2`)
  t.match(said.text, `The parent proxy ${two} answered 403`, 'a refusal goes no other way')
  for (const secret of ['s3cret', 'hunter2']) {
    t.notOk(await cache.betrays(secret))
    t.notMatch(`${page}${metrics}${JSON.stringify(status)}`, secret)
  }
})

t.test('a list that ends with `direct`: the origin itself, when no parent works', async t => {
  const [dead, origin] = [await ScriptedOrigin.listen(t), await ScriptedOrigin.listen(t)]
  await dead.close()
  origin.at(deb, reply({ content: 'directly' }))
  const cache = await TestCache.start(t, {
    origins: [origin],
    settings: { parent_proxy: [`http://ann:s3cret@127.0.0.1:${dead.port}`, 'direct'] },
  })
  t.equal((await cache.get(origin.url(deb))).text, 'directly')
  t.notOk(origin.requests[0]?.fields.has('Proxy-Authorization'))
  origin.at('/forbidden', reply({ status: 403 }))
  const refused = await cache.get(origin.url('/forbidden'))
  t.match(refused.text, /^The origin 127.*answered 403/, 'it is not taken for that of a parent')
  t.match(
    (await cache.get('/_cachesvc/configuration')).text,
    'When all fail, origins are reached directly.',
  )
})
