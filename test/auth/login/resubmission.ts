/**
 * A form that hits a session that has ended, from the post to the backend: the whole gateway.
 */
import { randomBytes } from 'node:crypto'
import t, { type Test } from 'tap'
import type { WholeBrowser } from '../../fixtures/gateway/whole-browser.ts'
import { startWhole, type WholeOptions } from '../../fixtures/gateway/whole-gateway.ts'
import { formOf, hrefOf, htmlOf, inputsOf, pathOf, readAsked } from '../../fixtures/saml/browser.ts'
import { alice, sp } from '../../fixtures/saml/idp.ts'
import { ManualClock } from '../../fixtures/time/manual-clock.ts'

t.setTimeout(600_000)

const own = { 'Sec-Fetch-Site': 'same-origin', Origin: sp.baseUrl }
const cross = { 'Sec-Fetch-Site': 'cross-site', Origin: 'https://evil.example' }
const bert = { name: 'bert', email: 'bert@example.org' }

function endSession(browser: WholeBrowser) {
  for (const name of browser.cookies.keys()) {
    if (name.startsWith('__authproxy_session')) browser.cookies.delete(name)
  }
}

/** The cookie of the login under way. */
function loginOf(browser: WholeBrowser): readonly [name: string, value: string] {
  const found = [...browser.cookies].find(([name]) => name.startsWith('__Host-authproxy_login.'))
  return found ?? ['', '']
}

/** Somebody has been signed in, and the session has run out as browsers see it: its cookie is gone. */
async function expired(t: Test, more: WholeOptions = {}) {
  const clock = new ManualClock(Date.UTC(2030, 0, 1))
  const whole = await startWhole(t, { profile: 'entra', clock, ...more })
  const { browser, idp } = whole
  await browser.signIn(idp)
  endSession(browser)
  const type = { 'Content-Type': 'text/plain' }
  /** Posts a form without a session and signs in as `user`; the page behind the login. */
  const postAndSignIn = async (
    { target = '/save?id=7', content = 'a=1' as string | Buffer, fields = type as object } = {},
    user: Parameters<typeof idp.respond>[0]['user'] = alice,
  ) => {
    clock.advance(61_000) // or it would look like a loop
    const asked = readAsked(await browser.post(target, content, { ...own, ...fields }))
    const taken = await browser.deliver(idp, { inResponseTo: asked.id, user })
    return browser.navigate(pathOf(hrefOf(taken)))
  }
  const sendAgain = (
    page: Awaited<ReturnType<typeof postAndSignIn>>,
    fields = own,
    to?: string,
  ) => {
    const action = /action="([^"]*)"/.exec(htmlOf(page))?.[1] ?? ''
    const target = to ?? pathOf(action.replaceAll('&#61;', '=').replaceAll('&amp;', '&'))
    return browser.post(target, formOf(inputsOf(htmlOf(page))), fields)
  }
  /** Each once: the access log has them too. */
  const codes = () => [...new Set(whole.codes())]
  return { ...whole, clock, postAndSignIn, sendAgain, codes }
}

const boundary = '----WebKitFormBoundaryx'
const multipart = Buffer.concat([
  Buffer.from(
    `--${boundary}\r\nContent-Disposition: form-data; name="text"\r\n\r\nGr\u00fc\u00dfe\r\n`,
  ),
  Buffer.from(
    `--${boundary}\r\nContent-Disposition: form-data; name="file"; filename="a.bin"\r\nContent-Type: application/octet-stream\r\n\r\n`,
  ),
  randomBytes(300_000),
  Buffer.from(`\r\n--${boundary}--\r\n`),
])

