/**
 * Both fronts, the gateway and the checks of an edge, decide alike: the same requests by chance are sent to the gateway and asked about in a
 * check of each edge. Compared are the verdict with its reason, the identity, the cookies, and whatever else of a client the application
 * could take for something it is not. `differences` is what differs, and why.
 *
 * FRONTS_SEED repeats a run, FRONTS_REQUESTS changes its length.
 */
import { createServer, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setImmediate as turn } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { foreignName, isSameField, treatments } from '../../lib/auth/access/foreign-names.ts'
import type { Edge } from '../../lib/auth/config/setting-forward-auth.ts'
import { isSource } from '../../lib/auth/forward-auth/contract.ts'
import { Fields } from '../../lib/http/message/field.ts'
import { type Chance, seeded } from '../fixtures/chance/seeded-random.ts'
import { bytesOf, checkOf, edges, navigation, startChecks } from '../fixtures/gateway/checks.ts'
import { spellingsOf } from '../fixtures/gateway/foreign.ts'
import { domain, type Gateway } from '../fixtures/gateway/gateway.ts'
import { RawClient, type RawResponse } from '../fixtures/http/raw-client.ts'
import { ManualClock } from '../fixtures/time/manual-clock.ts'

const { FRONTS_SEED = '1', FRONTS_REQUESTS = '2000' } = process.env
const count = Number(FRONTS_REQUESTS)

t.setTimeout(600_000)

type Line = readonly [name: string, value: string]

interface Asked {
  readonly method: string
  readonly target: string
  readonly host: string
  readonly lines: readonly Line[]
  readonly content: string
}

/** What the fronts may say differently of a request: the verdicts as this file writes them, and the requests it is about. */
interface Difference {
  readonly why: string
  readonly gateway: RegExp
  readonly check: RegExp
  readonly when: (asked: Asked, edge: Edge) => boolean
}

const has = (asked: Asked, name: RegExp) => asked.lines.some(([each]) => name.test(each))
const familyOf = (name: string) => foreignName(name)?.family

const differences: readonly Difference[] = [
  {
    why: 'The gateway removes a field of a client that could be taken for ours. An edge could pass it on, so the check refuses it.',
    gateway: /^/,
    check: /^refused (?:identity|foreign)-field$/,
    when: ({ lines }) =>
      lines.some(([name]) => {
        const family = isSameField(name, 'X-Team') ? 'identity' : familyOf(name)
        return family !== undefined && ['refused', 'compared'].includes(treatments[family].check)
      }),
  },
  {
    why: 'A source of the check in another spelling than that of the edge: only a client can have sent it.',
    gateway: /^/,
    check: /^malformed edge_/,
    when: ({ lines }, edge) => lines.some(([name]) => isSpeltSource(edge, name)),
  },
  {
    why: 'A check answers nothing for another host. The gateway puts its own in its place, and begins no login.',
    gateway: /^/,
    check: /^malformed edge_host$/,
    when: ({ host }) => host !== domain,
  },
  {
    why: 'The gateway answers its own paths, and others below /__authproxy/ are the application’s. An edge has to route all of them there.',
    gateway: /^/,
    check: /^own misrouted$/,
    when: ({ target }) => /^\/(?:saml\/|__authproxy)/.test(target),
  },
  {
    why: 'Of a target without a path nothing is known.',
    gateway: /^(?:failed foreign_target|refused malformed|malformed)$/,
    check: /^malformed edge_(?:target|path)$/,
    when: ({ target }) => !target.startsWith('/'),
  },
  {
    why: 'At the gateway, Node’s parser refuses methods in small letters.',
    gateway: /^malformed$/,
    check: /^(?:refused|malformed)$/,
    when: ({ method }) => method !== method.toUpperCase(),
  },
  {
    why: 'The gateway opens no protocol but WebSocket and answers as if none had been asked for. An edge could open it.',
    gateway: /^/,
    check: /^refused upgrade$/,
    when: asked => has(asked, /^(?:Upgrade|HTTP2-Settings)$/i),
  },
  {
    why: 'A preflight with credentials: the gateway removes them, an edge would pass them on.',
    gateway: /^pass preflight/,
    check: /^refused foreign-field$/,
    when: asked => has(asked, /^Authorization$/),
  },
  {
    why: 'The gateway renews a session in its answer. An edge leads the browser to a page of the gateway for it.',
    gateway: /^pass session/,
    check: /^renewal /,
    when: asked => has(asked, /^Sec-Fetch-Mode$/),
  },
  {
    why: 'The gateway keeps a form over the login, and says why when it cannot. Behind an edge no form is kept.',
    gateway: /^failed request_not_kept$/,
    check: /^login no-session$/,
    when: ({ method }) => method === 'POST',
  },
  {
    why: 'A check has no content, so it cannot tell a preflight from an OPTIONS that has some.',
    gateway: /^/,
    check: /^pass preflight/,
    when: ({ method, content }) => method === 'OPTIONS' && content !== '',
  },
]

