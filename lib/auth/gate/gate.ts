/**
 * Decides what a request may do, for requests and upgrades alike. Pure: the session is asked for only when nothing else has
 * decided, and reading it changes nothing.
 */

import type { Milliseconds } from '../../async/clock.ts'
import { continueWhenReady } from '../../async/ready.ts'
import type { Request } from '../../http/message/message.ts'
import { hasLooped } from '../access/instance-id.ts'
import { isNavigation } from '../access/navigation.ts'
import type { LoginReason } from '../access/outcome.ts'
import { checkToken, passthroughPrefix } from '../access/passthrough.ts'
import { isPreflight } from '../access/preflight.ts'
import {
  type AccessRefusal,
  type AccessRule,
  judgeAccess,
  type WatchedDecision,
  wantedBy,
} from '../access/rules.ts'
import { isInScope } from '../access/token-scope.ts'
import type { Config } from '../config/config.ts'
import { type OwnPage, signedInPath, whoamiPath } from '../identity/whoami.ts'
import { isKeyPath, loginScriptPath, logoPath } from '../pages/own-document.ts'
import type { ReadSession } from '../session/token.ts'
import { refusedPath, renewalPath } from './gateway-paths.ts'

/** The verdicts that let a request pass. */
export type Passing =
  /** `expires` is the moment at which the token ends; undefined when it never ends, and for a path. */
  | {
      readonly verdict: 'passthrough'
      readonly because: 'path' | 'token'
      readonly name: string
      readonly expires?: Milliseconds | undefined
    }
  /** The request is a preflight for a page of another origin, and the settings let it pass. */
  | { readonly verdict: 'preflight' }
  | {
      readonly verdict: 'authenticated'
      readonly session: ReadSession
      readonly would?: WatchedDecision | undefined
    }
  /** A rule lets anyone pass, and there is no session. */
  | { readonly verdict: 'anyone' }

export type Verdict =
  | Passing
  | { readonly verdict: 'loop' }
  | { readonly verdict: 'saml' }
  /** The request asks for a public document: the keys of the signed identity, the logo of the pages, the script for pages of the application. */
  | { readonly verdict: 'key-set' | 'logo' | 'login-script' }
  /** The request asks who is signed in, or comes from a login in a window of its own. */
  | {
      readonly verdict: 'own-page'
      readonly path: OwnPage['path']
      readonly session: ReadSession
    }
  /** The browser renews its session on the way to a page, where an edge forwards the requests of the application. */
  | { readonly verdict: 'renewal'; readonly session: ReadSession }
  /** An edge shows this page for what the rules refuse. */
  | { readonly verdict: 'refused-page'; readonly session: ReadSession | undefined }
  /** No rule allows the request, and another login would not change that. */
  | {
      readonly verdict: 'refused'
      readonly session: ReadSession | undefined
      readonly access: AccessRefusal
    }
  /** The client: a person who opens a page, or a program that cannot show one. */
  | {
      readonly verdict: 'login-needed'
      readonly from: 'navigation' | 'api'
      readonly because: LoginReason
      /** The name of a token whose scope does not cover the request. */
      readonly token?: string
      /** The rule that says what the login has to be like; undefined when any login will do. */
      readonly how?: AccessRule | undefined
      /** The session of a person whose login does not fulfil that rule. */
      readonly session?: ReadSession | undefined
      readonly would?: WatchedDecision | undefined
    }

/** The paths that this service answers and never forwards, whatever the configuration says about them. */
export const samlPaths: ReadonlySet<string> = new Set([
  '/saml/metadata.xml',
  '/saml/metadata',
  '/saml/certificate.crt',
  '/saml/acs',
  '/saml/slo',
  '/__authproxy-redirect',
])

/**
 * Whether a method is never forwarded. Django and Daphne read `delete` as DELETE, which the rules do not: methods have capitals, and Node's
 * parser knows no others. Edges pass them on.
 */
export function isRefusedMethod(method: string): boolean {
  return method === 'TRACE' || method === 'CONNECT' || /[a-z]/.test(method)
}

