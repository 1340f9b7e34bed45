/**
 * Pages of an application that sign their users in by /__authproxy/login.js, and the page that says who is signed in, in Chromium.
 */
import type { Page } from 'playwright-core'
import t, { type Test } from 'tap'
import { reply } from '../fixtures/http/scripts.ts'
import { eventually } from '../fixtures/process/ports.ts'
import { type Answer, alice } from '../fixtures/saml/idp.ts'
import { noBrowser } from '../fixtures/sso/browser.ts'
import { look } from '../fixtures/sso/look.ts'
import { type At, PageLab } from '../fixtures/sso/page-lab.ts'
import { signIn } from '../fixtures/sso/page-steps.ts'

t.setTimeout(600_000)

const html = { 'Content-Type': 'text/html' }

/** A page with a policy as strict as any, and a module that calls the application by the script. */
const application = `<!doctype html><html lang="de"><title>application</title>
  <main><h1>the application</h1><button id="call">call</button><button id="three">three</button>
  <output></output></main><script type="module" src="/page.js"></script></html>`
const module = `import { fetchSignedIn, whoami } from '/__authproxy/login.js'
  const output = document.querySelector('output')
  const call = body => fetchSignedIn('/api', { method: 'POST', body })
    .then(answer => { output.append(' ' + body + ':' + answer.status) })
  document.querySelector('#call').onclick = () => call('one')
  document.querySelector('#three').onclick = () => ['a', 'b', 'c'].forEach(call)
  Object.assign(window, { call, fetchSignedIn, whoami, others: 0 })
  addEventListener('authproxy-other-user', () => { window.others += 1 })
  // What the debugger does in a page counts as done by a person for some seconds, so a page says itself when nothing has been clicked.
  const real = Object.getOwnPropertyDescriptor(Navigator.prototype, 'userActivation')
  const unclicked = { ...real, get: () => ({ isActive: false }) }
  const acts = {
    idle: () => Object.defineProperty(Navigator.prototype, 'userActivation', unclicked),
    clicked: () => Object.defineProperty(Navigator.prototype, 'userActivation', real),
    decline: () => document.querySelector('[role=alert] button:last-of-type').click(),
    focus: () => dispatchEvent(new Event('focus')),
    own: () => addEventListener('authproxy-login', event => {
      event.preventDefault()
      document.querySelector('#three').onclick = event.detail.open
      output.append(' own')
    }),
  }
  const channel = new BroadcastChannel('test')
  channel.onmessage = ({ data }) => {
    for (const word of data.split(' ')) acts[word] ? acts[word]() : call(word)
  }
  output.append('ready')`
const policy = {
  ...html,
  'Content-Security-Policy':
    "default-src 'none'; script-src 'self'; connect-src 'self'; require-trusted-types-for 'script'",
}

const loseSession = ({ context }: At) => context.clearCookies({ name: /^__authproxy_session/ })

/** A browser at a page of the application, signed in; `answers` is what the identity provider says next. */
async function stage(t: Test, lab: PageLab, more: Readonly<Record<string, string>> = {}) {
  const answers: Answer[] = []
  const at = await lab.stage(t, { answer: () => answers.shift() ?? {} })
  const { backend } = at.whole
  backend.at('*', reply({ content: '<h1>the application</h1>', fields: html }))
  backend.at('/page', reply({ content: application, fields: { ...policy, ...more } }))
  const fields = { 'Content-Type': 'text/javascript' }
  backend.at('/page.js', reply({ content: module, fields }))
  backend.at('/api', reply({ content: '{}' }))
  await signIn(at)
  // Another tab tells the page what to do by itself.
  const other = await at.context.newPage()
  await other.goto(`${at.base}/other`)
  const tell = (words: string) =>
    other.evaluate(`new BroadcastChannel('test').postMessage('${words}')`)
  const complaints: string[] = []
  at.page.on('console', message => complaints.push(message.text()))
  at.page.on('pageerror', error => complaints.push(String(error)))
  await at.page.goto(`${at.base}/page`)
  await at.page.locator('output', { hasText: 'ready' }).waitFor()
  const calls = () => backend.requests.filter(({ target }) => target === '/api')
  const windows: Page[] = []
  at.context.on('page', page => windows.push(page))
  const bar = at.page.getByRole('alert')
  const output = at.page.locator('output')
  return { at, calls, windows, bar, output, answers, complaints, tell }
}

