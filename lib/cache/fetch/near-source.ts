/**
 * A source of content that is nearer than the origins, such as a bucket that several machines share (`shared_store`): what another node has
 * stored. The fetcher asks it before an origin. This file has its interface, and the time that one fetch may wait for it.
 */
import type { Clock, Milliseconds } from '../../async/clock.ts'
import { resultInTime } from '../../async/deadline.ts'
import type { Lifetime } from '../../async/lifetime.ts'
import type { EntryDraft } from '../rfc9111/stored-response.ts'
import type { ExpectedContent } from '../store/content/expectation.ts'
import type { Entry } from '../store/entry.ts'
import type { Answer } from './mirrors.ts'
import type { WantedFile } from './wanted-file.ts'

/** The longest time for which one fetch waits for nearer sources in all, before it asks an origin. */
const longestNear: Milliseconds = 2000

/** The rest of that time. Only the time spent waiting for a nearer source counts. */
export class NearPatience {
  readonly #clock: Clock
  #left = longestNear

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** The result of a promise that does not reject, or undefined when the time ends before it. `late` gets a result that comes after that. */
  async result<T>(promise: Promise<T>, late: (value: T) => void): Promise<T | undefined> {
    const begun = this.#clock.elapsed()
    const known = promise.then(value => ({ value }))
    const inTime = await resultInTime(known, this.#clock, this.#left)
    this.#left = Math.max(0, this.#left - (this.#clock.elapsed() - begun))
    if (inTime === undefined) void promise.then(late, () => undefined)
    return inTime?.value
  }
}

export interface NearSource {
  /** Whether the file may be shared, and the origin need not confirm it. */
  serves(wanted: WantedFile): boolean
  /** Finds a file near within `question.patience`. Never rejects. */
  find(wanted: WantedFile, question: NearQuestion): Promise<NearAnswer>
  /** Handles a content of the bucket that did not have its digest. */
  wrong(digest: string): void
}

export interface NearQuestion {
  readonly patience: NearPatience
  /** The entry or draft that clients got under this key before. Other content must not get its date. */
  readonly previous: EntryDraft | undefined
  readonly lifetime: Lifetime
}

/**
 * The answer of the nearer sources:
 * - content: the file comes from there
 * - stale: a node has stored the file, and the origin has to be asked whether it is still current
 * - origin: the origin is asked
 */
export type NearAnswer = NearContent | StaleContent | { readonly kind: 'origin' }

export interface NearContent {
  readonly kind: 'content'
  readonly draft: EntryDraft
  readonly expected: ExpectedContent
  /** The SHA-256 of a content in the bucket. */
  readonly digest?: string | undefined
  /** The bytes of the whole content. */
  readonly size: number | undefined
  /** The answer in the form of an origin's 200. */
  readonly answer: Answer
}

export interface StaleContent {
  readonly kind: 'stale'
  readonly entry: Entry
  /** Whether the entry may be given when the origin fails. */
  readonly givenStale: boolean
  /** Opens the content with this draft. Resolves to undefined when it is gone. Never rejects. */
  open(draft: EntryDraft): Promise<NearContent | undefined>
}
