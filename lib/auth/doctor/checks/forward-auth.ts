/**
 * Checks an edge that asks this service about each request and forwards it itself: whether the edge asks, what it says about
 * the request, which fields of a client reach the application, and how it answers when the check denies the request or fails.
 *
 * Probes take the way of the application up to `probePath`, where the edge leads them to the gateway listener (probe/probe.ts).
 */
import { Fields, sameName } from '../../../http/message/field.ts'
import { pathAndQuery } from '../../../http/message/target.ts'
import { type Family, foreignNames, isSameField, treatments } from '../../access/foreign-names.ts'
import { tokenField } from '../../access/passthrough.ts'
import type { Config } from '../../config/config.ts'
import { type Edge, edges } from '../../config/setting-forward-auth.ts'
import { contracts, isSource } from '../../forward-auth/contract.ts'
import { probedIdentity } from '../../forward-auth/probed-checks.ts'
import { checkedFieldNames } from '../../identity/session-identity.ts'
import { oddPath, probePath, redirectedPath, type SeenCheck } from '../../probe/probe.ts'
import { sessionCookie } from '../../session/cookie.ts'
import {
  type Answer,
  type Check,
  check,
  doubtfulFinding,
  type Finding,
  goodFinding,
  wrongFinding,
} from '../check.ts'
import {
  checkOf,
  claimedFields,
  type Examination,
  oncePerExamination,
  type ProbeResult,
  throughEdge,
} from '../facts.ts'
import { insteadText, type ProbeWay, send, withoutQuestion } from './edge.ts'

type ForwardAuth = NonNullable<Config['forwardAuth']>

export const forwardAuthChecks: readonly Check[] = [
  checkingEdge('check', 'does the edge ask before it forwards?', question),
  checkingEdge('identity', 'does it come only from the check?', identity),
  checkingEdge('words of a client', 'are they dropped?', claims),
  checkingEdge('redirects of the application', 'are they judged?', redirects),
  checkingEdge('judged path', 'is it the one that was sent?', target),
  checkingEdge('judged method', 'is it that of the request?', method),
  checkingEdge('judged client', 'is its address that of the peer?', client),
  checkingEdge('cookies of a check', 'do they arrive?', cookies),
  checkingEdge('denied requests', 'where do they lead?', answerWithoutSession),
  checkingEdge('failing checks', 'is the application closed then?', answerWithoutCheck),
]

/** A check of an edge that asks here before it forwards (forward-auth/); of other edges there is nothing to report. */
function checkingEdge(name: string, asks: string, answer: CheckingAnswer): Check {
  return check(`${name} through the edge`, asks, async of => {
    const { forwardAuth: settings } = of.config
    if (settings === undefined) return []
    const arrived = (await throughEdge(of))?.answer
    return arrived && answer(of, settings)
  })
}

/** An answer about an edge that asks for checks. */
type CheckingAnswer = (of: Examination, settings: ForwardAuth) => Answer | Promise<Answer>

/** The user a client claims to be, in fields that name the user. */
const CLAIM = 'doctor-claims-to-be-another'
/** What a client claims in the fields of a family. An edge may take an address for one, so there is no claim of it. */
const CLAIMS: Readonly<Partial<Record<Family, string>>> = {
  path: '/doctor-claims',
  file: '/doctor-claims',
  method: 'TRACE',
  host: 'doctor-claims.example',
  way: 'doctor-claims',
  address: 'doctor-claims',
}
/** Fields that applications believe about the way, the path or the host of a request. The check of the address tries X-Forwarded-For. */
const WAYS = foreignNames.flatMap(({ name, family }) => {
  const claim = CLAIMS[family]
  if (claim === undefined || name === 'X-Forwarded-For') return []
  return [[name, name === 'Forwarded' ? `host=${claim}` : claim] as const]
})
/** Those of them that an edge sends with its checks. */
const SOURCES = WAYS.filter(([name]) => edges.some(edge => isSource(edge, name)))
/** Fields of one probe. HAProxy refuses a request with a hundred. */
const MOST_CLAIMS = 40

