/**
 * Asks slow origins about stored files in the background, after clients have got them unconfirmed.
 *
 * # Facts
 * - Clients ask for files in the same order each time, first for Release files. So a question that finds all places taken waits for one.
 *   If it were dropped, the first files of each visit would take the places, and the others would never be asked about.
 * - A question holds its place until the head of its answer has come, which `LateHeads` bounds. An archive that works on one request at a
 *   time would lose the work if the next question came earlier.
 */
import type { TargetUri } from '../../http/message/target.ts'
import type { Fetcher } from '../fetch/fetch.ts'
import { originName } from '../fetch/mirrors.ts'
import type { Entry } from '../store/entry.ts'
import type { Store } from '../store/store.ts'

/** The part of the connections to an origin that these questions may use. There is one at a time where this is less than one. */
const partOfConnections = 0.25

/** The most questions to an origin that wait. */
const mostWaiting = 100

interface Question {
  /** The stored file. There is nothing to ask when another answer has confirmed or replaced it. */
  readonly entry: Entry
  /** Resolves when the origin has answered or failed. Never rejects. */
  readonly ask: () => Promise<unknown>
}

interface OriginQuestions {
  /** By the keys of their files, in the order of their turns. */
  readonly waiting: Map<string, Question>
  readonly underWay: Set<string>
}

interface BackgroundParts {
  readonly store: Pick<Store, 'get'>
  /** The most connections to an origin by the settings. */
  readonly connectionsTo: (place: TargetUri) => number
  /** Says when the service stops. Then no question begins. */
  readonly fetcher: Pick<Fetcher, 'closing'>
}

export class BackgroundQuestions {
  readonly #parts: BackgroundParts
  /** The origins that are being asked, by `originName`. */
  readonly #origins = new Map<string, OriginQuestions>()

  constructor(parts: BackgroundParts) {
    this.#parts = parts
  }

  /** Asks an origin about a file when it is the turn of this file. */
  add(uri: TargetUri, question: Question): void {
    const name = originName(uri)
    const origin = this.#origins.get(name) ?? { waiting: new Map(), underWay: new Set() }
    const { waiting, underWay } = origin
    const { key } = question.entry
    if (underWay.has(key)) return
    this.#origins.set(name, origin)
    waiting.set(key, question)
    if (waiting.size > mostWaiting) waiting.delete(lastConfirmed(waiting))
    const places = Math.max(1, Math.floor(this.#parts.connectionsTo(uri) * partOfConnections))
    if (underWay.size < places) void this.#ask(name, origin)
  }

  /** Asks the questions that wait for a place, one after the other. */
  async #ask(name: string, { waiting, underWay }: OriginQuestions): Promise<void> {
    const { store, fetcher } = this.#parts
    for (const [key, { entry, ask }] of waiting) {
      waiting.delete(key)
      underWay.add(key)
      const now = await store.get(key)
      const asks = now?.digest === entry.digest && now.validated === entry.validated
      if (asks && !fetcher.closing) await ask()
      underWay.delete(key)
    }
    if (underWay.size === 0) this.#origins.delete(name)
  }
}

/** The waiting file that was confirmed last. Each file has its turn in the end, because the ones that were asked about were confirmed. */
function lastConfirmed(waiting: ReadonlyMap<string, Question>): string {
  let [last, latest] = ['', Number.NEGATIVE_INFINITY]
  for (const [key, { entry }] of waiting) {
    if (entry.validated >= latest) [last, latest] = [key, entry.validated]
  }
  return last
}
