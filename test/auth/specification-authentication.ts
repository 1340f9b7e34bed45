/**
 * The specification, sections 5 and 6: what a login needs, and what is written down of those that fail.
 */
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { packageRoot } from '../../lib/package.ts'
import { startWhole } from '../fixtures/gateway/whole-gateway.ts'
import { hrefOf, htmlOf, pathOf, readAsked } from '../fixtures/saml/browser.ts'
import { sp } from '../fixtures/saml/idp.ts'
import { ManualClock } from '../fixtures/time/manual-clock.ts'

const session = '__authproxy_session'
const start = Date.parse('2026-11-20T12:00:00Z')

t.test('5.3 Login requires HTTPS: cookies are for https alone', async t => {
  const { browser, idp } = await startWhole(t)
  await browser.signIn(idp)
  t.ok(browser.lines.length > 1)
  for (const line of browser.lines) t.match(line, /; Secure/i)
  for (const line of browser.lines) t.match(line, /; HttpOnly/i)
})

t.test('5.3 Login requires synchronized clocks: server and IdP; a difference is named', async t => {
  const { browser, idp, codes } = await startWhole(t)
  for (const apart of [-3_600_000, 3_600_000]) {
    const asked = readAsked(await browser.navigate('/'))
    const now = Date.now() + apart
    const times = { issued: now, notBefore: now, notOnOrAfter: now + 300_000, authenticated: now }
    const taken = await browser.deliver(idp, { inResponseTo: asked.id, assertion: times })
    t.equal(taken.status, 403)
    t.match(htmlOf(taken), /clock/i, 'and the page speaks of clocks')
  }
  t.strictSame([...new Set(codes())], ['too_old', 'issue_instant'])
})

t.test('5.3 Login requires synchronized clocks: the edge; its clock is never read', async t => {
  const { browser, idp, backend } = await startWhole(t)
  const edge = { Date: 'Thu, 01 Jan 1970 00:00:00 GMT', 'X-Request-Start': 't=0' }
  const asked = readAsked(await browser.navigate('/', edge))
  const taken = await browser.deliver(idp, { inResponseTo: asked.id }, edge)
  await browser.navigate(pathOf(hrefOf(taken)), edge)
  t.equal((await browser.navigate('/in', edge)).status, 200)
  t.equal(backend.requests.at(-1)?.fields.get('X-Authproxy-User'), 'alice@example.org')
})

t.test('5.3 Login requires synchronized clocks: the client; its clock decides nothing', async t => {
  // What a browser is told of time is how long, never when; test/sso/login.ts has one that is an hour off.
  const { browser, idp } = await startWhole(t)
  await browser.signIn(idp)
  await browser.navigate('/saml/slo')
  t.ok(browser.lines.length > 3)
  for (const line of browser.lines) {
    t.match(line, /; Max-Age=\d+(?:;|$)/, 'a duration (RFC 6265 section 5.2.2)')
    t.notMatch(line, /; Expires=/i)
  }
})

t.test('5.3 Login requires the return to the same hostname and HTTPS port', async t => {
  const { browser, idp } = await startWhole(t, { settings: { domain: 'app.example.org:8443' } })
  const Host = 'app.example.org:8443'
  const asked = readAsked(await browser.navigate('/', { Host }))
  t.equal((await browser.navigate('/', { Host: 'app.example.org' })).status, 421, 'another port')
  const acsUrl = `https://${Host}/saml/acs`
  const answer = {
    inResponseTo: asked.id,
    response: { destination: acsUrl },
    assertion: { recipient: acsUrl, audience: `https://${Host}/saml/metadata` },
  }
  const elsewhere = await browser.deliver(
    idp,
    { ...answer, response: { destination: sp.acsUrl } },
    { Host },
  )
  t.equal(elsewhere.status, 403, 'an answer meant for another port')
  const taken = await browser.deliver(idp, answer, { Host })
  t.match(hrefOf(taken), 'https://app.example.org:8443/__authproxy-redirect')
  browser.cookies.delete(session)
  const path = (href: string) => href.slice(`https://${Host}`.length)
  const first = await browser.navigate(path(hrefOf(taken)), { Host })
  const page = await browser.navigate(path(hrefOf(first)), { Host })
  t.match(htmlOf(page), /did not send the session cookie back/, 'the port is part of the name')
})

t.test('5.4 Assertion validity windows are checked against system time', async t => {
  const clock = new ManualClock(start)
  const { newBrowser, idp } = await startWhole(t, {
    clock,
    settings: { saml: { clockSkew: '1m' } },
  })
  for (const [from, until, status] of [
    [-1000, 60_000, 303],
    [-120_000, -60_001, 403],
    [-120_000, -59_000, 303],
    [61_000, 120_000, 403],
    [59_000, 120_000, 303],
  ] as const) {
    const browser = newBrowser()
    const asked = readAsked(await browser.navigate('/'))
    const assertion = { notBefore: start + from, notOnOrAfter: start + until }
    const taken = await browser.deliver(idp, { inResponseTo: asked.id, assertion })
    t.equal(taken.status, status, `from ${from} to ${until} ms`)
  }
})

t.test(
  '5.5 The backend must be reachable only through the service: whoever sets it up is told',
  async t => {
    for (const [file, says] of [
      ['man/authproxy.yaml.5', /must be reachable only through this service/],
      ['docs/authproxy-configuration.md', /must be reachable only through this service/],
      ['docs/authproxy.md', /must be reachable through authproxy alone/],
      ['packaging/authproxy.yaml', /Keep every other way to it closed/],
      ['README.md', /reachable through authproxy alone/],
    ] as const) {
      t.match((await readFile(join(packageRoot(), file), 'utf8')).replace(/\s+/g, ' '), says, file)
    }
  },
)

t.test('6. Every failure page shows the request ID of its record', async t => {
  const { browser, idp, log } = await startWhole(t, { proxy: { targetURL: 'http://127.0.0.1:9' } })
  const pages = [
    await browser.navigate('/', { Host: 'other.example.org' }),
    await browser.navigate('/saml/acs'),
    await browser.post('/saml/acs', 'RelayState=alone'),
    await browser.navigate('/saml/slo?SAMLRequest=nonsense'),
  ]
  const { taken } = await browser.signIn(idp)
  t.equal(taken.status, 303)
  pages.push(await browser.navigate('/'))
  const failures = log.lines.filter(({ message }) => /^(?:SAML|PROXY)-ERROR /.test(message))
  t.equal(failures.length, pages.length)
  t.same(new Set(failures.map(({ facts }) => facts['category'])).size, 2, 'SAML-ERROR, PROXY-ERROR')
  pages.forEach((page, index) => {
    const { message, facts } = failures[index] ?? {}
    t.match(htmlOf(page), String(facts?.['id']), `${page.status}: ${message}`)
    t.match(htmlOf(page), String(facts?.['category']))
  })
  t.equal(new Set(failures.map(({ facts }) => facts['id'])).size, failures.length)
  t.equal(pathOf(sp.acsUrl), '/saml/acs')
})

// Not to be proven here: that a network lets nobody else reach the backend (5.5). What can be done about it is above.
