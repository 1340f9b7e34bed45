/**
 * Remembers of which suites clients get another Release file than the origin has: why, since when, and which files are missing; and
 * says how long that may last and when the origin is asked again. Knows time, not origins and files.
 *
 * # Facts
 * - A mirror in the middle of an update has all files within minutes. What it does not have then, it may never have: archives name
 *   files with a wrong digest for good, and sites refuse single files.
 * - Two servers behind one name may be of different days: the one before is confirmed in between, and the time goes on.
 */
import { LRUCache } from 'lru-cache'
import type { Clock, Milliseconds } from '../../async/clock.ts'
import type { Fields } from '../../http/message/field.ts'
import type { StaleReason } from '../rfc9111/outcome.ts'

/** A file that the origin's new Release file names, and why it cannot be had, in words. */
export interface MissingFile {
  readonly path: string
  readonly because: string
}

/** Why clients get another Release file than the origin has. */
export interface ReleaseBehind {
  readonly because: StaleReason
  /** How long that is so. */
  readonly lasts: Milliseconds
  readonly missing: readonly MissingFile[]
}

/** A Release file is held back for the sake of the files it names no longer than this. */
export const longestHold: Milliseconds = 10 * 60_000

/** How long the origin is not asked again after the first failure with a Release file. It doubles with each. */
export const firstPause: Milliseconds = 5000
const longestPause: Milliseconds = 2 * 60_000

const mostSuites = 1000
const mostWrong = 1000
const mostOutdated = 1000

interface Held {
  /** SHA-256 of the Release file that the origin had last. */
  digest: string
  /** When it was first seen, or the first of several in a row, by `elapsed`. */
  readonly since: Milliseconds
  /** The origin has confirmed the one before after that. */
  confirmed: boolean
  /** Failures in a row with this Release file. */
  failures: number
  missing: readonly MissingFile[]
  /** Paths that the Release file of clients names and this one does not; undefined before that is known. */
  dropped: ReadonlySet<string> | undefined
}

interface Noted {
  readonly because: StaleReason
  readonly since: Milliseconds
  /** Until when the origin is not asked again, by `elapsed`. */
  readonly until: Milliseconds
}

/** That the origin has files no more as the Release file of clients names them. */
interface Outdated {
  /** Undone when the origin confirms that Release file. */
  lasts: boolean
  /** Until when the origin is not asked once more for that reason, by `elapsed`. */
  readonly asked: Milliseconds
}

interface SuitesBehindParts {
  readonly clock: Clock
  /** Since when the Release file of a suite is held back, by the wall clock, as an earlier run has noted it. */
  readonly heldSince: (at: string) => Milliseconds | undefined
  /** Notes it for the next run. */
  readonly noteHeld: (at: string, since: Milliseconds | undefined) => void
}

/** All are known by the keys of the suites' directories. */
export class SuitesBehind {
  readonly #parts: SuitesBehindParts
  readonly #noted = new LRUCache<string, Noted>({ max: mostSuites })
  readonly #held = new LRUCache<string, Held>({ max: mostSuites })
  readonly #outdated = new LRUCache<string, Outdated>({ max: mostOutdated })
  /** Until when the origin is not asked for a newer Release file because of a file that it may never have had, by `elapsed`. */
  readonly #doubted = new LRUCache<string, Milliseconds>({ max: mostOutdated })
  /** The fields of contents that were not what a Release file says, by the path and the SHA-256 it says. */
  readonly #wrong = new LRUCache<string, Fields>({ max: mostWrong })

  constructor(parts: SuitesBehindParts) {
    this.#parts = parts
  }

  get size(): number {
    return this.#noted.size
  }

  has(at: string): boolean {
    return this.#noted.has(at)
  }

  of(at: string): ReleaseBehind | undefined {
    const { clock, heldSince } = this.#parts
    const noted = this.#noted.peek(at)
    const missing = this.#held.peek(at)?.missing ?? []
    if (noted !== undefined) {
      const { because, since } = noted
      const files = because === 'stale-suite-incomplete' ? missing : []
      return { because, lasts: clock.elapsed() - since, missing: files }
    }
    const since = heldSince(at)
    if (since === undefined) return undefined
    const lasts = Math.max(0, clock.now() - since)
    return { because: 'stale-suite-incomplete', lasts, missing: [] }
  }

  /** Why the origin is not asked now. */
  paused(at: string): StaleReason | undefined {
    const { because, until = 0 } = this.#noted.get(at) ?? {}
    return this.#parts.clock.elapsed() < until ? because : undefined
  }