/** Names that an application could read as X-Authproxy-User, or as names of other proxies. */
const USERS = foreignNames.filter(
  ({ name, family }) => family === 'identity' && /user$/i.test(name),
)
const SPELLINGS = [
  ...['X-Authproxy_User', 'X_Authproxy-User', 'X-Authproxy.User', 'x!authproxy!user'],
  ...['X-AUTHPROXY-USER_', ...oddSpellings('X-Authproxy-User')],
  ...USERS.flatMap(({ name }) => [name, ...oddSpellings(name)]),
]

/** A name as servers write hyphens that CGI, WSGI and Rack know as underscores. */
function oddSpellings(name: string): readonly string[] {
  return [name.replaceAll('-', '_'), name.replaceAll('-', '.')]
}

/** The names that can arrive at an edge at all: Envoy refuses a request with an underscore in a name. */
function arriving(names: readonly string[], edge: Edge | undefined): readonly string[] {
  return edge === 'envoy' ? names.filter(name => !name.includes('_')) : names
}

const MOST_NAMED = 6

interface Checked extends ProbeResult {
  /** The check of this probe; undefined when there was none. */
  readonly check: SeenCheck | undefined
}

async function sendChecked(of: Examination, way: ProbeWay): Promise<Checked> {
  const probed = await send(of, way)
  return { ...probed, check: probed.answer?.check ?? (await checkOf(of, probed.nonce)) }
}

/** A probe with everything a client could claim, sent by the way of the application. */
const wholeWay = oncePerExamination((of: Examination) => {
  // A client that sends another credential gains nothing, so none is tried.
  const untried = ['Authorization', of.config.backendCredential?.field]
  const names = namesOf(of.config).filter(name => !untried.includes(name))
  const spelt = arriving(SPELLINGS, of.config.forwardAuth?.edge)
  const claims = [...new Set([...names, ...spelt])].map(name => [name, CLAIM] as const)
  const fields = Fields.of(
    ['X-Forwarded-For', claimedFields.forwardedFor],
    ['Cookie', `doctor=1; ${sessionCookie}=doctor`],
    ...SOURCES,
    ...claims,
  )
  return sendChecked(of, { path: probePath + oddPath, query: 'x=%20&y=1+2', fields })
})

/** A plain page of the application, as a person without a session opens it. */
const page = oncePerExamination((of: Examination) => {
  const fields = Fields.of(['Sec-Fetch-Mode', 'navigate'], ['Sec-Fetch-Dest', 'document'])
  return sendChecked(of, { path: '/', fields })
})

/** The names of the fields that the edge has to take from the check. */
function namesOf(config: Config): readonly string[] {
  const { backendCredential: named } = config
  return [...checkedFieldNames(config), ...(named === undefined ? [] : [named.field])]
}

/** Is there a check before the application? */
async function question(of: Examination, { edge }: ForwardAuth): Promise<Finding> {
  const { outcome, answer, check } = await wholeWay(of)
  const at = `${probePath}${oddPath}`
  if (check !== undefined && check.problem !== '') {
    return wrongFinding(
      `the check is refused: ${check.problem}`,
      `compare with packaging/edges/${edge}: nothing reaches the application like this`,
    )
  }
  if (answer !== undefined && check !== undefined)
    return goodFinding(`${edge} asks for each request`)
  if (answer !== undefined) {
    return wrongFinding(
      `${at} arrives at the end of the way of the application, and nothing was asked`,
      `requests reach the application without a session. ${LINES[edge].ask}`,
    )
  }
  if (check === undefined) {
    return wrongFinding(
      `${at} ${insteadText(outcome)}, and no check came`,
      `the edge has to reach forwardAuth.listenAddress, and to send ${probePath} to the gateway listener on the way of the application. ${LINES[edge].ask}`,
    )
  }
  return wrongFinding(
    `the check allows ${at}, but it ${insteadText(outcome)}`,
    `the edge has to send ${probePath} to the gateway listener on the way of the application. ${LINES[edge].probe}`,
  )
}

