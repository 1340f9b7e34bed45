/**
 * Chooses which generation of a suite clients get when its archive has a `delay` or a `hold`. Pure.
 *
 * # Facts
 * - A generation is as old as the later of two moments says: its signed Date, and when this cache first saw it. A Date alone could be
 *   old on the day of an attack; the first sight alone would make all generations young after a loss of the cache.
 * - Moments are those of `SteadyTime`, which no set clock moves.
 * - Clients never go back: apt refuses a Release file older than its own, and so does this choice.
 * - Debian's indexes are valid for a week. A longer delay would have clients refuse all updates, so it gives way to `Valid-Until`. A
 *   hold is a decision about one day and does not.
 */
import { day, type Milliseconds } from '../../async/clock.ts'
import { parseUri } from '../../http/message/target.ts'
import { decodedUrl } from '../archive/path.ts'
import type { Config } from '../config/config.ts'
import { archiveOf } from '../policy/routing.ts'
import type { WaitingGeneration } from '../suites/generation.ts'

/** What the settings of an archive keep from clients. */
export interface Restraint {
  readonly delay: Milliseconds
  /** The end of the day at which it is frozen. */
  readonly hold?: Milliseconds | undefined
}

/** What is known of a generation, for the choice. */
export interface Candidate
  extends Pick<WaitingGeneration, 'date' | 'validUntil' | 'seen' | 'released'> {
  readonly digest: string
}

export interface Choosing {
  /** The one that clients get. */
  readonly given: Omit<Candidate, 'seen'>
  /** Those that wait, the one that was seen first before the others. */
  readonly waiting: readonly Candidate[]
  readonly restraint: Restraint
  /** Until when an operator lets all through. */
  readonly openUntil?: Milliseconds | undefined
  /** By `SteadyTime`. */
  readonly now: Milliseconds
}

/**
 * Why clients get the generation that they get:
 * - newest: none waits
 * - ripe: it is old enough
 * - released: an operator has let it through
 * - expiring: the one before would not be valid any more, so the delay gives way
 * - delayed, held: a newer one waits, and clients keep the one they have
 */
type ChoiceReason = 'newest' | 'ripe' | 'released' | 'expiring' | 'delayed' | 'held'

export interface Choice {
  /** SHA-256 of the Release file of the waiting one that clients get now; undefined when they keep the one they have. */
  readonly digest?: string
  readonly because: ChoiceReason
  /** The one they get comes to the end of its Valid-Until, or is past it. */
  readonly expires?: true
}

/** Waiting generations of a suite that are kept, and files of them. */
const mostWaiting = 100
const mostWaitingFiles = 20_000

/** The part of the time from Date to Valid-Until in which a generation counts as about to expire. */
const lastPart = 0.1

/** The generation that clients get now, and why. */
export function choose({ given, waiting, restraint, openUntil, now }: Choosing): Choice {
  const newer = inOrder(waiting).filter(one => isNewer(one, given))
  const isOpen = openUntil !== undefined && now < openUntil
  const isHeld = (one: Candidate): boolean => momentOf(one) >= (restraint.hold ?? Infinity)
  // A clock of the archive that runs ahead is no reason to wait where there is no delay.
  const isRipe = (one: Candidate): boolean => restraint.delay === 0 || ripeAt(one, restraint) <= now
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

/** When a generation is old enough. */
export function ripeAt(one: Pick<Candidate, 'date' | 'seen'>, { delay }: Restraint): Milliseconds {
  return Math.max(one.date ?? 0, one.seen) + delay
}

/** Whether its Valid-Until is near, or past. */
function isExpiring(
  { date, validUntil }: Pick<Candidate, 'date' | 'validUntil'>,
  now: Milliseconds,
): boolean {
  if (validUntil === undefined) return false
  return now >= validUntil - Math.max(0, validUntil - (date ?? validUntil - 7 * day)) * lastPart
}

/** The moment that counts for a hold: the signed one, which no clock of this machine changes. */
function momentOf({ date, seen }: Pick<Candidate, 'date' | 'seen'>): Milliseconds {
  return date ?? seen
}

function isNewer({ date }: Pick<Candidate, 'date'>, than: Pick<Candidate, 'date'>): boolean {
  return date === undefined || than.date === undefined || date > than.date
}

function inOrder(waiting: readonly Candidate[]): readonly Candidate[] {
  return [...waiting].sort((a, b) => momentOf(a) - momentOf(b) || a.seen - b.seen)
}

/**
 * The waiting generations with one more. When they are too many, the one goes that came soonest after the one before it; the first and
 * the last stay, and those that an operator has let through.
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

/** What the settings keep of the suite in the directory with this key; undefined when nothing. */
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
  return except.some(pattern => fits(name, pattern)) ? undefined : { delay, hold }
}

/** Whether any archive is restrained: without one nothing is looked at. */
export function restrainsAny({ archives }: Pick<Config, 'archives'>): boolean {
  return archives.some(({ delay, hold }) => delay > 0 || hold !== undefined)
}

/** The name of the suite in a directory of an archive: what follows `dists/`, or the whole path in an archive without. */
export function suiteName(path: string): string {
  return (decodedUrl(path) ?? path).replace(/^.*?\/dists\//, '').replace(/^\/+/, '')
}

/** Whether a name fits a pattern, in which `*` stands for any text. */
function fits(name: string, pattern: string): boolean {
  const parts = pattern.split('*').map(part => part.replace(/[.+?^${}()|[\]\\]/g, '\\$&'))
  return new RegExp(`^${parts.join('.*')}$`).test(name)
}