const robot = 'robot-token-0123456789abcdef'
const scoped = 'scoped-token-0123456789abcdef'
const lapsed = 'lapsed-token-0123456789abcdef'

const common = {
  cors: 'pass',
  passthroughPaths: ['/public/'],
  passthroughTokens: [
    { name: 'robot', token: robot },
    {
      name: 'scoped',
      token: scoped,
      paths: ['/health'],
      methods: ['GET'],
      clients: ['192.0.2.0/28'],
    },
    { name: 'lapsed', token: lapsed, expires: '2025-12-31' },
  ],
}

const variants: Readonly<Record<string, Parameters<typeof startChecks>[1]['settings']>> = {
  rules: {
    ...common,
    access: [
      { path: '/metrics', allow: 'nobody' },
      { path: '/open/', allow: 'anyone' },
      { path: '/admin/', methods: ['POST', 'DELETE'], allow: [{ groups: ['admins'] }] },
      { path: '/admin/', allow: [{ groups: ['admins', 'staff'] }] },
      { path: '/secure/', allow: 'signed-in', login: { maxAge: '15m', context: 'mfa' } },
      { path: '/', methods: ['GET', 'POST', 'OPTIONS', 'PROPFIND'], allow: 'signed-in' },
    ],
  },
  names: {
    ...common,
    session: { browser: 'required' },
    identity: { names: ['remote', 'auth-request', { field: 'X-Team', from: 'department' }] },
  },
}

const methods = [
  ...['GET', 'GET', 'GET', 'GET', 'HEAD', 'POST', 'PUT', 'DELETE', 'OPTIONS', 'OPTIONS'],
  ...['PROPFIND', 'TRACE', 'get', 'M-SEARCH'],
]

const targets = [
  ...['/', '/page', '/page?q=%2f', '/open/a', '/open/a?_method=DELETE', '/admin/', '/admin/x?y'],
  ...['/secure/', '/metrics', '/public/a', '/health', '/health/x', '/public', '/Admin/', '/open'],
  ...['/open/../admin/', '/open/%2e%2e/admin/', '/public/..%2fadmin/', '/public//a', '//admin/'],
  ...['/./admin/', '/admin;x/', '/%61dmin/', '/adm\u0131n/', '/admin%00', '/admin/%', '/public/;a'],
  ...[
    '/public/%u002e',
    '/admin\\',
    '/open/\uff0e\uff0e/admin/',
    '/admin.',
    '/admin%20/',
    '/ADMIN/x',
  ],
  ...['/saml/acs', '/saml/slo', '/saml/metadata.xml', '/saml/other', '/__authproxy/whoami'],
  ...['/__authproxy/signed-in', '/__authproxy/login.js', '/__authproxy/renew?to=%2F'],
  ...['/__authproxy/refused', '/__authproxy/other', '/__authproxy-redirect?login=%2Fx', '*'],
]

