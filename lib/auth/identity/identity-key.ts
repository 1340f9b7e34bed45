/**
 * Keys that sign the identity for the backend: P-256, made here, kept in the dynamic file, their public halves published as a
 * JWK Set (RFC 7517). Which of them signs when is decided here too.
 *
 * # Facts
 * - Backends keep the set they have fetched, and many fetch it again only when it has aged. So a new key is published for a
 *   while before it signs, and an old one for longer than a token of it can live.
 */
import { createPublicKey, generateKeyPair } from 'node:crypto'
import { promisify } from 'node:util'
import type { Milliseconds, Seconds } from '../../async/clock.ts'

export interface IdentityKey {
  readonly kid: string
  /** PKCS #8 in PEM. Never log it. */
  readonly privateKey: string
  readonly created: Milliseconds
  readonly retires: Milliseconds | undefined
}

/** For how long a backend may keep the set without asking again. */
export const keySetAge: Seconds = 300
/** A key that has been published for so long is in every copy of the set: now it may sign. */
const PUBLISHED: Milliseconds = 2 * keySetAge * 1000
/** How long an old key stays in the set after a rotation: until the new one signs, and many tokens' lives more. */
export const identityOverlap: Milliseconds = 3_600_000

/** A new key. */
export async function newIdentityKey({
  now,
  random,
}: {
  readonly now: Milliseconds
  readonly random: (size: number) => Buffer
}): Promise<IdentityKey> {
  const { privateKey } = await promisify(generateKeyPair)('ec', { namedCurve: 'P-256' })
  const pem = privateKey.export({ type: 'pkcs8', format: 'pem' }).toString()
  return { kid: random(8).toString('hex'), privateKey: pem, created: now, retires: undefined }
}

/** The key that signs now, of keys newest first: the newest that all backends know, or the oldest when none is that old. */
export function signingKey(
  keys: readonly IdentityKey[],
  now: Milliseconds,
): IdentityKey | undefined {
  return keys.find(({ created }) => created + PUBLISHED <= now) ?? keys.at(-1)
}

/** The JWK Set (RFC 7517 section 5): public halves alone, newest first. */
export function keySet(keys: readonly IdentityKey[]): string {
  const all = keys.map(({ kid, privateKey }) => {
    const { kty, crv, x, y } = createPublicKey(privateKey).export({ format: 'jwk' })
    return { kty, crv, x, y, kid, use: 'sig', alg: 'ES256' }
  })
  return JSON.stringify({ keys: all })
}
