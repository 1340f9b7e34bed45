/**
 * Who is asking, as a signed JWT for the backend (RFC 7519, ES256): proof that a request came through here, which the other
 * identity fields are not for a backend that can be reached some other way.
 *
 * # Claims
 * `iss` the public origin; `aud` the backend, by the name the configuration gives it; `sub`; `iat`, `nbf`, `exp`; `auth_time`;
 * `groups`, a list that may be empty; `attributes`, the others by canonical name, each a list; `instance`. Values as they
 * are, not percent-encoded. `typ` is JWT, since some libraries take no other; sessions have another one and another algorithm.
 */
import { createPrivateKey, webcrypto } from 'node:crypto'
import type { Clock, Milliseconds } from '../../async/clock.ts'
import { type JwtClaims, secondsOf, signJwt } from '../keys/jwt.ts'
import type { Session } from '../session/token.ts'
import { type IdentityKey, signingKey } from './identity-key.ts'

export interface IdentityTokenRules {
  /** `https://<domain>` */
  readonly issuer: string
  readonly audience: string
  readonly instance: string
}

/** The keys tokens are signed with; `generation` changes whenever they do. */
export interface IdentityTokenKeys {
  readonly generation: number
  /** Newest first. */
  identity(): readonly IdentityKey[]
}

/** A token is refused so long after it was made. */
const LIFETIME: Milliseconds = 120_000
/** And sent again for so long: whatever arrives has a minute left for a slow way and a slow clock. */
const REUSED: Milliseconds = 60_000

interface Minted {
  readonly token: Promise<string>
  readonly at: Milliseconds
  readonly generation: number
}

export class IdentityTokens {
  readonly #keys: IdentityTokenKeys
  readonly #clock: Clock
  readonly #rules: IdentityTokenRules
  /** Sessions are one object for as long as their token is remembered. */
  readonly #minted = new WeakMap<Session, Minted>()
  #signer: { readonly kid: string; readonly key: Promise<webcrypto.CryptoKey> } | undefined

  constructor(options: {
    readonly keys: IdentityTokenKeys
    readonly clock: Clock
    readonly rules: IdentityTokenRules
  }) {
    this.#keys = options.keys
    this.#clock = options.clock
    this.#rules = options.rules
  }

  /** A token of a session that is good for a minute at least, or for as long as the session. */
  of(session: Session): Promise<string> {
    const now = this.#clock.now()
    const keys = this.#keys.identity()
    const { generation } = this.#keys
    const known = this.#minted.get(session)
    const fresh = known !== undefined && now >= known.at && now < known.at + REUSED
    if (fresh && known.generation === generation) return known.token
    const token = this.#mint(session, signingKey(keys, now), now)
    this.#minted.set(session, { token, at: now, generation })
    token.catch(() => this.#minted.delete(session))
    return token
  }

  async #mint(session: Session, key: IdentityKey | undefined, now: Milliseconds): Promise<string> {
    if (key === undefined) throw new Error('there is no key to sign identities with')
    return signJwt(claimsOf(session, this.#rules, now), {
      algorithm: 'ES256',
      type: 'JWT',
      kid: key.kid,
      key: await this.#import(key),
    })
  }

  #import({ kid, privateKey }: IdentityKey): Promise<webcrypto.CryptoKey> {
    if (this.#signer?.kid === kid) return this.#signer.key
    const der = createPrivateKey(privateKey).export({ type: 'pkcs8', format: 'der' })
    const algorithm = { name: 'ECDSA', namedCurve: 'P-256' }
    const key = webcrypto.subtle.importKey('pkcs8', der, algorithm, false, ['sign'])
    this.#signer = { kid, key }
    return key
  }
}

function claimsOf(session: Session, rules: IdentityTokenRules, now: Milliseconds): JwtClaims {
  const { groups = [], ...attributes } = Object.fromEntries(session.attributes)
  return {
    iss: rules.issuer,
    aud: rules.audience,
    sub: session.subject,
    iat: secondsOf(now),
    nbf: secondsOf(now),
    exp: secondsOf(Math.min(now + LIFETIME, session.expires)),
    auth_time: secondsOf(session.authenticated),
    groups,
    attributes,
    instance: rules.instance,
  }
}
