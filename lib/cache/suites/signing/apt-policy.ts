/**
 * When apt stops taking a signature. apt 3 checks signatures with Sequoia's sqv, by a policy in which algorithms end on a day
 * (default-sequoia.config of apt; Sequoia's own policy for what is weaker). Pure.
 *
 * # Facts
 * - One good signature of a Release file is enough, so a file is taken until the last of them ends.
 * - The signatures by which a key says that it belongs to its owner, and how long, are judged as well. Of SHA-1 they were taken for
 *   longer: only its owner chooses what is signed there.
 * - A build of sqv whose library has no Brainpool curves refuses them at any date.
 * - An operator of a machine can set other days; older releases of apt check with GnuPG, which knows fewer ends.
 */
import type { Milliseconds } from '../../../async/clock.ts'
import { moment } from '../../../figures.ts'

/** What is known of a signature, in the numbers of RFC 9580 section 9. */
export interface SignatureFacts {
  /** Of the packet. */
  readonly version: number
  readonly hash: number
  /** Of the public key. */
  readonly algorithm: number
  /** Of an RSA key. */
  readonly bits?: number | undefined
  /** Of an elliptic curve key that is known here. */
  readonly curve?: string | undefined
  /** When the key ends that is known here. */
  readonly expires?: Milliseconds | undefined
  /** Hashes of the signatures that bind the key, known here: to its owner, and to its primary key. One good one of each is enough. */
  readonly bindings?: ReadonlyArray<readonly number[]> | undefined
}

/** The moment from which apt refuses a Release file, and why. */
export interface SignatureEnd {
  readonly at: Milliseconds
  readonly because: string
}

const end = (day: string, because: string): SignatureEnd => ({ at: Date.parse(day), because })

/** Ends of hash algorithms in a signature of a file, by their numbers. */
const hashes: ReadonlyMap<number, SignatureEnd> = new Map([
  [1, end('1997-02-01', 'MD5')],
  [2, end('2013-02-01', 'SHA-1')],
  [3, end('2013-02-01', 'RIPEMD-160')],
  [11, end('2026-02-01', 'SHA-224')],
])

/** And within the certificate of a key. */
const bindingHashes: typeof hashes = new Map([...hashes, [2, end('2026-02-01', 'SHA-1')]])

const packet3 = end('2026-02-01', 'a signature packet of version 3')
const dsa = end('2024-02-01', 'a DSA key')
const rsa1024 = end('2014-02-01', 'an RSA key below 2048 bits')
const rsa2048 = end('2030-02-01', 'an RSA key of 2048 bits')
const brainpool = end('2028-02-01', 'a Brainpool key')

/** The end of a Release file with these signatures: that of the last one. Undefined when one of them has none, or there are none. */
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
    expires === undefined ? undefined : { at: expires, because: 'the key expires' },
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
