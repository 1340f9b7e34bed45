/**
 * Makes and verifies signed JWTs (RFC 7519) with jose, which only this file imports. The claims of a token are decided in
 * session/token.ts for sessions and in identity/identity-token.ts for the backend.
 */
import { type KeyObject, sign } from 'node:crypto'
import { type JWTVerifyOptions, jwtVerify, SignJWT } from 'jose'
import type { Milliseconds } from '../../async/clock.ts'
import { systemCode } from '../../errors.ts'

export type JwtClaims = Readonly<Record<string, unknown>>

/** The bytes of a secret for HS256, a private key for ES256. */
type JwtKey = Buffer | KeyObject

/** A signed token in compact form; claims of undefined are left out. */
export function signJwt(
  claims: JwtClaims,
  signing: {
    readonly algorithm: 'HS256' | 'ES256' | 'RS256'
    readonly type: string
    readonly kid: string
    readonly key: JwtKey
  },
): Promise<string> {
  const { algorithm, type, kid, key } = signing
  return new SignJWT({ ...claims }).setProtectedHeader({ alg: algorithm, typ: type, kid }).sign(key)
}

/**
 * A token as an Application Load Balancer writes it: each part with the padding of its base64url, which is signed as well. The programs that
 * verify such a token decode its header with the padding; other tokens have none (RFC 7515 section 2).
 */
export function signPaddedJwt(claims: JwtClaims, header: JwtClaims, key: KeyObject): string {
  const part = (bytes: Buffer) => bytes.toString('base64').replaceAll('+', '-').replaceAll('/', '_')
  const input = [header, claims].map(each => part(Buffer.from(JSON.stringify(each)))).join('.')
  const signature = sign('sha256', Buffer.from(input), { key, dsaEncoding: 'ieee-p1363' })
  return `${input}.${part(signature)}`
}

/** The rules for verifying a token. The type requires all of them. */
type JwtRules = Required<
  Pick<
    JWTVerifyOptions,
    'algorithms' | 'typ' | 'issuer' | 'audience' | 'requiredClaims' | 'currentDate'
  >
>

/**
 * The claims of a token and the ID of its key, when signature, audience and times fulfil the rules; else a word for the reason.
 * `keyOf` answers undefined when there is no key of that ID. Never throws.
 */
export async function verifyJwt(
  token: string,
  keyOf: (kid: string) => JwtKey | undefined,
  rules: JwtRules,
): Promise<{ readonly claims: JwtClaims; readonly kid: string } | string> {
  const keyFor = ({ kid = '' }: { readonly kid?: string | undefined }) => {
    const found = keyOf(kid)
    if (found !== undefined) return found
    throw Object.assign(new Error('no such key'), { code: 'UNKNOWN_KEY' })
  }
  try {
    const { payload, protectedHeader } = await jwtVerify(token, keyFor, rules)
    return { claims: payload, kid: protectedHeader.kid ?? '' }
  } catch (error) {
    return REASONS[systemCode(error) ?? ''] ?? 'malformed'
  }
}

/** Moments as JWTs write them. */
export function secondsOf(at: Milliseconds): number {
  return Math.floor(at / 1000)
}

const REASONS: Readonly<Record<string, string>> = {
  ERR_JWT_EXPIRED: 'expired',
  ERR_JWS_SIGNATURE_VERIFICATION_FAILED: 'signature',
  ERR_JWT_CLAIM_VALIDATION_FAILED: 'claim',
  ERR_JOSE_ALG_NOT_ALLOWED: 'algorithm',
  UNKNOWN_KEY: 'unknown-key',
}
