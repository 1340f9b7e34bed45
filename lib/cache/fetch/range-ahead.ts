/**
 * Ranges that lie far ahead of a transfer. A client that resumes a download, or reads the index at the end of a zip archive, would wait for
 * the whole beginning, and apt gives up after 30 seconds without a byte. So an origin is asked for such a range, and its bytes go to the
 * client as they come, while the transfer of the whole file goes on (RFC 9110 section 14).
 *
 * # Facts
 * - The head goes to the client after `watched` at the latest, wherever the bytes are. They come from the origin or from the transfer, from
 *   the first of the two to have them.
 * - A part cannot be compared with the digest of the whole file. So the client gets the bytes of a range ahead as it would get them from the
 *   origin. They are not stored. apt compares the whole file after a resume.
 * - A part is passed on only if it is of the file that is arriving: the origin says so by If-Range, by its validators and by the length.
 * - A program can ask for hundreds of ranges at once, and each holds a connection to the origin for as long as its client reads.
 */
import type { Clock, Milliseconds } from '../../async/clock.ts'
import { resultInTime } from '../../async/deadline.ts'
import type { Lifetime } from '../../async/lifetime.ts'
import { Piece } from '../../bytes/piece.ts'
import { begunSource, type Source, tappedSource } from '../../bytes/source.ts'
import { Fields } from '../../http/message/field.ts'
import { validatorsOf } from '../../http/message/precondition.ts'
import { type ByteRange, parseContentRange } from '../../http/message/range.ts'
import type { TargetUri } from '../../http/message/target.ts'
import type { Download } from '../store/content/download.ts'
import type { IncomingContent } from './fetch-outcome.ts'
import { type Answer, originName } from './mirrors.ts'
import type { Ask } from './origin-question.ts'
import { contradict, hasOtherCoding, isSamePlace, partFields } from './transfer.ts'
import { expectedContent, type WantedFile } from './wanted-file.ts'

interface RangeAheadParts {
  readonly ask: Ask
  readonly clock: Clock
  /** The most connections to an origin by the settings. */
  readonly connectionsTo: (place: TargetUri) => number
  /** Called at the end of each range with its bytes from an origin. */
  readonly onFetched: (bytes: number) => void
}

/** A range of a file that is arriving, and the client that asks for it. */
interface WantedRange {
  readonly wanted: WantedFile
  readonly incoming: IncomingContent
  readonly range: ByteRange
  readonly lifetime: Lifetime
}

/** The time for which a transfer is watched before it counts as too far behind a range. */
const watched: Milliseconds = 1000
/** A transfer that reaches the range within this time, at its pace while it was watched, is waited for. */
const nearEnough: Milliseconds = 4000
/**
 * The most ranges that one origin is asked for at the same time, and the part of its connections that they may hold. Further ranges wait for
 * the transfer.
 */
const mostAhead = 4
const partAhead = 1 / 4

export class RangesAhead {
  readonly #parts: RangeAheadParts
  /** The number of ranges for which an origin is being asked, by `originName`. */
  readonly #asked = new Map<string, number>()
  /** The downloads whose origin did not give a part. */
  readonly #refused = new WeakSet<Download>()

  constructor(parts: RangeAheadParts) {
    this.#parts = parts
  }

  /**
   * The bytes of a range of which `content` has those that arrive with the transfer. `ahead` says that an origin is being asked for them.
   * Rejects with a failure of the transfer that comes before the first byte and before a head has to be sent.
   */
  async source(
    content: Source,
    wantedRange: WantedRange,
  ): Promise<{ readonly source: Source; readonly ahead: boolean }> {
    const { clock } = this.#parts
    const { incoming, range, lifetime } = wantedRange
    const { download } = incoming
    const before = download.size
    const arriving = begunSource(content, lifetime)
    const arrived = await resultInTime(arriving, clock, watched)
    if (arrived !== undefined) return { source: arrived, ahead: false }
    const missing = range.first - download.size
    const isNear = missing * watched <= (download.size - before) * nearEnough
    const asked = isNear ? undefined : this.#ask(wantedRange)
    if (asked === undefined) return { source: comingSource(arriving), ahead: false }
    return { source: comingSource(firstOf(arriving, asked)), ahead: true }
  }

