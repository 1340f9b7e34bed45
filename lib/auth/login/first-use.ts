/**
 * Marks the IDs of a message as used: first in the shared store, where there is one, so that only one instance accepts an
 * answer, then in the list of this instance.
 *
 * While the store is away, only the list of this instance can be asked. For a login that began here this suffices, because an
 * attacker who sends its answer to another instance would need the cookie of that login too. An unsolicited answer needs no
 * cookie, so it is refused before its IDs are marked. When the store is back, a reload of the page succeeds.
 */
import type { Milliseconds } from '../../async/clock.ts'
import type { SharedParts } from './parts.ts'
import type { UsedIds } from './replay-cache.ts'

/** The result: the IDs were new, they had been used before, or the store cannot be asked now. */
type FirstUse = 'first' | 'again' | 'unsure'

/** `ownListSuffices` says whether the list of this instance is enough while the store is away. */
export async function useOnce(
  {
    replayCache,
    shared,
  }: {
    readonly replayCache: Pick<UsedIds, 'consume'>
    readonly shared?: Pick<SharedParts, 'useIds' | 'tellLater'> | undefined
  },
  {
    ids,
    until,
    alone: ownListSuffices,
  }: { ids: readonly string[]; until: Milliseconds; alone: boolean },
): Promise<FirstUse> {
  const asked = await shared?.useIds(ids, until)
  if (asked === 'again') return 'again'
  if (asked === 'away' && !ownListSuffices) return 'unsure'
  if (!(await replayCache.consume(ids, until))) return 'again'
  if (asked === 'away') shared?.tellLater(ids, until)
  return 'first'
}
