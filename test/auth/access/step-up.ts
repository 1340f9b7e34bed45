/**
 * Logins that a rule wants younger, or of another context: the whole gateway, with a scripted identity provider.
 */
import t, { type Test } from 'tap'
import { startWhole, type Whole } from '../../fixtures/gateway/whole-gateway.ts'
import { hrefOf, htmlOf, inputsOf, pathOf, readAsked } from '../../fixtures/saml/browser.ts'
import { alice } from '../../fixtures/saml/idp.ts'
import { ManualClock } from '../../fixtures/time/manual-clock.ts'

const mfa = 'https://refeds.org/profile/mfa'
const minute = 60_000
const start = Date.UTC(2030, 0, 1)

const access = [
  { path: '/young/', allow: 'signed-in', login: { maxAge: '15m' } },
  { path: '/strong/', allow: [{ groups: 'staff' }], login: { context: 'mfa' } },
  { path: '/both/', allow: 'signed-in', login: { maxAge: '15m', context: mfa } },
  { path: '/', allow: 'signed-in' },
]

async function signedIn(t: Test) {
  const clock = new ManualClock(start)
  const whole = await startWhole(t, { clock, settings: { access } })
  await whole.browser.signIn(whole.idp)
  return { ...whole, clock }
}

/** Answers a login as the IdP does, and follows the browser back to the page. */
async function answered(
  { browser, idp }: Pick<Whole, 'browser' | 'idp'>,
  inResponseTo: string,
  assertion: { readonly authenticated?: number; readonly context?: string } = {},
) {
  const taken = await browser.deliver(idp, { inResponseTo, assertion })
  if (taken.status !== 303) return { taken, page: undefined }
  return { taken, page: await browser.navigate(pathOf(hrefOf(taken))) }
}

t.test('77: an old login is asked for anew, and the page opens after it', async t => {
  const whole = await signedIn(t)
  const { browser, backend, clock } = whole
  t.equal((await browser.navigate('/young/x')).status, 200, 'young enough')
  clock.advance(15 * minute)
  t.equal((await browser.navigate('/')).status, 200, 'other pages go on')
  const asked = readAsked(await browser.navigate('/young/x?q=1'))
  t.equal(asked.forceAuthn, true)
  t.same(asked.contexts, [])
  const { page } = await answered(whole, asked.id)
  t.match(htmlOf(page ?? asked.response), 'https://app.example.org/young/x?q=1')
  t.equal((await browser.navigate('/young/x?q=1')).status, 200)
  t.equal(backend.requests.at(-1)?.target, '/young/x?q=1')
})

t.test(
  '77: an identity provider that answers with an older login gets a page, not a loop',
  async t => {
    const whole = await signedIn(t)
    const { browser, clock } = whole
    clock.advance(15 * minute)
    const asked = readAsked(await browser.navigate('/young/x'))
    const { taken } = await answered(whole, asked.id, { authenticated: start })
    t.equal(taken.status, 403)
    t.match(htmlOf(taken), 'answered with an earlier login')
    t.same(whole.codes().slice(-1), ['authn_stale'])
    t.equal((await browser.navigate('/')).status, 200, 'the session of before goes on')
    const again = await browser.navigate(pathOf(linkOf(htmlOf(taken))))
    t.equal(readAsked(again).forceAuthn, true, 'the link begins anew')
  },
)

t.test(
  '77: a login of the future is not young, and the answer to ForceAuthn no new one',
  async t => {
    const clock = new ManualClock(start)
    const whole = await startWhole(t, { clock, settings: { access } })
    const { browser, idp, backend, log, codes } = whole
    // Local time of Copenhagen written as UTC: the login is an hour old.
    const asked = readAsked(await browser.navigate('/'))
    const ahead = { authenticated: start + 60 * minute }
    await answered(whole, asked.id, ahead)
    t.equal((await browser.navigate('/')).status, 200, 'other pages open')
    t.match(
      log.lines.filter(({ message }) => message === 'signed in').map(({ facts }) => facts),
      [{ authnInstant: undefined, futureAuthnInstant: '2030-01-01T01:00:00.000Z' }],
    )
    const younger = readAsked(await browser.navigate('/young/x'))
    t.equal(younger.forceAuthn, true)
    const taken = await browser.deliver(idp, { inResponseTo: younger.id, assertion: ahead })
    t.equal(taken.status, 403)
    t.match(htmlOf(taken), 'its clock or its time zone is wrong')
    t.same(codes().slice(-1), ['authn_future'])
    t.notOk(backend.requests.some(({ target }) => target.startsWith('/young/')))
  },
)

t.test('77: another context is asked for, and a lesser one gets a page', async t => {
  const whole = await signedIn(t)
  const { browser, codes } = whole
  const asked = readAsked(await browser.navigate('/strong/x'))
  t.equal(asked.forceAuthn, false)
  t.same(asked.contexts, [mfa, 'http://schemas.microsoft.com/claims/multipleauthn'])
  const lesser = await answered(whole, asked.id, { context: 'urn:password' })
  t.equal(lesser.taken.status, 403)
  t.match(htmlOf(lesser.taken), 'another way of signing in')
  t.same(codes().slice(-1), ['authn_context'])
  const second = readAsked(await browser.navigate('/strong/x'))
  await answered(whole, second.id, { context: mfa })
  t.equal((await browser.navigate('/strong/x')).status, 200)
  t.equal((await browser.navigate('/both/x')).status, 200)
})

