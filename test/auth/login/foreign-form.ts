/**
 * A form that a page of another site has posted, from the post to the backend: the whole gateway. Browsers do not send the session
 * along with it (SameSite=Lax), so the person is asked.
 */
import t, { type Test } from 'tap'
import type { WholeBrowser } from '../../fixtures/gateway/whole-browser.ts'
import { startWhole, type WholeOptions } from '../../fixtures/gateway/whole-gateway.ts'
import { formOf, hrefOf, htmlOf, inputsOf, pathOf, readAsked } from '../../fixtures/saml/browser.ts'
import { sp } from '../../fixtures/saml/idp.ts'

t.setTimeout(600_000)

const shop = 'https://pay.example.net'
const cross = { 'Sec-Fetch-Site': 'cross-site', Origin: shop, Referer: `${shop}/done` }
const own = { 'Sec-Fetch-Site': 'same-origin', Origin: sp.baseUrl }

/** Posts a form as a browser does for a page of another site: without the cookies that are SameSite=Lax. */
async function postFrom(browser: WholeBrowser, target: string, content: string, fields: object) {
  const held = [...browser.cookies].filter(([name]) => /_session|_last/.test(name))
  for (const [name] of held) browser.cookies.delete(name)
  const page = await browser.post(target, content, { ...fields })
  for (const [name, value] of held) browser.cookies.set(name, value)
  return page
}

/** Where the button of the page that asks leads, once its box has been ticked. */
function buttonOf(html: string): string {
  const action = /<form action="([^"]*)"/.exec(html)?.[1] ?? ''
  return `${pathOf(action)}?${new URLSearchParams(inputsOf(html))}`
}

async function sendIt(browser: WholeBrowser, html: string) {
  const page = htmlOf(await browser.navigate(buttonOf(html)))
  const action = /action="([^"]*)"/.exec(page)?.[1] ?? ''
  return browser.post(pathOf(action), formOf(inputsOf(page)), own)
}

async function whole(t: Test, more: WholeOptions = {}) {
  return startWhole(t, { profile: 'keycloak', ...more })
}

t.test('a user who is signed in is asked, and the form goes on as it came', async t => {
  const { browser, idp, backend, log } = await whole(t)
  await browser.signIn(idp)
  backend.requests.length = 0
  const asked = await postFrom(browser, '/paid?id=7', 'state=ok', cross)
  t.equal(asked.status, 401, 'no service worker keeps it')
  t.match(htmlOf(asked), `${shop} sends you here with a form`)
  t.equal(backend.requests.length, 0, 'nothing has been sent yet')
  t.match(
    htmlOf(asked),
    /<input type="checkbox" required>/,
    'one click that was meant for another page sends nothing',
  )
  t.notMatch(htmlOf(asked), /<a class="button"|autofocus/)
  const answer = await sendIt(browser, htmlOf(asked))
  t.equal(answer.status, 200)
  const [request] = backend.requests
  t.equal(request?.target, '/paid?id=7')
  t.equal(request?.content.toString(), 'state=ok')
  t.equal(request?.fields.get('X-Authproxy-User'), 'alice@example.org')
  t.equal(request?.fields.get('Origin'), shop, 'the application still sees whose form it is')
  t.equal(request?.fields.get('Sec-Fetch-Site'), 'cross-site')
  t.notOk(request?.fields.has('Referer'))
  const line = log.lines.find(({ message }) => message.startsWith('asked about'))
  t.equal(line?.facts['origin'], shop)
})

t.test('one who is not signed in signs in first, and then the form goes on', async t => {
  const { browser, idp, backend } = await whole(t)
  const asked = await postFrom(browser, '/paid', 'state=ok', { ...cross, Origin: 'null' })
  t.match(htmlOf(asked), 'Another site sends you here with a form')
  const first = await browser.navigate(buttonOf(htmlOf(asked)))
  const login = readAsked(await browser.navigate(pathOf(hrefOf(first))))
  const taken = await browser.deliver(idp, { inResponseTo: login.id })
  const page = htmlOf(await browser.navigate(pathOf(hrefOf(taken))))
  t.match(page, `action="${sp.baseUrl}/paid"`)
  t.equal((await browser.post('/paid', formOf(inputsOf(page)), own)).status, 200)
  t.equal(backend.requests.at(-1)?.content.toString(), 'state=ok')
  t.equal(backend.requests.at(-1)?.fields.get('Origin'), 'null')
})

