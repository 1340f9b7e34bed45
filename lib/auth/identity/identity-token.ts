/**
 * Signs the identity as a JWT for the backend (RFC 7519), in the form that the settings choose (config/setting-identity-token.ts).
 *
 * The token proves that a request came through this gateway. The other identity fields do not prove this where the backend can
 * be reached another way.
 *
 * # Claims
 * `iss` the public origin; `aud` the backend, by the name the configuration gives it; `sub`; `iat`, `nbf`, `exp`; `auth_time`;
 * `groups`, a list that may be empty; `attributes`, the others by canonical name, each a list; `instance`. Or, in place of `groups`
 * and `attributes`, claims with names of their own. Values as they are, not percent-encoded. `htm` and `htu`, method and address
 * without the query (RFC 9449 section 4.2), in a token for one request
 * that an edge asks about. `typ` is JWT, since some libraries take no other; sessions have another one and another algorithm.
 */
import { createHash, createPrivateKey, type KeyObject } from 'node:crypto'
import type { Clock, Milliseconds } from '../../async/clock.ts'
import { recentEntries } from '../../recent.ts'
import { type Claim, claimTable } from '../config/claims.ts'
import type { Config } from '../config/config.ts'
import type { TokenForm } from '../config/setting-identity-token.ts'
import { type IdentityKey, publishedFor, signingKey } from '../keys/dynamic-config.ts'
import { type JwtClaims, secondsOf, signJwt, signPaddedJwt } from '../keys/jwt.ts'
import type { KeyRing } from '../keys/key-ring.ts'
import type { Session } from '../session/token.ts'
import { firstValues } from './identity-fields.ts'

interface IdentityTokenOptions {
  readonly keys: Pick<KeyRing, 'generation' | 'identity' | 'saml'>
  readonly clock: Clock
  readonly config: Pick<Config, 'baseUrl' | 'instance' | 'identityToken' | 'identityFields'>
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

interface Signer {
  readonly kid: string
  readonly key: KeyObject
}

/** The most characters of a path whose token is sent again. */
const LONGEST_KEPT = 1024

export class IdentityTokens {
  readonly #options: IdentityTokenOptions
  /** The tokens by session. A session is the same object for as long as its session token is remembered. */
  readonly #minted = new WeakMap<Session, Minted>()
  /** The tokens for one request, by session, method and path. */
  readonly #ofRequests = recentEntries<string, Minted>(10_000)
  #signer: Signer | undefined

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
    const { identityToken: form } = config
    const { generation } = keys
    const now = clock.now()
    const wait = form?.algorithm === 'RS256' ? publishedFor.saml : publishedFor.identity
    const key = signingKey(tokenKeys(keys, form), now, wait)
    if (form === undefined || key === undefined)
      throw new Error('there is no key to sign identities with')
    const claims = identityClaims(session, { config, now, request, form })
    const { kid } = key
    if (this.#signer?.kid !== kid) this.#signer = { kid, key: createPrivateKey(key.privateKey) }
    const token = this.#sign(claims, form, this.#signer)
    return { token, at: now, generation }
  }

  /** The token of a balancer says in its header who signed it, for whom, and until when. */
  async #sign(
    claims: JwtClaims,
    { algorithm, issuer: iss, audience: client, preset }: TokenForm,
    { kid, key }: Signer,
  ): Promise<string> {
    if (preset !== 'alb') return signJwt(claims, { algorithm, type: 'JWT', kid, key })
    const header = { alg: algorithm, typ: 'JWT', kid, signer: iss, iss, client }
    return signPaddedJwt(claims, { ...header, exp: claims['exp'] }, key)
  }
}

/** The keys of a signed identity of this form, newest first. */
export function tokenKeys(
  keys: Pick<KeyRing, 'identity' | 'saml'>,
  form: Pick<TokenForm, 'algorithm' | 'preset'> | undefined,
): readonly IdentityKey[] {
  const own = form?.algorithm === 'RS256' ? keys.saml() : keys.identity()
  return form?.preset === 'alb' ? own.map(key => ({ ...key, kid: uuidOf(key.kid) })) : own
}

/** The ID of a key as a UUID: programs that verify the token of a balancer insist on it. */
function uuidOf(kid: string): string {
  const digest = createHash('sha256').update(kid).digest('hex')
  return digest.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12}).*$/, '$1-$2-$3-$4-$5')
}

/** The time by which the clock of a backend may be behind ours. */
const SLACK: Milliseconds = 30_000

/** The claims of a token, of which docs/identity-token.md says what each means. `request`: the one the token is for. */
export function identityClaims(
  session: Pick<Session, 'subject' | 'attributes' | 'authenticated' | 'expires'>,
  {
    config: { baseUrl, instance, identityFields },
    now,
    request,
    form: { issuer, audience, preset, claims: named },
  }: Pick<IdentityTokenOptions, 'config'> & {
    readonly now: Milliseconds
    readonly request: TokenRequest | undefined
    readonly form: TokenForm
  },
): JwtClaims {
  const isCloudflare = preset === 'cloudflare'
  const claims = {
    iss: issuer,
    ...(preset === 'alb' ? {} : { aud: isCloudflare ? [audience] : audience }),
    sub: session.subject,
    iat: secondsOf(now),
    nbf: secondsOf(now - SLACK),
    exp: secondsOf(Math.min(now + LIFETIME, session.expires)),
    auth_time: secondsOf(session.authenticated),
    ...(isCloudflare ? { type: 'app' } : {}),
    ...claimsOf(session, named, claimTable(identityFields.claims)),
    instance,
  }
  return request === undefined
    ? claims
    : { ...claims, htm: request.method, htu: `${baseUrl}${request.path}` }
}

/** A claim that is a list may be empty; any other without a value is left out. */
function claimsOf(
  session: Pick<Session, 'subject' | 'attributes'>,
  named: TokenForm['claims'],
  table: readonly Claim[],
): JwtClaims {
  if (named === undefined) {
    const { groups = [], ...others } = Object.fromEntries(session.attributes)
    return { groups, attributes: others }
  }
  const isList = (from: readonly string[]) =>
    table.some(({ name, list }) => list && from.includes(name))
  return Object.fromEntries(
    [...named].flatMap(([claim, from]): ReadonlyArray<readonly [string, unknown]> => {
      const values = firstValues(from, session)
      return isList(from) ? [[claim, values]] : values.slice(0, 1).map(value => [claim, value])
    }),
  )
}
