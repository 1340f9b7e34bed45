/**
 * Chooses which generation of a suite clients get when its archive has a `delay` or a `hold`. This file is pure.
 *
 * # Facts
 * - The age of a generation counts from the later of two moments: its signed Date, and the moment when this cache first saw it. A Date
 *   alone could be old on the day of an attack. The first sight alone would make all generations young after the cache is lost.
 * - Moments are those of `SteadyTime`, which setting the clock does not change.
 * - Clients never go back: apt refuses a Release file older than its own, and so does this choice. Where a Date is missing, the
 *   generation that this cache saw later is the newer one.
 * - Debian's Release files are valid for a week. With a longer delay clients would refuse all updates, so the delay gives way to
 *   `Valid-Until`. A hold is a decision about one day, and does not give way.
 */
import { day, type Milliseconds } from '../../../async/clock.ts'
import { parseUri } from '../../../http/message/target.ts'
import { fitsPattern, wildcardPattern } from '../../../wildcards.ts'
import { decodedUrl } from '../../archive/path.ts'
import type { Config } from '../../config/config.ts'
import { archiveOf } from '../../policy/routing.ts'
import { type Age, isNewer, type WaitingGeneration } from '../../suites/generation.ts'

/** The delay and the hold of an archive. */
export interface Restraint {
  readonly delay: Milliseconds
  /** The end of the day at which the archive is frozen. */
  readonly hold?: Milliseconds | undefined
}

/** A generation that can be chosen. */
export interface Candidate
  extends Pick<WaitingGeneration, 'date' | 'validUntil' | 'seen' | 'released'> {
  readonly digest: string
}

export interface ChoiceFacts {
  readonly given: Omit<Candidate, 'seen'> & Age
  readonly waiting: readonly Candidate[]
  readonly restraint: Restraint
  /** The moment until which an operator lets all generations through. */
  readonly openUntil?: Milliseconds | undefined
  /** The time by `SteadyTime`. */
  readonly now: Milliseconds
}

/**
 * The reason why clients get a generation:
 * - newest: no newer one waits
 * - ripe: it is old enough
 * - released: an operator has let it through
 * - expiring: the earlier one is about to expire, so the delay gives way
 * - delayed, held: a newer one waits, and clients keep the one they have
 */
type ChoiceReason = 'newest' | 'ripe' | 'released' | 'expiring' | 'delayed' | 'held'

export interface Choice {
  /** The SHA-256 of the Release file of the waiting generation that clients get now; undefined when they keep the one they have. */
  readonly digest?: string
  readonly because: ChoiceReason
  /** True when the Valid-Until of the generation that they get is near or past. */
  readonly expires?: true
}

/** The most waiting generations of a suite that are kept, and the most files of these. */
const mostWaiting = 100
const mostWaitingFiles = 20_000

/** The last part of the time from Date to Valid-Until in which a generation counts as about to expire. */
const lastPart = 0.1

/** Chooses the generation that clients get now, with the reason. */
export function choose({ given, waiting, restraint, openUntil, now }: ChoiceFacts): Choice {
  const newer = inOrder(waiting).filter(one => isNewer(one, given))
  const isOpen = openUntil !== undefined && now < openUntil
  const isHeld = (one: Candidate): boolean => momentOf(one) >= (restraint.hold ?? Infinity)
  // Without a delay, a Date in the future because of the archive's clock is no reason to wait.
  const isRipe = (one: Candidate): boolean =>
    restraint.delay === 0 || ripeMoment(one, restraint) <= now
  const isFree = (one: Candidate): boolean =>
    isOpen || one.released !== undefined || (!isHeld(one) && isRipe(one))
  const free = newer.findLast(isFree)
  const chosen = free ?? given
  if (isExpiring(chosen, now)) {
    const later = newer.filter(one => isNewer(one, chosen) && !isHeld(one))
    const instead =
      later.find(one => !isExpiring(one, now)) ??
      later.findLast(one => (one.validUntil ?? Infinity) > (chosen.validUntil ?? Infinity))
    if (instead !== undefined) {
      const expires = isExpiring(instead, now)
      return { digest: instead.digest, because: 'expiring', ...(expires && { expires }) }
    }
  }
  const expires = isExpiring(chosen, now) && ({ expires: true } as const)
  if (free !== undefined) {
    const because = isOpen || free.released !== undefined ? 'released' : 'ripe'
    return { digest: free.digest, because, ...expires }
  }
  if (newer.length === 0) return { because: 'newest', ...expires }
  const onlyHeld = newer.some(one => isHeld(one) && isRipe(one))
  return { because: onlyHeld ? 'held' : 'delayed', ...expires }
}