/** Do the fields that tell who asks come from the check, and from nowhere else? */
async function identity(of: Examination, { edge }: ForwardAuth): Promise<Answer> {
  const { answer, check } = await wholeWay(of)
  if (answer === undefined) return undefined
  const lines = answer.telling.map(line => {
    const [, name = line, value = ''] = /^([^:]*): (.*)$/.exec(line) ?? []
    return { name, value }
  })
  // An edge may drop the token's field, because the check leaves it empty.
  const names = namesOf(of.config).filter(name => !['Authorization', tokenField].includes(name))
  const isPlain = (name: string) => names.some(known => known.toLowerCase() === name.toLowerCase())
  const claimed = lines.filter(({ value }) => value.includes(CLAIM)).map(({ name }) => name)
  const claims = claimed.filter(name => !sameName(name, tokenField))
  const findings: Finding[] = []
  if (claims.length < claimed.length) {
    findings.push(
      wrongFinding(
        `a client's own ${tokenField} reaches the application, which learns the tokens of programs`,
        LINES[edge].drop(tokenField),
      ),
    )
  }
  const plain = claims.filter(isPlain)
  if (plain.length > 0) {
    findings.push(
      wrongFinding(
        `a client's own ${some(plain)} reaches the application: it can claim to be any user`,
        forEach(plain, LINES[edge].field),
      ),
    )
  }
  const odd = claims.filter(name => !isPlain(name))
  if (odd.length > 0) {
    const passed = `the edge passes a client's own ${some(odd)} on, which an application may read as ${nearest(odd, names)}`
    const mend = LINES[edge].spelling
    findings.push(
      check === undefined || check.claim === ''
        ? wrongFinding(`${passed}: it can claim to be any user`, mend)
        : doubtfulFinding(`${passed}. The check refuses such requests`, mend),
    )
  }
  const arrivingAs = (name: string) =>
    lines.find(line => line.name.toLowerCase() === name.toLowerCase())?.value
  const wanted = names.filter(name => !claims.some(claim => isSameField(claim, name)))
  const missing = wanted.filter(name => arrivingAs(name) === undefined)
  if (missing.length > 0) {
    findings.push(
      wrongFinding(
        `${some(missing)} of the check does not reach the application`,
        forEach(missing, LINES[edge].field),
      ),
    )
  }
  const strange = lines.filter(({ value }) => value !== probedIdentity && value.includes('{http.'))
  if (strange.length > 0) {
    findings.push(
      wrongFinding(
        `${some(strange.map(({ name }) => name))} arrives as ${strange[0]?.value}`,
        'name under copy_headers what this instance sends, and nothing else',
      ),
    )
  }
  if (findings.length > 0) return findings
  return goodFinding(`${wanted.length} fields of the check arrive, none of a client`)
}

/** Checks that fields of a client about the way, the path or the host of its request do not reach the application. */
async function claims(of: Examination, { edge }: ForwardAuth): Promise<Answer> {
  const odd = WAYS.flatMap(([name, claim]) => {
    return arriving([name.replaceAll('-', '_')], edge).map(spelt => [spelt, claim] as const)
  })
  const { identityFields, identityToken } = of.config
  const relatives = (identityToken?.relatives ?? []).map(name => [name, 'doctor-claims'] as const)
  const passed = new Set<string>()
  for (const all = [...WAYS, ...odd, ...relatives]; all.length > 0; ) {
    const fields = Fields.of(...all.splice(0, MOST_CLAIMS))
    const { answer } = await sendChecked(of, { path: probePath, fields })
    if (answer === undefined) return undefined
    for (const line of answer.telling) {
      if (/doctor-claims(?!-to-be)|: TRACE$/.test(line)) passed.add(line.replace(/:.*/, ''))
    }
  }
  if (passed.size === 0) return goodFinding('none of a client reaches the application')
  const names = [...passed]
  const isRefused = names.every(name => {
    const family = identityFields.stripped.of(name)?.family
    return family !== undefined && treatments[family].check === 'refused' && !isSource(edge, name)
  })
  const may = isRefused ? '. The check refuses such requests' : ', which may believe it'
  return doubtfulFinding(
    `a client's own ${some(names)} reaches the application${may}`,
    forEach(names, LINES[edge].drop),
  )
}

