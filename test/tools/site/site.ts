/**
 * The site as `npm run site` makes it, but for the pictures: valid HTML, links that lead somewhere, nothing fetched from elsewhere, and in a
 * browser, from the directory itself, readable without a script, accessible, and searched.
 */
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join, posix } from 'node:path'
import { pathToFileURL } from 'node:url'
import { createContext, runInContext } from 'node:vm'
import { HtmlValidate, StaticConfigLoader } from 'html-validate'
import type { Browser, Page as BrowserPage } from 'playwright-core'
import t, { type Test } from 'tap'
import { packageRoot } from '../../../lib/package.ts'
import { buildSite, picturesDirectory } from '../../../tools/site/build.ts'
import { documentHtml } from '../../../tools/site/documents.ts'
import { manualHtml } from '../../../tools/site/manual-pages.ts'
import { textIn } from '../../../tools/site/page.ts'
import { pictureFile, schemes, subjects, widths } from '../../../tools/site/pictures.ts'
import { indexedPages } from '../../../tools/site/search-index.ts'
import { findings } from '../../fixtures/sso/accessibility.ts'
import { launchBrowser, noBrowser } from '../../fixtures/sso/browser.ts'

// A browser on a busy machine takes its time.
t.setTimeout(300_000)

const root = packageRoot()
const site = t.testdir()
// Pictures that are there, as far as the page of pictures looks at them.
mkdirSync(join(site, picturesDirectory))
for (const { name } of subjects) {
  for (const scheme of schemes) {
    for (const width of widths) {
      writeFileSync(join(site, picturesDirectory, pictureFile(name, scheme, width)), '')
    }
  }
}
const pages = await buildSite(root, site)
const read = (place: string) => readFileSync(join(site, place), 'utf8')

/** A page of each kind. */
const kinds = [
  'index.html',
  'README.html',
  'pictures.html',
  'docs/configuration.html',
  'docs/decisions/index.html',
  'man/cachesvc.8.html',
  'packaging/index.html',
  'packaging/cachesvc.yaml.html',
]

t.test('every document and manual has a page, in the menu or in the list of decisions', async t => {
  const sources = new Set(pages.map(({ source }) => source))
  const folders = ['docs', 'docs/decisions', 'docs/recipes', 'man']
  const files = folders.flatMap(folder =>
    readdirSync(join(root, folder)).map(name => `${folder}/${name}`),
  )
  for (const file of files.filter(file => /\.(md|[58])$/.test(file))) t.ok(sources.has(file), file)
  const menu = read('index.html')
  for (const file of ['docs/installing', 'docs/recipes/keycloak', 'man/authproxy.8']) {
    t.match(menu, `<li><a href="${file}.html">`)
  }
})

t.test('every page is valid HTML; of those that show a file, one is', async t => {
  const loader = new StaticConfigLoader({
    root: true,
    extends: ['html-validate:recommended', 'html-validate:document', 'html-validate:a11y'],
    rules: {
      'no-trailing-whitespace': 'off',
      'long-title': ['error', { maxlength: 130 }],
      // Headings may begin with a number, as HTML allows.
      'valid-id': ['error', { relaxed: true }],
      'require-csp-nonce': 'off',
      'require-sri': ['error', { target: 'crossorigin' }],
    },
  })
  const validator = new HtmlValidate(loader)
  const shown = pages.filter(
    ({ place }) => kinds.includes(place) || !place.startsWith('packaging/'),
  )
  t.ok(shown.length > 90, `${shown.length} pages`)
  for (const { place } of shown) {
    const { results } = await validator.validateString(read(place))
    const said = results.flatMap(({ messages }) => messages)
    t.strictSame(
      said.map(({ line, ruleId, message }) => `${line}: ${ruleId}: ${message}`),
      [],
      place,
    )
  }
})

