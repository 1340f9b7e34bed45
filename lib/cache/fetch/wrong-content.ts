/**
 * Remembers files of which an origin has just sent content that the archive does not promise: for some seconds they are not
 * fetched again for each client, and the next content never gets the date of the wrong one.
 *
 * # Facts
 * - apt keeps the beginning of what broke off and asks for the rest with the date it came with. With the same date the right
 *   content would be joined to the wrong beginning.
 * - apt tries again after 1, 2 and 4 seconds: the pause must be shorter than all of them together.
 */
import { LRUCache } from 'lru-cache'
import type { Clock, Milliseconds } from '../../async/clock.ts'
import { Failure } from '../../errors.ts'
import type { EntryDraft } from '../rfc9111/stored-response.ts'
import { expectedOf, type Wanted } from './found.ts'

const pause: Milliseconds = 2000
/** The most that are remembered. */
const capacity = 4096

interface Wrong {
  readonly failure: Failure
  readonly expected: string | undefined
  readonly until: Milliseconds
  readonly draft: EntryDraft | undefined
}

export class WrongContent {
  readonly #clock: Clock
  readonly #wrong = new LRUCache<string, Wrong>({ max: capacity })

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Whether a failure says that content was not what was promised. */
  static is(error: unknown): boolean {
    return error instanceof Failure && ['wrong-digest', 'wrong-size'].includes(error.code)
  }

  /** Content that began as in `draft` was wrong. */
  note(wanted: Wanted, failure: Failure, draft?: EntryDraft): void {
    this.#wrong.set(wanted.key, {
      failure,
      expected: expectedOf(wanted)?.digest?.hex,
      until: this.#clock.elapsed() + pause,
      draft: draft ?? this.#wrong.get(wanted.key)?.draft,
    })
  }

  /** Why it is not worth while to fetch this now. */
  recent(wanted: Wanted): Failure | undefined {
    const wrong = this.#wrong.get(wanted.key)
    if (wrong === undefined || wrong.until <= this.#clock.elapsed()) return undefined
    return wrong.expected === expectedOf(wanted)?.digest?.hex ? wrong.failure : undefined
  }

  /** What clients have seen the beginning of under this key. */
  before(key: string): EntryDraft | undefined {
    return this.#wrong.get(key)?.draft
  }
}
