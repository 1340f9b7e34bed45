/**
 * The pages in a real browser, light and dark, wide and narrow: no accessibility findings, no sideways scrolling, nothing
 * the content security policy has to refuse. Needs Chromium and says so when there is none.
 */
import { createServer } from 'node:http'
import type { Browser, Page } from 'playwright-core'
import t, { type Test } from 'tap'
import { iterate } from '../../lib/bytes/source.ts'
import type { OperationsSources } from '../../lib/cache/operations/sources.ts'
import { ask, fullSources, hostileSources, sources } from '../fixtures/cache/operations.ts'
import { findings } from '../fixtures/sso/accessibility.ts'
import { launchBrowser, noBrowser } from '../fixtures/sso/browser.ts'

const services: ReadonlyArray<readonly [name: string, given: OperationsSources]> = [
  ['with data', fullSources()],
  ['without data', sources()],
  ['with hostile values', hostileSources()],
]

const paths = [
  '',
  'cache',
  'stats',
  'setup',
  'explain',
  'explain?url=http%3A%2F%2Fa.example%2F',
  'lost',
]

const allViews = [
  ['light', 360],
  ['dark', 1200],
  ['light', 1200],
  ['dark', 360],
] as const

// A browser on a busy machine takes its time.
t.setTimeout(600_000)

t.test('the pages in a browser', { skip: noBrowser, timeout: 480_000 }, async t => {
  const browser = await launchBrowser({})
  t.teardown(() => browser.close())
  for (const [name, given] of services) {
    const base = await serve(t, given)
    await t.test(name, async t => {
      const page = await browser.newPage()
      t.teardown(() => page.close())
      await checkPages(t, page, {
        base,
        views: name === 'with data' ? allViews : allViews.slice(0, 2),
      })
    })
  }
  await t.test('the policy holds: injected script does not run', async t => {
    await policyHolds(t, browser, await serve(t, fullSources()))
  })
  await t.test('an open page gets new figures', async t => {
    let connections = 0
    const busy = fullSources().activity()
    const given = fullSources({
      activity: () => {
        connections += 1
        return { ...busy, connections }
      },
    })
    const page = await browser.newPage()
    t.teardown(() => page.close())
    const complaints = listen(page)
    await page.goto(`${await serve(t, given)}/_cachesvc/`)
    const shown = page.locator('[data-live="connections"]')
    while ((await shown.innerText()) === '1') await page.waitForTimeout(50)
    t.strictSame(complaints, [])
  })
  await t.test('a link leads into what is folded, and a button copies an example', async t => {
    const context = await browser.newContext()
    t.teardown(() => context.close())
    const page = await context.newPage()
    const complaints = listen(page)
    await page.goto(`${await serve(t, fullSources())}/_cachesvc/setup`)
    const folded = page.locator('#cloud-init-example')
    t.notOk(await folded.isVisible())
    await page.locator('a[href="#cloud-init-example"]').click()
    await folded.waitFor({ state: 'visible' })
    const button = page.locator('button.copy').first()
    await button.click()
    t.equal(await button.innerText(), 'Copied')
    await page.goto(page.url().replace(/setup.*/, 'explain'))
    await page.locator('#url').focus()
    await page.keyboard.press('Control+V')
    t.match(
      await page.locator('#url').inputValue(),
      /apt-helper download-file .*\/_cachesvc\/setup\.sh/,
    )
    t.strictSame(complaints, [])
  })
  await t.test('the address without a path leads to the pages', async t => {
    const page = await browser.newPage()
    t.teardown(() => page.close())
    await page.goto(`${await serve(t, fullSources())}/`)
    await page.waitForURL('**/_cachesvc/')
    t.equal(await page.locator('h1').count(), 1)
  })
  await t.test('the keyboard reaches the content first', async t => {
    const page = await browser.newPage()
    t.teardown(() => page.close())
    await page.goto(`${await serve(t, fullSources())}/_cachesvc/stats`)
    await page.keyboard.press('Tab')
    t.equal(await page.evaluate('document.activeElement.textContent'), 'Skip to the content')
    await page.keyboard.press('Enter')
    t.equal(await page.evaluate('document.activeElement.id'), 'content')
  })
})

interface Checked {
  readonly base: string
  readonly views: ReadonlyArray<(typeof allViews)[number]>
}

/** Loads each page once and looks at it in each view: colours and layout are of the style sheet alone, no script asks for them. */
async function checkPages(t: Test, page: Page, { base, views }: Checked): Promise<void> {
  const complaints = listen(page)
  for (const path of paths) {
    const response = await page.goto(`${base}/_cachesvc/${path}`)
    const expected = response?.status() === 404 ? 1 : 0
    t.equal(complaints.splice(0).length, expected, `${path}: no complaints but that of a 404`)
    await page.evaluate('for (const one of document.querySelectorAll("details")) one.open = true')
    for (const [n, [colorScheme, width]] of views.entries()) {
      const view = `${path}, ${colorScheme}, ${width} pixels wide`
      await page.emulateMedia({ colorScheme })
      await page.setViewportSize({ width, height: 800 })
      const sideways = await page.evaluate(
        'document.documentElement.scrollWidth - document.documentElement.clientWidth',
      )
      t.equal(sideways, 0, `${view}: nothing wider than the window`)
      // Colours go with the scheme alone and layout with the width alone: two views have all of both.
      if (n < 2) t.strictSame(await findings(page), [], `${view}: accessible`)
    }
    complaints.length = 0
  }
}

/** Whatever the console says and whatever fails to load, as it comes. */
function listen(page: Page): string[] {
  const complaints: string[] = []
  page.on('console', message => complaints.push(message.text()))
  page.on('pageerror', error => complaints.push(String(error)))
  page.on('requestfailed', request => {
    // The stream of live figures is broken off when the browser leaves the page.
    if (!request.url().endsWith('/live')) complaints.push(request.url())
  })
  return complaints
}

async function policyHolds(t: Test, browser: Browser, base: string): Promise<void> {
  const page = await browser.newPage()
  t.teardown(() => page.close())
  const complaints = listen(page)
  await page.goto(`${base}/_cachesvc/`)
  await page.evaluate(`{
    const script = document.createElement('script')
    script.textContent = 'window.ran = true'
    document.body.append(script)
    document.body.insertAdjacentHTML('beforeend', '<p id="styled" style="color: red">')
  }`)
  t.equal(await page.evaluate('window.ran'), undefined)
  t.notMatch(await page.evaluate('getComputedStyle(styled).color'), 'rgb(255, 0, 0)')
  t.ok(complaints.some(complaint => complaint.includes('Content Security Policy')))
}

/** A server of these answers, for as long as the test runs. */
async function serve(t: Test, given: OperationsSources): Promise<string> {
  const server = createServer((request, reply) => {
    const [path = '', query] = (request.url ?? '').split('?')
    void ask(given, path, query === undefined ? {} : { query }).then(async response => {
      const { content } = response
      reply.writeHead(response.status, response.reason, [...response.fields.flat])
      if (content.kind !== 'stream') return reply.end(content.kind === 'bytes' ? content.bytes : '')
      const events = iterate(content.open())
      reply.on('close', () => events.return?.())
      for await (const event of events) reply.write(event)
      return reply.end()
    })
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  const address = server.address()
  return `http://127.0.0.1:${typeof address === 'object' ? address?.port : 0}`
}
