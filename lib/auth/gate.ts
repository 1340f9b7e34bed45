/**
 * Decides what a request may do, for requests and upgrades alike. Pure: the session is asked for only when nothing else has
 * decided, and reading it changes nothing.
 */

import type { Milliseconds } from '../async/clock.ts'
import { whenReady } from '../async/ready.ts'
import type { Request } from '../http/message/message.ts'
import { hasLooped } from './access/instance-id.ts'
import { isNavigation } from './access/navigation.ts'
import { checkToken, passthroughPrefix } from './access/passthrough.ts'
import { isPreflight } from './access/preflight.ts'
import { type AccessRefusal, type AccessRule, judge, wantedBy } from './access/rules.ts'
import { isInScope } from './access/token-scope.ts'
import type { Config } from './config/config.ts'
import { refusedPath, renewalPath } from './forward-auth/gateway-paths.ts'
import type { LoginReason } from './outcome.ts'
import { keySetPath, loginScriptPath, logoPath } from './pages/own-document.ts'
import { type OwnPage, signedInPath, whoamiPath } from './pages/whoami.ts'
import type { ReadSession } from './session/token.ts'

export type Verdict =
  /** It has been here before. */
  | { readonly verdict: 'loop' }
  /** It is for SAML itself. */
  | { readonly verdict: 'saml' }
  /** It asks for the keys of the signed identity, which are public. */
  | { readonly verdict: 'key-set' }
  /** It asks for the logo of the pages, which is public. */
  | { readonly verdict: 'logo' }
  /** It asks for the script for pages of the application, which is public. */
  | { readonly verdict: 'login-script' }
  /** It asks who is signed in, or comes from a login in a window of its own. */
  | {
      readonly verdict: 'own-page'
      readonly path: OwnPage['path']
      readonly session: ReadSession
    }
  /** It comes by way of the renewal of its session, where an edge forwards the requests of the application. */
  | { readonly verdict: 'renewal'; readonly session: ReadSession }
  /** An edge shows this page for what the rules refuse. */
  | { readonly verdict: 'refused-page'; readonly session: ReadSession | undefined }
  | { readonly verdict: 'passthrough'; readonly because: 'path' | 'token'; readonly name: string }
  /** It announces the call of a page of another origin, and the settings let it pass. */
  | { readonly verdict: 'preflight' }
  | { readonly verdict: 'authenticated'; readonly session: ReadSession }
  /** A rule lets anyone pass, and there is no session. */
  | { readonly verdict: 'anyone' }
  /** No rule allows it, whoever asks and however they have signed in. */
  | {
      readonly verdict: 'refused'
      readonly session: ReadSession | undefined
      readonly access: AccessRefusal
    }
  /** From a person who opens a page, or a program that can do nothing with one. */
  | {
      readonly verdict: 'login-needed'
      readonly from: 'navigation' | 'api'
      readonly because: LoginReason
      /** The token that is for other requests. */
      readonly token?: string
      /** The rule that asks for the login; undefined where there are none. */
      readonly rule?: AccessRule | undefined
      /** Of a person whose login is not like that rule needs it. */
      readonly session?: ReadSession | undefined
    }

/** Paths that are answered here and never forwarded, whatever the configuration says of them. */
export const samlPaths: ReadonlySet<string> = new Set([
  '/saml/metadata.xml',
  '/saml/metadata',
  '/saml/certificate.crt',
  '/saml/acs',
  '/saml/slo',
  '/__authproxy-redirect',
])

/** What the gate looks at besides the session. */
export interface AskedOfGate {
  readonly request: Pick<Request, 'method' | 'fields' | 'version'>
  /** Path as it is forwarded. */
  readonly path: string
  readonly query?: string | undefined
  /** IP address of the client as far as it can be believed. */
  readonly client: string
  readonly now: Milliseconds
  readonly instanceId: string
}

/** The settings it decides by. */
type GateRules = Pick<
  Config,
  | 'passthroughPaths'
  | 'passthroughTokens'
  | 'identityToken'
  | 'pages'
  | 'access'
  | 'cors'
  | 'baseUrl'
  | 'forwardAuth'
>

/** Decides, in the order that is the argument: loop, SAML, own documents, path, token, preflight, session, rules. */
export function gate(
  asked: AskedOfGate & {
    readonly session: () => ReadSession | undefined | Promise<ReadSession | undefined>
  },
  rules: GateRules,
): Verdict | Promise<Verdict> {
  const decided = beforeSession(asked, rules)
  if (decided !== undefined) return decided
  return whenReady(asked.session(), session => withSession(asked, session, rules))
}