const plainLines: ReadonlyArray<readonly Line[]> = [
  Object.entries(navigation),
  [...Object.entries(navigation), ['Sec-Fetch-Site', 'same-origin']],
  [
    ['Sec-Fetch-Mode', 'cors'],
    ['Sec-Fetch-Dest', 'empty'],
    ['Sec-Fetch-Site', 'same-origin'],
  ],
  [['Accept', 'text/html']],
  [['X-Requested-With', 'XMLHttpRequest']],
  [['Purpose', 'prefetch'], ...Object.entries(navigation)],
  [
    ['Sec-Fetch-Dest', 'iframe'],
    ['Sec-Fetch-Mode', 'navigate'],
    ['Accept', 'text/html'],
  ],
  [],
  [],
]

const preflights: ReadonlyArray<readonly Line[]> = [
  [
    ['Origin', 'https://other.example'],
    ['Access-Control-Request-Method', 'PUT'],
  ],
  [
    ['Origin', 'https://other.example'],
    ['Access-Control-Request-Method', 'DELETE'],
  ],
  [
    ['Origin', 'null'],
    ['Access-Control-Request-Method', 'GET'],
    ['Sec-Fetch-Mode', 'cors'],
  ],
  [
    ['Origin', `https://${domain}`],
    ['Access-Control-Request-Method', 'GET'],
  ],
  [['Access-Control-Request-Method', 'GET']],
  [
    ['Origin', 'https://other.example'],
    ['Access-Control-Request-Method', 'PUT'],
    ['Authorization', 'Bearer of-the-application'],
  ],
  [
    ['Origin', 'https://other.example'],
    ['Access-Control-Request-Method', 'TRACE'],
  ],
]

const sockets: ReadonlyArray<readonly Line[]> = [
  'https://app.example.org',
  'https://evil.example',
  '',
].map(origin => [
  ['Connection', 'Upgrade'],
  ['Upgrade', 'websocket'],
  ['Sec-WebSocket-Key', 'AAAAAAAAAAAAAAAAAAAAAA=='],
  ['Sec-WebSocket-Version', '13'],
  ...(origin === '' ? [] : [['Origin', origin] as const]),
])

const someLines: readonly Line[] = [
  ['Authorization', 'Bearer of-the-application'],
  ['Authorization', 'Basic YWRhOng='],
  ['X-HTTP-Method-Override', 'DELETE'],
  ['X_Method_Override', 'POST'],
  ['X-HTTP-Method', 'get'],
  ['Connection', 'Upgrade'],
  ['Upgrade', 'h2c'],
  ['HTTP2-Settings', 'AAMAAABk'],
  ['X-Forwarded-Proto', 'https'],
  ['Traceparent', '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'],
  ['X-Real-IP', '192.0.2.99'],
  ['Max-Forwards', '0'],
  ['If-None-Match', '"1"'],
]

const foreign: readonly string[] = [
  ...['Remote-User', 'X-Authproxy-User', 'X-Auth-Request-Email', 'X-WEBAUTH-USER', 'X-Team'],
  ...['Daphne-Root-Path', 'Script-Name', 'X-Original-URL', 'X-Rewrite-URL', 'X-Forwarded-Prefix'],
  ...[
    'X-Accel-Mapping',
    'X-Sendfile',
    'X-Forwarded-Host',
    'Forwarded',
    'Content-Length',
    'Upgrade',
  ],
  ...['X-Original-URI', 'X-Original-Method', 'X-Forwarded-Method', 'X-Forwarded-Uri', 'X-Scheme'],
  ...['X-Authproxy-Authorization', 'X-Authproxy-Request-ID', 'X-Authproxy-Edge-Secret'],
]

