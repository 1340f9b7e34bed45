/**
 * Computes when apt stops accepting a signature. apt 3 checks signatures with Sequoia's sqv, by a policy in which algorithms end on a day
 * (default-sequoia.config of apt, and Sequoia's own policy for weaker algorithms). This file is pure.
 *
 * # Facts
 * - One good signature of a Release file is enough, so apt accepts a file until its last signature ends.
 * - apt also judges the signatures within a key's certificate, which say whose key it is and how long it is valid. SHA-1 was accepted
 *   there for longer, because only the owner of the key chooses the signed bytes.
 * - A build of sqv whose library has no Brainpool curves refuses them at any date.
 * - An operator of a machine can set other days. Older releases of apt check with GnuPG, which knows fewer ends.
 */
import type { Milliseconds } from '../../../async/clock.ts'
import { moment } from '../../../figures.ts'

/** The facts of a signature, in the numbers of RFC 9580 section 9. */
export interface SignatureFacts {
  readonly version: number
  readonly hash: number
  readonly algorithm: number
  readonly bits?: number | undefined
  /** The curve of an elliptic curve key, when a keyring has the key. */
  readonly curve?: string | undefined
  /** When the key expires, when a keyring has the key. */
  readonly expires?: Milliseconds | undefined
  /**
   * The hashes of the signatures that bind the key to its owner, and of those that bind it to its primary key, when a keyring has the key.
   * One good signature of each kind is enough.
   */
  readonly bindings?: ReadonlyArray<readonly number[]> | undefined
}

/** The moment from which apt refuses a Release file, and why. */
export interface SignatureEnd {
  readonly at: Milliseconds
  readonly because: string
}

/** The reason of an end that the owner of the key has set, in contrast to a rule of apt. */
export const keyExpires = 'the key expires'

const end = (day: string, because: string): SignatureEnd => ({ at: Date.parse(day), because })

/** The ends of hash algorithms in the signature of a file, by their numbers. */
const hashes: ReadonlyMap<number, SignatureEnd> = new Map([
  [1, end('1997-02-01', 'MD5')],
  [2, end('2013-02-01', 'SHA-1')],
  [3, end('2013-02-01', 'RIPEMD-160')],
  [11, end('2026-02-01', 'SHA-224')],
])

/** The ends of hash algorithms within the certificate of a key. */
const bindingHashes: typeof hashes = new Map([...hashes, [2, end('2026-02-01', 'SHA-1')]])

const packet3 = end('2026-02-01', 'a signature packet of version 3')
const dsa = end('2024-02-01', 'a DSA key')
const rsa1024 = end('2014-02-01', 'an RSA key below 2048 bits')
const rsa2048 = end('2030-02-01', 'an RSA key of 2048 bits')
const brainpool = end('2028-02-01', 'a Brainpool key')

/** The end of a Release file with these signatures: the latest of their ends. Undefined when a signature has no end, or there is none. */
export function signatureEnd(all: readonly SignatureFacts[]): SignatureEnd | undefined {
  let last: SignatureEnd | undefined
  for (const facts of all) {
    const [first] = endsOf(facts).sort((a, b) => a.at - b.at)
    if (first === undefined) return undefined
    if (last === undefined || first.at > last.at) last = first
  }
  return last
}

function endsOf(facts: SignatureFacts): SignatureEnd[] {
  const { version, hash, algorithm, bits, curve = '', expires, bindings = [] } = facts
  const isRsa = algorithm >= 1 && algorithm <= 3
  const found = [
    version === 3 ? packet3 : undefined,
    hashes.get(hash),
    ...bindings.map(bindingEnd),
    algorithm === 17 ? dsa : undefined,
    isRsa && bits !== undefined && bits < 2048 ? rsa1024 : undefined,
    isRsa && bits !== undefined && bits >= 2048 && bits < 3072 ? rsa2048 : undefined,
    curve.startsWith('brainpool') ? brainpool : undefined,
    expires === undefined ? undefined : { at: expires, because: keyExpires },
  ]
  return found.flatMap(one => one ?? [])
}

function bindingEnd(by: readonly number[]): SignatureEnd | undefined {
  const ends = by.flatMap(hash => bindingHashes.get(hash) ?? [])
  const [last] = ends.sort((a, b) => b.at - a.at)
  if (last === undefined || ends.length < by.length) return undefined
  return { at: last.at, because: `${last.because} within the certificate of the key` }
}

/** A part of a sentence: `apt refuses it since 2026-02-01: SHA-224`. */
export function signatureEndText({ at, because }: SignatureEnd, now: Milliseconds): string {
  const day = moment(at).slice(0, '2026-02-01'.length)
  return at <= now
    ? `apt refuses it since ${day}: ${because}`
    : `apt takes it until ${day}: ${because}`
}
