/**
 * Uses the IDs of a message up: in the shared store first, where there is one, so that an answer is taken at one instance alone, then in the list of this
 * instance.
 *
 * While the store is away, the list of this instance is all there is to ask. For a login that was begun here it suffices: to send its answer to
 * another instance as well, an attacker would need the cookie of that login too. An answer that no login asked for needs no cookie, so it
 * is refused before its IDs are used up here: when the store is back, a reload of the page takes it.
 */
import type { Milliseconds } from '../../async/clock.ts'
import type { SharedParts } from './parts.ts'
import type { UsedIds } from './replay-cache.ts'

/** What came of it: the IDs were new, they had been used before, or that cannot be known now. */
export type FirstUse = 'first' | 'again' | 'unsure'

/** `alone`: whether the list of this instance suffices while the store is away. */
export async function useOnce(
  {
    replayCache,
    shared,
  }: {
    readonly replayCache: Pick<UsedIds, 'consume'>
    readonly shared?: Pick<SharedParts, 'useIds' | 'tellLater'> | undefined
  },
  { ids, until, alone }: { ids: readonly string[]; until: Milliseconds; alone: boolean },
): Promise<FirstUse> {
  const asked = await shared?.useIds(ids, until)
  if (asked === 'again') return 'again'
  if (asked === 'away' && !alone) return 'unsure'
  if (!(await replayCache.consume(ids, until))) return 'again'
  if (asked === 'away') shared?.tellLater(ids, until)
  return 'first'
}
