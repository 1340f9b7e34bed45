/**
 * Everything by way of a parent proxy: http in absolute-form, https and tunnels by CONNECT, and what it refuses.
 */
import { connect } from 'node:net'
import { join } from 'node:path'
import t from 'tap'
import { TestCache } from '../fixtures/cache/cache.ts'
import { makeAuthority } from '../fixtures/certificates/certificate.ts'
import { type Answer, reply, ScriptedOrigin } from '../fixtures/http/scripted-origin.ts'

const deb = '/debian/pool/main/h/hello_1_all.deb'
const credentials = `Basic ${Buffer.from('ann:s3cret/x').toString('base64')}`

/** A parent that joins CONNECT to wherever it is told. */
function tunnelTo(port: number) {
  return async (answer: Answer): Promise<void> => {
    if (answer.request.method !== 'CONNECT') return reply({ content: 'by the parent' })(answer)
    await answer.write('HTTP/1.1 200 OK\r\n\r\n')
    const near = answer.takeOver()
    const far = connect(port, '127.0.0.1')
    near.pipe(far).pipe(near)
    far.on('error', () => near.destroy())
    near.on('error', () => far.destroy())
  }
}

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

t.test('without lists a private address is refused before the parent hears of it', async t => {
  const parent = await ScriptedOrigin.listen(t)
  const cache = await TestCache.start(t, {
    settings: { domains: [], parent_proxy: `http://127.0.0.1:${parent.port}` },
  })
  const answer = await cache.get('http://10.0.0.1/x')
  t.equal(answer.status, 403)
  t.equal(parent.requests.length, 0)
})
