/**
 * Signs the identity as a JWT for the backend (RFC 7519, ES256).
 *
 * It proves that a request came through this gateway, which the other identity fields do not where the backend can be reached
 * some other way.
 *
 * # Claims
 * `iss` the public origin; `aud` the backend, by the name the configuration gives it; `sub`; `iat`, `nbf`, `exp`; `auth_time`;
 * `groups`, a list that may be empty; `attributes`, the others by canonical name, each a list; `instance`. Values as they
 * are, not percent-encoded. `htm` and `htu`, method and address without the query (RFC 9449 section 4.2), in a token for one request
 * that an edge asks about. `typ` is JWT, since some libraries take no other; sessions have another one and another algorithm.
 */
import { createPrivateKey, type KeyObject } from 'node:crypto'
import type { Clock, Milliseconds } from '../../async/clock.ts'
import { recent } from '../../recent.ts'
import type { Config } from '../config/config.ts'
import { publishedFor, signingKey } from '../keys/dynamic-config.ts'
import { type JwtClaims, secondsOf, signJwt } from '../keys/jwt.ts'
import type { KeyRing } from '../keys/key-ring.ts'
import type { Session } from '../session/token.ts'

interface IdentityTokenOptions {
  readonly keys: Pick<KeyRing, 'generation' | 'identity'>
  readonly clock: Clock
  readonly config: Pick<Config, 'baseUrl' | 'instance' | 'identityToken'>
}

/** How long a token is valid. */
const LIFETIME: Milliseconds = 120_000
/** How long it is sent again, so that a minute is left for a slow connection and a slow clock. */
const REUSED: Milliseconds = 60_000

/** The request that a token is for. */
export interface TokenRequest {
  readonly method: string
  /** Without the query. */
  readonly path: string
}

interface Minted {
  readonly token: Promise<string>
  readonly at: Milliseconds
  readonly generation: number
}

/** Characters of a path whose token is sent again. */
const LONGEST_KEPT = 1024

export class IdentityTokens {
  readonly #options: IdentityTokenOptions
  /** Sessions are one object for as long as their token is remembered. */
  readonly #minted = new WeakMap<Session, Minted>()
  /** Tokens for one request each, by session, method and path. */
  readonly #ofRequests = recent<string, Minted>(10_000)
  #signer: { readonly kid: string; readonly key: KeyObject } | undefined

  constructor(options: IdentityTokenOptions) {
    this.#options = options
  }

  /** A token of a session that is good for a minute at least, or for as long as the session. */
  of(session: Session): Promise<string> {
    const known = this.#minted.get(session)
    if (known !== undefined && this.#isFresh(known)) return known.token
    const minted = this.#mint(session)
    this.#minted.set(session, minted)
    minted.token.catch(() => this.#minted.delete(session))
    return minted.token
  }

  /** The same, for this request alone. */
  ofRequest(session: Session, request: TokenRequest): Promise<string> {
    const { method, path } = request
    if (path.length > LONGEST_KEPT) return this.#mint(session, request).token
    const name = `${session.id} ${method} ${path}`
    const known = this.#ofRequests.get(name)
    if (known !== undefined && this.#isFresh(known)) return known.token
    const minted = this.#mint(session, request)
    this.#ofRequests.set(name, minted)
    minted.token.catch(() => this.#ofRequests.delete(name))
    return minted.token
  }

  #isFresh({ at, generation }: Minted): boolean {
    const { clock, keys } = this.#options
    const now = clock.now()
    return generation === keys.generation && now >= at && now < at + REUSED
  }

  #mint(session: Session, request?: TokenRequest): Minted {
    const { clock, keys, config } = this.#options
    const { generation } = keys
    const now = clock.now()
    const key = signingKey(keys.identity(), now, publishedFor.identity)
    if (key === undefined) throw new Error('there is no key to sign identities with')
    const claims = { ...claimsOf(session, config, now), ...requestClaims(request, config) }
    const { kid } = key
    if (this.#signer?.kid !== kid) this.#signer = { kid, key: createPrivateKey(key.privateKey) }
    const token = signJwt(claims, { algorithm: 'ES256', type: 'JWT', ...this.#signer })
    return { token, at: now, generation }
  }
}

function requestClaims(
  request: TokenRequest | undefined,
  { baseUrl }: IdentityTokenOptions['config'],
): JwtClaims {
  return request === undefined ? {} : { htm: request.method, htu: `${baseUrl}${request.path}` }
}

/** The clock of a backend may be behind ours by so much. */
const SLACK: Milliseconds = 30_000

function claimsOf(
  session: Session,
  { baseUrl, instance, identityToken }: IdentityTokenOptions['config'],
  now: Milliseconds,
): JwtClaims {
  const { groups = [], ...attributes } = Object.fromEntries(session.attributes)
  return {
    iss: baseUrl,
    aud: identityToken?.audience ?? baseUrl,
    sub: session.subject,
    iat: secondsOf(now),
    nbf: secondsOf(now - SLACK),
    exp: secondsOf(Math.min(now + LIFETIME, session.expires)),
    auth_time: secondsOf(session.authenticated),
    groups,
    attributes,
    instance,
  }
}
