/**
 * Turns a session into a signed JWT (RFC 7519) and back: for the cookie of a browser, and for a token that a person makes for programs.
 *
 * HS256, because this gateway both signs and verifies it; `kid` names the key, the issuer is the entity ID of the instance. `typ` and
 * audience keep the one use from being taken for the other.
 *
 * # Claims, version 1
 * `v` 1; `iss`, `aud`, `iat`, `exp` (idle or absolute end, whichever comes first); `end` absolute end; `cre` when the session was
 * made, in milliseconds; `bro` hash of the browser's name; `ids` digest of the settings under `identity`; `sid`; `sub`; `auth_time`;
 * `ain` AuthnInstant and `acr` AuthnContextClassRef, when the IdP said them; `idp` entity ID of the IdP; `nid` NameID and its
 * qualifiers; `six` SessionIndex; `attrs` attributes by canonical name, or `z`, the same deflated, when that is shorter; `tok` of a token
 * its name, paths and methods, in which case `sid` and `cre` are of the token. Seconds since the epoch.
 */
import { constants, deflateRawSync, inflateRawSync } from 'node:zlib'
import { LRUCache } from 'lru-cache'
import type { Clock, Milliseconds } from '../../async/clock.ts'
import { isRecord } from '../../json.ts'
import { ownText } from '../../recent.ts'
import type { NameId } from '../../saml/subject.ts'
import type { Person } from '../access/rules.ts'
import { type TokenScope, tokenScope } from '../access/token-scope.ts'
import { type JwtClaims, secondsOf as seconds, signJwt, verifyJwt } from '../keys/jwt.ts'
import type { KeyRing } from '../keys/key-ring.ts'

/** A token that a person has made. The ID of its session is its own. */
export interface OwnToken {
  readonly name: string
  readonly paths: readonly string[]
  readonly methods: readonly string[]
}

export interface Session extends Person {
  /** The token by which a program asks; undefined for a browser. */
  readonly token?: (OwnToken & { readonly scope: TokenScope | undefined }) | undefined
  /** The hash of the browser's name (cookie.ts). */
  readonly browser: string
  readonly id: string
  readonly issuer: string
  /** The NameID, which a LogoutRequest of ours has to repeat exactly. */
  readonly nameId: NameId | undefined
  readonly sessionIndex: string | undefined
  /** The digest of the settings by which the attributes were made (`Config.identityDigest`). */
  readonly identitySettings: string
  /** Moments since the epoch: of the login at the IdP, of the login here, of the absolute end. */
  readonly authenticated: Milliseconds
  readonly created: Milliseconds
  readonly expires: Milliseconds
}

/** What the bearer of a JWT is, and what its audience has behind the entity ID. */
const USES = {
  session: { type: 'authproxy-session', audience: '' },
  token: { type: 'authproxy-token', audience: '#tokens' },
} as const
const LONGEST = 20_000
/** The most bytes of remembered sessions. */
const REMEMBERED = 64 * 1024 * 1024
const LARGEST_INFLATED = 512 * 1024

/** A session as it was read from a token. The same token gives the same object for as long as it is remembered. */
export interface ReadSession extends Session {
  /** The moment this token was made; the session may be older. */
  readonly issued: Milliseconds
  /** The moment the token lapses unless it is renewed. */
  readonly lapses: Milliseconds
  /** ID of the key that signed the token. */
  readonly kid: string
}

/** The approximate size of a remembered session: its token, its attributes, and the fields made of them (backend/backend.ts). */
function bytesOf({ attributes }: Session, token: string): number {
  let bytes = token.length + 2000
  for (const values of attributes.values()) {
    for (const value of values) bytes += 100 + 3 * value.length
  }
  return bytes
}

interface TokenOptions {
  readonly keys: Pick<KeyRing, 'generation' | 'session'>
  readonly clock: Clock
  /** The entity ID of the instance, which is issuer and audience. */
  readonly entityId: string
  /** By default `session`. */
  readonly use?: keyof typeof USES
}

