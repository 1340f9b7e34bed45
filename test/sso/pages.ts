/**
 * Every page authproxy can show when something fails, and those around a login, in Chromium: light, dark, wide and narrow.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { failureTable } from '../../lib/auth/pages/failures.ts'
import { noBrowser } from '../fixtures/sso/browser.ts'
import { failureShown, look } from '../fixtures/sso/look.ts'
import { PageLab } from '../fixtures/sso/page-lab.ts'
import { recipes } from '../fixtures/sso/page-recipes.ts'

t.setTimeout(600_000)

/** Codes that have no page, with the reason, or share every word of their page with another. */
const elsewhere: Readonly<Record<string, string>> = {
  backend: 'backend_connect_refused',
  websocket_origin: 'answered to a script: test/sso/traffic.ts',
  response_broke_off: 'a line of the log: the page had begun',
  request_unfit: 'the parser refuses such fields before: 400',
  resubmission_other_user: 'resubmission_gone',
  resubmission_foreign: 'resubmission_gone',
  login_refused: 'signature_missing',
  clocks_differ: 'too_old',
  clocks_differ_late: 'too_old',
  logout_refused: 'logout_query',
  logout_idp_metadata: 'logout_form_too_large',
  logout_verifier_busy: 'logout_form_too_large',
  logout_form_busy: 'logout_form_too_large',
  logout_form_type: 'logout_form_too_large',
  logout_form_late: 'logout_form_too_large',
  logout_form_malformed: 'logout_form_too_large',
  lost_wrong_host: 'a page of another host is refused before: wrong_host',
  lost_http_edge: 'login_loop-http_edge',
  lost_cookie_invalid: 'login_loop-cookie_invalid',
  lost_clock: 'login_loop-clock',
  lost_cookie_missing: 'login_loop-cookie_missing',
  store_away: 'needs a shared store: test/auth/shared-state/three-instances.ts',
  whoami_foreign: 'test/sso/scripts.ts',
  edge_peer: 'a line for who configures the edge: test/auth/forward-auth/read-check.ts',
  edge_path: 'a line for who configures the edge: test/auth/forward-auth/read-check.ts',
  identity_field: 'a line for who configures the edge: test/auth/forward-auth/checks.ts',
  foreign_field: 'a line for who configures the edge: test/auth/access/foreign-names.ts',
  used_ids_full: 'signature_missing',
  lost_session_short: 'needs a clock that goes on: test/auth/login/short-sessions.ts',
  authn_future: 'a younger login: test/auth/access/step-up.ts, without a browser',
  base64: 'signature_missing',
  signature_missing: 'signature_missing',
  replay: 'signature_missing',
  in_response_to: 'signature_missing',
  encryption_tries: 'signature_missing',
  verifier_deadline: 'signature_missing',
  verifier_crashed: 'signature_missing',
  form_busy: 'verifier_busy',
  encrypted_id: 'logout_query',
  expired: 'logout_query',
  // The same page, with a hint for the administrator alone: test/auth/session/unread-attributes.ts.
  access_refused_unread: 'access_refused',
  logout_form: 'logout_query',
}

t.test('every code of the sources has its page here', async t => {
  const named = new Set(recipes.flatMap(({ code, variant }) => [code, variant ?? code]))
  for (const code of codesOfSources()) {
    t.ok(named.has(code) || code in elsewhere, code)
  }
})

t.test('failure pages', { skip: noBrowser, timeout: 600_000 }, async t => {
  const lab = await PageLab.open(t)
  for (const { code, variant, status, says, go, ...scene } of recipes) {
    const name = variant === undefined ? code : `${code}-${variant}`
    await t.test(name, async t => {
      const at = await lab.stage(t, scene)
      const statuses: number[] = []
      at.page.on('response', response => {
        if (response.request().isNavigationRequest()) statuses.push(response.status())
      })
      await (go?.(at) ?? at.page.goto(`${at.base}/start`))
      const { text, requestId } = await failureShown(t, at.page, name)
      t.match(text, says)
      t.equal(statuses.at(-1), status)
      const record = at.whole.log.lines.find(
        ({ facts }) => facts['id'] === requestId && facts['category'],
      )
      t.equal(record?.facts['code'], code)
    })
  }
})

t.test('pages around a login', { skip: noBrowser, timeout: 300_000 }, async t => {
  const lab = await PageLab.open(t)

  await t.test('signed out, as far as is known', async t => {
    for (const [name, metadata, begin, says] of [
      ['nobody', {}, false, /There is no session here/],
      ['here-alone', { logout: undefined }, true, /stays active/],
    ] as const) {
      const { page, base } = await lab.stage(t, { gateway: { metadata } })
      await page.goto(`${base}/start`)
      await page.locator('text=the application').waitFor()
      if (!begin) await page.context().clearCookies()
      await page.goto(`${base}/saml/slo`)
      await page.locator('h1', { hasText: 'You are signed out' }).waitFor()
      t.match(await page.textContent('main'), says)
      // It stays: there is nothing on it that could begin a login by itself.
      t.equal(await page.locator('script, meta[http-equiv], form').count(), 0)
      await look(t, page, `signed-out-${name}`)
    }
  })

  await t.test('another site asks to sign out', async t => {
    const at = await lab.stage(t)
    await at.page.goto(`${at.base}/start`)
    await at.page.locator('text=the application').waitFor()
    await at.post(`${at.base}/saml/slo`, '><button>go</button>')
    await at.page.locator('h1', { hasText: 'Sign out?' }).waitFor()
    await look(t, at.page, 'confirm-logout')
  })

  for (const binding of ['redirect', 'post'] as const) {
    await t.test(`a login by ${binding} without scripts`, async t => {
      const gateway = { metadata: { signOnBindings: [binding] } }
      const at = await lab.stage(t, { gateway, javaScriptEnabled: false })
      await at.page.goto(`${at.base}/start?a=b`)
      if (binding === 'post') {
        const button = at.page.locator('text=Continue to sign in')
        await button.waitFor()
        // The same page where axe can run, kept from going on.
        const page = await at.context.browser()?.newPage()
        await page?.setContent((await at.page.content()).replace(/<script.*<\/script>/s, ''))
        if (page !== undefined) await look(t, page, 'signing-in')
        await page?.close()
        await button.click()
      }
      await at.page.click('button')
      await at.page.locator('text=the application').waitFor()
      t.equal(at.page.url(), `${at.base}/start?a=b`)
    })
  }
})

/** Codes of the table, and those the sources write beside it. */
function codesOfSources(): ReadonlySet<string> {
  const room = join(import.meta.dirname, '../../../lib/auth')
  const { login_refused, logout_refused, idp_status, ...others } = failureTable().codes
  const pages = [login_refused, logout_refused, idp_status].map(({ text }) => text)
  // Most refused answers share one page.
  const own = Object.entries(others).filter(([, { text }]) => !pages.includes(text))
  const codes = new Set([
    'login_refused',
    'logout_refused',
    'idp_status',
    ...own.map(([code]) => code),
  ])
  for (const file of readdirSync(room, { recursive: true, encoding: 'utf8' })) {
    if (!file.endsWith('.ts') || /^(?:dev-idp|demo)\//.test(file)) continue
    const text = readFileSync(join(room, file), 'utf8')
    for (const [, code = ''] of text.matchAll(/\bcode: '([a-z_-]+)'/g)) codes.add(code)
  }
  return codes
}
