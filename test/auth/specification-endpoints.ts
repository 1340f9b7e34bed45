/**
 * The specification, section 4: the endpoints, and what passes without a login.
 */
import { X509Certificate } from 'node:crypto'
import t from 'tap'
import { configCheck } from '../../lib/auth/config/loading/load-config.ts'
import { logoutRequestXml } from '../../lib/saml/binding/message-xml.ts'
import { redirectAddress } from '../../lib/saml/binding/redirect.ts'
import { startWhole } from '../fixtures/gateway/whole-gateway.ts'
import { RawClient } from '../fixtures/http/raw-client.ts'
import { hrefOf, htmlOf, pathOf, readAsked } from '../fixtures/saml/browser.ts'
import { alice, sp } from '../fixtures/saml/idp.ts'
import { rsaPair } from '../fixtures/saml/keys.ts'

const session = '__authproxy_session'

t.test('4. /saml/metadata.xml: the metadata document, to anybody', async t => {
  const { port, backend } = await startWhole(t)
  const client = await RawClient.connect(t, port)
  const answer = await client.get('/saml/metadata.xml', { Host: sp.domain })
  t.equal(answer.status, 200)
  t.equal(answer.fields.get('Content-Type'), 'application/samlmetadata+xml')
  t.match(answer.text, /<md:EntityDescriptor [^>]*entityID="https:\/\/app.example.org\/saml\/metad/)
  t.same(backend.requests, [], 'answered here')
})

t.test('4. /saml/metadata.xml: proves basic HTTP availability only', async t => {
  const { port } = await startWhole(t, { proxy: { targetURL: 'http://127.0.0.1:9' } })
  const client = await RawClient.connect(t, port)
  for (const Host of [sp.domain, '127.0.0.1', 'other.example.org']) {
    t.equal((await client.get('/saml/metadata.xml', { Host })).status, 200, Host)
  }
})

t.test('4. /saml/metadata: the entity ID, an address that answers', async t => {
  const { browser, config } = await startWhole(t)
  t.equal(config.saml.entityId, 'https://app.example.org/saml/metadata')
  const { address } = readAsked(await browser.navigate('/'))
  t.ok(address, 'logins are asked for in its name')
  t.match(htmlOf(await browser.navigate('/saml/metadata')), `entityID="${config.saml.entityId}"`)
})

t.test('4. /saml/certificate.crt: the certificate for encrypted assertions', async t => {
  const { browser } = await startWhole(t)
  const certificate = new X509Certificate(htmlOf(await browser.navigate('/saml/certificate.crt')))
  t.match(certificate.subject, 'CN=app.example.org')
  const metadata = htmlOf(await browser.navigate('/saml/metadata.xml'))
  t.match(metadata.replace(/\s/g, ''), certificate.raw.toString('base64'))
})

t.test(
  '4. /saml/acs, 5.1: takes the answer of the IdP; the result is the session cookie',
  async t => {
    const { browser, idp } = await startWhole(t)
    const asked = readAsked(await browser.navigate('/'))
    const taken = await browser.deliver(idp, { inResponseTo: asked.id })
    t.equal(taken.status, 303)
    t.match(hrefOf(taken), /^https:\/\/app\.example\.org\/__authproxy-redirect/)
    t.ok(taken.fields.all('Set-Cookie').some(line => /^__authproxy_session=ey[^;]+;/.test(line)))
    const reloaded = await browser.navigate('/saml/acs')
    t.equal(reloaded.status, 405)
  },
)

t.test('4. /saml/slo: always clears the local session cookie', async t => {
  const { browser, idp } = await startWhole(t)
  await browser.signIn(idp)
  await browser.navigate('/saml/slo')
  t.notOk(browser.cookies.has(session))
  browser.cookies.set(session, 'nonsense')
  t.equal((await browser.navigate('/saml/slo')).status, 200)
  t.notOk(browser.cookies.has(session), 'also one that is none')
})

t.test('4. /saml/slo: starts the logout of an IdP that advertises it', async t => {
  const { browser, idp } = await startWhole(t, { profile: 'entra' })
  await browser.signIn(idp)
  const out = await browser.navigate('/saml/slo')
  t.match(hrefOf(out), /^https:\/\/idp\.example\.org\/slo\?SAMLRequest=/)
  t.notOk(browser.cookies.has(session), 'here it is over at once')
})

t.test('4. /saml/slo: processes the logout that the IdP starts', async t => {
  const { browser, newBrowser, idp } = await startWhole(t, { profile: 'entra' })
  await browser.signIn(idp)
  const copy = newBrowser()
  for (const [name, value] of browser.cookies) copy.cookies.set(name, value)
  const xml = logoutRequestXml({
    id: '_logout',
    issuer: idp.entityId,
    issued: Date.now(),
    destination: sp.sloUrl,
    nameId: { nameQualifier: undefined, spNameQualifier: undefined, ...idp.profile.nameId(alice) },
    sessionIndex: '_session1',
  })
  const message = { name: 'SAMLRequest', xml, relayState: 'theirs' } as const
  const answer = await browser.navigate(pathOf(redirectAddress(sp.sloUrl, message, rsaPair('idp'))))
  t.match(hrefOf(answer), /^https:\/\/idp\.example\.org\/slo\?SAMLResponse=/)
  t.match(hrefOf(answer), 'RelayState=theirs')
  t.notOk(browser.cookies.has(session))
  t.ok(readAsked(await copy.navigate('/')), 'the session has ended wherever it is')
})

t.test('4. /saml/slo: without SLO at the IdP its session stays and may log in again', async t => {
  const { browser, idp } = await startWhole(t, { profile: 'okta' })
  await browser.signIn(idp)
  const out = await browser.navigate('/saml/slo')
  t.equal(out.status, 200)
  t.match(htmlOf(out), /identity provider/)
  t.notMatch(hrefOf(out), 'idp.example.org', 'nobody is sent there')
  await browser.signIn(idp)
  t.equal(htmlOf(await browser.navigate('/')), 'the application')
})

t.test('4. /__authproxy-redirect: the way back to the deep link', async t => {
  const { browser, idp, backend } = await startWhole(t)
  const { back } = await browser.signIn(idp, { to: '/deep/link?x=%2F&y' })
  t.equal(back && pathOf(hrefOf(back)), '/deep/link?x=%2F&y')
  t.same(backend.requests, [], 'answered here')
})

// A browser that keeps no cookies at all: auth/login/refusals.ts and auth/login/tabs.ts.
t.test(
  '4. /__authproxy-redirect, 5.3: a session cookie that is missing or refused ends on a page',
  async t => {
    for (const [value, says] of [
      [undefined, /did not send the session cookie back/],
      ['a.b.c', /sent a session cookie, but not one that is valid here/],
    ] as const) {
      const { browser, idp, codes, backend } = await startWhole(t)
      const asked = readAsked(await browser.navigate('/'))
      const taken = await browser.deliver(idp, { inResponseTo: asked.id })
      if (value === undefined) browser.cookies.delete(session)
      else browser.cookies.set(session, value)
      const first = await browser.navigate(pathOf(hrefOf(taken)))
      const page = await browser.navigate(pathOf(hrefOf(first)))
      t.equal(page.status, 403, String(value))
      t.match(htmlOf(page), says)
      t.same(new Set(codes()).size, 1, String(value))
      t.same(backend.requests, [], String(value))
    }
  },
)

t.test('4. Any other path: forwarded when authenticated', async t => {
  const { browser, idp, backend } = await startWhole(t)
  await browser.signIn(idp)
  const paths = ['/', '/saml', '/saml/', '/saml/other', '/__authproxy-redirects', '/a/../b?c']
  for (const path of paths) t.equal(htmlOf(await browser.navigate(path)), 'the application', path)
  t.same(
    backend.requests.map(({ target }) => target),
    paths,
  )
})

t.test('4. Passthrough 1 and 2, 5.2: what passes without a login', async t => {
  const token = '0123456789abcdef0123'
  const ours = (value: string) => ({ 'X-Authproxy-Authorization': value })
  const good = ours(`Bearer ${token}`)
  const rows: ReadonlyArray<readonly [string, string, Readonly<Record<string, string>>, number]> = [
    // A prefix is a prefix of the path, letter by letter.
    ...(
      [
        ['/api', '/api', 200],
        ['/api', '/api-admin', 200],
        ['/api', '/api/x', 200],
        ['/api', '/ap', 401],
        ['/api', '/x/api', 401],
        ['/api/', '/api', 401],
        ['/api/', '/api-admin', 401],
        ['/api/', '/api/x', 200],
        ['/api/', '/API/x', 401],
      ] as const
    ).map(([prefix, path, status]) => [prefix, path, {}, status] as const),
    // A token is good for the whole instance; its scheme knows no case; another field does not carry it.
    ['/api', '/', good, 200],
    ['/api', '/a', good, 200],
    ['/api', '/b/c?d', good, 200],
    ['/api', '/', ours(`bearer ${token}`), 200],
    ['/api', '/', ours(`BEARER ${token}`), 200],
    ['/api', '/', ours(token), 401],
    ['/api', '/', ours(`Basic ${token}`), 401],
    ['/api', '/', ours('Bearer'), 401],
    ['/api', '/', ours(`Bearer ${token.slice(1)}`), 401],
    ['/api', '/', { Authorization: `Bearer ${token}` }, 401],
  ]
  for (const prefix of ['/api', '/api/']) {
    const { port, backend } = await startWhole(t, {
      settings: { passthroughPaths: [prefix], passthroughTokens: [{ name: 'robot', token }] },
    })
    const client = await RawClient.connect(t, port)
    const asked = rows.filter(([of]) => of === prefix)
    for (const [, path, fields, status] of asked) {
      const answer = await client.get(path, { Host: sp.domain, ...fields })
      t.equal(answer.status, status, `${prefix}: ${path} ${Object.values(fields)}`)
    }
    t.equal(backend.requests.length, asked.filter(([, , , status]) => status === 200).length)
    t.notMatch(backend.requests.map(({ head }) => head).join(), token, 'and stays here')
  }
})

t.test('4. Passthrough 1: the prefix / must never be configured', t => {
  const checked = configCheck('app')({
    domain: sp.domain,
    idpMetadataFile: '/idp.xml',
    passthroughPaths: ['/'],
    proxy: { listenAddress: '127.0.0.1:1', targetURL: 'http://127.0.0.1:9' },
  })
  t.match(checked, { ok: false, problems: [{ text: /let every request pass/ }] })
  t.end()
})
