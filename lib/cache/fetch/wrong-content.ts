/**
 * Remembers files for which an origin has just sent wrong content. For two seconds they are not fetched again. The next content never gets
 * the date of the wrong one. Right content ends the memory.
 *
 * # Facts
 * - apt keeps the beginning of a transfer that broke off, and asks for the rest with its date. With the same date, the right content
 *   would be joined to the wrong beginning.
 * - apt tries again after 1, 2 and 4 seconds when a transfer is cut, and does not learn the cause. The pause must be longer than the
 *   first delay, so that the next try gets the cause, and shorter than all of them together.
 */
import type { Clock, Milliseconds } from '../../async/clock.ts'
import { Failure } from '../../errors.ts'
import { recentEntries } from '../../recent.ts'
import type { EntryDraft } from '../rfc9111/stored-response.ts'
import { expectedText, type WantedFile } from './wanted-file.ts'

const pause: Milliseconds = 2000
const capacity = 4096

interface Wrong {
  readonly failure: Failure
  readonly expected: string | undefined
  readonly until: Milliseconds
  readonly draft: EntryDraft | undefined
}

export class WrongContent {
  readonly #clock: Clock
  readonly #wrong = recentEntries<string, Wrong>(capacity)

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Whether a failure says that content was not the promised one. */
  static is(error: unknown): boolean {
    return error instanceof Failure && ['wrong-digest', 'wrong-size'].includes(error.code)
  }

  /**
   * Whether a failure shows that content does not have this SHA-256. Content that only is not what an index or a name promises may have it:
   * with a promised SHA-512, the bucket can have the right bytes of an earlier content.
   */
  static lacks(error: unknown, sha256: string): boolean {
    if (!(error instanceof Failure) || error.code !== 'wrong-digest') return false
    const { sha256: actual } = error.facts
    return actual !== undefined && actual !== sha256
  }

  /** Notes that content with this draft was wrong. After wrong content from `near`, an origin may be asked at once. */
  note(
    wanted: WantedFile,
    failure: Failure,
    { draft, near }: { readonly draft?: EntryDraft | undefined; readonly near?: boolean },
  ): void {
    this.#wrong.set(wanted.key, {
      failure,
      expected: expectedText(wanted),
      until: this.#clock.elapsed() + (near === true ? 0 : pause),
      draft: draft ?? this.#wrong.get(wanted.key)?.draft,
    })
  }

  /** Ends the memory of a file, because right content has arrived. */
  forget({ key }: WantedFile): void {
    this.#wrong.delete(key)
  }

  /** The failure of the last fetch, during the pause after wrong content; else undefined. */
  recent(wanted: WantedFile): Failure | undefined {
    const wrong = this.#wrong.get(wanted.key)
    if (wrong === undefined || wrong.until <= this.#clock.elapsed()) return undefined
    return wrong.expected === expectedText(wanted) ? wrong.failure : undefined
  }

  /** The draft of the wrong content of which clients may have the beginning. */
  before(key: string): EntryDraft | undefined {
    return this.#wrong.get(key)?.draft
  }
}
