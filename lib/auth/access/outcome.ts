/**
 * What happens to requests and to the checks of an edge, in closed sets of words, and the facts that their lines in the log have. Users
 * rely on these words: docs/compatibility.md.
 */
import type { TunnelEnd } from '../../http/proxy/tunnel.ts'

/** What happens to requests; docs/authproxy-request.md explains each. */
export const outcomes = [
  ...['forwarded', 'tunnelled', 'login', 'unauthenticated', 'saml', 'key-set', 'logo', 'probe'],
  ...['login-script', 'own-page', 'refused', 'failed', 'client-gone', 'cut'],
] as const

/** What happens to the checks of an edge, likewise. */
export const checkOutcomes = [
  ...['allowed', 'login', 'renewal', 'unauthenticated', 'refused', 'misrouted', 'probe'],
  ...['malformed', 'failed'],
] as const

/** Why a request passes. */
export type PassReason =
  | 'session'
  | 'token'
  | 'anyone'
  | 'preflight'
  | `passthrough-${'path' | 'token'}`

/** Why a request needs a login, or another token. */
export type LoginReason =
  | 'no-session'
  | `login-${'age' | 'context'}`
  | `token-${'unknown' | 'expired' | 'ended' | 'malformed' | 'scope'}`

/** Why authproxy has cut a transfer or a WebSocket that was under way. */
export type CutReason =
  | 'expired'
  | 'revoked'
  | 'other-idp'
  | 'identity-settings'
  | 'other-user'
  | 'rules'
  | 'token-expired'

/** Why a request or a check is refused: the first two by HTTP, the last three for what an edge does with it. */
type RefuseReason =
  | 'malformed'
  | 'method'
  | 'access'
  | 'identity-field'
  | 'foreign-field'
  | 'upgrade'

/** The category of a failure. Its page, its line in the log and its record name it. */
export type FailureCategory = 'SAML-ERROR' | 'PROXY-ERROR' | 'ACCESS-REFUSED'

/** What a line says of a request or of a check besides what it says of each (http/server/exchanges.ts). */
export type OutcomeFacts = {
  readonly outcome?: (typeof outcomes)[number] | (typeof checkOutcomes)[number]
  readonly because?: PassReason | LoginReason | RefuseReason | CutReason | TunnelEnd
  /** Who asks, as the edge in front says. */
  readonly client?: string
  /** Of a check, what is asked about. */
  readonly method?: string
  readonly target?: string
  readonly user?: string | undefined
  /** The token of a person by which a program asks: its ID and its name. */
  readonly program?: string | undefined
  /** The path or the token that lets the request pass without a session. */
  readonly passthrough?: string | undefined
  /** It was kept over a login. */
  readonly resubmitted?: boolean
  /** Of a failure. */
  readonly category?: FailureCategory | 'FORWARD-AUTH-ERROR'
  readonly code?: string
  /** The rule of access that refuses, its line in the file, and why. */
  readonly rule?: number | undefined
  readonly line?: number | undefined
  readonly why?: string
  /** What a watched rule would have done, with `rule`, `line` and `why`. */
  readonly would?: 'refuse' | 'login'
  /** Bytes from the client through a WebSocket. */
  readonly received?: number
  /** The answer to a login that has begun a session. */
  readonly saml?: 'accepted'
  /** Where the backend finds the head too large, how much of it is the identity. */
  readonly identityBytes?: number
}