/** Checks that what an application names in X-Accel-Redirect is not served because another path was judged. */
async function redirects(of: Examination): Promise<Answer> {
  const { answer, check } = await sendChecked(of, { redirects: true, path: probePath })
  if (answer === undefined || check === undefined) return undefined
  if (withoutQuestion(answer.target) !== redirectedPath) return goodFinding('they are not obeyed')
  // Fields of a check show that the request has come by the way of the application, and not to the gateway listener.
  return answer.telling.some(line => line.endsWith(`: ${probedIdentity}`))
    ? wrongFinding(
        'X-Accel-Redirect of the application leads to another path, and no rule has judged that path',
        'nginx: if ($authproxy_path != $uri) { return 403; } in the snippet, and map and set of $authproxy_path in the site; see packaging/edges/nginx',
      )
    : goodFinding('the path that they name is judged as well')
}

/** Is the request judged that the application gets? */
async function target(of: Examination, { edge }: ForwardAuth): Promise<Answer> {
  const { answer, check } = await wholeWay(of)
  if (check === undefined || check.problem !== '') return undefined
  const sent = pathAndQuery({ path: probePath + oddPath, query: 'x=%20&y=1+2' })
  const judged = withoutQuestion(check.target)
  if (judged !== sent) {
    return wrongFinding(
      `${sent} is judged as ${judged}, so that rules for paths can be evaded`,
      `the check has to get the path as the client wrote it: ${contracts[edge].target?.setBy ?? 'normalize_path: false, merge_slashes: false'}`,
    )
  }
  const arrived = answer && withoutQuestion(answer.target)
  if (arrived === undefined || arrived === sent) return goodFinding('judged as it was sent')
  return wrongFinding(
    `${sent} is judged as such, but the application gets ${arrived}`,
    'the edge has to forward the path unchanged. nginx: no path behind the name in proxy_pass',
  )
}

/** Checks that the edge says the method of the request. Most edges make each check a GET. */
async function method(of: Examination, { edge }: ForwardAuth): Promise<Answer> {
  const fields = Fields.of(['Content-Type', 'application/x-www-form-urlencoded'], ...SOURCES)
  const content = { kind: 'bytes', bytes: Buffer.from('doctor=1') } as const
  const { outcome, check } = await sendChecked(of, { path: '/', method: 'POST', fields, content })
  if (check === undefined) {
    const before = (await page(of)).check
    if (before === undefined) return undefined
    return wrongFinding(
      `a POST ${insteadText(outcome)}, and no check came`,
      `checks are without the content. ${LINES[edge].content}`,
    )
  }
  if (check.problem !== '') return undefined
  if (check.method === 'POST') return goodFinding('a POST is judged as one')
  return wrongFinding(
    `a POST is judged as ${check.method}, so that rules for methods can be evaded`,
    contracts[edge].method?.setBy ?? 'ext_authz sends the method by itself',
  )
}

/** Does the check tell the client's address, and not what a client says of it? */
async function client(of: Examination, { edge }: ForwardAuth): Promise<Answer> {
  const { check } = await wholeWay(of)
  if (check === undefined || check.problem !== '') return undefined
  if (check.client !== claimedFields.forwardedFor) return goodFinding(check.client)
  return wrongFinding(
    `${check.client}: the check believes what a client says of its address`,
    `the edge has to write the address itself: ${contracts[edge].address.setBy}`,
  )
}

