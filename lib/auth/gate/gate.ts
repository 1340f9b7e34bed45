/**
 * Decides what a request may do, for requests and upgrades alike. Pure: the session, or another proof of who asks, is asked for only when
 * nothing else has decided, and reading it changes nothing.
 */

import type { Milliseconds } from '../../async/clock.ts'
import { continueWhenReady } from '../../async/ready.ts'
import { Fields } from '../../http/message/field.ts'
import type { Request } from '../../http/message/message.ts'
import { hasLooped } from '../access/instance-id.ts'
import { isNavigation } from '../access/navigation.ts'
import type { LoginReason } from '../access/outcome.ts'
import { checkToken, passthroughPrefix } from '../access/passthrough.ts'
import { isPreflight } from '../access/preflight.ts'
import {
  type AccessRefusal,
  type AccessRule,
  type AccessRules,
  judgeAccess,
  type WatchedDecision,
  wantedBy,
} from '../access/rules.ts'
import { isInScope, type TokenScope } from '../access/token-scope.ts'
import type { Config } from '../config/config.ts'
import { type OwnPage, signedInPath, whoamiPath } from '../identity/whoami.ts'
import { isKeyPath, loginScriptPath, logoPath } from '../pages/own-document.ts'
import type { ReadSession } from '../session/token.ts'
import { refusedPath, renewalPath, tokensPath } from './gateway-paths.ts'

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
  /** The request asks for the tokens of a person, or is to make or end one. Only the session of a browser leads here. */
  | { readonly verdict: 'tokens-page'; readonly session: ReadSession }
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
      /** The session of a person whose login does not fulfil that rule, or whose token is not for the request. */
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

/**
 * Another proof of who asks than a cookie, in `tokenField`: answers the session behind a token of a person, or why it proves nothing. A
 * request that has such a field is judged by it alone.
 */
export type Proof = (presented: string, fields: Fields) => Proven | Promise<Proven>
export type Proven = ReadSession | 'unknown' | 'expired' | 'ended'

/** Decides, in the order that is the argument: loop, SAML, own documents, path, token, preflight, session, rules. */
export function gate(
  asked: AskedOfGate & {
    readonly session: () => ReadSession | undefined | Promise<ReadSession | undefined>
    readonly proof?: Proof | undefined
  },
  rules: Config,
): Verdict | Promise<Verdict> {
  const decided = beforeSession(asked, rules)
  if (decided !== undefined && 'presented' in decided) {
    const { proof = () => 'unknown' } = asked
    const proven = proof(decided.presented, asked.request.fields)
    return continueWhenReady(proven, proven => withProof(asked, proven, rules))
  }
  if (decided !== undefined) return decided
  return continueWhenReady(asked.session(), session => withSession(asked, session, rules))
}

/** Whether a request may still pass with its session, by the rules now in force. */
export function passesAgain(
  asked: AskedOfGate,
  session: ReadSession | undefined,
  rules: Config,
): boolean {
  const decided = beforeSession(asked, rules) ?? withSession(asked, session, rules)
  const { verdict } =
    'presented' in decided
      ? withProof(asked, session?.token === undefined ? 'unknown' : session, rules)
      : decided
  return verdict !== 'login-needed' && verdict !== 'refused'
}

/** The verdict that does not depend on who asks; the token that may prove it; undefined when the session decides. */
function beforeSession(
  asked: AskedOfGate,
  rules: Config,
): Verdict | { readonly presented: string } | undefined {
  const { request, path, now, instanceId } = asked
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
  if ('presented' in token) return token
  if ('because' in token) return tokenRefused(`token-${token.because}`)
  const { name, expires } = token
  const scope = rules.passthroughTokens.find(each => each.name === name)?.scope
  if (!isFor(scope, asked)) return { ...tokenRefused('token-scope'), token: name }
  return { verdict: 'passthrough', because: 'token', name, expires }
}

function tokenRefused(because: LoginReason) {
  return { verdict: 'login-needed', from: 'api', because } as const
}

function isFor(scope: TokenScope | undefined, asked: AskedOfGate): boolean {
  const { request, path, query, client } = asked
  const { method, fields } = request
  return scope === undefined || isInScope(scope, { method, fields, path, query, client })
}

/** The verdict by the token of a person: what it is for, what tokens may be used for, and what the person may do. */
function withProof(asked: AskedOfGate, proven: Proven, rules: Config): Verdict {
  if (typeof proven === 'string') return tokenRefused(`token-${proven}`)
  if (!isFor(proven.token?.scope, asked)) {
    return { ...tokenRefused('token-scope'), session: proven }
  }
  const byTokens = byRules(asked, proven, rules.tokens.access)
  return byTokens.verdict === 'authenticated' ? byRules(asked, proven, rules.access) : byTokens
}

/** Whether a token of a person can be for a method of a path, by the rules as they are now. */
export function mayWithToken(
  { method, path, now }: Pick<AskedOfGate, 'path' | 'now'> & { readonly method: string },
  session: ReadSession,
  rules: Config,
): boolean {
  const request = { method, fields: Fields.empty, version: '1.1' } as const
  const asked = { request, path, now, client: '', instanceId: '' }
  return withProof(asked, session, rules).verdict === 'authenticated'
}

/** The verdict for a session. */
function withSession(asked: AskedOfGate, session: ReadSession | undefined, rules: Config): Verdict {
  const { request, path } = asked
  const own = ownPage(path, rules)
  if (own !== undefined) {
    // The rules apply only to forwarded requests, so the page of a refusal is not judged.
    if (own === refusedPath) return { verdict: 'refused-page', session }
    if (session === undefined) return loginNeeded(request, { because: 'no-session' })
    if (own === tokensPath) return { verdict: 'tokens-page', session }
    return own === renewalPath
      ? { verdict: 'renewal', session }
      : { verdict: 'own-page', path: own, session }
  }
  return byRules(asked, session, rules.access)
}

/** The verdict of rules. Without rules, every signed-in person may pass. */
function byRules(
  { request, path, query, now }: AskedOfGate,
  session: ReadSession | undefined,
  access: AccessRules | undefined,
): Verdict {
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
function ownPage(path: string, { forwardAuth, tokens }: Config) {
  if (path === whoamiPath || path === signedInPath) return path
  if (path === tokensPath && tokens.longest !== undefined) return path
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
    // A program with a token is shown no login page.
    from: why.session?.token === undefined && isNavigation(request) ? 'navigation' : 'api',
    ...why,
  }
}