/** Decides again for the session a request was let through with: whether it still may, by the rules of now. */
export function passesAgain(
  asked: AskedOfGate,
  session: ReadSession | undefined,
  rules: GateRules,
): boolean {
  const { verdict } = beforeSession(asked, rules) ?? withSession(asked, session, rules)
  return verdict !== 'login-needed' && verdict !== 'refused'
}

/** What is decided whoever asks; undefined when the session is to be looked at. */
function beforeSession(asked: AskedOfGate, rules: GateRules): Verdict | undefined {
  const { request, path, query, now, instanceId } = asked
  if (hasLooped(request.fields, instanceId)) return { verdict: 'loop' }
  if (samlPaths.has(path)) return { verdict: 'saml' }
  // Without signed identities, or a logo, that path is the backend's like any other.
  if (path === keySetPath && rules.identityToken !== undefined) return { verdict: 'key-set' }
  if (path === logoPath && rules.pages.logo !== undefined) return { verdict: 'logo' }
  if (path === loginScriptPath) return { verdict: 'login-script' }
  // Neither a prefix nor a token leads these to the backend.
  if (ownPage(path, rules) !== undefined) return undefined
  const prefix = passthroughPrefix(path, rules.passthroughPaths)
  if (prefix !== undefined) return { verdict: 'passthrough', because: 'path', name: prefix }
  // A wrong token never falls back to a login page.
  const token = checkToken(request.fields, rules.passthroughTokens, now)
  if (token === undefined) {
    const passes = rules.cors === 'pass' && isPreflight(asked, rules)
    return passes ? { verdict: 'preflight' } : undefined
  }
  const refused = (because: LoginReason) =>
    ({ verdict: 'login-needed', from: 'api', because }) as const
  if ('because' in token) return refused(`token-${token.because}`)
  const { name } = token
  const scope = rules.passthroughTokens.find(each => each.name === name)?.scope
  const { method, fields } = request
  const wanted = { method, fields, path, query, client: asked.client }
  if (scope !== undefined && !isInScope(scope, wanted)) {
    return { ...refused('token-scope'), token: name }
  }
  return { verdict: 'passthrough', because: 'token', name }
}

/** What the rules say; without any, all who are signed in may. */
function withSession(
  { request, path, query, now }: AskedOfGate,
  session: ReadSession | undefined,
  rules: GateRules,
): Verdict {
  const { access } = rules
  const own = ownPage(path, rules)
  if (own !== undefined) {
    // The rules are for what is forwarded.
    if (own === refusedPath) return { verdict: 'refused-page', session }
    if (session === undefined) return loginNeeded(request, { because: 'no-session' })
    return own === renewalPath
      ? { verdict: 'renewal', session }
      : { verdict: 'own-page', path: own, session }
  }
  if (access === undefined) {
    return session === undefined
      ? loginNeeded(request, { because: 'no-session' })
      : { verdict: 'authenticated', session }
  }
  const judged = judge(access, wantedBy(request, { path, query }, access), { person: session, now })
  switch (judged.verdict) {
    case 'allowed':
      return session === undefined ? { verdict: 'anyone' } : { verdict: 'authenticated', session }
    case 'login':
      return loginNeeded(request, { because: 'no-session', rule: judged.rule })
    case 'step-up':
      return loginNeeded(request, {
        because: `login-${judged.because}`,
        rule: judged.rule,
        session,
      })
    case 'refused':
    case 'ambiguous':
      return { verdict: 'refused', session, access: judged }
  }
}

/** The path of a page of ours that looks at the session; undefined for others. */
function ownPage(path: string, { forwardAuth }: GateRules) {
  if (path === whoamiPath || path === signedInPath) return path
  // Without an edge that asks, these are the backend's like any other.
  if (forwardAuth === undefined) return undefined
  return path === renewalPath || path === refusedPath ? path : undefined
}

function loginNeeded(
  request: Pick<Request, 'method' | 'fields' | 'version'>,
  why: Pick<Extract<Verdict, { verdict: 'login-needed' }>, 'because' | 'rule' | 'session'>,
): Verdict {
  return {
    verdict: 'login-needed',
    from: isNavigation(request) ? 'navigation' : 'api',
    ...why,
  }
}