t.test('pages that sign in by a script', { skip: noBrowser, timeout: 600_000 }, async t => {
  const lab = await PageLab.open(t)

  await t.test('a call after a click signs in in a window, and is made once more', async t => {
    const { at, calls, windows, bar, output, complaints } = await stage(t, lab)
    await at.page.click('#call')
    await output.filter({ hasText: 'one:200' }).waitFor()
    t.equal(calls().length, 1, 'with a session there is nothing to do')
    t.equal(windows.length, 0)
    await loseSession(at)
    await at.page.click('#call')
    await output.filter({ hasText: /one:200 one:200/ }).waitFor()
    t.equal(calls().length, 2)
    t.equal(calls().at(-1)?.content.toString(), 'one')
    t.equal(calls().at(-1)?.fields.get('X-Authproxy-User'), alice.email)
    t.equal(windows.length, 1)
    t.ok(await eventually(() => windows[0]?.isClosed() === true), 'its window closes by itself')
    await bar.waitFor({ state: 'detached' })
    t.equal(at.page.url(), `${at.base}/page`, 'the page stays where it was')
    const refused = complaints.filter(text => !text.includes('status of 401'))
    t.strictSame(refused, [], 'nothing the policy refuses')
  })

  await t.test(
    'a page that is cut off from the windows it opens hears of the login too',
    async t => {
      const more = { 'Cross-Origin-Opener-Policy': 'same-origin' }
      const { at, windows, output } = await stage(t, lab, more)
      await loseSession(at)
      await at.page.click('#call')
      await output.filter({ hasText: 'one:200' }).waitFor()
      t.equal(windows.length, 1)
    },
  )

  await t.test('several calls that fail at once share one window', async t => {
    const { at, calls, windows, output } = await stage(t, lab)
    await loseSession(at)
    await at.page.click('#three')
    await output.filter({ hasText: /(?: [abc]:200){3}/ }).waitFor()
    t.equal(windows.length, 1)
    t.same(
      calls()
        .map(({ content }) => content.toString())
        .sort(),
      ['a', 'b', 'c'],
    )
  })

  await t.test(
    'a call that no click has caused shows a bar in the language of the page',
    async t => {
      const { at, calls, windows, bar, output, complaints, tell } = await stage(t, lab)
      await loseSession(at)
      await tell('idle poll')
      await bar.waitFor()
      t.match(await bar.textContent(), 'Ihre Sitzung ist beendet.')
      t.equal(windows.length, 0)
      await look(t, at.page, 'script-bar')
      await at.page.getByRole('button', { name: 'Anmelden' }).click()
      await output.filter({ hasText: 'poll:200' }).waitFor()
      t.equal(windows.length, 1)
      t.equal(calls().length, 1)
      const refused = complaints.filter(text => !text.includes('status of 401'))
      t.strictSame(refused, [])
    },
  )

  await t.test(
    'who does not want to sign in is asked again only when they do something',
    async t => {
      const { at, windows, bar, output, calls, tell } = await stage(t, lab)
      await loseSession(at)
      await tell('idle poll')
      await bar.waitFor()
      await tell('decline')
      await output.filter({ hasText: 'poll:401' }).waitFor()
      await tell('idle again')
      await output.filter({ hasText: 'again:401' }).waitFor()
      t.equal(await bar.count(), 0)
      t.equal(windows.length, 0)
      await tell('clicked')
      await at.page.click('#call')
      await output.filter({ hasText: 'one:200' }).waitFor()
      t.equal(windows.length, 1)
      t.equal(calls().length, 1)
    },
  )

  await t.test('nothing is repeated in the name of another user', async t => {
    const { at, calls, output, answers } = await stage(t, lab)
    await loseSession(at)
    answers.push({ user: { ...alice, email: 'bob@example.org' } })
    await at.page.click('#call')
    await output.filter({ hasText: 'one:401' }).waitFor()
    t.equal(calls().length, 0)
    t.equal(await at.page.evaluate('window.others'), 1, 'the page is told')
    t.match(await at.page.evaluate('window.whoami()'), { subject: 'bob@example.org' })
  })

  await t.test('an answer that is 401 after the login as well is not asked for again', async t => {
    const { at, calls, output, windows } = await stage(t, lab)
    const login = `${at.base}/__authproxy-redirect?login=%2F`
    const fields = { 'X-Authproxy-Login': login }
    at.whole.backend.at('/api', reply({ status: 401, content: '{}', fields }))
    await loseSession(at)
    await at.page.click('#call')
    await output.filter({ hasText: 'one:401' }).waitFor()
    t.equal(calls().length, 1, 'once')
    t.equal(windows.length, 1)
  })

  await t.test('a login in another tab is noticed when the person comes back', async t => {
    const { at, output, windows, bar, tell } = await stage(t, lab)
    await loseSession(at)
    await tell('idle poll')
    await bar.waitFor()
    const other = await at.context.newPage()
    await other.goto(`${at.base}/elsewhere`)
    await other.locator('text=the application').waitFor()
    await other.close()
    await tell('focus')
    await output.filter({ hasText: 'poll:200' }).waitFor()
    t.equal(windows.length, 1, 'that of the test alone')
  })

  await t.test('a page with something of its own shows no bar', async t => {
    const { at, output, bar, tell } = await stage(t, lab)
    await loseSession(at)
    await tell('own')
    await tell('idle poll')
    await output.filter({ hasText: 'own' }).waitFor()
    t.equal(await bar.count(), 0)
    await at.page.click('#three')
    await output.filter({ hasText: 'poll:200' }).waitFor()
  })

  await t.test('the page that says who is signed in', async t => {
    const { at } = await stage(t, lab)
    await at.page.goto(`${at.base}/__authproxy/whoami`)
    await at.page.locator('h1', { hasText: 'Who you are here' }).waitFor()
    t.match(await at.page.textContent('main'), 'You are signed in as alice@example.org.')
    await look(t, at.page, 'whoami')
    await at.page.goto(`${at.base}/__authproxy/signed-in`)
    await at.page.locator('h1', { hasText: 'You are signed in' }).waitFor()
    await look(t, at.page, 'signed-in')
    await at.context.route('https://other.example.net/**', route =>
      route.fulfill({
        contentType: 'text/html',
        body: `<a href="${at.base}/__authproxy/whoami">who</a>`,
      }),
    )
    await at.page.goto('https://other.example.net/')
    const read = `fetch('${at.base}/__authproxy/whoami', { credentials: 'include' })
      .then(answer => answer.text(), () => 'refused')`
    t.equal(await at.page.evaluate(read), 'refused', 'no script of another site')
    await at.page.click('a')
    await at.page.locator('h1', { hasText: 'Another site asks who you are' }).waitFor()
    await look(t, at.page, 'whoami-foreign')
    await at.page.locator('a', { hasText: 'Show it' }).click()
    await at.page.locator('h1', { hasText: 'Who you are here' }).waitFor()
    await loseSession(at)
    await at.page.goto(`${at.base}/__authproxy/whoami`)
    await at.page.locator('h1', { hasText: 'Who you are here' }).waitFor()
    t.ok((await at.cookies()).includes('__authproxy_session='), 'after a login')
  })
})
