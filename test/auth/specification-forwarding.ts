/**
 * The specification, section 4, request forwarding rules, and the settings of `proxy` that decide on them.
 */
import { once } from 'node:events'
import { connect, createServer } from 'node:net'
import t from 'tap'
import { makeAuthority } from '../fixtures/certificates/certificate.ts'
import { startWhole } from '../fixtures/gateway/whole-gateway.ts'
import { RawClient, type Teardown } from '../fixtures/http/raw-client.ts'
import { reply, ScriptedOrigin } from '../fixtures/http/scripted-origin.ts'
import { hrefOf, htmlOf, pathOf, readAsked } from '../fixtures/saml/browser.ts'
import { sp } from '../fixtures/saml/idp.ts'

/** An edge that leads wherever it is told, byte for byte. */
async function edge(t: Teardown) {
  const to = { port: 0 }
  const server = createServer(client => {
    const onward = connect(to.port, '127.0.0.1')
    client.pipe(onward).pipe(client)
    for (const socket of [client, onward]) {
      socket.on('error', () => {
        client.destroy()
        onward.destroy()
      })
    }
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('not listening')
  return { to, url: `http://127.0.0.1:${address.port}` }
}

t.test('4. Forwarding 1: its own session cookie is removed, others stay', async t => {
  const { browser, idp, backend } = await startWhole(t)
  await browser.signIn(idp)
  browser.cookies.set('theme', 'dark')
  await browser.navigate('/')
  t.same(backend.requests[0]?.fields.all('Cookie'), ['theme=dark'])
})

t.test(
  '4. Forwarding 1, 5.5: identity headers of a client are removed on every way in',
  async t => {
    const token = '0123456789abcdef0123'
    const { browser, idp, backend } = await startWhole(t, {
      settings: { passthroughPaths: ['/open/'], passthroughTokens: [{ name: 'robot', token }] },
    })
    const lies = {
      'X-Authproxy-User': 'root',
      X_Authproxy_User: 'root',
      X_Authproxy_Email: 'root',
      'x-authproxy-groups': 'root',
      'X-Authproxy-Anything': 'root',
    }
    await browser.navigate('/open/', lies)
    await browser.navigate('/', { ...lies, 'X-Authproxy-Authorization': `Bearer ${token}` })
    await browser.signIn(idp)
    await browser.navigate('/', { ...lies, Connection: 'X-Authproxy-User' })
    t.equal(backend.requests.length, 3)
    t.notMatch(backend.requests.map(({ head }) => head).join(), 'root')
    t.same(
      backend.requests.map(({ fields }) => fields.get('X-Authproxy-User')),
      [undefined, undefined, 'alice@example.org'],
    )
  },
)

t.test('4. Forwarding 2: X-Authproxy-User is the subject, others the attributes', async t => {
  const { browser, idp, backend } = await startWhole(t)
  await browser.signIn(idp)
  await browser.navigate('/')
  const fields = backend.requests[0]?.fields
  t.equal(fields?.get('X-Authproxy-User'), 'alice@example.org')
  t.equal(fields?.get('X-Authproxy-Email'), 'alice@example.org')
  t.equal(fields?.get('X-Authproxy-Groups'), 'staff,admins')
})

t.test('4. Forwarding 3: X-Authproxy-Instance-ID is added', async t => {
  const { browser, idp, backend } = await startWhole(t, {
    settings: { passthroughPaths: ['/open/'] },
  })
  await browser.signIn(idp)
  await browser.navigate('/')
  await browser.navigate('/open/')
  const [first, second] = backend.requests.map(({ fields }) =>
    fields.get('X-Authproxy-Instance-ID'),
  )
  t.match(first, /^[0-9a-f]{32}$/)
  t.equal(second, first)
})

t.test('4. Forwarding 3, 7.: a request with the same instance ID is rejected', async t => {
  const { browser, idp, backend, codes } = await startWhole(t, {
    settings: { passthroughPaths: ['/open/'] },
  })
  await browser.signIn(idp)
  await browser.navigate('/')
  const id = backend.requests[0]?.fields.get('X-Authproxy-Instance-ID') ?? ''
  for (const path of ['/', '/open/', '/saml/metadata.xml']) {
    const again = await browser.navigate(path, { 'X-Authproxy-Instance-ID': id })
    t.equal(again.reason, 'Loop Detected', path)
    t.equal(again.status, 508, 'ours to choose: RFC 5842')
  }
  t.same([...new Set(codes())], ['loop_detected'])
  const other = await browser.navigate('/', { 'X-Authproxy-Instance-ID': 'f'.repeat(32) })
  t.equal(other.status, 200, 'that of another instance is none')
  t.equal(backend.requests.length, 2)
})

t.test('4. Forwarding 3: a backend address that leads back is noticed', async t => {
  const { to, url } = await edge(t)
  const { browser, idp, port, codes } = await startWhole(t, { proxy: { targetURL: url } })
  to.port = port
  await browser.signIn(idp)
  const answer = await browser.navigate('/')
  t.equal(answer.reason, 'Loop Detected')
  t.same([...new Set(codes())], ['loop_detected'])
})

t.test('4. Forwarding 4: X-Forwarded-For counts from proxy.trustedProxies alone', async t => {
  const forwarded = { 'X-Forwarded-For': '203.0.113.9, 198.51.100.1', 'X-Real-IP': '192.0.2.200' }
  for (const [trustedProxies, expected] of [
    [[], '127.0.0.1'],
    [['192.0.2.0/24'], '127.0.0.1'],
    [['127.0.0.1'], '203.0.113.9'],
    [['127.0.0.0/24'], '203.0.113.9'],
  ] as const) {
    const { browser, idp, backend } = await startWhole(t, { proxy: { trustedProxies } })
    await browser.signIn(idp)
    await browser.navigate('/', forwarded)
    const fields = backend.requests[0]?.fields
    t.same(fields?.all('X-Forwarded-For'), [expected], `trusted: ${trustedProxies}`)
    t.same(fields?.all('X-Real-IP'), [expected], 'both are overwritten')
  }
})

t.test('4. Forwarding 4: the first forwarded address is the client, in the log too', async t => {
  const { browser, log } = await startWhole(t, { proxy: { trustedProxies: ['127.0.0.1'] } })
  await browser.navigate('/saml/metadata', { 'X-Forwarded-For': '203.0.113.9, 198.51.100.1' })
  const line = log.lines.findLast(({ message }) => message === 'request')
  t.equal(line?.facts['client'], '203.0.113.9')
})

t.test('4. Forwarding 5: proxy.useBasicAuth: subject as user, empty password', async t => {
  const basic = `Basic ${Buffer.from('alice@example.org:').toString('base64')}`
  const lie = { Authorization: `Basic ${Buffer.from('root:').toString('base64')}` }
  for (const useBasicAuth of [true, false]) {
    const { browser, idp, backend } = await startWhole(t, { proxy: { useBasicAuth } })
    await browser.signIn(idp)
    await browser.navigate('/')
    await browser.navigate('/', lie)
    const [first, second] = backend.requests.map(({ fields }) => fields.all('Authorization'))
    t.same(first, useBasicAuth ? [basic] : [])
    t.same(second, useBasicAuth ? [basic] : [lie.Authorization], 'the word of a client')
  }
})

t.test(
  '4. Forwarding 6, 5.3, 2.: a host other than domain begins no login, and is named',
  async t => {
    const { browser, codes } = await startWhole(t)
    for (const [Host, says] of [
      ['127.0.0.1:8080', /the edge in front of this service does not preserve the Host/],
      ['alias.example.org', 'https://app.example.org/'],
    ] as const) {
      const answer = await browser.navigate('/', { Host })
      t.equal(answer.status, 421, Host)
      t.match(htmlOf(answer), says, Host)
    }
    t.same(browser.lines, [], 'no login is begun')
    t.same([...new Set(codes())], ['wrong_host'])
    t.ok(readAsked(await browser.navigate('/', { Host: 'APP.example.org:443' })))
  },
)

t.test('4. Forwarding 6: an edge that says http is named once a session is lost', async t => {
  const { browser, idp } = await startWhole(t)
  const http = { 'X-Forwarded-Proto': 'http' }
  const asked = readAsked(await browser.navigate('/', http))
  const taken = await browser.deliver(idp, { inResponseTo: asked.id }, http)
  browser.cookies.delete('__authproxy_session')
  const first = await browser.navigate(pathOf(hrefOf(taken)), http)
  const page = await browser.navigate(pathOf(hrefOf(first)), http)
  t.match(htmlOf(page), /has to send X-Forwarded-Proto: https/)
})

t.test('4. Forwarding 6: the backend is told https and the public Host', async t => {
  const { port, backend } = await startWhole(t, { settings: { passthroughPaths: ['/open/'] } })
  const client = await RawClient.connect(t, port)
  for (const proto of [{}, { 'X-Forwarded-Proto': 'http' }, { 'X-Forwarded-Proto': 'https' }]) {
    await client.get('/open/', { Host: sp.domain, ...proto })
    const fields = backend.requests.at(-1)?.fields
    t.same(fields?.all('X-Forwarded-Proto'), ['https'])
    t.equal(fields?.get('Host'), sp.domain)
  }
})

t.test('2. proxy.targetDisableSSLVerify: false verifies, true does not', async t => {
  const { key, cert } = makeAuthority().issue({ names: ['127.0.0.1'] })
  const backend = await ScriptedOrigin.listen(t, { tls: { key, cert } })
  backend.at('*', reply({ content: 'over TLS' }))
  for (const targetDisableSSLVerify of [false, true]) {
    const { browser, idp } = await startWhole(t, {
      proxy: { targetURL: backend.url(''), targetDisableSSLVerify },
    })
    await browser.signIn(idp)
    const answer = await browser.navigate('/')
    t.equal(answer.status, targetDisableSSLVerify ? 200 : 502)
  }
})
