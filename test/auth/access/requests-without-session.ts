/**
 * What each kind of request without a session is answered: the way to the identity provider for people, 401 for programs. Beside
 * it stands what the documents of mod_auth_mellon and of oauth2-proxy say of the same request.
 */
import t from 'tap'
import type { Response } from '../../../lib/http/message/message.ts'
import { startWhole } from '../../fixtures/gateway/whole-gateway.ts'
import { htmlOf } from '../../fixtures/saml/browser.ts'
import { sp } from '../../fixtures/saml/idp.ts'

t.setTimeout(600_000)

/** What comes: JSON and pages have status 401. */
type Kind = 'redirect' | 'login page' | 'frame page' | 'question' | 'JSON' | 'other'

interface Asked {
  readonly method?: string
  readonly fields: Readonly<Record<string, string>>
  readonly content?: string
}

const html = 'text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8'
const form = { 'Content-Type': 'application/x-www-form-urlencoded' }

/** Fetch metadata with what a browser accepts. */
function fetched(mode: string, place: string, accept = '*/*', more = {}): Asked {
  const fields = { Accept: accept, 'Sec-Fetch-Mode': mode, 'Sec-Fetch-Dest': place }
  return { fields: { ...fields, 'Sec-Fetch-Site': 'same-origin', ...more } }
}

const posted = { method: 'POST', content: 'a=1' }
const elsewhere = { Origin: 'https://other.example.net', 'Sec-Fetch-Site': 'cross-site' }
const navigation = fetched('navigate', 'document', html)

const people: ReadonlyArray<readonly [string, Asked, Kind]> = [
  ['a page', navigation, 'login page'],
  ['a page that a link of another site opens', moreOf(navigation, elsewhere), 'login page'],
  ['the head of a page', { ...navigation, method: 'HEAD' }, 'login page'],
  ['a page through a service worker', fetched('navigate', 'empty', html), 'login page'],
  ['a page of an edge that drops Sec-Fetch-Dest', without(navigation), 'login page'],
  ['a page in a frame', fetched('navigate', 'iframe', html), 'frame page'],
  ['a page in a frame of a frameset', fetched('navigate', 'frame', html), 'frame page'],
  ['a form', { ...moreOf(navigation, { ...form, Origin: sp.baseUrl }), ...posted }, 'login page'],
  [
    'a form of another site',
    { ...moreOf(navigation, { ...form, ...elsewhere }), ...posted },
    'question',
  ],
  ['a page, in a browser without Fetch metadata', { fields: { Accept: html } }, 'redirect'],
  ['the head of one', { method: 'HEAD', fields: { Accept: html } }, 'redirect'],
  [
    'a form, there',
    { ...posted, fields: { Accept: html, ...form, Origin: sp.baseUrl } },
    'redirect',
  ],
  ['XHTML alone', { fields: { Accept: 'application/xhtml+xml' } }, 'redirect'],
  ['a browser of text', { fields: { Accept: 'text/html, text/plain, text/*;q=0.5' } }, 'redirect'],
  ['capitals', { fields: { Accept: 'Text/HTML' } }, 'redirect'],
  [
    'a page in an application of Android, without Fetch metadata',
    { fields: { Accept: html, 'X-Requested-With': 'org.example.portal' } },
    'redirect',
  ],
  [
    'a page there, with Fetch metadata',
    moreOf(navigation, { 'X-Requested-With': 'org.example.portal' }),
    'login page',
  ],
]

