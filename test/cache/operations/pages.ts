/**
 * The pages as HTML: valid, free of script, the same whatever the values in them. How browsers see them is for test/browser/.
 */
import { HtmlValidate, StaticConfigLoader } from 'html-validate'
import t from 'tap'
import type { OperationsSources } from '../../../lib/cache/operations/sources.ts'
import { report } from '../../../lib/cache/stats/report.ts'
import { suiteState } from '../../fixtures/cache/activity.ts'
import {
  ask,
  fullConfig,
  fullSources,
  hostileSources,
  noon,
  pageOf,
  plainConfig,
  recorded,
  sources,
  textOf,
} from '../../fixtures/cache/operations.ts'
import { ManualClock } from '../../fixtures/time/manual-clock.ts'

const services: ReadonlyArray<readonly [name: string, given: OperationsSources]> = [
  ['without data', sources()],
  ['with data', fullSources()],
  ['with hostile values', hostileSources()],
  ['intercepting', fullSources({ httpsMode: 'intercept' })],
  ['refusing HTTPS, on loopback only', fullSources({ httpsMode: 'disabled', listeners: loopback })],
]

/** Addresses pages may point to: paths of this service, places on the page, and the project page. */
const homely = /^(\/(?!\/)|#[\w-]+$|https:\/\/cachesvc\.example\.org\/$)/

const paths = ['', 'cache', 'stats', 'setup', 'explain', 'configuration', 'lost']

function loopback() {
  return [{ address: '127.0.0.1', port: 3142, secure: false }]
}

async function render(given: OperationsSources, path: string): Promise<string> {
  return textOf(await ask(given, `/_cachesvc/${path}`, { query: 'url=http%3A%2F%2Fa.example%2F' }))
}

t.test('every page is valid HTML by the strictest rules there are', async t => {
  const loader = new StaticConfigLoader({
    root: true,
    extends: ['html-validate:recommended', 'html-validate:document', 'html-validate:a11y'],
    rules: {
      // Templates do not indent, and Mustache leaves the ends of its lines.
      'no-trailing-whitespace': 'off',
      'long-title': ['error', { maxlength: 40 }],
      'require-csp-nonce': 'off',
      'require-sri': ['error', { target: 'crossorigin' }],
    },
  })
  const validator = new HtmlValidate(loader)
  for (const [name, given] of services) {
    for (const path of paths) {
      const { results } = await validator.validateString(await render(given, path))
      const findings = results.flatMap(result => result.messages)
      t.strictSame(
        findings.map(finding => `${finding.line}: ${finding.ruleId}: ${finding.message}`),
        [],
        `${name}: ${path}`,
      )
    }
  }
  const { results } = await validator.validateString(textOf(await ask(sources(), '/')))
  t.strictSame(results, [], '/')
})

t.test(
  'no pages but the overview and setup have script, and none inline style, frames, or anything from elsewhere',
  async t => {
    for (const [name, given] of services) {
      for (const path of paths) {
        const html = await render(given, path)
        const tags = html.match(/<[a-z][^>]*>/gi) ?? []
        const wrong = tags.filter(tag => {
          // The policies of these pages name the script by its digest.
          if (tag === '<script>' && (path === '' || path === 'setup')) return false
          if (/^<(script|style|iframe|object|embed|base|img)\b/i.test(tag)) return true
          if (/ (on\w+|style)=/i.test(tag)) return true
          const address = / (?:href|action|src)="([^"]*)"/.exec(tag)?.[1]
          return address !== undefined && !homely.test(address)
        })
        t.strictSame(wrong, [], `${name}: ${path}`)
      }
    }
  },
)

t.test('hostile values appear as the text they are', async t => {
  const index = await render(hostileSources(), '')
  t.match(
    await render(hostileSources(), 'configuration'),
    '&#60;a href=&#34;javascript:alert(1)&#34;&#62;call&#60;/a&#62; &#38; &#34;co&#34;',
  )
  t.match(index, '<code>&#34;&#62;&#60;script&#62;alert(1)&#60;/script&#62;</code>')
  t.match(index, '<code>{{version}}</code>', 'a value is not a template')
  t.match(await render(hostileSources(), 'setup'), 'http://&#60;script&#62;')
})

t.test('headings follow one another without gaps, and there is one of the first level', async t => {
  for (const [name, given] of services) {
    for (const path of paths) {
      const levels = [...(await render(given, path)).matchAll(/<h([1-6])/g)].map(m => Number(m[1]))
      t.equal(levels.filter(level => level === 1).length, 1, `${name}: ${path}`)
      t.equal(levels[0], 1)
      levels.forEach((level, i) => {
        t.ok(level <= (levels[i - 1] ?? 1) + 1)
      })
    }
  }
})

