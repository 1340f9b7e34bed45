/**
 * The most connections to each origin: the number of the settings, or fewer after the origin has refused some of several.
 *
 * # Facts
 * - apt has one connection to an archive and sends its requests one after the other. Archives that allow an address two or five connections
 *   work for apt; those above get 429, 503, a reset, or no connection.
 * - An origin that is down, or has one broken file, also answers 503 while it has several connections. A request that is refused alone
 *   shows that the number is not the reason, and ends a lower limit that is still a guess. So a lower limit lasts only where it helps.
 * - Until the refused request is answered with the lower number, that is a guess: clients can ask for a broken file while a large one
 *   arrives over the only connection that is left. So a lower limit under which it has not been answered ends after `trial`, and the one
 *   before counts again. A later refusal of that file lowers no limit for a while. Answers to other requests show nothing: they had been
 *   answered with the higher number as well.
 * - Requests that were under way when the number was lowered say nothing about the lower number: a burst of refusals lowers it once.
 * - The number is halved, and rises by one for each minute without a refusal, so a limit is tried again now and then, and not at once.
 */
import type { Clock, Milliseconds } from '../../async/clock.ts'
import { Rests } from '../../async/rests.ts'
import { recentEntries } from '../../recent.ts'
import { longestRetryAfter } from './send-again.ts'

/** An origin to which fewer connections are opened than the settings allow. */
export interface LoweredLimit {
  readonly origin: string
  readonly connections: number
  /** The status or the code of the refusal. */
  readonly because: string
}

interface Lowered extends LoweredLimit {
  /** The moment of the last refusal that lowered it, by `elapsed`, and its number among all. */
  readonly since: Milliseconds
  readonly change: number
  /** Whether the origin has answered the refused request since. */
  answered: boolean
  /** The limit that counts again when it never answers it. */
  before: Lowered | undefined
  /** The number of the settings. */
  readonly most: number
}

const risesEach: Milliseconds = 60_000
/** The refused request may have to wait for its Retry-After before it can be answered. */
const trial: Milliseconds = longestRetryAfter + 1000
const mostOrigins = 1000
/** The time for which a file lowers no limit after a lower one did not help it. */
const innocence: Milliseconds = 600_000

export class ConnectionLimits {
  readonly #clock: Clock
  readonly #onLowered: ((limit: LoweredLimit) => void) | undefined
  readonly #lowered = recentEntries<string, Lowered>(mostOrigins)
  /** The files that a lower limit did not help. */
  readonly #brokenFiles: Rests
  /** The number of times that a limit was lowered. A request remembers it from the moment at which it got its connection. */
  changes = 0
  /** Called with the key of a limit that has ended although requests may wait. */
  onEnded: (key: string) => void = () => {}

  /** Without `onLowered` no limit is ever lowered: the backend of a gateway answers 503 and 429 for reasons of its own. */
  constructor(clock: Clock, onLowered: ((limit: LoweredLimit) => void) | undefined) {
    this.#clock = clock
    this.#onLowered = onLowered
    this.#brokenFiles = new Rests(clock, { first: innocence, longest: innocence })
  }

  /** The most connections now, where the settings allow `most`. */
  now(key: string, most: number): number {
    if (this.#lowered.size === 0) return most
    const lowered = this.#lowered.get(key)
    if (lowered === undefined) return most
    const risen = this.#risen(lowered)
    if (risen < most) return risen
    this.#lowered.delete(key)
    return most
  }

  /**
   * Notes that an origin refused a request for `target` while it had `busy` connections. Answers the time after which the request should be
   * sent again, because it was one of several; undefined when it should not. `seen` is `changes` at the moment when it got its connection.
   */
  refused(
    key: string,
    {
      busy,
      most,
      seen,
      origin,
      target,
      because,
    }: {
      readonly busy: number
      readonly most: number
      readonly seen: number
      readonly origin: string
      readonly target: string
      readonly because: string
    },
  ): Milliseconds | undefined {
    if (this.#onLowered === undefined) return undefined
    const lowered = this.#lowered.get(key)
    if (lowered !== undefined && seen < lowered.change) return 0
    if (busy < 2) {
      if (lowered?.answered === false) this.#restore(key, lowered.before)
      return undefined
    }
    if (this.#brokenFiles.left(target) > 0) return trial
    this.changes += 1
    const connections = Math.max(1, Math.floor(Math.min(busy, this.now(key, most)) / 2))
    const limit = { origin, connections, because, most }
    const since = this.#clock.elapsed()
    const before = lowered?.answered === false ? lowered.before : lowered
    const lower = { ...limit, since, change: this.changes, answered: false, before }
    this.#lowered.set(key, lower)
    this.#clock.after(trial, () => {
      if (this.#lowered.peek(key) !== lower || lower.answered) return
      this.#brokenFiles.note(target)
      this.#restore(key, before)
      this.onEnded(key)
    })
    return 0
  }

  #restore(key: string, before: Lowered | undefined): void {
    if (before === undefined) this.#lowered.delete(key)
    else this.#lowered.set(key, before)
  }

  /** To be called when an origin has answered a request that it had refused before. `seen` is as for `refused`. */
  answered(key: string, seen: number): void {
    if (this.#lowered.size === 0) return
    const lowered = this.#lowered.get(key)
    if (lowered === undefined || lowered.answered || seen < lowered.change) return
    lowered.answered = true
    // It can no longer end early. Kept, each limit would hold all those before it.
    lowered.before = undefined
    const { origin, connections, because } = lowered
    this.#onLowered?.({ origin, connections, because })
  }

  /** The origins to which fewer connections are opened now. */
  states(): readonly LoweredLimit[] {
    return [...this.#lowered.values()].flatMap(lowered => {
      const { origin, because, most, answered } = lowered
      const connections = this.#risen(lowered)
      return answered && connections < most ? [{ origin, connections, because }] : []
    })
  }

  #risen({ connections, since }: Lowered): number {
    return connections + Math.floor((this.#clock.elapsed() - since) / risesEach)
  }
}
