/**
 * Sends a response: framing (RFC 9112 section 6) and back-pressure. If the content breaks off, it cuts the connection, so that
 * no client takes a part for the whole.
 */
import type { Piece } from '../../bytes/piece.ts'
import type { Source } from '../../bytes/source.ts'
import { lengthOf, type Response, type StreamedContent } from '../message/message.ts'
import type { LiveRequest } from './live-request.ts'
import type { LoopShare } from './loop-share.ts'
import type { ResponseWriter } from './response-writer.ts'

/** What became of a response. */
export interface Sent {
  /** Bytes of content the kernel took for the client. */
  readonly bytes: number
  readonly complete: boolean
  /** Why the content broke off, when it broke off on our side. */
  readonly error?: unknown
}

const nothing: Sent = { bytes: 0, complete: false }

/**
 * Writes the response. Calls `done` once, when its last byte is with the kernel or the connection has gone; who watches the
 * connections (connections.ts) sees to it that one of the two comes. Never throws.
 */
export function send(
  out: ResponseWriter,
  request: LiveRequest,
  response: Response,
  share: LoopShare,
  done: (sent: Sent) => void,
): void {
  const { status, reason, fields, content } = response
  if (request.over) {
    discard(response)
    return done(nothing)
  }
  const hasContent = request.method !== 'HEAD' && mayHaveContent(status)
  try {
    const length = hasContent ? lengthOf(content) : announcedBy(response)
    out.head({ status, reason, fields, length, hasContent })
  } catch (error) {
    discard(response)
    out.destroy()
    return done({ ...nothing, error })
  }
  if (hasContent && content.kind === 'stream') {
    new Streaming(out, request, content, share, done).run()
  } else
    finish(out, request, hasContent && content.kind === 'bytes' ? content.bytes : undefined, done)
}

/** RFC 9110 section 8.6: a 204 has no Content-Length. */
function announcedBy({ status, announcedLength }: Response): number | undefined {
  return status === 204 ? undefined : announcedLength
}

/** What is not sent lets go of its memory and of its connection. */
function discard({ content }: Response): void {
  if (content.kind === 'stream') content.open().close()
}

/** Statuses whose responses end with their fields (RFC 9110 section 6.4.1). */
function mayHaveContent(status: number): boolean {
  return status >= 200 && status !== 204 && status !== 304
}

/** The end of a response, with the content when all of it is in memory. */
function finish(
  out: ResponseWriter,
  request: LiveRequest,
  bytes: Buffer | undefined,
  done: (sent: Sent) => void,
): void {
  let told = false
  const tell = (sent: Sent): void => {
    if (told) return
    told = true
    done(sent)
  }
  request.onceOver(() => tell(nothing))
  // After an error the connection closes, and that ends the request.
  out.end(bytes, error => {
    if (!error) tell({ bytes: bytes?.length ?? 0, complete: true })
  })
}

/** A response whose content comes piece by piece. */
class Streaming {
  readonly #out: ResponseWriter
  readonly #request: LiveRequest
  readonly #content: StreamedContent
  readonly #share: LoopShare
  readonly #done: (sent: Sent) => void
  readonly #source: Source
  /** Bytes handed to the connection, and those the kernel has taken. */
  #written = 0
  #taken = 0
  #asking = false
  #looping = false
  #broken: Error | undefined
  /** The end has been written. */
  #ended = false
  #over = false

  constructor(
    out: ResponseWriter,
    request: LiveRequest,
    content: StreamedContent,
    share: LoopShare,
    done: (sent: Sent) => void,
  ) {
    this.#out = out
    this.#request = request
    this.#content = content
    this.#share = share
    this.#done = done
    this.#source = content.open()
  }

  run(): void {
    // A response behind another on its connection never hears of its own writes when that connection breaks.
    this.#request.onceOver(() => this.#finish({ complete: false }))
    this.#ask()
  }

  /** Asks for pieces until enough of them wait. A loop, because a source may answer at once. */
  #ask(): void {
    if (this.#looping) return
    this.#looping = true
    while (!this.#asking && !this.#over && this.#share.mayAsk(this.#written - this.#taken)) {
      this.#asking = true
      this.#source.next(this.#take)
    }
    this.#looping = false
  }

  readonly #take = (error: Error | undefined, piece: Piece | undefined): void => {
    if (this.#over) return piece?.release()
    if (error !== undefined) return this.#break(error)
    if (piece === undefined) return this.#end()
    if (this.#written === 0) this.#write(piece)
    else this.#share.take(piece.bytes.length, () => this.#write(piece))
  }

  #write(piece: Piece): void {
    if (this.#over) return piece.release()
    const { length } = this.#content
    const size = piece.bytes.length
    if (length !== undefined && this.#written + size > length) {
      piece.release()
      return this.#break(new RangeError('more content than was announced'))
    }
    this.#written += size
    this.#share.wait(size)
    this.#out.write(piece.bytes, error => {
      piece.release()
      this.#share.wait(-size)
      // The client's connection has broken, which says nothing of the content.
      if (error) return this.#finish({ complete: false })
      this.#taken += size
      if (this.#over) return
      if (this.#taken < this.#written) return this.#ask()
      if (this.#broken !== undefined) this.#fail(this.#broken)
      else if (this.#ended) this.#finish({ complete: true })
      else this.#ask()
    })
    this.#asking = false
    this.#ask()
  }

  #end(): void {
    const { length, trailers } = this.#content
    if (length !== undefined && this.#written !== length) {
      return this.#break(new RangeError('less content than was announced'))
    }
    // Without chunks there is no place for trailer fields (RFC 9112 section 7.1.2).
    if (trailers !== undefined && this.#out.chunked) this.#out.trailers(trailers())
    this.#out.end(undefined, error => {
      if (error) return
      this.#ended = true
      if (this.#taken === this.#written) this.#finish({ complete: true })
    })
  }

  /** The content broke off on our side: the client gets the bytes sent so far, then the connection is cut. */
  #break(error: Error): void {
    this.#broken = error
    if (this.#taken === this.#written) this.#fail(error)
  }

  #fail(error: unknown): void {
    const { over } = this.#request
    this.#out.destroy()
    this.#finish(over ? { complete: false } : { complete: false, error })
  }

  #finish(how: Omit<Sent, 'bytes'>): void {
    if (this.#over) return
    this.#over = true
    this.#source.close()
    this.#done({ bytes: how.complete ? this.#written : this.#taken, ...how })
  }
}