/** The persons of a gateway, as the Cookie fields that they send. */
async function cookiesOf(gateway: Gateway, clock: ManualClock) {
  const logIn = (email: string, more: Readonly<Record<string, readonly string[]>> = {}) =>
    gateway.logIn({ email: [email], ...more })
  const idle = await logIn('idle@example.org')
  clock.advance(5 * 3_600_000)
  const older = await logIn('older@example.org', { groups: ['staff'] })
  clock.advance(3_600_000)
  const gone = await logIn('gone@example.org')
  await gateway.sessions.revoke({ user: 'gone@example.org' })
  const ada = await logIn('ada@example.org', { groups: ['staff', 'a,b'], department: ['IT'] })
  const root = await gateway.logIn(
    { email: ['root@example.org'], groups: ['admins'] },
    { authenticated: clock.now() - 60_000, authnContext: 'https://refeds.org/profile/mfa' },
  )
  const alone = (cookie: string) =>
    cookie
      .split('; ')
      .filter(pair => !/browser/.test(pair))
      .join('; ')
  return [
    ...['', '', 'own=1', ada, ada, root, root, older, idle, gone, `own=1; ${ada}; other="2"`],
    ...[alone(ada), alone(root), `${gone}; ${ada}`, `${ada}; ${root}`, ada.slice(0, -20)],
    ...[`__Secure-authproxy-x=1; authproxy.y=2; own=3; ${ada}`, `${alone(ada)}; ${root}`],
    ...['__authproxy_session=%00..', `own=1; AUTHPROXY_session=x; ${root}; not-authproxy=1`],
  ]
}

function request(chance: Chance, cookies: readonly string[]): Asked {
  const method = chance.pick(methods)
  const lines: Line[] = []
  const seldom = (times: number) => chance.below(times) === 0
  const cookie = chance.pick(cookies)
  if (cookie !== '') {
    const at = cookie.indexOf('; ')
    // Some clients send a line for each cookie (RFC 9113 section 8.2.3).
    const several = at > 0 && seldom(10) ? [cookie.slice(0, at), cookie.slice(at + 2)] : [cookie]
    lines.push(...several.map(value => ['Cookie', value] as const))
  }
  if (method === 'OPTIONS' && !seldom(4)) lines.push(...chance.pick(preflights))
  else if (method === 'GET' && seldom(6)) lines.push(...chance.pick(sockets))
  else lines.push(...chance.pick(plainLines))
  if (seldom(7)) {
    const token = chance.pick([robot, robot, scoped, lapsed, 'no-token-0123456789abcdef'])
    lines.push([
      'X-Authproxy-Authorization',
      `${chance.pick(['Bearer', 'bearer ', 'Basic'])} ${token}`,
    ])
  }
  if (seldom(4)) lines.push(chance.pick(someLines))
  if (seldom(5)) {
    const name = chance.pick(spellingsOf(chance.pick(foreign)))
    const value = chance.pick(['mallory', '/admin/', domain, 'DELETE'])
    // Fields of HTTP itself mean what they say.
    if (!/^(?:Content-Length|Upgrade)$/i.test(name)) lines.push([name, value])
  }
  const content = ['POST', 'PUT', 'OPTIONS'].includes(method) && seldom(3) ? 'a=1' : ''
  if (content !== '') lines.push(['Content-Type', 'application/x-www-form-urlencoded'])
  const host = seldom(25) ? 'other.example.org' : domain
  return { method, target: chance.pick(targets), host, lines, content }
}

for (const [number, edge] of edges.entries()) {
  for (const variant of Object.keys(variants)) {
    t.test(`${edge}, ${variant}: the gateway and a check decide alike`, async t => {
      await compare(t, { edge, variant, seed: Number(FRONTS_SEED) * 100 + number })
    })
  }
}

const met = new Map<Difference, number>()
let passed = 0
t.test('each difference is one, and enough is compared', t => {
  for (const difference of differences) t.ok(met.has(difference), difference.why)
  t.ok(passed > count / 8, `${passed} pass both fronts`)
  t.end()
})

