/**
 * Checks what the edge does to the fields that tell the client and the way it came (Host, X-Forwarded-Proto, X-Forwarded-For),
 * to paths, methods, WebSockets, and to heads as large as sessions make them.
 */
import { Fields } from '../../../http/message/field.ts'
import { pathAndQuery } from '../../../http/message/target.ts'
import { forwardedAddress } from '../../../http/proxy/forwarded.ts'
import { isOwnHost } from '../../access/own-origin.ts'
import { samlPaths } from '../../gate/gate.ts'
import { unaskedPaths } from '../../gate/gateway-paths.ts'
import { returnPath } from '../../login/addresses.ts'
import {
  oddPath as ODD_PATH,
  type ProbeAnswer,
  probedStatuses,
  probeMember,
  probePath,
} from '../../probe/probe.ts'
import type { Outcome } from '../ask.ts'
import { type Answer, doubtfulFinding, type Finding, goodFinding, wrongFinding } from '../check.ts'
import {
  claimedFields,
  type Examination,
  edgeReach,
  handshakeFields,
  metadataPath,
  type ProbeResult,
  publicHost,
  sendProbe,
} from '../facts.ts'
import { largestSample, type Sample } from './sessions.ts'

/** A query that two servers may read differently. */
const ODD_QUERY = 'x=%20&y=1+2'
/** A form as large as a SAML response with many attributes. It has no SAMLResponse, so that it can never be a login. */
const form = { kind: 'bytes', bytes: Buffer.from(`doctor=${'x'.repeat(65_529)}`) } as const
const formType = Fields.of(['Content-Type', 'application/x-www-form-urlencoded'])

/** An answer about the edge, once a plain probe has arrived; `arrived` is what this instance said of that probe. */
export type EdgeAnswer = (of: Examination, arrived: ProbeAnswer) => Answer | Promise<Answer>

/** Specification, section 4: the edge must preserve the public Host. */
export function host({ config: { domain } }: Examination, { host }: ProbeAnswer): Finding {
  return isOwnHost(host, domain)
    ? goodFinding(`${host}, preserved`)
    : wrongFinding(
        `${host === '' ? 'none' : host} arrives instead of ${domain}`,
        'logins fail like this. nginx: proxy_set_header Host $http_host; Apache: ProxyPreserveHost On; HAProxy and Caddy preserve it unless configured otherwise',
      )
}

/** Section 4 again: the edge must overwrite X-Forwarded-Proto with https. */
export function proto(_: Examination, { forwardedProto }: ProbeAnswer): Finding {
  if (forwardedProto === 'https') return goodFinding('https')
  const mend =
    'the edge has to set it, whatever the client sends. nginx: proxy_set_header X-Forwarded-Proto https; Apache: RequestHeader set X-Forwarded-Proto https; HAProxy: http-request set-header X-Forwarded-Proto https'
  if (forwardedProto === '') return doubtfulFinding('it does not arrive', mend)
  const passed = forwardedProto
    .split(',')
    .some(word => word.trim() === claimedFields.forwardedProto)
  return wrongFinding(
    passed
      ? `${forwardedProto}: the edge forwards what a client claims`
      : `${forwardedProto} instead of https`,
    mend,
  )
}

/** The first forwarded address counts as the client's, when proxy.trustedProxies has the peer. */
export function client(_: Examination, answer: ProbeAnswer): Finding {
  const { forwardedFor, peer, trusted } = answer
  const first = (forwardedFor.split(',')[0] ?? '').trim()
  const mend =
    'nginx: proxy_set_header X-Forwarded-For $remote_addr; HAProxy: http-request set-header X-Forwarded-For %[src]'
  if (trusted && first === claimedFields.forwardedFor) {
    return wrongFinding(
      `${forwardedFor}: a client can claim any address, because the first one counts and ${peer} is trusted`,
      `the edge has to overwrite the field, not to append to it. ${mend}; Apache: RequestHeader unset X-Forwarded-For`,
    )
  }
  if (forwardedFor === '') {
    return doubtfulFinding(`it does not arrive: every client appears as ${peer}`, mend)
  }
  if (!trusted) {
    return doubtfulFinding(
      `it is ignored, because ${peer} is not trusted: every client appears as that address`,
      `if ${peer} is the edge, add it to proxy.trustedProxies`,
    )
  }
  return forwardedAddress(first) === undefined
    ? doubtfulFinding(
        `${forwardedFor} does not begin with an address`,
        'the edge has to write the address of the client, and nothing before it',
      )
    : goodFinding(`${first} through ${peer}`)
}