t.test('a person without a session is asked for the right login at once', async t => {
  const whole = await startWhole(t, { settings: { access } })
  const asked = readAsked(await whole.browser.navigate('/strong/x'))
  t.equal(asked.contexts[0], mfa)
  await answered(whole, asked.id, { context: mfa })
  t.equal((await whole.browser.navigate('/strong/x')).status, 200)
})

t.test('a form that needs a younger login is kept, and sent after it', async t => {
  const whole = await signedIn(t)
  const { browser, backend, clock } = whole
  clock.advance(15 * minute)
  const own = { Origin: 'https://app.example.org', 'Sec-Fetch-Site': 'same-origin' }
  const asked = readAsked(await browser.post('/young/save', 'name=Ada&x=1', own))
  t.equal(asked.forceAuthn, true)
  const { page } = await answered(whole, asked.id)
  const html = htmlOf(page ?? asked.response)
  t.match(html, 'action="https://app.example.org/young/save"')
  const content = new URLSearchParams(inputsOf(html)).toString()
  const sent = await browser.post('/young/save', content, own)
  t.equal(sent.status, 200)
  t.equal(backend.requests.at(-1)?.method, 'POST')
  t.equal(backend.requests.at(-1)?.content.toString(), 'name=Ada&x=1')
})

t.test('77: a login that was accepted and is too old at once gets a page, not a loop', async t => {
  const clock = new ManualClock(start)
  const tight = [{ path: '/', allow: 'signed-in', login: { maxAge: '2m' } }]
  const whole = await startWhole(t, { clock, settings: { access: tight } })
  const { browser } = whole
  const asked = readAsked(await browser.navigate('/x'))
  // The person authenticated at once, and then took their time at the identity provider.
  clock.advance(2 * minute)
  await answered(whole, asked.id, { authenticated: start })
  const page = await browser.navigate('/x')
  t.equal(page.status, 403)
  t.match(htmlOf(page), 'not in the way this page asks for')
  t.same(whole.codes().slice(-1), ['login_unmet'])
  t.equal(readAsked(await browser.navigate('/x')).forceAuthn, true, 'once')
})

t.test('a program reads which login it needs, and its address asks for that', async t => {
  const whole = await signedIn(t)
  const { browser } = whole
  const answer = await browser.send('POST', '/strong/api', { Accept: 'application/json' })
  t.equal(answer.status, 401)
  const { error, message, login } = JSON.parse(htmlOf(answer))
  t.equal(error, 'login_required')
  t.match(message, 'too old, or of another kind')
  t.match(login, '&rule=2')
  const asked = readAsked(await browser.navigate(pathOf(login)))
  t.equal(asked.contexts[0], mfa)
})

t.test('77: a link of another site to a page with such a rule leads to one login', async t => {
  for (const status of [401, 302]) {
    const { browser, idp } = await startWhole(t, { settings: { access, login: { status } } })
    await browser.signIn(idp)
    // A browser says this of every request behind the link, redirects included.
    const linked = { 'Sec-Fetch-Site': 'cross-site' }
    const first = await browser.navigate('/strong/x', linked)
    t.equal(first.status, status)
    const login = '/__authproxy-redirect?login=%2Fstrong%2Fx&rule=2'
    if (status === 302) t.equal(pathOf(first.fields.get('Location') ?? ''), login)
    t.equal(readAsked(await browser.navigate(login, linked)).contexts[0], mfa, 'and not back')
    for (const wanted of ['&other', '&reauth', '&reauth&rule=4']) {
      const address = `/__authproxy-redirect?login=%2Fx${wanted}`
      const foreign = await browser.navigate(address, linked)
      t.equal(foreign.status, 303, `${wanted}: no rule wants it`)
      t.equal(pathOf(hrefOf(foreign)), '/x')
    }
  }
})

t.test('a person can sign in as another, who gets a session of their own', async t => {
  const { browser, idp } = await signedIn(t)
  const address = '/__authproxy-redirect?login=%2Fx&other'
  const asked = readAsked(await browser.navigate(address))
  t.equal(asked.forceAuthn, true)
  const bob = { ...alice, name: 'bob', email: 'bob@example.org' }
  const taken = await browser.deliver(idp, { inResponseTo: asked.id, user: bob })
  t.equal(taken.status, 303)
})

t.test('a person whose session is over signs in as another all the same', async t => {
  const { browser } = await startWhole(t)
  const asked = readAsked(await browser.navigate('/__authproxy-redirect?login=%2Fx&other'))
  t.equal(asked.forceAuthn, true)
})

t.test('a frame that needs another login leads to it', async t => {
  const { browser } = await signedIn(t)
  const framed = await browser.navigate('/strong/x', { 'Sec-Fetch-Dest': 'iframe' })
  t.equal(framed.status, 401)
  t.match(htmlOf(framed), '<h1>Sign in again</h1>')
  const asked = readAsked(await browser.navigate(pathOf(linkOf(htmlOf(framed)))))
  t.equal(asked.contexts[0], mfa)
})

t.test('77: a login that is dated a little ahead does not stay young for longer', async t => {
  const clock = new ManualClock(start)
  const whole = await startWhole(t, { clock, settings: { access } })
  const { browser, idp } = whole
  await browser.signIn(idp, { to: '/young/x', assertion: { authenticated: start + minute / 2 } })
  t.equal((await browser.navigate('/young/x')).status, 200)
  clock.advance(15 * minute)
  t.equal(readAsked(await browser.navigate('/young/x')).forceAuthn, true)
})

/** The button of a failure page. */
function linkOf(html: string): string {
  const address = /class="button" href="([^"]*)"/.exec(html)?.[1] ?? ''
  return address.replace(/&#(\d+);/g, (_, code) => String.fromCharCode(Number(code)))
}
