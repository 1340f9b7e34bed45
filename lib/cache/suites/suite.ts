/**
 * What this process knows of a suite beyond its generations: the state of its life, since when it lasts and when the origin is asked again,
 * the Release file that is held back, and what the log has said. There is one `Suite` for a directory. Its generations are in
 * `KnownSuites`, because they outlive the process, and work that is under way is with the one that does it (`Adoptions`, `Updates`).
 *
 * A suite that is removed gets a new `Suite`, so nothing that was known of the old one is left. Features that remember something of a
 * suite have a WeakMap with the `Suite` as the key, for the same reason. Work that is under way may still note something with the old
 * `Suite`. This has no effect.
 *
 * # Facts
 * - A mirror that is being updated has all files within minutes. A file that it lacks then, it may never have: some archives name files
 *   with a wrong digest permanently, and some sites refuse single files.
 * - Two servers behind one name may have states of different days. One then confirms the earlier Release file while the other has the
 *   new one, so a confirmation does not restart the time of the new one.
 */
import type { Clock, Milliseconds } from '../../async/clock.ts'
import { elapsedText } from '../../figures.ts'
import { parentOf } from '../archive/path.ts'
import type { KnownSuite } from './generation.ts'
import type { KnownSuites } from './known-suites.ts'
import {
  afterEvent,
  type ClientAnswers,
  clientAnswers,
  lifeAfterStart,
  type Standing,
  type SuiteEvent,
  type SuiteLife,
  unknownSuite,
} from './suite-life.ts'

/** A file of the origin's new Release file, and the reason why it has not arrived, in words. */
export interface MissingFile {
  readonly path: string
  readonly because: string
}

/** The longest time for which missing files hold a Release file back. */
export const longestHold: Milliseconds = 10 * 60_000

/** The pause after the first failure with a Release file, in which the origin is not asked. It doubles with each further failure. */
export const firstPause: Milliseconds = 5000
const longestPause: Milliseconds = 2 * 60_000

/** A Release file of the origin that clients do not get. */
interface HeldRelease {
  /** The SHA-256 of the Release file that the origin last had. */
  digest: string
  /** The moment when it was first seen, or when the first of several successive ones was, by `elapsed`. */
  readonly since: Milliseconds
  /** Whether the origin has confirmed the earlier one since then. */
  confirmed: boolean
  /** The number of successive failures with this Release file. */
  failures: number
  missing: readonly MissingFile[]
  /** The paths that the clients' Release file names and this one does not; undefined before they are known. */
  dropped: ReadonlySet<string> | undefined
}

/** An adoption that failed. It is not tried again with the same files for a time. */
export interface FailedAdoption {
  /** SHA-256 of the Release files and the detached signature. */
  readonly digests: readonly string[]
  /** The moment until which the adoption is not tried again, by `elapsed`. */
  readonly until: Milliseconds
}

/** The answer of an origin that gives no Release file. */
interface Denial {
  readonly status: number
  /** The moment since which the origin has given none, by `elapsed`. */
  readonly since: Milliseconds
}

export interface DenialTerms {
  readonly status: number
  /** How long clients without a Release file get what the adopted one names, when a known key has signed it. */
  readonly keep: Milliseconds
  /** Whether a delay or a hold says which files clients get. */
  readonly restrained: boolean
}

/** What the log has said of a suite once, so that it does not say it again. */
interface SaidOfSuite {
  notRead?: true
  late?: true
  /** The contradictions that were last said. */
  contradictions?: string
}

interface SuiteParts {
  readonly clock: Clock
  readonly known: KnownSuites
}

export class Suite {
  /** The key of its directory. */
  readonly at: string
  readonly #parts: SuiteParts
  #life: SuiteLife
  /** The moment since which its standing is what it is, by `elapsed`. */
  #since: Milliseconds
  /** The moment until which the origin is not asked, by `elapsed`. */
  #pauseEnd: Milliseconds = 0
  #held: HeldRelease | undefined
  #denial: Denial | undefined
  /** Whether the origin has lost a file that the clients' Release file names. It ends when the origin confirms that Release file. */
  #isOutdated = false
  /** The moments before which the origin is not asked again because it has lost a file, or lacks one that it may never have had. */
  #nextQuestion = { outdated: 0, doubt: 0 }
  failed: FailedAdoption | undefined
  /** The reason in words why the last Release file was not adopted. */
  refusal: string | undefined
  /** Whether its files are not compared with indexes since a reload. A later reload may change that. */
  isUncompared = false
  /** The moments since which the origin has had no Release file, by the keys of the stored ones and by `elapsed`. */
  readonly goneSince = new Map<string, Milliseconds>()
  readonly said: SaidOfSuite = {}
  #isRemoved = false

