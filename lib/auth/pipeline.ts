/**
 * The life of a request, step by step. The order is the security argument:
 *
 * 1. One path and query is taken from the request line, and nothing else is ever judged or forwarded. A probe of
 *    `authproxy doctor` ends here with a sealed answer: it is never forwarded, and opens nothing.
 * 2. The gate decides on those bytes: loop, SAML, passthrough, session, login. Requests and upgrades ask the same gate.
 * 3. Whatever passes goes through backend.ts alone, which strips before it adds (identity-fields.ts): nothing a client says
 *    of an identity survives, on any way in.
 */
import type { Socket } from 'node:net'
import type { Clock } from '../async/clock.ts'
import type { Facts } from '../errors.ts'
import { cookiePairs } from '../http/message/cookie.ts'
import { Fields } from '../http/message/field.ts'
import type { Request, Response } from '../http/message/message.ts'
import { parseAuthority } from '../http/message/target.ts'
import type { TakenOver } from '../http/server/options.ts'
import { methodNotAllowed } from '../http/server/router.ts'
import { isOwnHost } from './access/own-host.ts'
import type { Admitted, Backend } from './backend.ts'
import type { Config } from './config/config.ts'
import type { AnswerProbe } from './doctor/edge/probe-answer.ts'
import type { FormReader } from './form-preservation/form-reader.ts'
import { asStashed, openReplay } from './form-preservation/form-sender.ts'
import { gate } from './gate.ts'
import { keySetPath } from './identity/key-set.ts'
import {
  backendFailed,
  foreignTarget,
  looped,
  needsLogin,
  notKept,
  withoutTls,
  wrongHost,
  wrongOrigin,
} from './pages/answers.ts'
import type { FailurePage, SamlService } from './saml/contract.ts'
import { isOwnCookie } from './session/cookie.ts'
import type { Sessions } from './session/sessions.ts'

/** What a reload replaces, all at once. */
export interface Rules {
  readonly config: Config
  readonly backend: Backend
}

export interface PipelineParts {
  readonly rules: () => Rules
  readonly saml: SamlService
  readonly sessions: Sessions
  readonly failurePage: FailurePage
  readonly probe: AnswerProbe
  readonly instanceId: string
  /** Answers who asks for the keys of the signed identity. */
  readonly keySet: (request: Request) => Promise<Response>
  readonly forms: FormReader
  readonly clock: Clock
}

export interface Pipeline {
  handle(request: Request): Promise<Response>
  upgrade(request: Request, socket: Socket, head: Buffer): Promise<Response | TakenOver>
}

/** Puts the steps together. */
export function pipeline(parts: PipelineParts): Pipeline {
  return {
    async handle(request) {
      const answered = await answer(request, parts, (backend, admitted) => backend.handle(admitted))
      if (isResponse(answered)) return answered
      throw new TypeError('a request took its connection over')
    },
    upgrade: (request, socket, head) =>
      answer(request, parts, (backend, admitted) => backend.upgrade(admitted, socket, head)),
  }
}

type Answer = Response | TakenOver
type Forward = (backend: Backend, admitted: Admitted) => Promise<Answer>

async function answer(request: Request, parts: PipelineParts, forward: Forward): Promise<Answer> {
  const { failurePage, sessions, clock, instanceId } = parts
  const rules = parts.rules()
  const { config } = rules

  // 1. What is asked for, in the one reading that counts from here on.
  if (request.method === 'TRACE' || request.method === 'CONNECT') return methodNotAllowed(METHODS)
  const probed = parts.probe(request)
  if (probed !== undefined) return probed
  const place = placeOf(request, config.domain)
  if (place === undefined) return foreignTarget(request, failurePage)
  const { path, query } = place

  // 2. What may it do?
  const verdict = await gate(
    { request, path, now: clock.now(), session: () => sessions.read(request) },
    {
      instanceId,
      passthroughPaths: config.passthroughPaths,
      passthroughTokens: config.passthroughTokens,
      keySetPath: config.identityToken === undefined ? undefined : keySetPath,
    },
  )

  // 3. The answer.
  switch (verdict.verdict) {
    case 'loop':
      return looped(request, failurePage)
    case 'saml':
      return withFacts(
        await (parts.saml.handle(request, path) ?? foreignTarget(request, failurePage)),
        { outcome: 'saml' },
      )
    case 'key-set':
      return withFacts(await parts.keySet(request), { outcome: 'key-set' })
    case 'passthrough': {
      const facts = { because: `passthrough-${verdict.because}`, passthrough: verdict.name }
      const admitted = { request, path, query, session: undefined }
      return withFacts(await forwarded(admitted, { rules, forward, failurePage }), facts)
    }
    case 'authenticated': {
      if (isForeignSocket(request, config)) return wrongOrigin(request, failurePage)
      const { session } = verdict
      const facts = { because: 'session', user: session.subject }
      const opened = await openReplay(request, clock)
      if ('handle' in opened) {
        const asked = { handle: opened.handle, session, target: targetOf(place) }
        const replay = parts.saml.takeReplay(request, asked)
        if ('refuse' in replay) return withFacts(replay.refuse, facts)
        const admitted = { request: asStashed(request, replay.stash), path, query, session }
        const answered = await forwarded(admitted, { rules, forward, failurePage })
        return withFacts(plus(answered, replay.setCookie), { ...facts, replayed: true })
      }
      const admitted = { request: opened.request, path, query, session }
      const answered = await forwarded(admitted, { rules, forward, failurePage })
      return withFacts(await renewed(answered, admitted, sessions), facts)
    }
    case 'login-needed':
      return withFacts(await loginFor(request, { path, query, from: verdict.from }, parts), {
        outcome: verdict.from === 'api' ? 'unauthenticated' : 'login',
        because: verdict.because,
      })
  }
}

