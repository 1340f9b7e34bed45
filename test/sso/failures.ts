/**
 * What people see when a login fails, in a real browser: a page that says why, once, and never a circle.
 */
import type { Page } from 'playwright-core'
import t, { type Test } from 'tap'
import { launchBrowser } from '../fixtures/sso/browser.ts'
import { startCookieEater } from '../fixtures/sso/cookie-eater.ts'
import { failureShown, recordOf } from '../fixtures/sso/look.ts'
import { noStage, type Stage, setStage, told } from '../fixtures/sso/stage.ts'
import { users } from '../fixtures/sso/users.ts'

t.setTimeout(240_000)

t.test('failed logins', { skip: noStage, timeout: 240_000 }, async t => {
  const stage = await setStage(t)

  await t.test('a browser that refuses cookies is told so and does not go round', async t => {
    const { page, eater } = await refusing(t, stage, () => true)
    await page.goto(`${stage.base}/start`)
    await stage.submit(page, users.ada)
    await failurePage(t, stage, page, 'cookies-refused')
    t.match(await page.textContent('body'), /did not send back the cookie/)
    // The cookie might only have been held back because the post came from another site: one more from ours, and no third.
    const posts = ['POST /saml/acs', 'POST /saml/acs?again']
    // A login that is not known begins again, once.
    const again = ['resume=1', 'resume=1&again=1'].map(
      query => `GET /__authproxy-redirect?flow=FLOW&${query}`,
    )
    t.strictSame(
      eater.targets
        .filter(target => !target.includes('favicon'))
        .map(target => target.replace(/flow=[\w-]+/, 'flow=FLOW')),
      ['GET /start', ...posts, ...again, ...posts],
    )
    await page.context().close()
  })

  await t.test('a browser that loses the session cookie alone is told so', async t => {
    const { page, eater } = await refusing(t, stage, name => name.startsWith('__authproxy_session'))
    await page.goto(`${stage.base}/start`)
    await stage.submit(page, users.ada)
    await failurePage(t, stage, page, 'session-cookie-refused')
    t.match(await page.textContent('body'), /cookie/i)
    t.ok(eater.targets.length < 15, eater.targets.join(', '))
    await page.context().close()
  })

  await t.test('three logins in a short time end at a page that names the cause', async t => {
    const page = await stage.signedIn(users.ada)
    // The identity provider remembers the user: each of these is a whole login.
    const either = page.locator('#user, .reference').first()
    for (let i = 0; i < 5; i += 1) {
      await forget(page, stage, '__authproxy_session')
      await page.goto(`${stage.base}/again/${i}`)
      await either.waitFor()
      if ((await page.locator('.reference').count()) > 0) break
    }
    await failurePage(t, stage, page, 'too-many-logins')
    t.match(await page.textContent('body'), /times|repeat|again/i)
    await page.context().close()
  })

  for (const [ahead, name] of [
    [3600, 'fast'],
    [-3600, 'slow'],
  ] as const) {
    await t.test(`a clock that is an hour ${name} is named`, async t => {
      await stage.gateway.ahead(ahead)
      const page = await stage.open('/')
      await stage.submit(page, users.ada)
      await failurePage(t, stage, page, `clock-${name}`)
      const text = (await page.textContent('body')) ?? ''
      t.match(text, /clocks/)
      t.match(text, /about 1 hour/)
      t.match(stage.gateway.output, /36\d\d|35\d\d/, 'the log says by how much')
      await page.context().close()
      await stage.gateway.ahead(0)
    })
  }

  await t.test(
    'a session too large for any message is refused, and the page names the groups',
    async t => {
      const page = await stage.open('/')
      await stage.submit(page, users.flora)
      await failurePage(t, stage, page, 'session-too-large')
      t.match(await page.textContent('body'), /groups/)
      await page.context().close()
    },
  )

  await t.test('300 groups that do not compress: refused at 8K, taken at 16K', async t => {
    const page = await stage.open('/')
    await stage.submit(page, users.emil)
    await failurePage(t, stage, page, 'session-too-large-300')
    await page.context().close()
    await stage.restart({ session: { cookieSize: '16K' } })
    const again = await stage.signedIn(users.emil)
    t.equal(await told(again, 'User'), 'emil@example.test')
    await again.reload()
    await stage.arrived(again)
    await again.context().close()
  })

  await t.test('a login that was begun long ago', async t => {
    const page = await stage.open('/old?x=1')
    await page.waitForURL(`${stage.idp.base}/**`)
    await stage.gateway.ahead(3000)
    await stage.submit(page, users.ada)
    await page.waitForURL(`${stage.base}/**`)
    await failurePage(t, stage, page, 'login-too-old')
    await page.context().close()
    await stage.gateway.ahead(0)
  })

  await t.test('the answer sent a second time, by the back button', async t => {
    const page = await stage.open('/')
    let form = ''
    page.on('request', request => {
      if (request.url().endsWith('/saml/acs')) form = request.postData() ?? form
    })
    await stage.logIn(page, users.ada)
    const { status, text } = await stage.ask('/saml/acs', {
      as: page.context(),
      method: 'POST',
      content: form,
      fields: { 'Content-Type': 'application/x-www-form-urlencoded', Accept: 'text/html' },
    })
    t.ok(status === 303 || status >= 400, `${status}`)
    if (status >= 400) t.match(text, /<html/)
    await page.context().close()
  })

  await t.test('an answer nobody asked for', async t => {
    const page = await (await stage.newContext()).newPage()
    await page.goto(stage.idp.unsolicitedUrl(`${stage.base}/saml/metadata`))
    await stage.logIn(page, users.ada)
    t.equal(page.url(), `${stage.base}/`, 'is dropped, and a login begins in its place')
    await page.context().close()
  })

  await t.test('the backend is away', async t => {
    const page = await stage.signedIn(users.ada)
    await stage.restart({ proxy: { targetURL: 'http://127.0.0.1:9' } })
    const answer = await page.goto(`${stage.base}/away`)
    t.equal(answer?.status(), 502)
    t.equal(answer?.statusText(), 'Proxy Error')
    await failurePage(t, stage, page, 'backend-away', 'PROXY-ERROR')
    await page.context().close()
  })
})

/** Checks what every failure page has, and that the log has a line of it. */
async function failurePage(
  t: Test,
  stage: Stage,
  page: Page,
  name: string,
  category = 'SAML-ERROR',
): Promise<void> {
  await page.waitForURL(`${stage.base}/**`)
  const { requestId } = await failureShown(t, page, name)
  const record = await recordOf(() => stage.gateway.log, requestId)
  t.equal(record?.['category'], category, `the log has ${requestId}`)
  t.comment(JSON.stringify(record)?.slice(0, 300))
}

/** A page in a browser of its own that does not keep cookies of certain names. */
async function refusing(t: Test, stage: Stage, eats: (name: string) => boolean) {
  const { authority, host, gateway, idp } = stage
  const eater = await startCookieEater({ authority, host, to: gateway.port, eats })
  t.teardown(() => eater.close())
  const browser = await launchBrowser({ [idp.host]: idp.port, [host]: eater.port })
  t.teardown(() => browser.close())
  return { page: await browser.newPage(), eater }
}

async function forget(page: Page, stage: Stage, prefix: string): Promise<void> {
  const context = page.context()
  const kept = (await context.cookies()).filter(
    ({ name, domain }) => !(name.startsWith(prefix) && domain === stage.host),
  )
  await context.clearCookies()
  await context.addCookies(kept)
}
