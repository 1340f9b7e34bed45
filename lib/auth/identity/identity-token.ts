/**
 * Signs the identity as a JWT for the backend (RFC 7519, ES256).
 *
 * The token proves that a request came through this gateway. The other identity fields do not prove this where the backend can
 * be reached another way.
 *
 * # Claims
 * `iss` the public origin; `aud` the backend, by the name the configuration gives it; `sub`; `iat`, `nbf`, `exp`; `auth_time`;
 * `groups`, a list that may be empty; `attributes`, the others by canonical name, each a list; `instance`. Values as they
 * are, not percent-encoded. `htm` and `htu`, method and address without the query (RFC 9449 section 4.2), in a token for one request
 * that an edge asks about. `typ` is JWT, since some libraries take no other; sessions have another one and another algorithm.
 */
import { createPrivateKey, type KeyObject } from 'node:crypto'
import type { Clock, Milliseconds } from '../../async/clock.ts'
import { recentEntries } from '../../recent.ts'
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

const LIFETIME: Milliseconds = 120_000
/** The time for which a token is sent again. A minute of its lifetime is then left for a slow connection and a slow clock. */
const REUSED: Milliseconds = 60_000

export interface TokenRequest {
  readonly method: string
  /** The path of the request, without the query. */
  readonly path: string
}

interface Minted {
  readonly token: Promise<string>
  readonly at: Milliseconds
  readonly generation: number
}

/** The most characters of a path whose token is sent again. */
const LONGEST_KEPT = 1024

export class IdentityTokens {
  readonly #options: IdentityTokenOptions
  /** The tokens by session. A session is the same object for as long as its session token is remembered. */
  readonly #minted = new WeakMap<Session, Minted>()
  /** The tokens for one request, by session, method and path. */
  readonly #ofRequests = recentEntries<string, Minted>(10_000)
  #signer: { readonly kid: string; readonly key: KeyObject } | undefined

  constructor(options: IdentityTokenOptions) {
    this.#options = options
  }

  /** A token of a session that is valid for at least a minute, or until the session ends. */
  of(session: Session): Promise<string> {
    return this.#keptIn(this.#minted, session, () => this.#mint(session))
  }

  /** A token of a session for this request alone. */
  ofRequest(session: Session, request: TokenRequest): Promise<string> {
    const { method, path } = request
    const mint = () => this.#mint(session, request)
    if (path.length > LONGEST_KEPT) return mint().token
    return this.#keptIn(this.#ofRequests, `${session.id} ${method} ${path}`, mint)
  }

  #keptIn<K>(
    kept: Pick<Map<K, Minted>, 'get' | 'delete'> & {
      readonly set: (name: K, value: Minted) => unknown
    },
    name: K,
    mint: () => Minted,
  ): Promise<string> {
    const known = kept.get(name)
    if (known !== undefined && this.#isFresh(known)) return known.token
    const minted = mint()
    kept.set(name, minted)
    minted.token.catch(() => kept.delete(name))
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
    const claims = identityClaims(session, { config, now, request })
    const { kid } = key
    if (this.#signer?.kid !== kid) this.#signer = { kid, key: createPrivateKey(key.privateKey) }
    const token = signJwt(claims, { algorithm: 'ES256', type: 'JWT', ...this.#signer })
    return { token, at: now, generation }
  }
}

/** The time by which the clock of a backend may be behind ours. */
const SLACK: Milliseconds = 30_000

/** The claims of a token, of which docs/identity-token.md says what each means. `request`: the one the token is for. */
export function identityClaims(
  session: Pick<Session, 'subject' | 'attributes' | 'authenticated' | 'expires'>,
  {
    config: { baseUrl, instance, identityToken },
    now,
    request,
  }: Pick<IdentityTokenOptions, 'config'> & {
    readonly now: Milliseconds
    readonly request: TokenRequest | undefined
  },
): JwtClaims {
  const { groups = [], ...attributes } = Object.fromEntries(session.attributes)
  const claims = {
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
  return request === undefined
    ? claims
    : { ...claims, htm: request.method, htu: `${baseUrl}${request.path}` }
}