/** A probe through the edge. */
export type ProbeWay = Partial<Omit<Parameters<typeof sendProbe>[1], 'uri'>> & {
  readonly path?: string
  readonly query?: string
}

/** Sends a probe through the edge. Its path leads to this instance by default. */
export async function send(of: Examination, way: ProbeWay): Promise<ProbeResult> {
  const { path = pathToUs(of), query, ...question } = way
  const { base } = await publicHost(of)
  const uri = { ...base, path, ...(query === undefined ? {} : { query }) }
  return sendProbe(of, { uri, fields: Fields.empty, ...question }, edgeReach)
}

/** Where an edge asks for checks, the other paths lead to the application. */
function pathToUs({ config }: Examination): string {
  return config.forwardAuth === undefined ? '/' : probePath
}

export async function paths(of: Examination): Promise<Finding> {
  const post: ProbeWay = { path: '/saml/acs', method: 'POST', fields: formType, content: form }
  const ways: readonly ProbeWay[] = [...[...samlPaths, pathToUs(of)].map(path => ({ path })), post]
  const astray: string[] = []
  for (const way of ways) {
    const { answer, outcome } = await send(of, way)
    const sent = `${way.method ?? 'GET'} ${way.path}`
    if (answer === undefined) astray.push(`${sent} ${insteadText(outcome)}`)
    else if (`${answer.method} ${withoutQuestion(answer.target)}` !== sent) {
      astray.push(`${sent} arrives as ${answer.method} ${withoutQuestion(answer.target)}`)
    }
  }
  if (astray.length === 0) return goodFinding(`${ways.length} of ${ways.length} lead here`)
  if (of.config.forwardAuth !== undefined) {
    return wrongFinding(
      astray.join('; '),
      `the edge has to route ${unaskedPaths(of.config)} to the gateway listener, unchanged, POST included, and ${probePath} on the way of the application. nginx: location ^~ /saml/ { proxy_pass http://127.0.0.1:8080; } and the same for /__authproxy`,
    )
  }
  return wrongFinding(
    astray.join('; '),
    'the edge has to forward every path unchanged, /saml/acs and /__authproxy-redirect above all, POST included. nginx: location / { proxy_pass http://127.0.0.1:8080; } without anything behind the port',
  )
}

export async function oddPath(of: Examination): Promise<Finding> {
  const edgeAsks = of.config.forwardAuth !== undefined
  const odd = { path: edgeAsks ? probePath + ODD_PATH : ODD_PATH, query: ODD_QUERY }
  const { answer, outcome } = await send(of, odd)
  const sent = pathAndQuery(odd)
  const arrived = answer && withoutQuestion(answer.target)
  if (arrived === sent) return goodFinding('unchanged')
  return doubtfulFinding(
    arrived === undefined ? `${sent} ${insteadText(outcome)}` : `${sent} arrives as ${arrived}`,
    'the application may miss paths with encoded slashes or semicolons. nginx: no path behind the port in proxy_pass; Apache: AllowEncodedSlashes NoDecode and nocanon',
  )
}