  /** How long a Release file with this SHA-256, which the origin has, or those before it have been held back. */
  heldFor(at: string, digest: string): Milliseconds {
    const { clock, heldSince } = this.#parts
    const now = clock.elapsed()
    let held = this.#held.get(at)
    if (held === undefined || (held.confirmed && held.digest !== digest)) {
      const earlier = held === undefined ? heldSince(at) : undefined
      const lasts = earlier === undefined ? 0 : Math.max(0, clock.now() - earlier)
      const since = now - lasts
      held = { digest, since, confirmed: false, failures: 0, missing: [], dropped: undefined }
      this.#held.set(at, held)
    }
    if (held.digest !== digest) {
      held.failures = 0
      held.dropped = undefined
    }
    held.digest = digest
    held.confirmed = false
    return this.isOutdated(at) ? longestHold : now - held.since
  }

  /**
   * The origin has a file no more as the Release file of clients names it: no newer one is held back from now on, and the origin may be
   * asked at once. Whether it should be asked: after each such file it would be asked too often.
   */
  noteOutdated(at: string): boolean {
    const now = this.#parts.clock.elapsed()
    if ((this.#outdated.get(at)?.asked ?? 0) > now) return false
    this.#outdated.set(at, { lasts: true, asked: now + firstPause })
    const noted = this.#noted.peek(at)
    if (noted !== undefined) this.#noted.set(at, { ...noted, until: 0 })
    return true
  }

  /** Whether the origin should be asked for a newer Release file because it lacks a file that it may never have had. */
  noteDoubt(at: string): boolean {
    const now = this.#parts.clock.elapsed()
    if ((this.#doubted.get(at) ?? 0) > now) return false
    this.#doubted.set(at, now + firstPause)
    return true
  }

  /** The paths that the Release file of clients names and the one that the origin has now does not. */
  noteDropped(at: string, dropped: ReadonlySet<string>): void {
    const held = this.#held.get(at)
    if (held !== undefined) held.dropped = dropped
  }

  /** Whether the Release file that is held back does not name this path any more; undefined when none is, as far as is known. */
  drops(at: string, path: string): boolean | undefined {
    const held = this.#held.peek(at)
    return held === undefined || held.confirmed ? undefined : held.dropped?.has(path)
  }

  /** Whether the origin has files no more as the Release file of clients names them. */
  isOutdated(at: string): boolean {
    return this.#outdated.get(at)?.lasts === true
  }

  /** The files that a Release file waits for. */
  waitFor(at: string, missing: readonly MissingFile[]): void {
    const held = this.#held.get(at)
    if (held !== undefined) held.missing = missing
  }

  /** A Release file is held back, for these files. `left` is how long it may be. */
  holdBack(at: string, missing: readonly MissingFile[], left: Milliseconds): void {
    const { clock, noteHeld } = this.#parts
    this.waitFor(at, missing)
    const held = this.#held.get(at)
    if (held === undefined) return
    const now = clock.elapsed()
    const pause = Math.min(firstPause * 2 ** held.failures, longestPause, Math.max(0, left))
    held.failures += 1
    noteHeld(at, clock.now() - (now - held.since))
    const because = 'stale-suite-incomplete'
    this.#noted.set(at, { because, since: held.since, until: now + pause })
  }

  /** Clients get the one before for another reason, or while the files are still arriving; the origin is not asked for a while. */
  note(at: string, because: StaleReason, pause: Milliseconds): void {
    const now = this.#parts.clock.elapsed()
    const before = this.#noted.get(at)
    const same = before?.because === because ? before.since : now
    const held = because === 'stale-suite-incomplete' ? this.#held.get(at)?.since : undefined
    this.#noted.set(at, { because, since: held ?? same, until: now + pause })
  }

  /** Clients get what the origin has: the Release file of before, which it confirms, or the new one. */
  caughtUp(at: string, by: 'confirmed' | 'updated'): void {
    this.#noted.delete(at)
    this.#parts.noteHeld(at, undefined)
    const outdated = this.#outdated.get(at)
    if (outdated !== undefined) outdated.lasts = false
    const held = this.#held.get(at)
    if (by === 'updated') this.#held.delete(at)
    else if (held !== undefined) held.confirmed = true
  }

  /** The origins may be asked again at once. */
  endPauses(): void {
    for (const [at, noted] of [...this.#noted]) this.#noted.set(at, { ...noted, until: 0 })
  }

  /** Nothing is known of the suite any more. */
  forget(at: string): void {
    this.#noted.delete(at)
    this.#held.delete(at)
    this.#outdated.delete(at)
    this.#doubted.delete(at)
  }

  /** Content with these fields was not what a Release file says. */
  noteWrong(path: string, digest: string, fields: Fields): void {
    this.#wrong.set(`${path} ${digest}`, fields)
  }

  /** The fields of the content that was not what a Release file says; undefined when none was. */
  wrong(path: string, digest: string): Fields | undefined {
    return this.#wrong.get(`${path} ${digest}`)
  }
}
