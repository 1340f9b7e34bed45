/**
 * The life of every request, upgrades included, step by step. The order is the security argument:
 *
 * 1. One path and query is taken from the request line, and nothing else is ever judged or forwarded. A probe of
 *    `authproxy doctor` ends here with a sealed answer: it is never forwarded, and opens nothing.
 * 2. The gate decides on those bytes: loop, SAML, passthrough, preflight, session, login, rules of access. Requests and upgrades ask the same
 *    gate.
 * 3. A request that passes goes through backend/backend.ts alone, which strips before it adds (identity/backend-fields.ts): nothing a
 *    client says of an identity survives, on any way in.
 */

import type { Clock } from '../async/clock.ts'
import { continueWhenReady } from '../async/ready.ts'
import { Fields, sameName } from '../http/message/field.ts'
import type { Handler, Request, Response } from '../http/message/message.ts'
import { pathAndQuery } from '../http/message/target.ts'
import type { TakenOver } from '../http/server/options.ts'
import { methodNotAllowed } from '../http/server/router.ts'
import type { OutcomeFacts } from './access/outcome.ts'
import { placeOf } from './access/own-origin.ts'
import type { AdmittedRequest, Backend, Upgrade } from './backend/backend.ts'
import type { Config } from './config/config.ts'
import type { TokenFront } from './features/feature.ts'
import { type Admission, admit, admittedFields } from './gate/admission.ts'
import {
  type DeniedRequest,
  formNotKept,
  loginFacts,
  programNeedsLogin,
  refusedByRule,
  watchedFacts,
} from './gate/denials.ts'
import { gate, isRefusedMethod, type Verdict } from './gate/gate.ts'
import { renewOnTheWay } from './gate/gateway-paths.ts'
import type { SessionIdentity } from './identity/session-identity.ts'
import { answerOwnPage, whoamiPath } from './identity/whoami.ts'
import { cannotLogIn } from './login/addresses.ts'
import { type FormReader, openResubmission } from './login/resubmission.ts'
import type { SamlService } from './login/service.ts'
import { errorResponse, type FailurePage } from './pages/failure-page.ts'
import type { Brand, PageMaker } from './pages/page.ts'
import type { AnswerProbe } from './probe/probe.ts'
import { passedWithoutSession } from './session/ending.ts'
import type { Sessions } from './session/sessions.ts'
import type { ReadSession } from './session/token.ts'

/** The parts that a reload replaces together. */
export interface Rules {
  readonly config: Config
  readonly identity: SessionIdentity
  readonly backend: Backend
  /** The parts of the pages that belong to the organisation. */
  readonly brand: Brand
}

export interface PipelineParts {
  readonly rules: () => Rules
  readonly saml: SamlService
  readonly sessions: Sessions
  readonly failurePage: FailurePage
  readonly probe: AnswerProbe
  readonly instanceId: string
  /** Answer with the keys of the signed identity, the logo of the pages, and the script for pages of the application. */
  readonly documents: Readonly<Record<'key-set' | 'logo' | 'login-script', Handler>>
  readonly page: PageMaker
  readonly readForm: FormReader
  /** What joins for the tokens of people; undefined where they can make none. */
  readonly tokens: TokenFront | undefined
  readonly clock: Clock
}

/** A request, and the facts that decide its answer. */
interface Asked extends DeniedRequest {
  readonly request: Request
  readonly saml: SamlService
  /** IP address of the client as far as it can be believed. */
  readonly client: string
  readonly rules: Rules
  readonly parts: PipelineParts
  /** The connection that the opening handshake of a WebSocket asks for. */
  readonly upgrade: Upgrade | undefined
}

type Answered = Response | TakenOver

/** The answer; it is not a promise when nothing has to be waited for. Most requests wait only for the backend. */
type Answer = Answered | Promise<Answered>

/** Answers a request, or an upgrade: only that can take the connection over. */
export function answer(request: Request, parts: PipelineParts): Response | Promise<Response>
export function answer(request: Request, parts: PipelineParts, upgrade: Upgrade): Answer
export function answer(request: Request, parts: PipelineParts, upgrade?: Upgrade): Answer {
  const rules = parts.rules()
  const { config, backend } = rules
  const { saml, sessions, failurePage, clock, instanceId } = parts

  // 1. The target is read. Only this reading counts from here on.
  const client = backend.client(request).address
  if (isRefusedMethod(request.method)) {
    return withFacts(methodNotAllowed(METHODS), { client })
  }
  const probed = parts.probe(request)
  if (probed !== undefined) return withFacts(probed, { client })
  const place = placeOf(request, config.domain)
  if (place === undefined) return failurePage({ request, code: 'foreign_target' })

  // 2. The gate decides. Most sessions are known, so this does not wait.
  const { path, query } = place
  const session = () => sessions.read(request)
  const now = clock.now()
  const proof = parts.tokens?.proof
  const verdict = gate({ request, path, query, client, now, instanceId, session, proof }, config)
  const asked = { request, place, client, config, saml, failurePage, rules, parts, upgrade }
  return continueWhenReady(verdict, judged => carryOut(judged, asked))
}

