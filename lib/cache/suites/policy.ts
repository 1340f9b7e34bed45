/**
 * Decides whether a Release file may be adopted: by its signature, its dates, and the settings of its archive. Pure.
 */
import { day, type Milliseconds } from '../../async/clock.ts'
import { parseUri } from '../../http/message/target.ts'
import type { Release } from '../archive/release.ts'
import type { Config } from '../config/config.ts'
import { archiveOf } from '../policy/routing.ts'
import type { Generation, Signature } from './generation.ts'

/** How an archive's Release files are judged. */
export interface SuitePolicy {
  readonly verify: 'require' | 'prefer'
  /** Files and directories of keys. */
  readonly keyrings: readonly string[]
}

/** A Release file as it is judged. */
export type ReleaseFacts = Pick<Release, 'date' | 'validUntil'> & { readonly signature: Signature }

/** Clocks of archives run a little ahead. */
export const ahead: Milliseconds = day

/** What a Release file is judged by. */
interface Measure {
  readonly policy: SuitePolicy
  readonly adopted: Generation | undefined
  readonly now: Milliseconds
}

/** Why a Release file may not be adopted, in words; undefined when it may. */
export function acceptable(
  { date, validUntil, signature }: ReleaseFacts,
  { policy, adopted, now }: Measure,
): string | undefined {
  const distrust = distrustReason(signature, policy)
  if (distrust !== undefined) return distrust
  if (date !== undefined && date > now + ahead) {
    return `it is dated in the future (${new Date(date).toISOString()})`
  }
  if (policy.verify === 'require' && validUntil !== undefined && validUntil < now) {
    return `it was valid until ${new Date(validUntil).toISOString()}`
  }
  return olderThan({ date, signature }, adopted)
}

/** Why a Release file with such a signature does not count, in words; undefined when it does. */
export function distrustReason({ is }: Signature, { verify }: SuitePolicy): string | undefined {
  if (is === 'bad') return 'its signature does not fit it'
  return verify === 'require' && is !== 'good' ? unproven[is] : undefined
}

const unproven = {
  'unknown-key': 'it is signed by no known key',
  unsigned: 'it is not signed',
  unchecked: 'there is no keyring to check its signature with',
} as const

/** A Release of before the adopted one: a mirror lags, or an attacker plays back. One with a better signature counts anyway. */
function olderThan(
  { date, signature }: Omit<ReleaseFacts, 'validUntil'>,
  adopted: Generation | undefined,
): string | undefined {
  if (adopted === undefined) return undefined
  if (signature.is === 'good' && adopted.signature.is !== 'good') return undefined
  if (adopted.signature.is === 'good' && signature.is === 'unsigned') {
    return 'the one adopted before has a good signature and this one has none'
  }
  if (date === undefined || adopted.date === undefined || date >= adopted.date) return undefined
  return `it is older than the one adopted before (${new Date(adopted.date).toISOString()})`
}

/** How the suite in the directory with this key is judged; undefined when nothing below is compared with its indexes. */
export function suitePolicy(
  at: string,
  { archives, suites }: Pick<Config, 'archives' | 'suites'>,
): SuitePolicy | undefined {
  const uri = parseUri(at)
  if ('problem' in uri) return undefined
  const { verify, signedBy } = archiveOf(uri, archives)?.archive ?? unlisted
  if (verify === 'off') return undefined
  return { verify, keyrings: signedBy.length > 0 ? signedBy : suites.keyrings }
}

/** How an archive that no setting names is judged. */
const unlisted = { verify: 'prefer', signedBy: [] } as const