t.test('every kind of form arrives byte for byte, files and all', async t => {
  const { postAndSignIn, sendAgain, backend, browser } = await expired(t)
  for (const [contentType, content] of [
    ['application/x-www-form-urlencoded', Buffer.from('text=a%26b&x=%FF+')],
    ['application/x-www-form-urlencoded; charset=windows-1252', Buffer.from('text=%E4')],
    ['text/plain', Buffer.from('free text, no=form\r\nat all\u00e9')],
    [`multipart/form-data; boundary=${boundary}`, multipart],
  ] as const) {
    const page = await postAndSignIn({ content, fields: { 'Content-Type': contentType } })
    t.match(page.fields.get('Content-Security-Policy'), /form-action 'self' https:/)
    const answer = await sendAgain(page)
    t.equal(htmlOf(answer), 'the application', contentType)
    const request = backend.requests.at(-1)
    t.equal(request?.method, 'POST')
    t.equal(request?.target, '/save?id=7')
    t.equal(request?.fields.get('Content-Type'), contentType)
    t.equal(request?.fields.get('Origin'), sp.baseUrl)
    t.equal(request?.fields.get('X-Authproxy-User'), 'alice@example.org')
    t.ok(request?.content.equals(content), `${content.length} bytes`)
    endSession(browser)
  }
  t.equal(backend.requests.length, 4)
})

t.test('a form whose sender the rules refuse after the login is not sent', async t => {
  const access = [
    { path: '/save', methods: ['POST'], allow: [{ users: ['bert@example.org'] }] },
    { path: '/', allow: 'signed-in' },
  ]
  const { postAndSignIn, sendAgain, backend, browser } = await expired(t, { settings: { access } })
  const answer = await sendAgain(await postAndSignIn())
  t.equal(answer.status, 403)
  t.match(htmlOf(answer), /signed in as alice/)
  t.notOk(backend.requests.some(({ method }) => method === 'POST'))
  endSession(browser)
  // The query that names a method is judged with the path of the form.
  const other = await sendAgain(await postAndSignIn({ target: '/?_method=PUT' }))
  t.equal(other.status, 200, 'where no rule is for the method')
})

t.test('it is sent once', async t => {
  const { postAndSignIn, sendAgain, backend, browser, codes } = await expired(t)
  const page = await postAndSignIn()
  const [name, value] = loginOf(browser)
  t.equal((await sendAgain(page)).status, 200)
  const again = await sendAgain(page)
  t.equal(again.status, 409)
  t.match(htmlOf(again), /sent already/)
  browser.cookies.set(name, value)
  t.equal((await sendAgain(page)).status, 409, 'whatever the browser says')
  browser.cookies.set(name, value)
  const id = inputsOf(htmlOf(page))['__authproxy_form']
  const back = await browser.navigate(`/__authproxy-redirect?flow=${id}`)
  t.equal(back.status, 409)
  t.match(htmlOf(back), 'href="/save?id')
  t.equal(backend.requests.length, 1)
  t.same(codes(), ['resubmission_gone'])
})

t.test('it goes to the address it was for and to no other, once even when several ask', async t => {
  const { postAndSignIn, sendAgain, backend, browser } = await expired(t)
  t.equal((await sendAgain(await postAndSignIn(), own, '/delete')).status, 409)
  t.equal(backend.requests.length, 0)
  endSession(browser)
  const page = await postAndSignIn()
  const answers = await Promise.all([sendAgain(page), sendAgain(page), sendAgain(page)])
  t.same(answers.map(({ status }) => status).sort(), [200, 409, 409])
  t.equal(backend.requests.length, 1)
})

t.test('a first visit: the user who signs in by that login sends it', async t => {
  const { newBrowser, sendAgain, backend, idp, clock } = await expired(t)
  const browser = newBrowser()
  const type = { 'Content-Type': 'text/plain' }
  const asked = readAsked(await browser.post('/save?id=7', 'a=1', { ...own, ...type }))
  const taken = await browser.deliver(idp, { inResponseTo: asked.id, user: bert })
  const page = await browser.navigate(pathOf(hrefOf(taken)))
  const [name, value] = loginOf(browser)
  // Another user who signs in now, in this very browser, does not send it.
  endSession(browser)
  clock.advance(61_000)
  await browser.signIn(idp, { user: alice })
  browser.cookies.set(name, value)
  const content = formOf(inputsOf(htmlOf(page)))
  t.equal((await browser.post('/save?id=7', content, own)).status, 403)
  t.equal(backend.requests.length, 0)

  const other = newBrowser()
  const again = readAsked(await other.post('/save?id=7', 'a=1', { ...own, ...type }))
  const signedIn = await other.deliver(idp, { inResponseTo: again.id, user: bert })
  const last = await other.navigate(pathOf(hrefOf(signedIn)))
  t.equal((await other.post('/save?id=7', formOf(inputsOf(htmlOf(last))), own)).status, 200)
  t.equal(backend.requests.at(-1)?.content.toString(), 'a=1')
  t.equal(backend.requests.at(-1)?.fields.get('X-Authproxy-User'), 'bert@example.org')
  t.equal((await sendAgain(last)).status, 401, 'of another browser')
})