/** The facts the gate needs in addition to the session. */
interface AskedOfGate {
  readonly request: Pick<Request, 'method' | 'fields' | 'version'>
  /** Path as it is forwarded. */
  readonly path: string
  readonly query?: string | undefined
  /** IP address of the client as far as it can be believed. */
  readonly client: string
  readonly now: Milliseconds
  readonly instanceId: string
}

/** Decides, in the order that is the argument: loop, SAML, own documents, path, token, preflight, session, rules. */
export function gate(
  asked: AskedOfGate & {
    readonly session: () => ReadSession | undefined | Promise<ReadSession | undefined>
  },
  rules: Config,
): Verdict | Promise<Verdict> {
  const decided = beforeSession(asked, rules)
  if (decided !== undefined) return decided
  return continueWhenReady(asked.session(), session => withSession(asked, session, rules))
}

/** Whether a request may still pass with its session, by the rules now in force. */
export function passesAgain(
  asked: AskedOfGate,
  session: ReadSession | undefined,
  rules: Config,
): boolean {
  const { verdict } = beforeSession(asked, rules) ?? withSession(asked, session, rules)
  return verdict !== 'login-needed' && verdict !== 'refused'
}

/** The verdict that does not depend on the session; undefined when the session decides. */
function beforeSession(asked: AskedOfGate, rules: Config): Verdict | undefined {
  const { request, path, query, now, instanceId } = asked
  if (hasLooped(request.fields, instanceId)) return { verdict: 'loop' }
  if (samlPaths.has(path)) return { verdict: 'saml' }
  // Without signed identities, or without a logo, the path belongs to the backend.
  if (isKeyPath(path, rules.identityToken)) return { verdict: 'key-set' }
  if (path === logoPath && rules.pages.logo !== undefined) return { verdict: 'logo' }
  if (path === loginScriptPath) return { verdict: 'login-script' }
  // These paths never go to the backend, even with a prefix or a token that would let them pass.
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
  const { name, expires } = token
  const scope = rules.passthroughTokens.find(each => each.name === name)?.scope
  const { method, fields } = request
  const wanted = { method, fields, path, query, client: asked.client }
  if (scope !== undefined && !isInScope(scope, wanted)) {
    return { ...refused('token-scope'), token: name }
  }
  return { verdict: 'passthrough', because: 'token', name, expires }
}

/** The verdict of the rules for a session. Without rules, every signed-in person may pass. */
function withSession(
  { request, path, query, now }: AskedOfGate,
  session: ReadSession | undefined,
  rules: Config,
): Verdict {
  const { access } = rules
  const own = ownPage(path, rules)
  if (own !== undefined) {
    // The rules apply only to forwarded requests, so the page of a refusal is not judged.
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
  const judged = judgeAccess(access, wantedBy(request, { path, query }, access), {
    person: session,
    now,
  })
  const { would } = judged
  switch (judged.verdict) {
    case 'allowed':
      return session === undefined
        ? { verdict: 'anyone' }
        : { verdict: 'authenticated', session, would }
    case 'login': {
      const how = judged.rule?.login && judged.rule
      return loginNeeded(request, { because: 'no-session', how, would })
    }
    case 'step-up':
      return loginNeeded(request, {
        because: `login-${judged.because}`,
        how: judged.rule,
        session,
        would,
      })
    case 'refused':
    case 'ambiguous':
      return { verdict: 'refused', session, access: judged }
  }
}

/** The path of a page of ours that looks at the session; undefined for others. */
function ownPage(path: string, { forwardAuth }: Config) {
  if (path === whoamiPath || path === signedInPath) return path
  // Without an edge that asks, these paths belong to the backend.
  if (forwardAuth === undefined) return undefined
  return path === renewalPath || path === refusedPath ? path : undefined
}

function loginNeeded(
  request: Pick<Request, 'method' | 'fields' | 'version'>,
  why: Omit<Extract<Verdict, { verdict: 'login-needed' }>, 'verdict' | 'from' | 'token'>,
): Verdict {
  return {
    verdict: 'login-needed',
    from: isNavigation(request) ? 'navigation' : 'api',
    ...why,
  }
}
