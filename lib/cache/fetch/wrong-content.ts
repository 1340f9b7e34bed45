/**
 * Finds content that is plainly not the file, and remembers files of which an origin has just sent content that the archive does
 * not promise: for some seconds they are not fetched again for each client, and the next content never gets the date of the wrong
 * one. The right content ends that.
 *
 * # Facts
 * - apt keeps the beginning of what broke off and asks for the rest with the date it came with. With the same date the right
 *   content would be joined to the wrong beginning.
 * - apt tries again after 1, 2 and 4 seconds when a transfer is cut, which shows no cause: the pause must be longer than the first
 *   delay, so that the next try is told the cause, and shorter than all of them together.
 */
import type { Clock, Milliseconds } from '../../async/clock.ts'
import type { Piece } from '../../bytes/piece.ts'
import { ofBytes, prefixedSource, type Source } from '../../bytes/source.ts'
import { Failure } from '../../errors.ts'
import { recent } from '../../recent.ts'
import {
  type Impostor,
  impostor,
  isPage,
  promisesNothing,
  tellingBytes,
} from '../archive/impostor.ts'
import type { EntryDraft } from '../rfc9111/stored-response.ts'
import { expectedOf, type WantedFile } from './found.ts'
import type { Answer } from './mirrors.ts'

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
  readonly #wrong = recent<string, Wrong>(capacity)

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Whether a failure says that content was not what was promised. */
  static is(error: unknown): boolean {
    return error instanceof Failure && ['wrong-digest', 'wrong-size'].includes(error.code)
  }

  /** Content that began as in `draft` was wrong. What came from no origin is no reason not to ask one at once. */
  note(
    wanted: WantedFile,
    failure: Failure,
    { draft, near }: { readonly draft?: EntryDraft | undefined; readonly near?: boolean },
  ): void {
    this.#wrong.set(wanted.key, {
      failure,
      expected: expectedOf(wanted)?.digest?.hex,
      until: this.#clock.elapsed() + (near === true ? 0 : pause),
      draft: draft ?? this.#wrong.get(wanted.key)?.draft,
    })
  }

  /** The right content came: from here on its date is the one that the next content must not have. */
  forget({ key }: WantedFile): void {
    this.#wrong.delete(key)
  }

  /** Why it is not worth while to fetch this now. */
  recent(wanted: WantedFile): Failure | undefined {
    const wrong = this.#wrong.get(wanted.key)
    if (wrong === undefined || wrong.until <= this.#clock.elapsed()) return undefined
    return wrong.expected === expectedOf(wanted)?.digest?.hex ? wrong.failure : undefined
  }

  /** What clients have seen the beginning of under this key. */
  before(key: string): EntryDraft | undefined {
    return this.#wrong.get(key)?.draft
  }
}

/**
 * The content of a 200, whole, and why it is not the file. What promises nothing is not waited for, nor is what a digest judges,
 * unless it is a page and another origin may have the file.
 */
export async function examinedContent(
  { response, others }: Pick<Answer, 'response' | 'others'>,
  wanted: WantedFile,
): Promise<{ readonly content: Source; readonly found?: Impostor | undefined }> {
  const { fields, content } = response
  const { archive, uri } = wanted
  const promised = expectedOf(wanted) !== undefined
  if (promisesNothing(archive) || (promised && !others)) return { content }
  const name = uri.path.slice(uri.path.lastIndexOf('/') + 1)
  const judged = (first: Buffer): Impostor | undefined => {
    if (!promised) return impostor(archive, name, fields, first)
    return isPage(first) ? 'page' : undefined
  }
  const bytes = content.whole?.()
  if (bytes !== undefined) return { content: ofBytes(bytes), found: judged(bytes) }
  const { first, broken, whole } = await opening(content, tellingBytes)
  return { content: whole, found: broken ? undefined : judged(first) }
}

interface Opening {
  /** As many bytes as were asked for, or all there are; or, when the content broke off, as many as came. */
  readonly first: Buffer
  /** Whether it broke off so early that `first` says nothing. */
  readonly broken: boolean
  readonly whole: Source
}

/** Reads the first `count` bytes. A content that breaks off so early breaks off again. */
function opening(content: Source, count: number): Promise<Opening> {
  return new Promise(resolve => {
    const pieces: Piece[] = []
    let size = 0
    const step = (error: Error | undefined, piece: Piece | undefined): void => {
      if (piece !== undefined) {
        pieces.push(piece)
        size += piece.bytes.length
        if (size < count) return content.next(step)
      }
      const first = Buffer.concat(pieces.map(({ bytes }) => bytes.subarray(0, count)))
      const ended: Source = { next: take => take(error, undefined), close: () => content.close() }
      const whole = prefixedSource(pieces, piece === undefined ? ended : content)
      resolve({ first: first.subarray(0, count), broken: error !== undefined, whole })
    }
    content.next(step)
  })
}