/** Checks that the check gets the session's cookies, without which there is no session, and that the application does not. */
async function cookies(of: Examination, { edge }: ForwardAuth): Promise<Answer> {
  const { answer, check } = await wholeWay(of)
  if (check === undefined || check.problem !== '') return undefined
  if (check.cookiePairs === 0) {
    return wrongFinding('none arrives at the check: logins run in a circle', LINES[edge].cookies)
  }
  if (answer === undefined || answer.cookiePairs <= 1)
    return goodFinding('ours arrive only at the check')
  return doubtfulFinding(
    'the application gets the cookies of authproxy: what it shows or logs of them is a session',
    LINES[edge].field('Cookie'),
  )
}

/** Checks how the edge answers a request without a session. */
async function answerWithoutSession(of: Examination, { edge }: ForwardAuth): Promise<Answer> {
  const { outcome, answer, check } = await page(of)
  if (check === undefined) {
    if (answer !== undefined || !outcome.ok) return undefined
    return wrongFinding(
      `/ is answered ${outcome.status} without a check`,
      `everything there is open to all. ${LINES[edge].ask}`,
    )
  }
  // Another check reports malformed checks. A path that the settings leave open proves nothing.
  if (check.problem !== '' || check.status === 200) return undefined
  if (answer !== undefined) return goodFinding('to the gateway listener, which leads to the login')
  if (!outcome.ok) return doubtfulFinding(`/ ${insteadText(outcome)}`, LINES[edge].denied)
  const { status, fields } = outcome
  if (status >= 300 && status < 400 && fields.has('Location')) return goodFinding('to the login')
  if (status >= 200 && status < 400) {
    return wrongFinding(
      `/ is denied by the check, and answered ${status}`,
      `what is denied must not reach the application. ${LINES[edge].denied}`,
    )
  }
  return wrongFinding(
    `a person who opens / gets ${status}, and not the login`,
    `the edge has to send denied requests to the login. ${LINES[edge].denied}`,
  )
}

/** Checks how the edge answers a request whose check fails. */
async function answerWithoutCheck(of: Examination, { edge }: ForwardAuth): Promise<Answer> {
  const { outcome, answer, check } = await sendChecked(of, { fails: true })
  if (check === undefined || check.problem !== '') return undefined
  if (answer !== undefined || (outcome.ok && outcome.status < 400)) {
    return wrongFinding(
      'a request whose check fails is forwarded: everything is open when this service is down',
      LINES[edge].closed,
    )
  }
  return goodFinding('a request whose check fails is not forwarded')
}

/** The first few of these, and the number of the others. */
function some(all: readonly string[]): string {
  const more = all.length - MOST_NAMED
  const named = all.slice(0, MOST_NAMED).join(', ')
  return more > 0 ? `${named} and ${more} more` : named
}

/** The line for the first of these, which the others need as well. */
function forEach([first = '', ...others]: readonly string[], line: (name: string) => string) {
  return others.length === 0 ? line(first) : `${line(first)} and the same for ${some(others)}`
}

/** The name an application reads one of these as. */
function nearest(odd: readonly string[], names: readonly string[]): string {
  const read = names.find(name => odd.some(one => isSameField(name, one)))
  return read ?? 'one that tells who asks'
}

/** The configuration lines of an edge that correct a mistake. */
interface Lines {
  readonly ask: string
  readonly probe: string
  readonly field: (name: string) => string
  readonly drop: (name: string) => string
  readonly spelling: string
  readonly content: string
  readonly cookies: string
  readonly denied: string
  readonly closed: string
}

/** The variables of packaging/edges/nginx; long names are more than the hash of nginx takes without a warning. */
const variable = (name: string) => snake(name.replace(/^x-(?:authproxy-)?(?:auth-)?/i, ''))
const snake = (name: string) => name.toLowerCase().replaceAll('-', '_')

