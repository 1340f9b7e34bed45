/**
 * `authproxy demo` and `authproxy dev-idp` as a newcomer meets them: one command, a browser, logged in.
 */
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import type { Page } from 'playwright-core'
import t, { type Test } from 'tap'
import { people } from '../../demo/idp/people.ts'
import { profiles } from '../../demo/idp/profile.ts'
import { freePort } from '../fixtures/process/ports.ts'
import { findings } from '../fixtures/sso/accessibility.ts'
import { launchBrowser, noBrowser } from '../fixtures/sso/browser.ts'
import { Child } from '../fixtures/sso/child.ts'
import { launcher, noGateway } from '../fixtures/sso/gateway.ts'
import { told } from '../fixtures/sso/stage.ts'

t.setTimeout(600_000)
const skip = noGateway || noBrowser

t.test('the demonstration', { skip, timeout: 600_000 }, async t => {
  const browser = await launchBrowser({})
  t.teardown(() => browser.close())
  const demo = async (t: Test, ...args: readonly string[]) => {
    const port = await freePort()
    const child = await Child.start({
      program: launcher,
      args: ['demo', '--port', String(port), ...args],
      ready: ({ output }) => output.includes('Ctrl-C'),
    })
    t.teardown(() => child.stop())
    const context = await browser.newContext({ viewport: { width: 900, height: 700 } })
    t.teardown(() => context.close())
    return { child, url: `https://localhost:${port}`, page: await context.newPage() }
  }

  await t.test('a newcomer has logged in after one click, and signs out again', async t => {
    const { child, url, page } = await demo(t)
    t.match(child.output, `${url}/`)
    t.notMatch(child.output, '"level"', 'nothing but what a newcomer has to know')
    t.notMatch(child.output, 'Warning', 'and no warning of Node.js')
    for (const { name, password } of people) {
      t.match(child.output, new RegExp(`${name} +password ${password}`))
    }
    await page.goto(`${url}/reports?page=2#there`)
    t.match(await page.textContent('header'), /Never put it in front of real users/)
    t.strictSame(await findings(page), [], 'the page of the identity provider is accessible')
    await picture(page, 'demo-login')
    await page.click('button[value=ada]')
    await page.locator('#user').waitFor()
    t.equal(await told(page, 'User'), 'ada@example.org')
    t.equal(page.url(), `${url}/reports?page=2#there`)
    t.strictSame(await findings(page), [], 'the page of the application is accessible')
    await picture(page, 'demo-application')
    await page.click('text=Open a page that is only for the group')
    t.equal(new URL(page.url()).pathname, '/engineering/')
    t.equal(await told(page, 'User'), 'ada@example.org', 'ada is in the group')
    await page.click('text=Sign out')
    await page.locator('h1', { hasText: /signed out/i }).waitFor()
    await picture(page, 'demo-signed-out')
    await page.goto(`${url}/`)
    await page.fill('#name', 'bert')
    await page.fill('#password', 'wrong')
    await page.click('text=Sign in >> nth=-1')
    await page.locator('[role=alert]').waitFor()
    await page.fill('#name', 'bert')
    await page.fill('#password', 'bert')
    await page.press('#password', 'Enter')
    await page.locator('#user').waitFor()
    t.equal(await told(page, 'User'), 'bert01')
    await page.click('text=Open a page that is only for the group')
    await page.locator('.reference').waitFor()
    t.match(await page.textContent('main'), /signed in as bert01.*Sign in as ada/s)
  })

  await t.test('wrong answers show what the gateway says of them', async t => {
    const { url, page } = await demo(t)
    const seen = new Map<string, string>()
    for (const way of [
      'unsigned',
      'stranger',
      'early',
      'late',
      'audience',
      'nameless',
      'refused',
    ]) {
      await page.goto(`${url}/`)
      await page.selectOption('#answer', way)
      await page.click('button[value=ada]')
      await page.locator('.reference').waitFor()
      t.equal(await page.locator('#user').count(), 0, way)
      t.strictSame(await findings(page), [], `${way}: accessible`)
      seen.set(way, (await page.textContent('main')) ?? '')
      await picture(page, `demo-answer-${way}`)
      await page.context().clearCookies()
    }
    // Less what passes between the answer and its check.
    t.match(seen.get('early'), /clocks.* 1 hour/s)
    t.match(seen.get('late'), /clocks.* 1 hour/s)
    t.match(seen.get('nameless'), /subject|name/)
    t.match(seen.get('refused'), /did not sign you in/)
    const [, command = ''] =
      /(authproxy explain \S+ --config \S+demo\.yaml)/.exec(seen.get('refused') ?? '') ?? []
    const [, ...words] = command.split(' ')
    const explained = await Child.untilEnd({ program: launcher, args: words })
    t.equal(explained.exitCode, 0, 'the command of the page works')
    t.match(explained.output, /did not sign|refused|idpStatus/)
  })

  for (const profile of Object.keys(profiles)) {
    await t.test(`the way ${profile} answers, encrypted`, async t => {
      const { url, page, child } = await demo(t, '--profile', profile, '--encrypt')
      const response = page.waitForRequest('**/saml/acs')
      await page.goto(`${url}/`)
      await page.click('button[value=ada]')
      await page.locator('#user, .reference').first().waitFor()
      t.equal(await told(page, 'User'), 'ada@example.org', child.output)
      const form = new URLSearchParams((await response).postData() ?? '')
      const xml = Buffer.from(form.get('SAMLResponse') ?? '', 'base64').toString()
      t.match(xml, '<saml:EncryptedAssertion')
      t.notMatch(xml, 'ada@example.org')
      const groups = (await told(page, 'Groups')) ?? ''
      t.equal(groups, 'staff,engineering,Research%2C Applied')
    })
  }

  await t.test('a port that is taken is said to be', async t => {
    const { url } = await demo(t)
    const second = await Child.untilEnd({
      program: launcher,
      args: ['demo', '--port', new URL(url).port],
    })
    t.equal(second.exitCode, 78)
    t.match(second.output, /another process listens there; name another port with --port/)
  })
})

async function picture(page: Page, name: string): Promise<void> {
  const directory = process.env['SSO_SCREENSHOTS']
  if (directory === undefined) return
  await mkdir(directory, { recursive: true })
  await page.screenshot({ path: join(directory, `${name}.png`), fullPage: true })
}