  /** The range from an origin. Resolves to undefined when none gives this part of the file. Undefined when none is asked. */
  #ask(wantedRange: WantedRange): Promise<Source | undefined> | undefined {
    const { wanted, incoming, lifetime } = wantedRange
    const { download } = incoming
    const origin = originName(wanted.uri)
    const under = this.#asked.get(origin) ?? 0
    const most = Math.min(mostAhead, this.#parts.connectionsTo(wanted.uri) * partAhead)
    if (under + 1 > most || this.#refused.has(download) || lifetime.over) return undefined
    this.#asked.set(origin, under + 1)
    let bytes = 0
    const over = (): void => {
      const left = (this.#asked.get(origin) ?? 1) - 1
      if (left === 0) this.#asked.delete(origin)
      else this.#asked.set(origin, left)
      if (bytes > 0) this.#parts.onFetched(bytes)
    }
    return this.#part(wantedRange).then(
      content => {
        if (content === undefined) {
          this.#refused.add(download)
          over()
          return undefined
        }
        return tappedSource(content, { onPiece: length => (bytes += length), onOver: over })
      },
      () => {
        over()
        return undefined
      },
    )
  }

  async #part({ wanted, incoming, range, lifetime }: WantedRange): Promise<Source | undefined> {
    const { draft, length, from } = incoming
    const promised = expectedContent(wanted) !== undefined
    const fields = Fields.of(...draft.fields)
    const text = `bytes=${range.first}-${range.last}`
    const received = draft.stored
    const more = (): Fields =>
      partFields({ fields, promised, received }, text) ?? Fields.of(['Range', text])
    const { uri, via } = wanted
    const answer = await this.#parts.ask({ uri, stored: undefined, lifetime, via, more })
    const { content } = answer.response
    const fits =
      (promised || isSamePlace(answer.source, from.source)) &&
      isPart(answer, range, { length, fields }) &&
      !contradict(
        validatorsOf(fields, received),
        validatorsOf(answer.response.fields, this.#parts.clock.now()),
      )
    if (fits && !lifetime.over) return content
    content.close()
    return undefined
  }
}

/** Whether an answer is exactly this range of a file with this length and these fields. */
function isPart(
  { response }: Answer,
  range: ByteRange,
  whole: { readonly length: number | undefined; readonly fields: Fields },
): boolean {
  const { status, fields, length } = response
  if (status !== 206) return false
  const found = parseContentRange(fields.get('Content-Range') ?? '')
  const { first, last } = range
  if (found?.first !== first || found.last !== last || length !== last - first + 1) return false
  return (found.size ?? whole.length) === whole.length && !hasOtherCoding(whole.fields, fields)
}

/** The source that has its first piece or its end first. The other one is closed. Rejects when both fail. */
function firstOf(arriving: Promise<Source>, asked: Promise<Source | undefined>): Promise<Source> {
  return new Promise((resolve, reject) => {
    let chosen = false
    const choose = (source: Source): void => {
      if (chosen) return source.close()
      chosen = true
      resolve(source)
    }
    void asked.then(source => {
      if (source !== undefined) choose(source)
    })
    arriving.then(choose, async (error: unknown) => {
      if ((await asked) === undefined) reject(error)
    })
  })
}

/**
 * The source that a promise brings. Its first piece is empty and comes at once, which makes the head of the response leave. When it is
 * closed before the source comes, that is closed as soon as it comes.
 */
function comingSource(coming: Promise<Source>): Source {
  let source: Source | undefined
  let closed = false
  let begun = false
  const here = coming.then(
    come => {
      source = come
      if (closed) come.close()
      return come
    },
    (error: unknown) => asError(error),
  )
  return {
    next(take) {
      if (!begun) {
        begun = true
        return take(undefined, new Piece(Buffer.alloc(0)))
      }
      if (source !== undefined) return source.next(take)
      void here.then(come => {
        if (come instanceof Error) take(come, undefined)
        else if (closed) take(undefined, undefined)
        else come.next(take)
      })
    },
    close() {
      closed = true
      source?.close()
    },
  }
}

function asError(error: unknown): Error {
  return error instanceof Error ? error : new Error(String(error))
}