export class SessionTokens {
  readonly #options: TokenOptions
  /** The sessions of verified tokens, so that each signature is checked once. */
  readonly #verified = new LRUCache<string, ReadSession>({
    maxSize: REMEMBERED,
    sizeCalculation: bytesOf,
  })
  #generation = -1

  constructor(options: TokenOptions) {
    this.#options = options
  }

  /** The generation of the keys in force. A token that was verified under another generation has to be verified again. */
  get generation(): number {
    return this.#options.keys.generation
  }

  /** The token of a session; it lapses at `lapses`. */
  async issue(session: Session, lapses: Milliseconds): Promise<string> {
    const { clock, keys, entityId, use = 'session' } = this.#options
    const { type, audience } = USES[use]
    const [newest] = keys.session()
    if (newest === undefined) throw new Error('there is no key to sign sessions with')
    return signJwt(
      {
        ...claimsOf(session),
        iss: entityId,
        aud: entityId + audience,
        iat: seconds(clock.now()),
        exp: seconds(Math.min(lapses, session.expires)),
      },
      { algorithm: 'HS256', type, kid: newest.kid, key: newest.key },
    )
  }

  /** The session of a token, or a word for the reason why the token is not valid. Never throws. */
  async verify(token: string): Promise<ReadSession | string> {
    const { clock, keys, entityId, use = 'session' } = this.#options
    const { type, audience } = USES[use]
    const { generation } = keys
    // The keys have changed, so tokens that were verified with the old ones have to be verified again.
    if (generation !== this.#generation) this.#verified.clear()
    this.#generation = generation
    const known = this.#verified.get(token)
    if (known !== undefined) {
      if (known.lapses > clock.now()) return known
      this.#verified.delete(token)
      return 'expired'
    }
    if (token.length > LONGEST) return 'too-long'
    const verified = await verifyJwt(token, kid => this.#keyOf(kid), {
      algorithms: ['HS256'],
      typ: type,
      issuer: entityId,
      audience: entityId + audience,
      requiredClaims: ['sub', 'sid', 'iat', 'exp', 'end'],
      currentDate: new Date(clock.now()),
    })
    // The key that verified the token may have been removed meanwhile.
    if (generation !== keys.generation) return this.verify(token)
    if (typeof verified === 'string') return verified
    const session = sessionOf(verified.claims, verified.kid)
    if (session === undefined) return 'malformed'
    if ((session.token === undefined) !== (use === 'session')) return 'malformed'
    this.#verified.set(ownText(token), session)
    return session
  }

  /** The sessions of remembered tokens. A renewed session is among them several times. */
  rememberedSessions(): Iterable<ReadSession> {
    return this.#verified.values()
  }

  /** Whether the key that signed the token of a session is still in force. */
  hasKeyOf({ kid }: Pick<ReadSession, 'kid'>): boolean {
    return this.#keyOf(kid) !== undefined
  }

  #keyOf(kid: string): Buffer | undefined {
    return this.#options.keys.session().find(candidate => candidate.kid === kid)?.key
  }
}

/** The ID and the name of the token behind a session, for the log; undefined for a browser. Neither opens anything. */
export function tokenText(session: Session | undefined): string | undefined {
  return session?.token && `${session.id} ${session.token.name}`
}

function claimsOf(session: Session): JwtClaims {
  const { browser, id, subject, issuer, nameId, sessionIndex, created, token } = session
  const attrs = Object.fromEntries(session.attributes)
  const plain = Buffer.from(JSON.stringify(attrs))
  const packed =
    plain.length < 300 ? plain : deflateRawSync(plain, { level: constants.Z_BEST_COMPRESSION })
  const smaller = packed.length * 1.34 < plain.length
  const nid = nameId && NAME_ID.map(part => nameId[part] ?? null)
  return {
    v: 1,
    bro: browser,
    sid: id,
    sub: subject,
    idp: issuer,
    cre: created,
    six: sessionIndex,
    nid,
    ids: session.identitySettings,
    auth_time: seconds(session.authenticated),
    ain: session.authnInstant && seconds(session.authnInstant),
    acr: session.authnContext,
    end: seconds(session.expires),
    tok: token && [token.name, token.paths, token.methods],
    ...(smaller ? { z: packed.toString('base64url') } : { attrs }),
  }
}

/** The session of claims; undefined for claims of another version or form, and for claims without a subject. */
function sessionOf(claims: JwtClaims, kid: string): ReadSession | undefined {
  const { v, bro, sid, sub, idp, six, nid, ids, auth_time, ain, acr, cre, end, iat, exp } = claims
  const { tok } = claims
  if (v !== 1 || sub === '') return undefined
  try {
    return {
      browser: text(bro),
      id: text(sid),
      subject: text(sub),
      attributes: attributesOf(claims),
      issuer: text(idp),
      nameId: nid === undefined ? undefined : nameIdOf(nid),
      sessionIndex: six === undefined ? undefined : text(six),
      identitySettings: text(ids),
      authenticated: number(auth_time) * 1000,
      authnInstant: ain === undefined ? undefined : number(ain) * 1000,
      authnContext: acr === undefined ? undefined : text(acr),
      created: number(cre),
      expires: number(end) * 1000,
      issued: number(iat) * 1000,
      lapses: number(exp) * 1000,
      kid,
      ...(tok === undefined ? {} : { token: tokenOf(tok) }),
    }
  } catch {
    return undefined
  }
}

function attributesOf({ attrs, z }: JwtClaims): Session['attributes'] {
  const bounds = { maxOutputLength: LARGEST_INFLATED }
  const found: unknown =
    z === undefined
      ? attrs
      : JSON.parse(inflateRawSync(Buffer.from(text(z), 'base64url'), bounds).toString())
  if (!isRecord(found)) throw new Error('no attributes')
  return new Map(Object.entries(found).map(([name, values]) => [name, list(values).map(text)]))
}

function tokenOf(found: unknown): ReadSession['token'] {
  const [name, ...lists] = list(found)
  const [paths = [], methods = []] = lists.map(each => list(each).map(text))
  const scope = tokenScope({ paths, methods, clients: undefined })
  return { name: text(name), paths, methods, scope }
}

const NAME_ID = ['value', 'format', 'nameQualifier', 'spNameQualifier'] as const

function nameIdOf(found: unknown): NameId {
  const [value, ...others] = list(found)
  const [format, nameQualifier, spNameQualifier] = others.map(part =>
    typeof part === 'string' ? part : undefined,
  )
  return { value: text(value), format, nameQualifier, spNameQualifier }
}

function list(found: unknown): readonly unknown[] {
  if (Array.isArray(found)) return found
  throw new Error('not a list')
}

function text(found: unknown): string {
  if (typeof found === 'string') return found
  throw new Error('not a text')
}

function number(found: unknown): number {
  if (typeof found === 'number' && Number.isFinite(found)) return found
  throw new Error('not a number')
}
