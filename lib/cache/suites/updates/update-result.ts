/**
 * What the result of an update means for the life of its suite.
 */
import { isGone, type RevalidationResult } from '../../fetch/revalidation.ts'
import type { StaleReason } from '../../rfc9111/outcome.ts'
import { type DenialTerms, firstPause, type Suite } from '../suite.ts'
import type { Standing, SuiteEvent } from '../suite-life.ts'

/** The reason for the answer to a client, by the standing of the suite. */
export const staleReasons: Readonly<Partial<Record<Standing, StaleReason>>> = {
  slow: 'stale-origin-slow',
  failed: 'stale-origin-failed',
  gone: 'stale-origin-failed',
  held: 'stale-suite-incomplete',
  refused: 'stale-suite-refused',
}

/** The event of an update that ends without a newer Release file for clients, by the reason. */
const staleEvents: Readonly<Record<StaleReason, SuiteEvent>> = {
  'stale-origin-slow': 'origin-slow',
  'stale-origin-failed': 'origin-failed',
  'stale-suite-incomplete': 'missing',
  'stale-suite-refused': 'refused',
}

interface SuiteResult extends Omit<DenialTerms, 'status'> {
  /** The key of the Release file. */
  readonly key: string
  readonly updated: RevalidationResult
}

/** Notes what an update has found out about a suite. Returns the answer of an origin that gives no Release file, when that is new. */
export function noteResult(
  suite: Suite,
  { key, updated, ...terms }: SuiteResult,
): { readonly key: string; readonly status: number } | undefined {
  if (updated.use === 'stale') {
    const { because } = updated
    // A Release file that is held back has begun its pause already.
    if (!suite.isPaused) {
      suite.fellBehind(staleEvents[because], because.startsWith('stale-suite') ? firstPause : 0)
    }
    return undefined
  }
  if (updated.use === 'answer' && denies(suite, key, updated.status)) {
    const { status } = updated
    return suite.deny(key, { status, ...terms }) ? { key, status } : undefined
  }
  if (updated.use !== 'store' || updated.because === 'changed') suite.caughtUp('prepared')
  else suite.caughtUp(updated.because === 'validated' ? 'confirmed' : 'restrained')
  return undefined
}

/** Whether an answer says that there is no Release file. An origin that lacks one form of it may have the other. */
function denies({ goneSince }: Suite, key: string, status: number): boolean {
  return status >= 400 && (!isGone(status) || goneSince.has(key))
}
