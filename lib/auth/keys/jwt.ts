/**
 * Signed JWTs (RFC 7519) as this gateway makes and reads them. The only importer of jose; what a token says is told elsewhere:
 * session/token.ts for sessions, identity-token.ts for the backend.
 */
import type { webcrypto } from 'node:crypto'
import { type JWTPayload, jwtVerify, SignJWT } from 'jose'
import type { Milliseconds } from '../../async/clock.ts'

export type JwtClaims = Readonly<Record<string, unknown>>

export interface JwtSigning {
  readonly algorithm: 'HS256' | 'ES256'
  readonly type: string
  readonly kid: string
  readonly key: webcrypto.CryptoKey
}

export interface JwtRules {
  readonly algorithm: 'HS256' | 'ES256'
  readonly type: string
  /** The key of this ID; undefined when nobody knows it. */
  readonly key: (kid: string | undefined) => Promise<webcrypto.CryptoKey> | undefined
  readonly issuer: string
  readonly audience: string
  readonly required: readonly string[]
}

export type JwtVerdict =
  | { readonly valid: true; readonly claims: JWTPayload }
  | { readonly valid: false; readonly because: string }

/** A signed token in compact form; claims of undefined are left out. */
export function signJwt(claims: JwtClaims, signing: JwtSigning): Promise<string> {
  const { algorithm, type, kid, key } = signing
  return new SignJWT({ ...claims }).setProtectedHeader({ alg: algorithm, typ: type, kid }).sign(key)
}

/** What a token says when it is signed, meant and in time as the rules want it. Never throws; the reason is a word. */
export async function verifyJwt(
  token: string,
  rules: JwtRules,
  now: Milliseconds,
): Promise<JwtVerdict> {
  try {
    const { payload } = await jwtVerify(
      token,
      ({ kid }) => {
        const key = rules.key(kid)
        if (key === undefined) throw new UnknownKey()
        return key
      },
      {
        algorithms: [rules.algorithm],
        typ: rules.type,
        issuer: rules.issuer,
        audience: rules.audience,
        currentDate: new Date(now),
        requiredClaims: [...rules.required],
      },
    )
    return { valid: true, claims: payload }
  } catch (error) {
    return { valid: false, because: reasonOf(error) }
  }
}

/** Moments as JWTs write them. */
export function secondsOf(at: Milliseconds): number {
  return Math.floor(at / 1000)
}

class UnknownKey extends Error {
  readonly code = 'UNKNOWN_KEY'
}

function reasonOf(error: unknown): string {
  const code = error instanceof Error && 'code' in error ? String(error.code) : ''
  const reasons: Readonly<Record<string, string>> = {
    ERR_JWT_EXPIRED: 'expired',
    ERR_JWS_SIGNATURE_VERIFICATION_FAILED: 'signature',
    ERR_JWT_CLAIM_VALIDATION_FAILED: 'claim',
    ERR_JOSE_ALG_NOT_ALLOWED: 'algorithm',
    UNKNOWN_KEY: 'unknown-key',
  }
  return reasons[code] ?? 'malformed'
}