t.test(
  'where a rule asks for another login, that comes first, and then the form goes on',
  async t => {
    const context = 'https://refeds.org/profile/mfa'
    const rule = { path: '/paid', allow: 'signed-in', login: { context } }
    const settings = { access: [rule, { path: '/', allow: 'signed-in' }] }
    for (const signedIn of [true, false]) {
      const { browser, idp, backend } = await whole(t, { settings })
      if (signedIn) await browser.signIn(idp)
      const asked = await postFrom(browser, '/paid', 'state=ok', cross)
      const button = buttonOf(htmlOf(asked))
      const first = await browser.navigate(button)
      const login = readAsked(signedIn ? first : await browser.navigate(pathOf(hrefOf(first))))
      t.same(login.contexts, [context])
      const taken = await browser.deliver(idp, { inResponseTo: login.id, assertion: { context } })
      const page = htmlOf(await browser.navigate(pathOf(hrefOf(taken))))
      t.equal((await browser.post('/paid', formOf(inputsOf(page)), own)).status, 200)
      t.equal(backend.requests.at(-1)?.content.toString(), 'state=ok')
      const again = await postFrom(browser, '/paid', 'state=again', cross)
      t.equal((await sendIt(browser, htmlOf(again))).status, 200, 'the login suffices now')
    }
  },
)

t.test('92: no page of another origin has its form sent unasked, whatever it hides', async t => {
  const { browser, idp, backend } = await whole(t)
  await browser.signIn(idp)
  const ways: ReadonlyArray<Record<string, string>> = [
    { 'Sec-Fetch-Site': 'cross-site', Origin: 'null' },
    { 'Sec-Fetch-Site': 'cross-site', Origin: sp.baseUrl },
    { 'Sec-Fetch-Site': 'same-site', Origin: 'null' },
    { 'Sec-Fetch-Site': 'same-site', Origin: 'https://wiki.example.org' },
    { 'Sec-Fetch-Site': 'none', Origin: 'null' },
    { Origin: 'null' },
    { Origin: shop },
    {},
  ]
  for (const fields of ways) {
    backend.requests.length = 0
    const asked = await postFrom(browser, '/paid', 'state=ok', fields)
    t.equal(asked.status, 401, JSON.stringify(fields))
    t.match(htmlOf(asked), 'Send this form?')
    t.equal(backend.requests.length, 0)
    t.equal((await sendIt(browser, htmlOf(asked))).status, 200)
    const [request] = backend.requests
    const { Origin = 'null', 'Sec-Fetch-Site': site } = fields
    t.equal(request?.fields.get('Origin'), Origin, 'what the browser said goes on')
    t.equal(request?.fields.get('Sec-Fetch-Site'), site)
  }
})

t.test('no other browser sends it, and no page of another site', async t => {
  const { browser, idp, backend, newBrowser, codes } = await whole(t)
  await browser.signIn(idp)
  const asked = htmlOf(await postFrom(browser, '/paid', 'state=ok', cross))
  const page = htmlOf(await browser.navigate(buttonOf(asked)))
  const other = newBrowser()
  await other.signIn(idp)
  backend.requests.length = 0
  t.equal((await other.post('/paid', formOf(inputsOf(page)), own)).status, 409)
  t.equal((await browser.post('/paid', formOf(inputsOf(page)), cross)).status, 403)
  t.equal(backend.requests.length, 0)
  t.same([...new Set(codes())], ['resubmission_gone', 'resubmission_foreign'])
  t.notOk(
    (await postFrom(browser, '/paid', 'a=1', { ...cross, 'Sec-Fetch-Dest': 'iframe' })).fields
      .all('Set-Cookie')
      .some(line => line.includes('_login.')),
    'a frame keeps nothing',
  )
})

t.test('what cannot be kept says why, and nothing untrue of the session', async t => {
  const { browser, idp } = await whole(t, { settings: { saml: { replaySize: '1K' } } })
  await browser.signIn(idp)
  const page = htmlOf(await postFrom(browser, '/paid', 'x'.repeat(2000), cross))
  t.match(page, /Another site sends you here with a form[\s\S]*it is too large/)
  t.notMatch(page, /no valid session/)
})