const LINES: Readonly<Record<Edge, Lines>> = {
  nginx: {
    ask: 'nginx: include snippets/authproxy-protect.conf; in each location of the application, with its auth_request /__authproxy/check-by-nginx;',
    probe:
      'nginx: location ^~ /__authproxy/probe { include snippets/authproxy-protect.conf; proxy_pass http://authproxy; }',
    field: name =>
      `auth_request_set $ap_${variable(name)} $upstream_http_${snake(name)}; proxy_set_header ${name} $ap_${variable(name)};`,
    drop: name => `proxy_set_header ${name} "";`,
    spelling: 'nginx: underscores_in_headers off; ignore_invalid_headers on;',
    content:
      'nginx, in the location of the check: proxy_method GET; proxy_pass_request_body off; proxy_set_header Content-Length "";',
    cookies: 'nginx, in the location of the check: no proxy_pass_request_headers off',
    denied: 'nginx: error_page 401 403 = @authproxy;',
    closed: 'nginx: no error_page 500 that leads to the application',
  },
  haproxy: {
    ask: 'HAProxy: http-request lua.authproxy_check, and use_backend of the application only if { var(txn.authproxy) -m str allowed }',
    probe: 'HAProxy: acl probe path_beg /__authproxy/probe, and default_backend authproxy',
    field: name => `authproxy.lua puts ${name} of the check into the request`,
    drop: name => `http-request del-header ${name}`,
    spelling: 'HAProxy: authproxy.lua removes them by the table families',
    content: 'HAProxy: authproxy.lua sends none',
    cookies: 'HAProxy: authproxy.lua sends Cookie unless the table notAsked names it',
    denied: 'HAProxy: default_backend authproxy',
    closed: 'HAProxy: http-request deny deny_status 503 if { var(txn.authproxy) -m str failed }',
  },
  caddy: {
    ask: 'Caddy: import authproxy_protect before reverse_proxy, in a route block',
    probe:
      'Caddy: handle /__authproxy/probe* { route { import authproxy_protect, then reverse_proxy to the gateway listener } }',
    field: name => `copy_headers ${name}, and request_header -${name} before forward_auth`,
    drop: name => `request_header -${name}`,
    spelling: 'Caddy: request_header `-*_*` and similar lines before forward_auth',
    content: 'Caddy: forward_auth sends none',
    cookies: 'Caddy: no header_up -Cookie in forward_auth',
    denied: 'Caddy: no handle_response in forward_auth for what is denied',
    closed: 'Caddy: no handle_errors that leads to the application',
  },
  traefik: {
    ask: 'Traefik: the middleware forwardAuth at the router of the application',
    probe:
      'Traefik: a router for PathPrefix(`/__authproxy/probe`) with the middlewares of the application and the service of the gateway listener',
    field: name => `authResponseHeaders: ${name}, or authResponseHeadersRegex`,
    drop: name => `a middleware headers with customRequestHeaders: { ${name}: "" }`,
    spelling:
      'Traefik: authResponseHeadersRegex of packaging/edges, which removes every spelling from a client',
    content: 'Traefik: no forwardBody',
    cookies: 'Traefik: no authRequestHeaders, or Cookie among them',
    denied: 'Traefik: the answer of the check goes to the browser; no middleware errors before it',
    closed: 'Traefik: no middleware errors that leads to the application',
  },
  envoy: {
    ask: 'Envoy: the filter ext_authz, not disabled at the route of the application',
    probe: 'Envoy: a route for /__authproxy/probe to the gateway listener, with ext_authz',
    field: name => `allowed_upstream_headers: ${name}`,
    drop: name => `a filter before ext_authz that removes ${name}`,
    spelling:
      'Envoy: headers_with_underscores_action: REJECT_REQUEST, and the Lua filter of packaging/edges before ext_authz',
    content: 'Envoy: no with_request_body',
    cookies: 'Envoy: cookie in allowed_headers',
    denied: 'Envoy: no allowed_client_headers, or Location among them',
    closed: 'Envoy: failure_mode_allow: false',
  },
}
