/**
 * A login that is needed within a frame, and pages of the gateway there: neither may be hidden by the fields that keep other sites from
 * framing them.
 */
import t from 'tap'
import { startWhole } from '../../fixtures/gateway/whole-gateway.ts'
import { htmlOf } from '../../fixtures/saml/browser.ts'
import { sp } from '../../fixtures/saml/idp.ts'

t.setTimeout(600_000)

const framed = { 'Sec-Fetch-Dest': 'iframe', Referer: `${sp.baseUrl}/portal?x=1` }

t.test('a frame gets a page that our own pages may show, and begins no login', async t => {
  const { browser, codes } = await startWhole(t)
  for (const target of ['/widget', '/__authproxy-redirect?login=%2Fwidget']) {
    const page = await browser.navigate(target, framed)
    t.equal(page.status, 401)
    t.equal(page.fields.get('X-Frame-Options'), 'SAMEORIGIN')
    t.match(page.fields.get('Content-Security-Policy'), /frame-ancestors 'self'/)
    t.strictSame(page.fields.all('Set-Cookie'), [], 'no login is begun')
    t.match(htmlOf(page), 'target="_top"')
    t.match(htmlOf(page), 'login=%2Fportal%3Fx%3D1', 'the page around it comes back')
  }
  const direct = await browser.navigate('/widget', { 'Sec-Fetch-Dest': 'frame' })
  t.match(htmlOf(direct), 'login=%2Fwidget')
  t.strictSame(codes(), [])
})

t.test('a failure within a frame is shown there, to our own pages alone', async t => {
  const { browser, idp } = await startWhole(t, { proxy: { targetURL: 'http://127.0.0.1:9' } })
  await browser.signIn(idp)
  for (const [place, expected] of [
    ['iframe', 'SAMEORIGIN'],
    ['document', 'DENY'],
  ] as const) {
    const page = await browser.navigate('/widget', { 'Sec-Fetch-Dest': place })
    t.equal(page.status, 502)
    t.equal(page.fields.get('X-Frame-Options'), expected)
  }
})

t.test(
  'a page to sign in at, and one that says goodbye, are kept by no service worker',
  async t => {
    const { browser, idp } = await startWhole(t, { metadata: { logout: undefined } })
    const worker = { 'Sec-Fetch-Dest': 'empty' }
    t.equal((await browser.navigate('/start', worker)).status, 401)
    t.match(htmlOf(await browser.navigate('/start', worker)), 'data-login=')
    await browser.signIn(idp)
    const page = await browser.navigate('/saml/slo', worker)
    t.equal(page.status, 401)
    t.match(htmlOf(page), /You are signed out/)
    t.equal((await browser.navigate('/saml/slo')).status, 200)
  },
)