/** 3. The verdict is carried out. */
function carryOut(verdict: Verdict, asked: Asked): Answer {
  const { request, place, client, config, saml, failurePage, parts } = asked
  switch (verdict.verdict) {
    case 'loop':
      return failurePage({ request, code: 'loop_detected' })
    case 'saml': {
      const answered = saml.handle(request, place.path)
      if (answered === undefined) return failurePage({ request, code: 'foreign_target' })
      return answered.then(page => withFacts(page, { client, outcome: 'saml' }))
    }
    case 'key-set':
    case 'logo':
    case 'login-script': {
      const outcome = verdict.verdict
      return continueWhenReady(parts.documents[outcome](request), document => {
        return withFacts(document, { client, outcome })
      })
    }
    case 'own-page': {
      const { path, session } = verdict
      const { identity } = asked.rules
      const other = saml.loginAddress(whoamiPath, 'other')
      const about = { client, outcome: 'own-page', user: session.subject } as const
      return continueWhenReady(identity.of(session), sentFields => {
        const signedField = config.identityToken?.field
        const own = { path, session, sentFields, signedField, other, baseUrl: config.baseUrl }
        return withFacts(answerOwnPage(request, own, parts), about)
      })
    }
    case 'tokens-page': {
      const about = { client, outcome: 'own-page', user: verdict.session.subject } as const
      const page = parts.tokens?.page(request, verdict.session)
      // A reload never sets what only a start opens.
      if (page === undefined) return failurePage({ request, code: 'foreign_target' })
      return page.then(answered => withFacts(answered, about))
    }
    case 'passthrough':
    case 'anyone':
    case 'preflight':
    case 'authenticated': {
      const { identity } = asked.rules
      const admitted = admit(verdict, asked, session => {
        return session === undefined ? Fields.empty : identity.of(session)
      })
      return continueWhenReady(admitted, (admission): Answer => {
        if ('refusal' in admission) return admission.refusal
        const { session } = admission
        return session === undefined
          ? passOpen(asked, admission)
          : authenticated(asked, admission, session)
      })
    }
    case 'renewal': {
      const { session } = verdict
      const about = { client, outcome: 'own-page', user: session.subject } as const
      const by = { baseUrl: config.baseUrl, sessions: parts.sessions }
      return renewOnTheWay(request, session, by).then(page => withFacts(page, about))
    }
    case 'refused-page': {
      const user = verdict.session?.subject
      const words = { user: user ?? '', other: saml.loginAddress('/', 'other') }
      const code = user === undefined ? 'access_closed' : 'access_refused'
      return withFacts(failurePage({ request, code, words }), { client, outcome: 'own-page' })
    }
    case 'refused':
      return withFacts(refusedByRule(verdict, asked), { client })
    case 'login-needed': {
      const outcome = verdict.from === 'api' ? 'unauthenticated' : 'login'
      const facts: OutcomeFacts = { client, outcome, ...loginFacts(verdict) }
      return login(verdict, asked).then(page => withFacts(page, facts))
    }
  }
}

function authenticated(
  asked: Asked,
  { because, identity, program, would }: Admission,
  session: ReadSession,
): Answer {
  const { request, place, client, saml, parts } = asked
  const { sessions, clock } = parts
  // WebSockets and long exchanges end with the session (session/ending.ts).
  request.holder = session
  const { subject: user } = session
  const passed = { client, outcome: 'forwarded', because, user, program } as const
  const facts = would === undefined ? passed : { ...passed, ...watchedFacts(would) }
  // The members are written out, because copying them from `asked` costs an eighth of a small request.
  const admitted = (own: Request): AdmittedRequest => {
    return { request: own, original: request, session, identity, public: false, place, client }
  }
  // A form is kept for the browser of a person, not for a program.
  if (program !== undefined) return pass(asked, admitted(request), facts)
  return continueWhenReady(openResubmission(request, clock), (opened): Answer => {
    if ('request' in opened) {
      const { request: own } = opened
      const sent = sessions.wantsRenewal(session) ? unconditional(own) : own
      return pass(asked, admitted(sent), facts)
    }
    const target = pathAndQuery(place)
    return saml.resubmit({ request, id: opened.id, session, target }).then(async instead => {
      if ('refuse' in instead) return withFacts(instead.refuse, facts)
      const whole = admitted(instead.request)
      const answer = await pass(asked, whole, { ...facts, resubmitted: true })
      return withLines(answer, instead.setCookie)
    })
  })
}

/** Forwards a request that passes without a session. */
function passOpen(asked: Asked, admission: Admission): Promise<Answered> {
  const { because, identity, passthrough, until } = admission
  const { request: original, place, client } = asked
  original.holder = until === undefined ? passedWithoutSession : { until }
  const fields = admittedFields(admission, original.fields)
  const request = fields === original.fields ? original : withFields(original, fields)
  const isPublic = because !== 'passthrough-token'
  const session = undefined
  const admitted = { request, original, session, identity, public: isPublic, place, client }
  return pass(asked, admitted, { client, outcome: 'forwarded', because, passthrough })
}