t.test('somebody else who logs in never sends it', async t => {
  const { postAndSignIn, sendAgain, backend, browser, codes } = await expired(t)
  const page = await postAndSignIn({}, bert)
  t.equal(page.status, 403)
  t.match(htmlOf(page), /signed in as another user/)
  t.notMatch(htmlOf(page), '<form')
  t.same(codes(), ['resubmission_other_user'])
  t.equal(backend.requests.length, 0)
  endSession(browser)
  t.notMatch(htmlOf(await postAndSignIn()), '<form', 'what bert fills in is no form of alice')
  endSession(browser)
  t.equal((await sendAgain(await postAndSignIn())).status, 200, 'but she has her own')
})

t.test('nor does somebody who logs in between the page and its post', async t => {
  const { postAndSignIn, sendAgain, backend, browser, idp, codes } = await expired(t)
  const page = await postAndSignIn()
  const [name, value] = loginOf(browser)
  endSession(browser)
  await browser.signIn(idp, { user: bert })
  browser.cookies.set(name, value)
  t.equal((await sendAgain(page)).status, 403)
  t.equal(backend.requests.length, 0)
  t.same(codes(), ['resubmission_other_user'])
})

t.test('a page of another site cannot have it sent, and a stranger’s browser neither', async t => {
  const { postAndSignIn, sendAgain, backend, newBrowser, idp, codes } = await expired(t)
  const page = await postAndSignIn()
  t.equal((await sendAgain(page, cross)).status, 403)
  const other = newBrowser()
  await other.signIn(idp)
  const stolen = await other.post('/save?id=7', formOf(inputsOf(htmlOf(page))), own)
  t.equal(stolen.status, 409)
  t.same(codes(), ['resubmission_foreign', 'resubmission_gone'])
  t.equal(backend.requests.length, 0)
  t.equal((await sendAgain(page)).status, 200, 'its own page still can')
})

t.test('what cannot be kept is refused before the login, and says so', async t => {
  const { browser, backend, codes } = await expired(t, {
    settings: { saml: { replaySize: '100K' } },
  })
  const form = { 'Content-Type': `multipart/form-data; boundary=${boundary}` }
  const large = await browser.post('/save', multipart, { ...own, ...form })
  t.equal(large.status, 401)
  t.match(htmlOf(large), /was not kept[\s\S]*too large[\s\S]*102400 bytes/)
  t.match(
    htmlOf(await browser.post('/save', multipart, { ...cross, ...form })),
    /Another site sends you here[\s\S]*too large/,
  )
  const hidden = { ...own, Origin: 'null' }
  t.notMatch(
    htmlOf(await browser.post('/save', multipart, { ...hidden, ...form })),
    'Another site',
    'nor is an own page that hides its origin another site',
  )
  const json = { ...own, 'Sec-Fetch-Mode': 'cors', 'Content-Type': 'application/json' }
  const script = await browser.post('/api', '{}', json)
  t.equal(script.status, 401)
  t.match(JSON.parse(htmlOf(script)), { error: 'login_required', kept: false })
  t.equal(backend.requests.length, 0)
  t.same(codes(), ['request_not_kept'])
})

t.test('other posts of the same length pass as they are', async t => {
  const { browser, idp, backend } = await expired(t)
  await browser.signIn(idp)
  for (const content of ['x'.repeat(44), `__authproxy_form=${'!'.repeat(27)}`]) {
    t.equal((await browser.post('/save', content, own)).status, 200)
    t.equal(backend.requests.at(-1)?.content.toString(), content)
  }
})