t.test('all links and anchors lead somewhere, and nothing is fetched from elsewhere', async t => {
  const ids = new Map(
    pages.map(({ place }) => [
      place,
      new Set([...read(place).matchAll(/ id="([^"]*)"/g)].map(([, id = '']) => textIn(id))),
    ]),
  )
  let links = 0
  for (const { place } of pages) {
    const wrong = [...read(place).matchAll(/<(\w+)\b[^>]*? (href|src)="([^"]*)"/g)].filter(
      ([, element, , address = '']) => {
        links += 1
        if (/^[a-z]+:/.test(address)) return element !== 'a'
        const [path = '', anchor] = textIn(address).split('#')
        const to = path === '' ? place : posix.join(dirname(place), decodeURI(path))
        if (!existsSync(join(site, to)) || to.endsWith('/')) return true
        return anchor !== undefined && ids.get(to)?.has(decodeURIComponent(anchor)) !== true
      },
    )
    t.strictSame(
      wrong.map(([tag]) => tag),
      [],
      place,
    )
  }
  t.ok(links > 10_000, `${links} links`)
  for (const name of ['search.js', 'search-engine.js', 'style.css']) {
    t.notMatch(read(`assets/${name}`), /https?:|fetch\(|localStorage|cookie/, name)
  }
})

t.test('what the site cannot show is an error', async t => {
  const addresses = { link: (href: string) => href, picture: (href: string) => ({ light: href }) }
  t.throws(() => documentHtml('<b>bold</b>', addresses), /HTML in a document/)
  t.equal(documentHtml('<!-- run by test/x.ts -->', addresses), '')
  t.throws(() => manualHtml('.TH X 8\n.UR https://example.org/'), /line 2/)
  t.throws(() => manualHtml('.PP\nA \\(bu list'), /line 2/)
})

t.test('a manual as HTML', async t => {
  const html = manualHtml(
    [
      '.TH X 8 "2026-01-01"\n.SH SEE ALSO\n.BR a (1)\nand \\fIb\\fR.\n.TP\n.B \\-\\-c =\\fID\\fR\nSays so.',
      '.IP\nMore.\n.RS 4\n.nf\na < b # c\n.fi\n.RE\n.PP\nAfter.',
    ].join('\n'),
  )
  t.equal(
    html,
    [
      '<h1>x(8)</h1>\n<h2 id="see-also">See also</h2>\n<p><strong>a</strong>(1)\nand <em>b</em>.</p>\n',
      '<dl>\n<dt id="entry---c-d"><strong>--c =</strong><em>D</em></dt>\n<dd>\n<p>Says so.</p>\n<p>More.</p>\n',
      '<div class="indented">\n<div class="code" tabindex="0" role="group" aria-label="Example">',
      '<pre><code>a &#60; b <span class="comment"># c</span></code></pre></div>\n</div>\n',
      '</dd>\n</dl>\n<p>After.</p>\n',
    ].join(''),
  )
})

t.test('in a browser, without a server', { skip: noBrowser, timeout: 240_000 }, async t => {
  const browser = await launchBrowser({})
  t.teardown(() => browser.close())
  for (const [colorScheme, width] of [
    ['light', 1200],
    ['dark', 390],
  ] as const) {
    const page = await browser.newPage({ colorScheme, viewport: { width, height: 800 } })
    for (const place of kinds) {
      await page.goto(addressOf(place))
      const sideways = 'document.documentElement.scrollWidth - document.documentElement.clientWidth'
      t.equal(await page.evaluate(sideways), 0, `${place}: nothing wider than ${width} pixels`)
      t.strictSame(await findings(page), [], `${place}, ${colorScheme}: accessible`)
    }
    await page.close()
  }
  await t.test('the search finds a setting, and leads to it', t => searches(t, browser))
  await t.test('without scripts the menu opens and leads on', t => withoutScripts(t, browser))
})

function addressOf(place: string): string {
  return pathToFileURL(join(site, place)).href
}

/**
 * What operators typed when they looked for something, and the pages that answer it: one of them is among the first three. A page is named without its
 * anchor where each part of it leads on.
 */
const questions: ReadonlyArray<readonly [words: string, ...pages: string[]]> = [
  ['https archive', 'docs/answers.html#can-it-cache-https', 'docs/configuration.html#https'],
  ['lock out user', 'docs/answers.html#how-do-i-take-access-away-now'],
  ['log out user', 'docs/authproxy-applications.html#logout-signing-a-user-out'],
  ['backup', 'docs/answers.html#what-do-i-back-up', 'docs/installing.html#what-to-back-up'],
  ['hash sum mismatch', 'docs/troubleshooting.html'],
  ['docker build', 'docs/recipes/ci-and-images.html'],
  ['change port', 'docs/installing.html', 'docs/configuration.html#listen_port'],
  ['login failed', 'docs/authproxy.html#when-it-does-not-work', 'docs/troubleshooting.html'],
  [
    'load balancer health check',
    ...['docs/several-machines.html', 'docs/authproxy.html#3-the-edge'],
    'docs/recipes/aws-load-balancer.html',
  ],
  ['migrate apt-cacher-ng', 'docs/migration.html'],
  ['high availability', 'docs/several-machines.html', 'docs/several-instances.html'],
  ['uninstall', 'docs/installing.html'],
  ['air gap', 'docs/offline-sites.html'],
  ['self-signed certificate', 'docs/configuration.html#httpsorigin_ca'],
  ['kick user', 'docs/answers.html#how-do-i-take-access-away-now'],
  ['password for the web interface', 'docs/configuration.html#indexclients'],
  ['limit disk space', 'docs/configuration.html#retentionsize'],
  ['disk quota', 'docs/configuration.html#retentionsize'],
  ['cache full', 'docs/troubleshooting.html#when-the-disk-is-full'],
  ['rotate certificate', 'docs/authproxy.html#5-keep-it-running'],
  ['redis', 'docs/several-instances.html'],
  ['websocket', 'docs/authproxy.html#3-the-edge', 'docs/authproxy-applications.html'],
  ['prometheus', 'docs/metrics.html'],
  ['why did login fail', 'docs/authproxy.html#when-it-does-not-work'],
  ['nginx auth_request', 'docs/forward-auth.html'],
  ['private repository', 'docs/paid-archives.html'],
  ['pin packages to a date', 'docs/snapshots.html'],
  ['reproducible build', 'docs/builds.html'],
  ['403 forbidden', 'docs/troubleshooting.html'],
  ['minio', 'docs/several-machines.html'],
  ['group admins only', 'docs/access-rules.html'],
  ['POST only admins', 'docs/access-rules.html'],
  // The words of the short answers, and of questions that were asked before.
  ['archive is down', 'docs/answers.html#what-happens-when-the-archive-is-down'],
  ['cache https', 'docs/answers.html#can-it-cache-https'],
  ['what does the application see', 'docs/answers.html#what-does-the-application-see-of-a-user'],
  ['take access away', 'docs/answers.html#how-do-i-take-access-away-now'],
  ['back up', 'docs/answers.html#what-do-i-back-up'],
  ['how large', 'docs/answers.html#how-large-must-it-be'],
  ['memory', 'docs/sizing.html', 'docs/answers.html#how-large-must-it-be'],
  ['disk full', 'docs/troubleshooting.html#when-the-disk-is-full'],
  // Stems, the beginning of a word, slips of the finger, and a word that no page has.
  ['delaying updates', 'docs/delay.html'],
  ['keyclo', 'docs/recipes/keycloak.html'],
  ['keyclaok', 'docs/recipes/keycloak.html'],
  ['prometeus', 'docs/metrics.html'],
  ['reverse proxy caddy', 'docs/authproxy.html#3-the-edge', 'docs/forward-auth.html'],
  ['failover zxqj', 'docs/several-machines.html', 'docs/several-instances.html'],
]

t.test('the search has the right page among the first three', async t => {
  const scripts = ['assets/minisearch.js', 'assets/search-engine.js']
  const context = createContext({})
  for (const script of scripts) runInContext(read(script), context)
  const { MiniSearch, siteSearch } = context
  const search = siteSearch(MiniSearch, indexedPages(pages))
  for (const [words, ...right] of questions) {
    const hits: readonly Hit[] = search(words)
    const places = hits
      .slice(0, 3)
      .map(({ page, part }) => `${page.place}${part.id === '' ? '' : `#${part.id}`}`)
    t.ok(
      places.some(place => right.some(page => place === page || place.startsWith(`${page}#`))),
      `${words}: ${places.join(', ')}`,
    )
  }
  const sources = new Set(indexedPages(pages).map(({ place }) => place))
  const files = [...sources].filter(place => /^packaging|package\.json|schema/.test(place))
  t.strictSame(files, [], 'no file of the repository is searched')
  t.strictSame(search('of the'), [], 'words without meaning find nothing')
})

interface Hit {
  readonly page: { readonly place: string }
  readonly part: { readonly id: string }
}

async function searches(t: Test, browser: Browser): Promise<void> {
  const page = await browser.newPage()
  const complaints = listen(page)
  await page.goto(addressOf('docs/recipes/keycloak.html'))
  await page.keyboard.press('/')
  await page.keyboard.type('serve_stale')
  await page.locator('#site-results a').first().waitFor()
  await page.keyboard.press('ArrowDown')
  await page.keyboard.press('Enter')
  await page.waitForURL('**/docs/configuration.html#freshnessserve_stale')
  await page.fill('#site-words', 'xqzjw')
  await page.locator('#site-found', { hasText: /^Nothing/ }).waitFor()
  t.strictSame(complaints, [])
  t.strictSame(await findings(page), [], 'what is found is accessible')
  await page.close()
}

async function withoutScripts(t: Test, browser: Browser): Promise<void> {
  const context = await browser.newContext({
    javaScriptEnabled: false,
    viewport: { width: 390, height: 800 },
  })
  const page = await context.newPage()
  await page.goto(addressOf('man/authproxy.8.html'))
  t.notOk(await page.locator('#site-search').isVisible(), 'what needs a script is not shown')
  const link = page.locator('#site-menu a', { hasText: 'Upgrade' })
  t.notOk(await link.isVisible())
  await page.locator('button', { hasText: 'Menu' }).click()
  await page.locator('#site-menu summary', { hasText: 'Operating' }).click()
  await link.click()
  await page.waitForURL('**/docs/upgrading.html')
  t.match(await page.textContent('h1'), 'Upgrading')
  await context.close()
}

/** What the console says, and what fails to load. */
function listen(page: BrowserPage): string[] {
  const complaints: string[] = []
  page.on('console', message => complaints.push(message.text()))
  page.on('pageerror', error => complaints.push(String(error)))
  page.on('requestfailed', request => complaints.push(request.url()))
  return complaints
}