/**
 * The one way to the backend, with a session and without. Whether the answer renews the session is decided when the answer is
 * there: it may have taken longer than the session had left.
 */
function pass(
  { request, rules, failurePage, upgrade, parts }: Asked,
  admitted: AdmittedRequest,
  facts: OutcomeFacts,
): Promise<Answered> {
  const { session } = admitted
  const { sessions } = parts
  const finished = (answered: Answered): Answer => {
    const answer = withFacts(answered, facts)
    return session !== undefined && sessions.wantsRenewal(session)
      ? renewed(answer, { request, session, sessions })
      : answer
  }
  return rules.backend
    .send(admitted, upgrade)
    .then(finished, (error: unknown) => finished(errorResponse(request, error, failurePage)))
}

/**
 * A request whose answer is to renew the session, without the conditions that lead to 304. A cache takes the fields of a 304 into the
 * response it has stored (RFC 9111 section 3.2), Set-Cookie among them, and a 304 need not repeat that this one is for all; a whole
 * response says itself who may keep it.
 */
function unconditional(request: Request): Request {
  const { method, fields } = request
  if (method !== 'GET' && method !== 'HEAD') return request
  const without = fields.where(name => !isCondition(name))
  return without === fields ? request : withFields(request, without)
}

function withFields(request: Request, fields: Fields): Request {
  return { ...request, fields }
}

function isCondition(name: string): boolean {
  return sameName(name, 'If-None-Match') || sameName(name, 'If-Modified-Since')
}

/** The answer with the cookies of a session kept alive, when it may carry them. */
async function renewed(
  answered: Answered,
  {
    request,
    session,
    sessions,
  }: Pick<PipelineParts, 'sessions'> & {
    readonly request: Request
    readonly session: ReadSession
  },
): Promise<Answered> {
  if (!('fields' in answered) || isShared(answered.fields)) return answered
  // Some backends send a 304 without a condition.
  if ('status' in answered && answered.status === 304) return answered
  const lines = await sessions.renew(session, request)
  return lines === undefined
    ? answered
    : withLines({ ...answered, fields: asPrivate(answered.fields) }, lines)
}

/** The answer with facts for the log. The facts it has already win. */
function withFacts<T extends Response | TakenOver>(answered: T, facts: OutcomeFacts): T {
  const own = answered.facts
  return { ...answered, facts: own === undefined ? facts : { ...facts, ...own } }
}

/** The answer to a request without a session: a redirect to the identity provider, or the address of a login. */
async function login(
  verdict: Extract<Verdict, { verdict: 'login-needed' }>,
  asked: Omit<Asked, 'upgrade'>,
): Promise<Response> {
  const { request, place, config, saml, failurePage, parts } = asked
  const { from, how, session } = verdict
  const signedIn = session !== undefined
  const returnTo = pathAndQuery(place)
  if (from === 'api') return programNeedsLogin(verdict, asked)
  const host = { domain: config.domain, base: config.baseUrl, returnTo }
  const cannot = cannotLogIn(request, host, failurePage)
  if (cannot !== undefined) return cannot
  const form = await parts.readForm(request, config, saml.formSender(request, returnTo))
  if (typeof form === 'string') return formNotKept(form, verdict, asked)
  if (form === undefined) return saml.startLogin(request, { returnTo, how, signedIn })
  const { origin } = form
  return origin === undefined
    ? saml.startLogin(request, { returnTo, form, how, signedIn })
    : saml.askAboutForm(request, { returnTo, form: { ...form, origin }, how })
}

/**
 * Whether caches may keep an answer for others, by what it says itself: it keeps no session alive then. The fields that speak to one
 * kind of cache alone (RFC 9213) win there over Cache-Control.
 */
function isShared(fields: Fields): boolean {
  if (SHARED.test(fields.all('Cache-Control').join(','))) return true
  for (const [name, value] of fields) {
    if (TARGETED.test(name) && !KEPT_BY_NO_CACHE.test(value)) return true
  }
  return false
}

const SHARED = /(?:^|[,\s])(?:public|s-maxage|immutable)\b/i
const TARGETED = /(?:.-cache-control|^surrogate-control|^edge-control|^x-accel-expires)$/i
const KEPT_BY_NO_CACHE = /^0$|(?:^|[,\s])(?:private|no-store|no-cache)(?=$|[,\s=])/i

/**
 * An answer that carries a session is of one user: a cache that would have kept it for others, by a rule of its own or for its
 * Last-Modified (RFC 9111 section 4.2.2), must not. The browser itself may.
 */
function asPrivate(fields: Fields): Fields {
  const control = fields.all('Cache-Control').join(', ')
  return PRIVATE.test(control)
    ? fields
    : fields.with('Cache-Control', control === '' ? 'private' : `${control}, private`)
}

const PRIVATE = /(?:^|[,\s])(?:private(?!=)|no-store)(?=$|[,\s])/i

function withLines<A extends Response | TakenOver>(answered: A, lines: Fields | undefined): A {
  if (lines === undefined || !('fields' in answered)) return answered
  return { ...answered, fields: Fields.fromFlat([...answered.fields.flat, ...lines.flat]) }
}

const METHODS = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']
