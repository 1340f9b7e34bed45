/**
 * Forms of the application's own pages that meet the end of a session, in Chromium.
 */
import t from 'tap'
import { reply } from '../fixtures/http/scripts.ts'
import { eventually } from '../fixtures/process/ports.ts'
import { noBrowser } from '../fixtures/sso/browser.ts'
import { PageLab } from '../fixtures/sso/page-lab.ts'
import { loseSession, signIn } from '../fixtures/sso/page-steps.ts'
import { Gate } from '../fixtures/time/gate.ts'
import { ManualClock } from '../fixtures/time/manual-clock.ts'

t.setTimeout(600_000)

const form = `<form method="post" action="/save" enctype="multipart/form-data">
  <input name="a" value="1"><button>go</button></form>`

t.test('forms of own pages', { skip: noBrowser, timeout: 600_000 }, async t => {
  const lab = await PageLab.open(t)

  for (const policy of ['no-referrer', 'same-origin', 'strict-origin', 'unsafe-url']) {
    for (const way of ['header', 'meta'] as const) {
      await t.test(`${policy} by ${way}: the form is kept over the login`, async t => {
        const at = await lab.stage(t)
        const meta = `<meta name="referrer" content="${policy}">`
        const type = { 'Content-Type': 'text/html' }
        const fields = way === 'header' ? { ...type, 'Referrer-Policy': policy } : type
        const content = `${way === 'meta' ? meta : ''}<h1>the application</h1>${form}`
        at.whole.backend.at('/edit', reply({ content, fields }))
        await signIn(at)
        await at.page.goto(`${at.base}/edit`)
        await at.context.clearCookies({ name: /^__authproxy_session/ })
        await at.page.click('button')
        await at.page.locator('text=the application').waitFor()
        const saved = at.whole.backend.requests.find(({ target }) => target === '/save')
        t.match(saved?.content.toString(), 'name="a"')
        t.equal(saved?.fields.get('Origin'), at.base, 'the application takes it for its own')
        t.equal(saved?.fields.get('Sec-Fetch-Site'), 'same-origin')
        const asked = at.whole.log.lines.filter(({ message }) => message.startsWith('asked about'))
        t.equal(asked.length, 0, 'no question about another site')
      })
    }
  }

  await t.test('92: a page of a neighbour and one without an origin are asked about', async t => {
    const at = await lab.stage(t)
    await signIn(at)
    // With a session the browser sends it along from a neighbour, and the application judges by Origin, as without a gateway.
    await loseSession(at)
    at.whole.backend.requests.length = 0
    const foreign = `<meta name="referrer" content="no-referrer">${form.replace('"/save"', `"${at.base}/save"`)}`
    const pages: Readonly<Record<string, string>> = {
      'https://wiki.example.org/': foreign,
      'https://other.example.net/': foreign,
      'https://other.example.net/sandboxed': `<iframe sandbox="allow-forms allow-top-navigation" srcdoc="${foreign
        .replace('<form', '<form target="_top"')
        .replaceAll('"', '&quot;')}"></iframe>`,
    }
    for (const [url, body] of Object.entries(pages)) {
      await at.context.route(url, route => route.fulfill({ contentType: 'text/html', body }))
      await at.page.goto(url)
      const place = url.endsWith('sandboxed') ? at.page.frameLocator('iframe') : at.page
      await place.locator('button').click()
      await at.page.locator('h1', { hasText: 'Send this form?' }).waitFor()
      t.equal(at.whole.backend.requests.length, 0, url)
    }
  })

  await t.test('a form whose answer comes after the end of the idle time', async t => {
    const clock = new ManualClock(Date.now())
    const settings = { session: { idle: '10m' }, timeouts: { response: '1d' } }
    const at = await lab.stage(t, { gateway: { clock, settings } })
    const gate = new Gate()
    const fields = { 'Content-Type': 'text/html', 'Cache-Control': 'no-store' }
    const page = reply({ content: `<h1>the application</h1>${form}`, fields })
    at.whole.backend.at('*', page)
    at.whole.backend.at('/save', reply({ content: '<h1>saved</h1>', fields, before: gate }))
    await signIn(at)
    const before = await at.cookies()
    const saves = () => at.whole.backend.requests.filter(({ target }) => target === '/save')
    const clicked = at.page.click('button')
    await eventually(() => saves().length > 0)
    for (const minutes of [4, 4, 4]) {
      clock.advance(minutes * 60_000)
      await new Promise(resolve => setImmediate(resolve))
    }
    gate.open()
    await clicked
    await at.page.locator('text=saved').waitFor()
    t.equal(saves().length, 1, 'sent once')
    t.not(await at.cookies(), before, 'and the session is renewed')
    await at.page.goto(`${at.base}/next`)
    await at.page.locator('text=the application').waitFor()
    const logins = at.whole.log.lines.filter(({ message }) => message === 'signed in')
    t.equal(logins.length, 1, 'without another login')
  })
})