t.test('every table has a caption and headers that say what they head', async t => {
  for (const path of paths) {
    const html = await render(fullSources(), path)
    const tables = html.match(/<table[\s\S]*?<\/table>/g) ?? []
    for (const table of tables) {
      t.match(table, /<caption>[^<]+<\/caption>/)
      for (const [header] of table.matchAll(/<th\b[^>]*>/g)) t.match(header, /scope="(col|row)"/)
    }
  }
})

t.test('the menu marks the page one is on', async t => {
  for (const [path, label] of [
    ['', 'Overview'],
    ['cache', 'Cache'],
    ['stats', 'Statistics'],
    ['setup', 'Setup'],
    ['explain', 'Explain'],
    ['configuration', 'Configuration'],
  ] as const) {
    const current = (await render(fullSources(), path)).match(/<a [^>]*aria-current="page">[^<]*/g)
    t.match(current, [new RegExp(`>${label}$`)])
  }
  t.notMatch(await render(fullSources(), 'lost'), 'aria-current')
})

t.test('which hosts are accepted', async t => {
  const accepted = async (config: Partial<typeof plainConfig>) => {
    return pageOf(sources({ config: { ...plainConfig, ...config } }), '/_cachesvc/configuration')
  }
  const { domains, passthroughDomains } = fullConfig
  t.match(await accepted({}), /No domains are listed: all public hosts are accepted/)
  t.match(await accepted({}), /No passthrough rules/)
  t.match(await accepted({ passthroughDomains }), /nothing is stored: only passthrough hosts/)
  t.notMatch(await accepted({ domains }), /No domains are listed/)
  t.match(await accepted({ clients: [] }), /Every network may use the proxy/)
  t.match(await accepted({}), /None: origins are reached directly/)
})

t.test('readiness is on the first page and on that of the cache, with its reason', async t => {
  const full = fullSources({ health: () => ({ writable: false, because: 'the disk is full' }) })
  for (const path of ['', 'cache']) {
    t.match(await render(sources(), path), '<strong>Ready</strong>')
    t.match(await render(full, path), '<strong>Not ready</strong> the disk is full')
  }
})

t.test('a service that is ready but has warnings is not green', async t => {
  const doubtful = sources({ warnings: () => ['mdns: is not <supported>'] })
  for (const path of ['', 'cache']) {
    const page = await render(doubtful, path)
    t.match(page, /class="state wait"><p><strong>Ready, with warnings<\/strong>/)
    t.match(page, '<li>mdns: is not &#60;supported&#62;</li>')
    t.notMatch(page, '<strong>Ready</strong>')
  }
  t.match(await render(doubtful, ''), 'Packages are served and stored.')
  const full = await render(sources({ nothingStored: () => 'no room' }), '')
  t.match(full, '</strong> Packages are served.</p>', 'it does not say that they are stored')
  const found = await render(fullSources(), '')
  t.match(found, '<li>the last check removed 2 wrong files</li>')
})

t.test('what went wrong lately, with a link that explains it and no secret of a query', async t => {
  const written = await render(fullSources(), '')
  const page = written.replaceAll('&#x2F;', '/').replaceAll('&#x3D;', '=')
  t.match(page, 'failed, ORIGIN_CONNECT_TIMEOUT<small>503, 0 bytes</small>')
  t.match(
    page,
    'href="/_cachesvc/explain?url=http%3A%2F%2Ffar.example.net%2Fdebian%2Fdists%2Fstable%2FInRelease%3F...">',
  )
  t.notMatch(page, 'sig=1')
  t.match(page, /CONNECT\s+<code>esm\.example\.org:443<\/code>/)
  t.match(page, 'immutable, cut off')
  t.match(page, '<progress max="100" value="41"')
  t.match(page, /<strong[^>]*>41\.3<\/strong>/)
  t.match(page, /<strong[^>]*>34\.0 MiB<\/strong>/)
  t.match(page, /<strong[^>]*>3 days 4 hours<\/strong>/)
  // Problems of today can be from before the start.
  t.match(await render(sources(), ''), /None since the start, \d{4}-\d\d-\d\d \d\d:\d\d UTC\.</)
})

t.test('requests and clients are shown unless a setting says no', async t => {
  const index = { ...fullConfig.index, activity: false }
  const page = await render(fullSources({ config: { ...fullConfig, index } }), '')
  for (const secret of ['192.0.2.99', 'Recent problems', 'hello_2.10', 'id="arriving"'])
    t.notMatch(page, secret)
  t.match(page, '<h2 id="archives">')
})

