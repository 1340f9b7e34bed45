/**
 * A person makes a token in a real browser, and curl uses it. What a script of the application can do about tokens from the same origin.
 */
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import t from 'tap'
import { tokensPath } from '../../../lib/auth/gate/gateway-paths.ts'
import { reply } from '../../fixtures/http/scripts.ts'
import { whereIs } from '../../fixtures/process/command.ts'
import { sp } from '../../fixtures/saml/idp.ts'
import { findings } from '../../fixtures/sso/accessibility.ts'
import { noBrowser } from '../../fixtures/sso/browser.ts'
import { PageLab } from '../../fixtures/sso/page-lab.ts'
import { signIn } from '../../fixtures/sso/page-steps.ts'

t.setTimeout(600_000)
const settings = {
  tokens: { longest: '30d' },
  access: [
    { path: '/admin/', allow: 'nobody' },
    { path: '/', allow: 'signed-in' },
  ],
}
const skip = noBrowser || (whereIs('curl') ? false : 'needs curl')

t.test('a browser makes a token, and curl uses it', { skip, timeout: 300_000 }, async t => {
  const lab = await PageLab.open(t)

  await t.test('without a script, as a person does', async t => {
    const at = await lab.stage(t, { gateway: { settings } })
    const { page, base, whole } = at
    await signIn(at)
    const complaints: string[] = []
    page.on('console', message => complaints.push(message.text()))
    await page.goto(`${base}${tokensPath}`)
    t.notOk(await page.evaluate('document.scripts.length'))
    for (const [colorScheme, width] of [
      ['light', 1200],
      ['dark', 360],
    ] as const) {
      await page.emulateMedia({ colorScheme })
      await page.setViewportSize({ width, height: 800 })
      t.strictSame(await findings(page), [], `${colorScheme}, ${width}: accessible`)
      const wider = 'document.documentElement.scrollWidth - document.documentElement.clientWidth'
      t.equal(await page.evaluate(wider), 0, 'nothing wider than the window')
    }
    await page.getByLabel('Name').fill('nightly backup')
    await page.getByLabel('Paths').fill('/api/ /admin/')
    await page.getByRole('button', { name: 'Make a token' }).click()
    t.match(
      await page.getByRole('alert').innerText(),
      'The rules do not allow you this: GET /admin/',
    )
    t.equal(await page.getByLabel('Name').inputValue(), 'nightly backup')
    await page.getByLabel('Paths').fill('/api/')
    await page.getByRole('button', { name: 'Make a token' }).click()
    const line = (await page.locator('code').innerText()).trim()
    t.match(line, /^X-Authproxy-Authorization: Bearer [\w-]+\.[\w-]+\.[\w-]+$/)
    const curl = async (path: string, ...more: readonly string[]) => {
      const own = ['-sS', '-o', '/dev/null', '-w', '%{http_code}', '-H', `Host: ${sp.domain}`]
      const to = `http://127.0.0.1:${whole.port}${path}`
      return (await promisify(execFile)('curl', [...own, ...more, to])).stdout
    }
    t.equal(await curl('/api/x', '-H', line), '200')
    t.equal(whole.backend.requests.at(-1)?.fields.get('X-Authproxy-User'), 'alice@example.org')
    t.equal(await curl('/other', '-H', line), '401')
    t.equal(await curl('/api/x', '-X', 'POST', '-H', line), '401')
    t.equal(await curl('/api/x'), '401')
    await page.getByRole('link', { name: 'Back to your tokens' }).click()
    await page.getByText('nightly backup', { exact: true }).waitFor()
    t.strictSame(await findings(page), [], 'accessible with a token')
    await page.getByRole('button', { name: 'End the token nightly backup' }).click()
    await page.getByText('nightly backup', { exact: true }).waitFor({ state: 'detached' })
    t.equal(await curl('/api/x', '-H', line), '401')
    t.strictSame(
      complaints.filter(text => !text.includes('status of')),
      [],
    )
  })

  await t.test('the page with the token is accessible', async t => {
    const at = await lab.stage(t, { gateway: { settings } })
    const { page, base } = at
    await signIn(at)
    await page.goto(`${base}${tokensPath}`)
    await page.getByLabel('Name').fill('x')
    await page.getByRole('button', { name: 'Make a token' }).click()
    await page.locator('code').waitFor()
    const html = await page.content()
    await page.goto('about:blank')
    await page.setViewportSize({ width: 360, height: 800 })
    // In its own document no script runs, that of axe neither.
    await page.setContent(html)
    t.strictSame(await findings(page), [])
    t.equal(
      await page.evaluate(
        'document.documentElement.scrollWidth - document.documentElement.clientWidth',
      ),
      0,
    )
  })

  await t.test('122: a script of the application gets no token', async t => {
    const at = await lab.stage(t, { gateway: { settings } })
    const { page, whole, context } = at
    whole.backend.at(
      '*',
      reply({ content: '<h1>the application</h1>', fields: { 'Content-Type': 'text/html' } }),
    )
    await signIn(at)
    const form = new URLSearchParams({
      name: 'x',
      paths: '/',
      methods: 'GET',
      days: '1',
    }).toString()
    const posted: unknown = await page.evaluate(
      `fetch('${tokensPath}', { method: 'POST', body: new URLSearchParams('${form}') }).then(async answer => [answer.status, (await answer.text()).includes('Bearer ')])`,
    )
    t.strictSame(posted, [403, false])
    const framed = page.waitForResponse(answer => answer.url().endsWith(tokensPath))
    const open = (target: string) => `{
      const form = document.createElement('form')
      Object.assign(form, { method: 'post', action: '${tokensPath}', target: '${target}' })
      for (const [name, value] of new URLSearchParams('${form}')) {
        const input = document.createElement('input')
        Object.assign(input, { name, value })
        form.append(input)
      }
      document.body.append(form)
      form.submit()
    }`
    await page.evaluate(
      `document.body.append(Object.assign(document.createElement('iframe'), { name: 'inner' }))`,
    )
    await page.evaluate(open('inner'))
    t.equal((await framed).status(), 403, 'in a frame')
    const opening = context.waitForEvent('page')
    await page.evaluate(`globalThis.other = open('about:blank', 'other')`)
    const other = await opening
    await page.evaluate(open('other'))
    await other.getByText('Bearer').waitFor()
    const read = await page.evaluate(
      `{ try { other.document.body.innerText } catch (error) { error.name } }`,
    )
    t.equal(read, 'SecurityError', 'nor reads one in a window that it has opened')
  })
})
