/**
 * Decides whether a Release file may be adopted: by its signature, its dates, and the settings of its archive. This file is pure.
 */
import { day, type Milliseconds } from '../../async/clock.ts'
import { parseUri } from '../../http/message/target.ts'
import { recentEntries } from '../../recent.ts'
import type { Config } from '../config/config.ts'
import { archiveOf } from '../policy/routing.ts'
import type { Generation, Signature, SuitePolicy } from './generation.ts'

/** The facts by which a Release file is judged. */
export type ReleaseFacts = Pick<Generation, 'date' | 'validUntil' | 'signature'>

/** A date may be this far in the future, because the clocks of archives may be fast. */
export const clockTolerance: Milliseconds = day

/** The policy, the adopted generation and the moment with which a Release file is compared. */
interface Measure {
  readonly policy: SuitePolicy
  readonly adopted: Generation | undefined
  readonly now: Milliseconds
}

/** The reason in words why a Release file may not be adopted; undefined when it may be adopted. */
export function refusalReason(
  { date, validUntil, signature }: ReleaseFacts,
  { policy, adopted, now }: Measure,
): string | undefined {
  const distrust = distrustReason(signature, policy)
  if (distrust !== undefined) return distrust
  if (date !== undefined && date > now + clockTolerance) {
    return `it is dated in the future (${new Date(date).toISOString()})`
  }
  if (policy.verify === 'require' && validUntil !== undefined && validUntil < now) {
    return `it was valid until ${new Date(validUntil).toISOString()}`
  }
  return olderThan({ date, signature }, adopted)
}

/** The reason in words why a Release file with such a signature does not count; undefined when it counts. */
export function distrustReason({ is }: Signature, { verify }: SuitePolicy): string | undefined {
  if (is === 'bad') return 'its signature does not fit it'
  return verify === 'require' && is !== 'good' ? unproven[is] : undefined
}

const unproven = {
  'unknown-key': 'it is signed by no known key',
  unsigned: 'it is not signed',
  unchecked: 'there is no keyring to check its signature with',
} as const

/**
 * The reason in words why a Release file is older or weaker than the adopted one: a mirror may lag, or an attacker may replay an old file.
 * Undefined when it counts, as a file with a better signature always does.
 */
function olderThan(
  { date, signature }: Omit<ReleaseFacts, 'validUntil'>,
  adopted: Generation | undefined,
): string | undefined {
  if (adopted === undefined) return undefined
  const [rank, adoptedRank] = [rankOf(signature), rankOf(adopted.signature)]
  if (rank > adoptedRank) return undefined
  if (rank === 0 && adoptedRank === goodRank) {
    return 'the one adopted before has a good signature and this one has none'
  }
  if (date === undefined || adopted.date === undefined || date >= adopted.date) return undefined
  return `it is older than the one adopted before (${new Date(adopted.date).toISOString()})`
}

const goodRank = 2

/**
 * The rank of a signature: a good one counts most, and one that cannot be judged still counts more than none, because anybody can write
 * a file without a signature and choose its date.
 */
export function rankOf({ is }: Pick<Signature, 'is'>): number {
  if (is === 'good') return goodRank
  return is === 'unsigned' || is === 'bad' ? 0 : 1
}

/** The policy of the suite in the directory with this key; undefined when no file of the suite is compared with indexes. */
export function suitePolicy(
  at: string,
  { archives, suites }: Pick<Config, 'archives' | 'suites'>,
): SuitePolicy | undefined {
  const uri = parseUri(at)
  if ('problem' in uri) return undefined
  const listed = archiveOf(uri, archives)?.archive
  const { verify, signedBy } = listed ?? unlisted
  if (verify === 'off') return undefined
  const keyrings = signedBy.length > 0 ? signedBy : suites.keyrings
  return { verify, keyrings, ...(listed && { listed: true }) }
}

/** The most suites whose policies are remembered. More suites are not known at a time. */
const mostRemembered = 1000

/** The same for the configuration of now. The policies are remembered until it changes, because each claim needs some. */
export function policiesOf(
  configOf: () => Pick<Config, 'archives' | 'suites'>,
): (at: string) => SuitePolicy | undefined {
  let config: Pick<Config, 'archives' | 'suites'> | undefined
  let policies = recentEntries<string, { readonly policy: SuitePolicy | undefined }>(mostRemembered)
  return at => {
    const now = configOf()
    if (now !== config) {
      config = now
      policies = recentEntries(mostRemembered)
    }
    const known = policies.get(at)
    if (known !== undefined) return known.policy
    const policy = suitePolicy(at, now)
    policies.set(at, { policy })
    return policy
  }
}

const unlisted = { verify: 'prefer', signedBy: [] } as const