t.test('figures that cannot be had are not made up', async t => {
  const cache = await render(sources(), 'cache')
  t.match(cache, '<strong>unknown</strong>')
  t.notMatch(cache, 'role="meter"')
})

t.test(
  'a day on which more was fetched than served saves nothing, and less than nothing never',
  async t => {
    const counted = recorded(new ManualClock(noon), [
      { misses: 1, traffic_down: 900, traffic_up: 5 },
    ])
    const given = sources({ statistics: () => report(counted.days, counted.today) })
    t.match(
      await render(given, 'stats'),
      '<dt>Saved, estimated</dt><dd><strong>0 bytes</strong> <span>0% of the traffic to clients</span>',
    )
  },
)

t.test('days with traffic, one or many, in proper English', async t => {
  const of = (days: number) => {
    const counted = recorded(
      new ManualClock(noon),
      Array.from({ length: days }, () => ({ misses: 1 })),
    )
    return sources({ statistics: () => report(counted.days, counted.today) })
  }
  t.match(await render(of(1), 'stats'), '>The only day with traffic so far</h2>')
  t.match(await render(of(2), 'stats'), '>The last 2 days with traffic</h2>')
})

t.test('each chart has a name, a description and all its figures in the table', async t => {
  const stats = await render(fullSources(), 'stats')
  const charts = stats.match(/<svg viewBox="0 0 400 220"[\s\S]*?<\/svg>/g) ?? []
  t.equal(charts.length, 4)
  for (const chart of charts) {
    t.match(chart, /role="img" aria-labelledby="[\w-]+-title [\w-]+-description"/)
    t.match(chart, /<desc id="[^"]+">[^<]{20,}<\/desc>/)
  }
  t.match(stats, '<data value="9100000000">8.48 GiB</data><small>9,100,000,000</small>')
})

t.test('the cache page says which suites are adopted, and why one is behind', async t => {
  const page = await render(fullSources(), 'cache')
  t.match(page, '<code>debian/dists/stable</code> Kept for now: the origin has a newer one')
  t.match(page, '<td class="words" data-label="Host"><code>archive.example.org</code></td>')
  t.match(page, 'Good signatures are by key 89ABCDEF01234567.')
  const [by, owner] = ['0123456789abcdef'.repeat(3), 'Example Archive <archive@example.org>']
  const suites = () => [suiteState({ signature: { is: 'good', by, owner } })]
  t.match(
    await render(fullSources({ suites }), 'cache'),
    'Good signatures are by Example Archive &#60;archive@example.org&#62;, key 0123456789ABCDEF.',
    'whose key it is',
  )
  t.match(page, 'not checked: no keyring')
  t.match(page, '<strong>(past)</strong>')
  t.match(await render(sources(), 'cache'), 'None yet. A suite is adopted when')
})

t.test(
  'the cache page says what is stored of each archive, and how often it was a hit',
  async t => {
    t.match(await render(sources(), 'cache'), 'Nothing is stored yet.')
    t.match(await render(sources({ holdings: () => undefined }), 'cache'), 'are being counted')
    const [name, rest] = ['archive.example.org', { files: 1200, bytes: 3_000_000 }]
    const many = Array.from({ length: 21 }, (_, i) => ({ name: `${i}.example`, ...rest }))
    const holdings = () => ({ archives: [{ name, ...rest }, ...many], largest: [] })
    const tally = { name, requests: 4, hits: 3, bytes: 0, last: noon }
    const activity = () => ({ ...fullSources().activity(), archives: [tally] })
    const page = await render(fullSources({ holdings, activity }), 'cache')
    t.match(page, /<code>archive\.example\.org<\/code>.*1,200<.*>2\.86 MiB<.*>75\.0%</)
    t.match(page, 'none asked for')
    t.match(page, 'And 2 more.')
    t.notMatch(page, 'Largest files')
    const large = await render(fullSources(), 'cache')
    t.match(
      large,
      /explain\?url=http%3A%2F%2Farchive[^"]*"><code>http:.*large_1.0_amd64\.deb<.*>2\.00 GiB</,
    )
  },
)

t.test('used and free are the total, and the share is that of df', async t => {
  const filesystem = { total: 1000, used: 500, free: 400 }
  const usage = () => ({ objects: 1, bytes: 100, filesystem })
  const cache = await render(sources({ usage }), 'cache')
  const row = (name: string) =>
    new RegExp(`<th scope="row">${name}</th>.*?<td class="number">([\\d,]+)</td></tr>`).exec(
      cache,
    )?.[1]
  t.equal(Number(row('All that is used')) + Number(row('Free')), Number(row('Total')))
  t.match(cache, '<strong>55.6%</strong>', '500 of 900')
  t.match(cache, '100 bytes more are reserved for root.')
})
