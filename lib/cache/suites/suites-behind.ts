/**
 * Remembers the suites whose clients get another Release file than the origin has, with the reason, the moment when that began, and the
 * missing files. It decides how long that may last and when the origin is asked again. It knows time, not origins and files.
 *
 * # Facts
 * - A mirror that is being updated has all files within minutes. A file that it lacks then, it may never have: some archives name files
 *   with a wrong digest permanently, and some sites refuse single files.
 * - Two servers behind one name may have states of different days. One then confirms the earlier Release file while the other has the
 *   new one, so a confirmation does not restart the time of the new one.
 */
import { LRUCache } from 'lru-cache'
import type { Clock, Milliseconds } from '../../async/clock.ts'
import type { StaleReason } from '../rfc9111/outcome.ts'
import type { Suites } from './suites.ts'

/** A file of the origin's new Release file, and the reason why it has not arrived, in words. */
export interface MissingFile {
  readonly path: string
  readonly because: string
}

/** The state of a suite whose clients get another Release file than the origin has. */
export interface ReleaseBehind {
  readonly because: StaleReason
  /** The time for which that has been so. */
  readonly lasts: Milliseconds
  readonly missing: readonly MissingFile[]
}

/** The longest time for which missing files hold a Release file back. */
export const longestHold: Milliseconds = 10 * 60_000

/** The pause after the first failure with a Release file, in which the origin is not asked. It doubles with each further failure. */
export const firstPause: Milliseconds = 5000
const longestPause: Milliseconds = 2 * 60_000

const mostSuites = 1000

interface Held {
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

interface Noted {
  readonly because: StaleReason
  readonly since: Milliseconds
  /** The end of the pause in which the origin is not asked, by `elapsed`. */
  readonly until: Milliseconds
}

/** The state of a suite of which the origin has lost files that the clients' Release file names. */
interface Outdated {
  /** Whether that still holds. It ends when the origin confirms that Release file. */
  lasts: boolean
  /** The moment before which the origin is not asked again for that reason, by `elapsed`. */
  readonly asked: Milliseconds
}

interface SuitesBehindParts {
  readonly clock: Clock
  /** They know since when a Release file is held back, by the wall clock, also from an earlier run. */
  readonly suites: Pick<Suites, 'at' | 'noteHeld'>
}

/** The memory of suites that are behind. Each suite is named by the key of its directory. */
export class SuitesBehind {
  readonly #parts: SuitesBehindParts
  readonly #noted = new LRUCache<string, Noted>({ max: mostSuites })
  readonly #held = new LRUCache<string, Held>({ max: mostSuites })
  readonly #outdated = new LRUCache<string, Outdated>({ max: mostSuites })
  /** The moment before which a file that the origin may never have had is no reason to ask it again, by `elapsed`. */
  readonly #doubted = new LRUCache<string, Milliseconds>({ max: mostSuites })

  constructor(parts: SuitesBehindParts) {
    this.#parts = parts
  }

  has(at: string): boolean {
    return this.#noted.has(at)
  }

  of(at: string): ReleaseBehind | undefined {
    const { clock, suites } = this.#parts
    const noted = this.#noted.peek(at)
    const missing = this.#held.peek(at)?.missing ?? []
    if (noted !== undefined) {
      const { because, since } = noted
      const files = because === 'stale-suite-incomplete' ? missing : []
      return { because, lasts: clock.elapsed() - since, missing: files }
    }
    const since = suites.at(at)?.heldSince
    if (since === undefined) return undefined
    const lasts = Math.max(0, clock.now() - since)
    return { because: 'stale-suite-incomplete', lasts, missing: [] }
  }

  /** The reason why clients get another Release file, during a pause in which the origin is not asked; else undefined. */
  paused(at: string): StaleReason | undefined {
    const { because, until = 0 } = this.#noted.get(at) ?? {}
    return this.#parts.clock.elapsed() < until ? because : undefined
  }

