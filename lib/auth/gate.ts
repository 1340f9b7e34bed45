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
import type { Config } from './config/config.ts'
import { keySetPath, logoPath } from './pages/own-document.ts'
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
  | { readonly verdict: 'passthrough'; readonly because: 'path' | 'token'; readonly name: string }
  | { readonly verdict: 'authenticated'; readonly session: ReadSession }
  /** From a person who opens a page, or a program that can do nothing with one. */
  | {
      readonly verdict: 'login-needed'
      readonly from: 'navigation' | 'api'
      readonly because: string
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

/** Decides, in the order that is the argument: loop, SAML, own documents, path, token, session. */
export function gate(
  asked: {
    readonly request: Pick<Request, 'method' | 'fields' | 'version'>
    /** Path as it is forwarded. */
    readonly path: string
    readonly now: Milliseconds
    readonly instanceId: string
    readonly session: () => ReadSession | undefined | Promise<ReadSession | undefined>
  },
  rules: Pick<Config, 'passthroughPaths' | 'passthroughTokens' | 'identityToken' | 'pages'>,
): Verdict | Promise<Verdict> {
  const { request, path, now, instanceId } = asked
  if (hasLooped(request.fields, instanceId)) return { verdict: 'loop' }
  if (samlPaths.has(path)) return { verdict: 'saml' }
  // Without signed identities, or a logo, that path is the backend's like any other.
  if (path === keySetPath && rules.identityToken !== undefined) return { verdict: 'key-set' }
  if (path === logoPath && rules.pages.logo !== undefined) return { verdict: 'logo' }
  const prefix = passthroughPrefix(path, rules.passthroughPaths)
  if (prefix !== undefined) return { verdict: 'passthrough', because: 'path', name: prefix }
  // A wrong token never falls back to a login page.
  const token = checkToken(request.fields, rules.passthroughTokens, now)
  if (token !== undefined) {
    return 'name' in token
      ? { verdict: 'passthrough', because: 'token', name: token.name }
      : { verdict: 'login-needed', from: 'api', because: `token-${token.because}` }
  }
  return whenReady(asked.session(), (session): Verdict => {
    if (session !== undefined) return { verdict: 'authenticated', session }
    const from = isNavigation(request) ? 'navigation' : 'api'
    return { verdict: 'login-needed', from, because: 'no-session' }
  })
}
