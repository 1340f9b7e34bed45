/**
 * Two instances on one host name with different ports, in Chromium. Cookies do not know ports, so a login at one ends the session at the
 * other: each has to find back by itself, without a loop and without the identity of the other's session.
 */
import { inflateRawSync } from 'node:zlib'
import type { Page } from 'playwright-core'
import t from 'tap'
import { readAuthnRequest } from '../../demo/idp/messages.ts'
import { makeAuthority } from '../fixtures/certificates/certificate.ts'
import { startWhole } from '../fixtures/gateway/whole-gateway.ts'
import { reply } from '../fixtures/http/scripts.ts'
import { sp } from '../fixtures/saml/idp.ts'
import { launchBrowser, noBrowser } from '../fixtures/sso/browser.ts'
import { startCookieEater } from '../fixtures/sso/cookie-eater.ts'
import { picture } from '../fixtures/sso/look.ts'

t.setTimeout(300_000)

const SECOND = `${sp.domain}:8443`

t.test('two instances on one name, with ports of their own', { skip: noBrowser }, async t => {
  const authority = makeAuthority()
  /** A gateway of an application, with its edge. */
  const start = async (domain: string, application: string) => {
    const whole = await startWhole(t, { settings: { domain } })
    const content = `<!doctype html><html lang="en"><title>x</title><main>${application}</main>`
    const fields = { 'Content-Type': 'text/html' }
    whole.backend.at('*', reply({ content, fields }))
    const manners = { authority, host: sp.domain, to: whole.port, eats: () => false }
    const edge = await startCookieEater(manners)
    t.teardown(() => edge.close())
    const logins = () => whole.log.lines.filter(({ message }) => message === 'signed in').length
    return { whole, edge, base: `https://${domain}`, logins }
  }
  const wiki = await start(sp.domain, 'the wiki')
  const shop = await start(SECOND, 'the shop')
  // The rule with the port has to come first.
  const browser = await launchBrowser({ [SECOND]: shop.edge.port, [sp.domain]: wiki.edge.port })
  t.teardown(() => browser.close())
  const context = await browser.newContext()
  // The identity provider signs alice in, at whichever instance asked.
  await context.route(`${wiki.whole.idp.baseUrl}/**`, route => {
    const { searchParams } = new URL(route.request().url())
    const message = Buffer.from(searchParams.get('SAMLRequest') ?? '', 'base64')
    const { id, acs, issuer } = readAuthnRequest(inflateRawSync(message))
    const xml = wiki.whole.idp.respond({
      inResponseTo: id,
      response: { destination: acs },
      assertion: { recipient: acs, audience: issuer },
    })
    return route.fulfill({
      contentType: 'text/html',
      body: `<form method="post" action="${acs}">
        <input name="SAMLResponse" value="${Buffer.from(xml).toString('base64')}">
        <input name="RelayState" value="${searchParams.get('RelayState')}"></form>
        <script>document.forms[0].submit()</script>`,
    })
  })
  const shows = (page: Page, text: string) => page.locator('main', { hasText: text }).waitFor()

  await t.test('a person goes from one to the other and back', async t => {
    const page = await context.newPage()
    for (let turn = 0; turn < 4; turn += 1) {
      await page.goto(`${wiki.base}/page-${turn}?a=1`)
      await shows(page, 'the wiki')
      t.equal(page.url(), `${wiki.base}/page-${turn}?a=1`, 'at the page that was asked for')
      await page.goto(`${shop.base}/page-${turn}`)
      await shows(page, 'the shop')
      t.equal(page.url(), `${shop.base}/page-${turn}`)
    }
    t.strictSame([wiki.logins(), shop.logins()], [4, 4], 'one login for each change')
    for (const { whole } of [wiki, shop]) {
      t.strictSame(whole.codes(), [], 'no failure, and no loop')
      for (const { fields } of whole.backend.requests) {
        t.equal(fields.get('X-Authproxy-User'), 'alice@example.org')
      }
    }
    await page.close()
  })

  await t.test('two tabs, one at each, reload again and again', async t => {
    const [left, right] = [await context.newPage(), await context.newPage()]
    for (let turn = 0; turn < 4; turn += 1) {
      await Promise.all([left.goto(`${wiki.base}/left`), right.goto(`${shop.base}/right`)])
      // Each at the same moment: whichever comes later ends the session of the other, which its next page shows.
      await Promise.all([shows(left, 'the wiki'), shows(right, 'the shop')])
    }
    for (const { whole } of [wiki, shop]) t.strictSame(whole.codes(), [], 'no loop')
    await Promise.all([left.close(), right.close()])
  })

  await t.test('a session of the one is none at the other', async t => {
    const page = await context.newPage()
    await page.goto(`${wiki.base}/`)
    await shows(page, 'the wiki')
    const before = shop.whole.backend.requests.length
    const status = await page.evaluate(
      `fetch('${shop.base}/api', { mode: 'no-cors', credentials: 'include' }).then(r => r.type)`,
    )
    t.equal(status, 'opaque')
    t.equal(shop.whole.backend.requests.length, before, 'nothing reached the other application')
    await picture(page, 'two-ports')
    await page.close()
  })
})