  /** The time for which the origin's Release file with this SHA-256, or its predecessors, have been held back. */
  heldFor(at: string, digest: string): Milliseconds {
    const { clock, suites } = this.#parts
    const now = clock.elapsed()
    let held = this.#held.get(at)
    if (held === undefined || (held.confirmed && held.digest !== digest)) {
      const earlier = held === undefined ? suites.at(at)?.heldSince : undefined
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
    return this.#outdated.get(at)?.lasts === true ? longestHold : now - held.since
  }

  /**
   * Notes that the origin has lost a file that the clients' Release file names. From now on no newer Release file is held back, and the
   * pause ends. Returns whether the origin should be asked, which is not after each such file, because that would be too often.
   */
  noteOutdated(at: string): boolean {
    const now = this.#parts.clock.elapsed()
    if ((this.#outdated.get(at)?.asked ?? 0) > now) return false
    this.#outdated.set(at, { lasts: true, asked: now + firstPause })
    const noted = this.#noted.peek(at)
    if (noted !== undefined) this.#noted.set(at, { ...noted, until: 0 })
    return true
  }

  /** Whether to ask the origin for a newer Release file because it lacks a file that it may never have had. */
  noteDoubt(at: string): boolean {
    const now = this.#parts.clock.elapsed()
    if ((this.#doubted.get(at) ?? 0) > now) return false
    this.#doubted.set(at, now + firstPause)
    return true
  }

  /** Whether the Release file that is held back has dropped this path; undefined when none is held back or it is unknown. */
  drops(at: string, path: string): boolean | undefined {
    const held = this.#held.peek(at)
    return held === undefined || held.confirmed ? undefined : held.dropped?.has(path)
  }

  /** Notes the files for which a Release file waits, and the paths that it has dropped, if they are known. */
  waitFor(
    at: string,
    missing: readonly MissingFile[],
    dropped: ReadonlySet<string> | undefined,
  ): void {
    const held = this.#held.get(at)
    if (held === undefined) return
    held.missing = missing
    held.dropped = dropped ?? held.dropped
  }

  /** Notes that these files hold a Release file back. `left` is the time for which they still may. */
  holdBack(at: string, missing: readonly MissingFile[], left: Milliseconds): void {
    const { clock, suites } = this.#parts
    const held = this.#held.get(at)
    if (held === undefined) return
    held.missing = missing
    const now = clock.elapsed()
    const pause = Math.min(firstPause * 2 ** held.failures, longestPause, Math.max(0, left))
    held.failures += 1
    suites.noteHeld(at, clock.now() - (now - held.since))
    const because = 'stale-suite-incomplete'
    this.#noted.set(at, { because, since: held.since, until: now + pause })
  }

  /** Notes that clients get the earlier Release file for another reason, or while files are arriving. A pause begins. */
  note(at: string, because: StaleReason, pause: Milliseconds): void {
    const now = this.#parts.clock.elapsed()
    const before = this.#noted.get(at)
    const same = before?.because === because ? before.since : now
    const held = because === 'stale-suite-incomplete' ? this.#held.get(at)?.since : undefined
    this.#noted.set(at, { because, since: held ?? same, until: now + pause })
  }

  /** Notes that clients get the origin's Release file: the earlier one, which it has confirmed, or the new one. */
  caughtUp(at: string, by: 'confirmed' | 'updated'): void {
    this.#noted.delete(at)
    this.#parts.suites.noteHeld(at, undefined)
    const outdated = this.#outdated.get(at)
    if (outdated !== undefined) outdated.lasts = false
    const held = this.#held.get(at)
    if (by === 'updated') this.#held.delete(at)
    else if (held !== undefined) held.confirmed = true
  }

  endPauses(): void {
    for (const [at, noted] of [...this.#noted]) this.#noted.set(at, { ...noted, until: 0 })
  }

  forget(at: string): void {
    this.#noted.delete(at)
    this.#held.delete(at)
    this.#outdated.delete(at)
    this.#doubted.delete(at)
  }
}