const programs: ReadonlyArray<readonly [string, Asked]> = [
  ['fetch()', fetched('cors', 'empty')],
  ['fetch() of a page', fetched('cors', 'empty', html)],
  ['fetch() of the same origin', fetched('same-origin', 'empty', html)],
  ['fetch() without CORS', fetched('no-cors', 'empty')],
  [
    'fetch() that posts JSON',
    { ...moreOf(fetched('cors', 'empty'), { 'Content-Type': 'application/json' }), ...posted },
  ],
  [
    'a stream of Turbo',
    fetched('cors', 'empty', 'text/vnd.turbo-stream.html, text/html, application/xhtml+xml'),
  ],
  [
    'a beacon',
    { ...moreOf(fetched('no-cors', 'empty'), { 'Content-Type': 'text/plain' }), ...posted },
  ],
  ['EventSource', fetched('cors', 'empty', 'text/event-stream')],
  ['a WebSocket', { fields: { ...fetched('websocket', 'empty').fields, ...upgrade() } }],
  ['a WebSocket without Fetch metadata', { fields: { Accept: html, ...upgrade() } }],
  ['an image', fetched('no-cors', 'image', 'image/avif,image/webp,*/*;q=0.8')],
  ['a script', fetched('no-cors', 'script')],
  ['a module', fetched('cors', 'script')],
  ['a style sheet', fetched('no-cors', 'style', 'text/css,*/*;q=0.1')],
  ['a font', fetched('cors', 'font')],
  ['a video', fetched('no-cors', 'video')],
  ['a manifest', fetched('cors', 'manifest')],
  ['a worker', fetched('same-origin', 'worker')],
  ['a service worker', fetched('same-origin', 'serviceworker')],
  ['an object', fetched('navigate', 'object', html)],
  ['an embedded document', fetched('navigate', 'embed', html)],
  ['a fenced frame', fetched('navigate', 'fencedframe', html)],
  ['a link with the attribute download', fetched('navigate', 'empty')],
  ['a page fetched ahead', moreOf(navigation, { 'Sec-Purpose': 'prefetch' })],
  ['a page rendered ahead', moreOf(navigation, { 'Sec-Purpose': 'prefetch;prerender' })],
  [
    'a page fetched ahead, as Safari and old Chrome say it',
    { fields: { Accept: html, Purpose: 'prefetch' } },
  ],
  [
    'a page fetched ahead, as old Firefox says it',
    { fields: { Accept: html, 'X-Moz': 'prefetch' } },
  ],
  [
    'a page for a preview, as old Safari says it',
    { fields: { Accept: html, 'X-Purpose': 'preview' } },
  ],
  [
    'a preflight',
    {
      ...moreOf(fetched('cors', 'empty'), { ...elsewhere, 'Access-Control-Request-Method': 'PUT' }),
      method: 'OPTIONS',
    },
  ],
  [
    'XMLHttpRequest of jQuery',
    { fields: { Accept: 'text/html, */*; q=0.01', 'X-Requested-With': 'XMLHttpRequest' } },
  ],
  ['axios', { fields: { Accept: 'application/json, text/plain, */*' } }],
  ['HTML that is not acceptable', { fields: { Accept: 'application/json, text/html;q=0' } }],
  ['curl, wget, git, Python', { fields: { Accept: '*/*' } }],
  ['nothing said', { fields: {} }],
  ['curl that posts', { ...posted, fields: { Accept: '*/*', ...form } }],
  [
    'an image, without Fetch metadata',
    { fields: { Accept: 'image/webp,image/*;q=0.8,*/*;q=0.5' } },
  ],
  ['Office that asks what may be done', { method: 'OPTIONS', fields: { Accept: html } }],
  [
    'Office that looks at a document',
    { method: 'HEAD', fields: { 'X-Office-Major-Version': '16' } },
  ],
  ['PUT', { ...moreOf(navigation, {}), method: 'PUT' }],
  ['PATCH', { ...moreOf(navigation, {}), method: 'PATCH' }],
  ['DELETE', { ...moreOf(navigation, {}), method: 'DELETE' }],
]

t.test('people are led to the identity provider, programs are told where to sign in', async t => {
  const { browser, backend, idp } = await startWhole(t)
  for (const [name, { method = 'GET', fields, content }, expected] of [
    ...people,
    ...programs.map(([name, asked]) => [name, asked, 'JSON'] as const),
  ]) {
    browser.cookies.clear()
    const answer = await browser.send(method, '/deep?x=1', fields, content)
    t.equal(kindOf(answer, idp.baseUrl), expected, name)
    t.match(answer.fields.get('Cache-Control'), 'no-store', `${name}: is kept by no cache`)
    const logins = answer.fields.all('Set-Cookie').filter(line => line.includes('_login'))
    t.equal(
      logins.length > 0,
      !['JSON', 'frame page'].includes(expected),
      `${name}: a login begins`,
    )
    if (answer.status !== 401) continue
    t.match(answer.fields.get('WWW-Authenticate'), /^Authproxy login="https:/, name)
    t.match(answer.fields.get('X-Authproxy-Login'), sp.baseUrl, name)
  }
  t.strictSame(backend.requests, [], 'the application has seen none')
})

t.test('what mod_auth_mellon or oauth2-proxy refuse gets 401 here too', async t => {
  // By their documents: mod_auth_mellon knows a script by one field, oauth2-proxy by one media type. They redirect all else.
  const refusing = {
    mellon: ({ fields }: Asked) => fields['X-Requested-With'] === 'XMLHttpRequest',
    oauth2: ({ fields }: Asked) =>
      /(?:^|,)\s*application\/json\s*(?:,|$)/.test(fields['Accept'] ?? ''),
  }
  for (const [name, refuses] of Object.entries(refusing)) {
    t.strictSame(
      people.filter(([, asked]) => refuses(asked)),
      [],
      name,
    )
    t.ok(
      programs.some(([, asked]) => refuses(asked)),
      name,
    )
  }
})

function moreOf(asked: Asked, fields: Readonly<Record<string, string>>): Asked {
  return { ...asked, fields: { ...asked.fields, ...fields } }
}

function without({ fields }: Asked): Asked {
  const { 'Sec-Fetch-Dest': _, ...rest } = fields
  return { fields: rest }
}

function upgrade() {
  const key = 'AAAAAAAAAAAAAAAAAAAAAA=='
  const version = { 'Sec-WebSocket-Version': '13', 'Sec-WebSocket-Key': key }
  return { Connection: 'Upgrade', Upgrade: 'websocket', Origin: sp.baseUrl, ...version }
}

function kindOf(answer: Response, idp: string): Kind {
  const { status, fields } = answer
  if (status === 302 && fields.get('Location')?.startsWith(idp)) return 'redirect'
  if (status !== 401) return 'other'
  if (fields.get('Content-Type')?.startsWith('application/json')) return 'JSON'
  if (fields.get('X-Frame-Options') === 'SAMEORIGIN') return 'frame page'
  return htmlOf(answer).includes('Send this form?') ? 'question' : 'login page'
}