async function compare(
  t: Test,
  { edge, variant, seed }: { readonly edge: Edge; readonly variant: string; readonly seed: number },
): Promise<void> {
  const backend = await recordingBackend(t)
  const clock = new ManualClock(Date.parse('2026-01-01T00:00:00Z'))
  const { gateway, at } = await startChecks(t, {
    edge,
    clock,
    target: `http://127.0.0.1:${backend.port}`,
    proxy: { trustedProxies: ['127.0.0.1'], useBasicAuth: variant === 'names' && edge === 'caddy' },
    settings: variants[variant] ?? {},
  })
  if ('path' in at) throw new Error('not a port')
  const cookies = await cookiesOf(gateway, clock)
  const { stripped } = gateway.config.identityFields
  const fronts = {
    gateway: new Front(t, gateway, { port: gateway.port, message: 'request' }),
    check: new Front(t, gateway, { port: at.port, message: 'check' }),
  }
  /** What the application could take for something else than was judged, by folded name. */
  const claims = (lines: readonly Line[]) =>
    lines
      .filter(([name, value]) => {
        const family = stripped.of(name)?.family
        if (family === undefined || value === '' || ours.test(name)) return false
        return (
          treatments[family].check === 'refused' ||
          (treatments[family].check === 'compared' && value !== domain)
        )
      })
      .map(([name, value]) => `${name.toLowerCase()}: ${shown(value)}`)
      .sort()
  const chance = seeded(seed)
  let different = 0
  for (let i = 0; i < count / edges.length / Object.keys(variants).length; i += 1) {
    const asked = request(chance, cookies)
    const ofGateway = verdictOf(await fronts.gateway.ask(gatewayBytes(asked)))
    const sent = backend.take()
    const checked = await fronts.check.ask(checkBytes(edge, asked))
    const ofCheck = verdictOf(checked)
    const known = differences.filter(({ gateway, check, when }) => {
      return gateway.test(ofGateway) && check.test(ofCheck) && when(asked, edge)
    })
    for (const difference of known) met.set(difference, (met.get(difference) ?? 0) + 1)
    const [one, other] = [
      { verdict: ofGateway, ...(sent && { ...reached(sent), claims: claims(sent) }) },
      {
        verdict: ofCheck,
        ...(checked.answer.status === 200 && behindEdge(edge, asked, checked.answer)),
      },
    ]
    const theirs =
      'lines' in other
        ? { verdict: ofCheck, ...reached(other.lines), claims: claims(other.lines) }
        : other
    if (ofGateway === ofCheck && sent !== undefined) passed += 1
    if (known.length > 0 && ofGateway !== ofCheck) continue
    if (JSON.stringify(one) === JSON.stringify(theirs)) continue
    different += 1
    if (different < 6)
      t.strictSame(theirs, one, JSON.stringify(asked).replaceAll(/ey[\w.-]{40,}/g, 'JWT'))
  }
  t.equal(different, 0)
}

/** Fields of ours that say nothing of a user. */
const ours = /^x-authproxy-(?:request-id|instance-id)$/i

/** Signatures differ with each. */
const shown = (value: string) => value.replace(/^ey[\w.-]{40,}$/, 'JWT')

/** The cookies and credentials that reach the application. */
function reached(lines: readonly Line[]) {
  const values = (name: string) =>
    lines
      .filter(([each, value]) => each.toLowerCase() === name && value !== '')
      .map(([, value]) => value)
  const cookies = values('cookie').flatMap(line => line.split(';').map(pair => pair.trim()))
  return { cookies: cookies.filter(pair => pair !== ''), credentials: values('authorization') }
}

function gatewayBytes({ method, target, host, lines, content }: Asked): string {
  const own: Line[] = [
    ['Host', host],
    ['X-Forwarded-For', '192.0.2.9'],
  ]
  const length: Line[] = content === '' ? [] : [['Content-Length', `${content.length}`]]
  return `${bytesOf({ line: `${method} ${target} HTTP/1.1`, lines: [...own, ...lines, ...length] })}${content}`
}

/** The check by which the edge asks about a request. Its own fields take the place of those of the client that have their names. */
function checkBytes(edge: Edge, asked: Asked): string {
  const { method, target, host } = asked
  const { line, lines } = checkOf(edge, { method, target, host })
  const own = lines.map(([name]) => name.toLowerCase())
  const takesUpgrade = edge === 'nginx' || edge === 'traefik' || edge === 'caddy'
  const theirs = asked.lines.filter(([name]) => {
    const plain = name.toLowerCase()
    return !own.includes(plain) && !(takesUpgrade && /^(?:connection|upgrade)$/.test(plain))
  })
  return bytesOf({ line, lines: [...lines, ...theirs] })
}