/** Whether the edge passes pages of errors on: a login begins with one, and a refused person reads the reference there. */
export async function errorPages(of: Examination): Promise<Answer> {
  // An edge that does not forward the path is the concern of the check of paths.
  if ((await send(of, { path: returnPath })).answer === undefined) return []
  const replaced: number[] = []
  for (const status of probedStatuses) {
    const { answer, outcome } = await send(of, { path: returnPath, status })
    // What does not answer at all is the concern of other checks.
    if (!outcome.ok) return []
    if (answer === undefined) replaced.push(status)
  }
  if (replaced.length === 0) {
    return goodFinding(`answers with ${probedStatuses.join(', ')} arrive as they were sent`)
  }
  const found = `the edge replaces answers with its own page for the statuses ${replaced.join(', ')}`
  const mend = `nginx: proxy_intercept_errors off; Apache: ProxyErrorOverride Off; ingress-nginx: no 401, 403, 5xx in custom-http-errors; IIS: <httpErrors existingResponse="PassThrough"/>; Traefik: no errors middleware for them; a CDN: no custom error pages. See docs/authproxy.md`
  if (!replaced.includes(401)) {
    return doubtfulFinding(`${found}: the person has no reference to give you`, mend)
  }
  return of.config.saml.loginStatus === 302
    ? doubtfulFinding(`${found}; login.status: 302 lets logins begin all the same`, mend)
    : wrongFinding(
        `${found}: a login begins with a page of 401, so no one can sign in`,
        `${mend}; if you cannot change the edge, set login.status: 302`,
      )
}

export async function webSocket(of: Examination): Promise<Finding> {
  const fields = Fields.of(...handshakeFields(of))
  const { answer, outcome } = await send(of, { fields, upgrade: true })
  if (answer?.upgrade) return goodFinding('requests to open one arrive')
  return doubtfulFinding(
    answer === undefined ? `the request ${insteadText(outcome)}` : 'Upgrade is lost on the way',
    'applications with live updates need it. nginx: proxy_http_version 1.1; proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection "upgrade"',
  )
}

export async function requestHead(of: Examination): Promise<Answer> {
  const largest = await largestSample(of)
  if (largest === undefined) return []
  const size = sizeOf(largest)
  const sent = `doctor=1; ${largest.field}`
  // An edge that asks for checks removes our cookies from requests to the application.
  const path = of.config.forwardAuth === undefined ? '/' : metadataPath
  const { answer, outcome } = await send(of, { path, fields: Fields.of(['Cookie', sent]) })
  if (answer !== undefined && answer.cookies >= sent.length - 2 * largest.cookies) {
    const { cookiePairs } = answer
    const joined = cookiePairs > 0 && cookiePairs !== largest.cookies + 1
    if (!joined) return goodFinding(`${size} arrive`)
    return wrongFinding(
      `of ${largest.cookies + 1} cookies ${cookiePairs} arrive: the edge joins or splits them`,
      'users have to log in again and again. The edge has to join cookies by "; " (RFC 9113 section 8.2.3), and to forward the field as it came',
    )
  }
  return wrongFinding(
    answer === undefined
      ? `a request with ${size} of them ${insteadText(outcome)}`
      : `of ${size} only ${answer.cookies} arrive`,
    'users in many groups have to log in again and again, or see 400 or 431. nginx: large_client_header_buffers 4 32k; Apache: LimitRequestFieldSize 32768; HAProxy: tune.bufsize 65536; or keep fewer groups with identity.groups',
  )
}

export async function responseHead(of: Examination): Promise<Answer> {
  const largest = await largestSample(of)
  if (largest === undefined) return []
  const size = sizeOf(largest)
  const { answer, outcome } = await send(of, { padding: largest.bytes })
  if (answer !== undefined) return goodFinding(`${size} come back`)
  return wrongFinding(
    `a response with ${size} of fields ${insteadText(outcome)}`,
    'the login of a user in many groups ends in an error of the edge, often 502. nginx: proxy_buffer_size 32k; proxy_buffers 8 32k; proxy_busy_buffers_size 64k',
  )
}

function sizeOf({ bytes, groups }: Sample): string {
  return `${bytes} bytes (${groups} groups)`
}

/** The target without the question in its query. */
export function withoutQuestion(target: string): string {
  return target.replace(QUESTION, '')
}

const QUESTION = new RegExp(`[?&]${probeMember}=[^&]*$`)

/** Describes the outcome when the answer is not from this instance. */
export function insteadText(outcome: Outcome): string {
  return outcome.ok ? `is answered ${outcome.status} by another server` : `fails: ${outcome.why}`
}