/** The moment when a generation is old enough. */
export function ripeMoment(
  one: Pick<Candidate, 'date' | 'seen'>,
  { delay }: Restraint,
): Milliseconds {
  return Math.max(one.date ?? 0, one.seen) + delay
}

/** Whether the Valid-Until of a generation is near or past. */
function isExpiring(
  { date, validUntil }: Pick<Candidate, 'date' | 'validUntil'>,
  now: Milliseconds,
): boolean {
  if (validUntil === undefined) return false
  return now >= validUntil - Math.max(0, validUntil - (date ?? validUntil - 7 * day)) * lastPart
}

/** The moment that counts for a hold. It is the signed Date if there is one, because that does not depend on the machine's clock. */
function momentOf({ date, seen }: Pick<Candidate, 'date' | 'seen'>): Milliseconds {
  return date ?? seen
}

function inOrder(waiting: readonly Candidate[]): readonly Candidate[] {
  return [...waiting].sort((a, b) => momentOf(a) - momentOf(b) || a.seen - b.seen)
}

/**
 * The waiting generations with one more. When they are too many, the one is dropped that came soonest after its predecessor. The first
 * and the last stay, and so do those that an operator has let through.
 */
export function withWaiting(
  waiting: readonly WaitingGeneration[],
  next: WaitingGeneration,
): readonly WaitingGeneration[] {
  const all = [...waiting.filter(one => one.release.digest !== next.release.digest), next]
  const files = (): number => all.reduce((sum, { contents }) => sum + contents.length, 0)
  while (all.length > 2 && (all.length > mostWaiting || files() > mostWaitingFiles)) {
    let [least, place] = [Infinity, 1]
    for (let n = 1; n < all.length - 1; n += 1) {
      const gap = (all[n]?.seen ?? 0) - (all[n - 1]?.seen ?? 0)
      if (all[n]?.released === undefined && gap < least) [least, place] = [gap, n]
    }
    all.splice(place, 1)
  }
  return all
}

/** The delay and hold for the suite in the directory with this key; undefined when it has neither. */
export function restraintOf(
  at: string,
  { archives }: Pick<Config, 'archives'>,
): Restraint | undefined {
  const uri = parseUri(at)
  if ('problem' in uri) return undefined
  const found = archiveOf(uri, archives)
  if (found === undefined) return undefined
  const { delay, hold, except } = found.archive
  if (delay === 0 && hold === undefined) return undefined
  const name = suiteName(found.rest)
  const isExcept = except.some(pattern => fitsPattern(name, wildcardPattern(pattern)))
  return isExcept ? undefined : { delay, hold }
}

/** Whether any archive has a delay or a hold. */
export function restrainsAny({ archives }: Pick<Config, 'archives'>): boolean {
  return archives.some(({ delay, hold }) => delay > 0 || hold !== undefined)
}

/** The name of the suite in a directory of an archive: the path after `dists/`, or the whole path when there is no `dists/`. */
export function suiteName(path: string): string {
  return (decodedUrl(path) ?? path).replace(/^.*?\/dists\//, '').replace(/^\/+/, '')
}
