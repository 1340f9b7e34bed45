/**
 * The failure pages of authproxy in a real browser, in every language, with and without a logo: no accessibility findings, no
 * sideways scrolling, nothing that the policy refuses. PAGES_SCREENSHOTS names a directory for pictures.
 */
import { mkdirSync } from 'node:fs'
import { createServer } from 'node:http'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { failurePageMaker } from '../../lib/auth/pages/failure-page.ts'
import { FailureRecords } from '../../lib/auth/pages/failure-records.ts'
import { type FailureCode, failureTable, isFailureCode } from '../../lib/auth/pages/failures.ts'
import { logoPath } from '../../lib/auth/pages/own-document.ts'
import { type Brand, pageMaker } from '../../lib/auth/pages/page.ts'
import { Fields } from '../../lib/http/message/field.ts'
import { request } from '../fixtures/cache/operations.ts'
import { createMemoryLog } from '../fixtures/log/memory-log.ts'
import { findings } from '../fixtures/sso/accessibility.ts'
import { launchBrowser, noBrowser } from '../fixtures/sso/browser.ts'
import { ManualClock } from '../fixtures/time/manual-clock.ts'

const logo =
  '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 4 1"><path fill="#004d40" d="M0 0h4v1H0z"/></svg>'

const brands = {
  plain: {
    application: 'app.example.org',
    logo: false,
    logoPath,
    colour: '#0b57a4',
    colourDark: '#8ac0ff',
    contact: false,
  },
  own: {
    ...{
      application: 'Time sheets',
      logo: true,
      logoPath,
      colour: '#004d40',
      colourDark: '#80cbc4',
    },
    contact: { text: 'helpdesk@example.org', href: 'mailto:helpdesk@example.org' },
  },
} as const

/** One code for each page: many share one. */
const codes = [
  ...new Map(
    Object.keys(failureTable().codes)
      .filter(isFailureCode)
      .map(code => {
        const { advice: _, setting, doctor, idpStatuses, ...page } = failureTable().codes[code]
        return [JSON.stringify(page), code] as const
      }),
  ).values(),
]

/** Those with the most on them. */
const looked: readonly FailureCode[] = ['login_cookie_missing', 'wrong_host', 'lost_cookie_missing']

const words = {
  ...{ base: 'https://app.example.org', domain: 'app.example.org', host: '192.0.2.7:8080' },
  ...{ said: 'The service made a mistake.', seconds: '4000', cookies: '2 (4000 bytes)' },
  ...{ clock: '2025-03-14T12:00:00Z', because: 'it is too large', returnTo: '/', login: '/' },
  ...{ target: '/', back: '/', there: '/' },
}

// A browser on a busy machine takes its time.
t.setTimeout(600_000)

t.test('failure pages', { skip: noBrowser, timeout: 180_000 }, async t => {
  const browser = await launchBrowser({})
  t.teardown(() => browser.close())
  for (const language of ['en', 'de', 'da', 'fr']) {
    await t.test(language, async t => {
      const brand = language === 'da' ? 'plain' : 'own'
      const base = await serve(t, { templateValues: brands[brand], logo: undefined })
      const context = await browser.newContext({ locale: language })
      t.teardown(() => context.close())
      const page = await context.newPage()
      const complaints: string[] = []
      page.on('console', message => complaints.push(message.text()))
      page.on('requestfailed', failed => complaints.push(failed.url()))
      await page.setViewportSize({ width: 390, height: 800 })
      // German has the longest words.
      for (const code of language === 'de' ? codes : looked) {
        await page.goto(`${base}/${code}`)
        await page.evaluate('document.querySelector("summary").click()')
        const wider = 'document.documentElement.scrollWidth - document.documentElement.clientWidth'
        t.equal(await page.evaluate(wider), 0, `${code}: nothing wider than the window`)
      }
      for (const code of looked) {
        await page.goto(`${base}/${code}`)
        await page.click('summary')
        for (const [colorScheme, width] of [
          ['light', 1200],
          ['dark', 390],
        ] as const) {
          await page.emulateMedia({ colorScheme })
          await page.setViewportSize({ width, height: 800 })
          t.strictSame(await findings(page), [], `${code}, ${colorScheme}: accessible`)
          const directory = process.env['PAGES_SCREENSHOTS']
          if (directory === undefined) continue
          mkdirSync(directory, { recursive: true })
          const path = join(directory, `${code}-${language}-${colorScheme}-${width}.png`)
          await page.screenshot({ path, fullPage: true })
        }
      }
      const refused = complaints.filter(text => !text.includes('status of'))
      t.strictSame(refused, [], 'nothing the policy refuses')
    })
  }
})

/** Answers each path with the failure of that name. */
async function serve(t: Test, brand: Brand): Promise<string> {
  const [clock, log] = [new ManualClock(Date.UTC(2025, 2, 14, 12)), createMemoryLog()]
  const records = await FailureRecords.open({ path: join(t.testdir(), 'f'), clock, log })
  const page = pageMaker(
    size => Buffer.alloc(size),
    () => brand,
  )
  const failurePage = failurePageMaker({
    ...{
      page,
      explainCommand: reference => `sudo -u authproxy authproxy explain ${reference} app`,
      records,
      clock,
      log,
    },
    clientAddress: () => '192.0.2.77',
    sender: () => 'other',
  })
  const server = createServer((asked, reply) => {
    if (asked.url === logoPath)
      return void reply.setHeader('Content-Type', 'image/svg+xml').end(logo)
    const code = codes.find(code => `/${code}` === asked.url)
    if (code === undefined) return void reply.writeHead(204).end()
    const fields = Fields.of(
      ['Accept', 'text/html'],
      ['Accept-Language', asked.headers['accept-language']],
    )
    const response = failurePage({
      request: { ...request('GET', `/${code}`), fields, id: 'r4nd0mr3qu3st1d' },
      ...{ code, words },
    })
    reply.writeHead(response.status, [...response.fields.flat])
    reply.end(response.content.kind === 'bytes' ? response.content.bytes : '')
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  const address = server.address()
  return `http://127.0.0.1:${typeof address === 'object' ? address?.port : 0}`
}