/** The fields that an edge forwards: the client's, but what the files of packaging/edges remove, under those of the answer. */
function behindEdge(
  edge: Edge,
  { lines }: Asked,
  { fields }: RawResponse,
): { readonly lines: readonly Line[] } {
  const kept = lines.filter(([name]) => {
    const row = foreignName(name)
    const isRemoved =
      row !== undefined &&
      row.family !== 'override' &&
      row.name.toLowerCase() === name.toLowerCase()
    return !fields.has(name) && !isRemoved && !isSource(edge, name)
  })
  return { lines: [...kept, ...fields] }
}

function isSpeltSource(edge: Edge, name: string): boolean {
  const row = foreignName(name)
  if (row?.name === 'X-Authproxy-…') return /edge.secret/i.test(name)
  return row !== undefined && isSource(edge, row.name) && !isSource(edge, name)
}

interface Told {
  readonly answer: RawResponse
  readonly facts: Readonly<Record<string, unknown>>
}

/** A verdict in words: what becomes of the request, why, and for whom. */
function verdictOf({ facts }: Told): string {
  const { outcome, because, code, user, passthrough, rule, why } = facts
  const words = (...these: readonly unknown[]) => these.filter(word => word !== undefined).join(' ')
  switch (outcome) {
    case 'forwarded':
    case 'tunnelled':
    case 'allowed':
      return words('pass', because, user, passthrough)
    case 'login':
    case 'unauthenticated':
      return words(outcome, because, user, passthrough)
    case 'refused':
      return words('refused', because === 'method' ? undefined : (because ?? code), user, rule, why)
    case 'failed':
      return code === 'websocket_origin' ? 'refused websocket_origin' : words('failed', code)
    case 'renewal':
      return words('renewal', user)
    case 'malformed':
      return words('malformed', code)
    default:
      return words('own', outcome)
  }
}

/** One front, and what its log says of each request. */
class Front {
  readonly #t: Test
  readonly #gateway: Gateway
  readonly #at: { readonly port: number; readonly message: string }
  #client: RawClient | undefined

  constructor(t: Test, gateway: Gateway, at: { readonly port: number; readonly message: string }) {
    this.#t = t
    this.#gateway = gateway
    this.#at = at
  }

  async ask(bytes: string): Promise<Told> {
    const { message } = this.#at
    const { lines } = this.#gateway.log
    // Nothing is under way at the other front.
    let read = lines.length
    this.#client ??= await RawClient.connect(this.#t, this.#at.port)
    await this.#client.write(bytes)
    const answer = await this.#client.response({ to: bytes.startsWith('HEAD') ? 'HEAD' : 'GET' })
    if (/close/i.test(answer.fields.get('Connection') ?? '') || /^Upgrade:/im.test(bytes)) {
      this.#client.end()
      this.#client = undefined
    }
    for (;;) {
      for (; read < lines.length; read += 1) {
        const line = lines[read]
        if (line?.message === message) return { answer, facts: line.facts }
        if (line?.message === 'malformed request')
          return { answer, facts: { outcome: 'malformed' } }
      }
      await turn()
    }
  }
}

/** A backend that keeps the fields of the last request, and agrees to no upgrade. */
async function recordingBackend(t: Test) {
  let last: readonly Line[] | undefined
  const keep = ({ rawHeaders: flat }: IncomingMessage) => {
    last = [...Fields.fromFlat(flat)]
  }
  const server = createServer((request, response) => {
    keep(request)
    response.end('the application')
  })
  server.on('upgrade', (request, socket) => {
    keep(request)
    socket.end('HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n')
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  return {
    port: (server.address() as AddressInfo).port,
    take(): readonly Line[] | undefined {
      const taken = last
      last = undefined
      return taken
    },
  }
}