  constructor(at: string, parts: SuiteParts) {
    this.at = at
    this.#parts = parts
    this.#since = parts.clock.elapsed()
    const { heldSince, waiting } = this.known ?? {}
    const start = { isHeld: heldSince !== undefined, waits: waiting !== undefined }
    this.#life = this.known === undefined ? unknownSuite : lifeAfterStart(start)
  }

  /** Its generations, and what else outlives the process; undefined before it is adopted. */
  get known(): KnownSuite | undefined {
    return this.#parts.known.at(this.at)
  }

  get standing(): Standing {
    return this.#life.standing
  }

  /** What clients get. */
  get answers(): ClientAnswers {
    return clientAnswers(this.#life)
  }

  /** Notes an event of its life. */
  note(event: SuiteEvent): void {
    const before = this.#life.standing
    this.#life = afterEvent(this.#life, event)
    if (this.#life.standing !== before) this.#since = this.#parts.clock.elapsed()
  }

  /** Whether there is another `Suite` for the directory now. Then nothing that was begun with this one may have an effect. */
  get isRemoved(): boolean {
    return this.#isRemoved
  }

  /** Ends this life: there is another `Suite` for the directory from now on. */
  remove(): void {
    this.note('removed')
    this.#isRemoved = true
  }

  /** The time for which clients have got another Release file than the origin has. */
  get behindFor(): Milliseconds {
    const { clock } = this.#parts
    const isHeld = this.standing === 'held'
    if (isHeld && this.#held !== undefined) return clock.elapsed() - this.#held.since
    const held = isHeld ? this.known?.heldSince : undefined
    return held === undefined ? clock.elapsed() - this.#since : Math.max(0, clock.now() - held)
  }

  /** The files for which the origin's Release file is held back. */
  get missing(): readonly MissingFile[] {
    return this.standing === 'held' ? (this.#held?.missing ?? []) : []
  }

  /** Whether the origin is not asked now, because the last question failed. */
  get isPaused(): boolean {
    return this.#parts.clock.elapsed() < this.#pauseEnd
  }

  /** Notes that clients keep the Release file that they have, and that the origin is not asked for a time. */
  fellBehind(event: SuiteEvent, pause: Milliseconds): void {
    this.note(event)
    this.#pauseEnd = this.#parts.clock.elapsed() + pause
  }

  /** Ends the pause after a failure. */
  endPause(): void {
    this.#pauseEnd = 0
  }

  /** The time for which the origin's Release file with this SHA-256, or its predecessors, had been held back when it arrived, by `elapsed`. */
  heldFor(digest: string, arrived: Milliseconds): Milliseconds {
    const { clock } = this.#parts
    let held = this.#held
    if (held === undefined || (held.confirmed && held.digest !== digest)) {
      const earlier = held === undefined ? this.known?.heldSince : undefined
      const since = arrived - (earlier === undefined ? 0 : Math.max(0, clock.now() - earlier))
      held = { digest, since, confirmed: false, failures: 0, missing: [], dropped: undefined }
      this.#held = held
    }
    if (held.digest !== digest) {
      held.failures = 0
      held.dropped = undefined
    }
    held.digest = digest
    held.confirmed = false
    return this.#isOutdated ? longestHold : Math.max(0, arrived - held.since)
  }

  /**
   * Notes that the origin has lost a file that the clients' Release file names. From now on no newer Release file is held back, and the
   * pause ends. Returns whether the origin should be asked, which is not after each such file, because that would be too often.
   */
  noteOutdated(): boolean {
    if (!this.#maySend('outdated')) return false
    this.#isOutdated = true
    this.endPause()
    return true
  }

  /** Whether to ask the origin for a newer Release file because it lacks a file that it may never have had. */
  noteDoubt(): boolean {
    return this.#maySend('doubt')
  }

  #maySend(question: 'outdated' | 'doubt'): boolean {
    const now = this.#parts.clock.elapsed()
    if (this.#nextQuestion[question] > now) return false
    this.#nextQuestion[question] = now + firstPause
    return true
  }

  /** Whether the Release file that is held back has dropped this path; undefined when none is held back or it is unknown. */
  drops(path: string): boolean | undefined {
    return this.#held?.confirmed === false ? this.#held.dropped?.has(path) : undefined
  }

  /** Notes the files for which a Release file waits, and the paths that it has dropped, if they are known. */
  waitFor(missing: readonly MissingFile[], dropped: ReadonlySet<string> | undefined): void {
    if (this.#held === undefined) return
    this.#held.missing = missing
    this.#held.dropped = dropped ?? this.#held.dropped
  }

  /** Notes that these files hold a Release file back. `left` is the time for which they still may. */
  holdBack(missing: readonly MissingFile[], left: Milliseconds): void {
    const { clock } = this.#parts
    const held = this.#held
    if (held === undefined) return
    held.missing = missing
    const pause = Math.min(firstPause * 2 ** held.failures, longestPause, Math.max(0, left))
    held.failures += 1
    this.#noteHeld(clock.now() - (clock.elapsed() - held.since))
    this.fellBehind('missing', pause)
  }

  /**
   * Notes that clients learn that the origin gives no Release file. Clients that go on without one get what the adopted one names for the
   * time `keep` when a known key has signed it, and for as long as it is adopted where a signature is required or a delay or a hold
   * restrains the suite. Returns whether this is new.
   */
  deny(key: string, { status, keep, restrained }: DenialTerms): boolean {
    const now = this.#parts.clock.elapsed()
    const before = this.#denial
    const since = before?.since ?? this.goneSince.get(key) ?? now
    this.#denial = { status, since }
    this.note('origin-denies')
    const { policy, generations: [adopted] = [] } = this.known ?? {}
    const isKept = adopted?.signature.is === 'good' && now - since < keep
    if (!isKept && !restrained && policy?.verify !== 'require') this.note('lapsed')
    return before === undefined
  }

  /** Whether clients learn that the origin gives no Release file. */
  get isDenied(): boolean {
    return this.standing === 'denied' || this.standing === 'lapsed'
  }

  /** A sentence that says why the Release file of the origin was refused, or that the origin gives none; undefined when neither is so. */
  get remark(): string | undefined {
    if (this.standing === 'refused') {
      const because = this.refusal ?? 'the one of the origin may not be adopted'
      return `clients get the earlier Release file: ${because}`
    }
    if (!this.isDenied || this.#denial === undefined) return undefined
    const { status, since } = this.#denial
    const lasts = elapsedText(this.#parts.clock.elapsed() - since)
    const files = this.standing === 'denied' ? 'those of the adopted one' : 'unchecked ones'
    return `the origin has given no Release file for ${lasts} (it answers ${status}): clients that ask for its files all the same get ${files}`
  }

  /** Notes that clients get the origin's Release file: the earlier one, which it has confirmed, or the new one. */
  caughtUp(event: 'confirmed' | 'restrained' | 'prepared'): void {
    this.note(event)
    this.endPause()
    this.#denial = undefined
    this.#noteHeld(undefined)
    this.#isOutdated = false
    if (event === 'prepared') this.#held = undefined
    else if (this.#held !== undefined) this.#held.confirmed = true
  }

  /** Notes the moment since which a newer Release file is held back, also for the next run; undefined when none is. */
  #noteHeld(heldSince: Milliseconds | undefined): void {
    if (this.#isRemoved || this.known?.heldSince === heldSince) return
    void this.#parts.known.note(this.at, { heldSince })
  }
}

/** At most this many suites without a generation are remembered, because clients may ask for any number of directories. */
const mostUnknown = 1000

/** The suites of this process. It makes a `Suite` for each directory that is asked for. */
export class LiveSuites {
  readonly #parts: SuiteParts
  readonly #suites = new Map<string, Suite>()

  constructor(parts: SuiteParts) {
    this.#parts = parts
  }

  /** The suite in the directory with this key. */
  of(at: string): Suite {
    const suite = this.#suites.get(at) ?? new Suite(at, this.#parts)
    this.#suites.set(at, suite)
    if (this.#suites.size > mostUnknown + this.#parts.known.size) {
      const first = this.all.find(one => one.known === undefined && one !== suite)
      if (first !== undefined) this.#suites.delete(first.at)
    }
    return suite
  }

  /** The suite in the directory with this key; undefined when nothing is remembered of it. */
  peek(at: string): Suite | undefined {
    return this.#suites.get(at)
  }

  get all(): readonly Suite[] {
    return [...this.#suites.values()]
  }

  /** Notes a generation that was adopted. When too many suites are known, one is forgotten. */
  async adopted(next: KnownSuite): Promise<void> {
    const { known } = this.#parts
    await known.put(next)
    this.of(next.at).note('adopted')
    const excess = known.excess()
    if (excess !== undefined) await this.forget(excess.at)
  }

  /** Notes that the origin has no Release file under this key. Returns since when, by `elapsed`; undefined when it had one until now. */
  noteGone(key: string): Milliseconds | undefined {
    const suite = this.of(parentOf(key))
    const since = suite.goneSince.get(key)
    suite.goneSince.set(key, since ?? this.#parts.clock.elapsed())
    suite.note('origin-gone')
    return since
  }

  /** Notes that the origin does not say so of the Release file with this key. */
  noteThere(key: string): void {
    this.peek(parentOf(key))?.goneSince.delete(key)
  }

  /** Forgets all that is known of a suite. */
  async forget(at: string): Promise<void> {
    this.#suites.get(at)?.remove()
    this.#suites.delete(at)
    await this.#parts.known.forget(at)
  }
}