/** The one way to the backend, for requests and upgrades, with a session and without. */
async function forwarded(
  admitted: Admitted,
  by: { readonly rules: Rules; readonly forward: Forward; readonly failurePage: FailurePage },
): Promise<Answer> {
  try {
    return withFacts(await by.forward(by.rules.backend, admitted), { outcome: 'forwarded' })
  } catch (error) {
    return backendFailed(admitted.request, error, by.failurePage)
  }
}

/** A session in use is kept alive, but never in a response that a cache may keep for others. */
async function renewed(answered: Answer, admitted: Admitted, sessions: Sessions): Promise<Answer> {
  const { session, request } = admitted
  if (session === undefined || !isResponse(answered)) return answered
  if (SHARED.test(answered.fields.get('Cache-Control') ?? '')) return answered
  const lines = await sessions.renewal(session, request)
  return lines === undefined ? answered : plus(answered, lines)
}

function plus<A extends Answer>(answered: A, more: Fields): A {
  if (!isResponse(answered)) return answered
  return { ...answered, fields: Fields.fromFlat([...answered.fields.flat, ...more.flat]) }
}

async function loginFor(
  request: Request,
  asked: {
    readonly path: string
    readonly query: string | undefined
    readonly from: 'navigation' | 'api'
  },
  { rules, saml, forms, failurePage }: PipelineParts,
): Promise<Response> {
  const { config } = rules()
  const returnTo = targetOf(asked)
  const login = saml.loginAddress(pageOf(request, config, returnTo))
  if (asked.from === 'api') return needsLogin(request, login)
  if (!isOwnHost(request.fields.get('Host'), config.domain)) {
    return wrongHost(request, config, failurePage)
  }
  if (cameWithoutTls(request)) {
    return withoutTls(request, { config, path: returnTo }, failurePage)
  }
  const form = await forms.read(request, config, saml.keepsForms(request, returnTo))
  if ('lost' in form) {
    const { stashLimit } = config.saml
    return notKept(request, { because: form.lost, login, limit: stashLimit }, failurePage)
  }
  return saml.startLogin(request, 'stash' in form ? { returnTo, stash: form.stash } : { returnTo })
}

function isResponse(answered: Answer): answered is Response {
  return 'fields' in answered
}

/** More facts for the log; those that are there already win. */
function withFacts<A extends Answer>(answered: A, facts: Facts): A {
  return { ...answered, facts: { ...facts, ...answered.facts } }
}

const METHODS = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']
const SHARED = /(?:^|[,\s])(?:public|s-maxage|immutable)\b/i

/** Path and query of the request line; undefined for a target that is not ours to answer (RFC 9112 section 3.2). */
function placeOf(
  { target }: Request,
  domain: string,
): { readonly path: string; readonly query: string | undefined } | undefined {
  switch (target.form) {
    case 'origin':
      return { path: target.path, query: target.query }
    case 'absolute': {
      const { host, port, path, query } = target.uri
      const own = parseAuthority(domain, 443)
      const ours = !('problem' in own) && own.host === host
      return ours && (port === own.port || port === 80 || port === 443)
        ? { path, query }
        : undefined
    }
    default:
      return undefined
  }
}

function targetOf({ path, query }: { path: string; query: string | undefined }): string {
  return query === undefined ? path : `${path}?${query}`
}

/**
 * Whether a browser came by plain HTTP: the edge says so, and the browser does not contradict it. Fetch metadata are sent over
 * TLS alone (W3C Fetch Metadata section 2), as are our cookies: with either of them it is the edge that is wrong, and the
 * login works all the same.
 */
function cameWithoutTls({ secure, fields }: Request): boolean {
  const said = fields.all('X-Forwarded-Proto').join(',').toLowerCase().split(',')
  if (secure || said.some(scheme => scheme.trim() !== 'http')) return false
  const ofTls =
    fields.has('Sec-Fetch-Mode') || cookiePairs(fields).some(({ name }) => isOwnCookie(name))
  return !ofTls
}

/**
 * A page of another origin that opens a WebSocket: browsers send the cookie along and ask nobody (RFC 6455 section 10.2).
 * Programs that are no browsers send no Origin.
 */
function isForeignSocket(request: Request, { baseUrl, webSocketOrigins }: Config): boolean {
  if (!request.fields.has('Upgrade')) return false
  const origin = request.fields.get('Origin')
  return origin !== undefined && origin !== baseUrl && !webSocketOrigins.includes(origin)
}

/** Where somebody goes after logging in for a request of a script: back to the page it ran in, as far as that is ours. */
function pageOf({ fields, method }: Request, { baseUrl }: Config, asked: string): string {
  const referer = fields.get('Referer') ?? ''
  if (referer.startsWith(`${baseUrl}/`)) {
    const path = referer.slice(baseUrl.length).split('#', 1)[0] ?? '/'
    if (/^\/(?![/\\])[\x21-\x7e]*$/.test(path)) return path
  }
  return method === 'GET' && !fields.has('Sec-Fetch-Mode') && !fields.has('Upgrade') ? asked : '/'
}
