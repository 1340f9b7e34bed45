/**
 * One request and the head of its response on one connection, with a deadline for every part.
 */
import type { Milliseconds } from '../../async/clock.ts'
import { scratch } from '../../bytes/landing.ts'
import { writeSoon } from '../../bytes/small-writes.ts'
import type { Fields } from '../message/field.ts'
import { framingOf, keepAliveTime, persists } from '../wire/framing.ts'
import type { ResponseHead } from '../wire/response-head.ts'
import type { OriginConnection } from './connection.ts'
import { continuesHandshake, offersBinding } from './connection-authentication.ts'
import { type ContentOwner, OriginContent, WholeContent } from './content.ts'
import { failureOf, OriginFailure, type OriginTrouble } from './errors.ts'
import type {
  OriginDeadlines,
  OriginResponse,
  OriginSource,
  OriginSwitched,
  WireRequest,
} from './request.ts'
import type { Reader } from './transport.ts'
import { mostCopied, Upload, type UploadOwner } from './upload.ts'

export interface ExchangeOwner {
  /** `host:port`, for errors. */
  readonly origin: string
  readonly deadlines: OriginDeadlines
  /** The head is here. Content may still be on its way, and so may the request; or both are `over` already. */
  answered(response: OriginResponse | OriginSwitched): void
  /** No head came; the connection is destroyed. */
  failed(failure: OriginFailure): void
  /** The exchange is done with the connection: `free` if another request may use it, else it is destroyed or switched. */
  over(free: boolean): void
}

/** Interim responses that are taken. */
const mostInterim = 16
/** An origin's own limit less half a second, so that we close first; at most this long whatever it offers. */
const longestKeep = 30_000
const headStart = 500
/** What came whole with the head is copied into memory of its own up to this size; more goes where all content goes. */
const mostWhole = 65_536

export class OriginExchange implements Reader, UploadOwner, ContentOwner {
  /** Whether a byte came in answer. */
  heard = false
  readonly #connection: OriginConnection
  readonly #message: WireRequest
  readonly #owner: ExchangeOwner
  /** The upload of content that comes piece by piece. */
  readonly #upload: Upload | undefined
  #phase: 'send' | 'fields' | 'content' | 'over' = 'send'
  #interim = 0
  /** Whether the origin keeps the connection. */
  #stays = false
  #content: OriginContent | undefined

  constructor(connection: OriginConnection, message: WireRequest, owner: ExchangeOwner) {
    this.#connection = connection
    this.#message = message
    this.#owner = owner
    const { head, content } = message
    if (content.kind === 'stream') {
      this.#upload = new Upload(connection.transport, head, content, this)
    }
  }

  begin(): void {
    const { transport, usable, alarm } = this.#connection
    // RFC 9112 section 9.2: what comes ahead of the request is no response to it.
    if (transport.unread > 0) return this.#malformed('it spoke before it was asked')
    transport.handTo(this)
    if (!usable) return this.closed(undefined)
    transport.resume()
    const { head, content, awaitContinue, binds } = this.#message
    if (binds) this.#connection.bound = true
    if (content.kind !== 'stream') {
      this.writing()
      const parts = content.kind === 'bytes' ? [head, content.bytes] : [head]
      writeSoon(transport.socket, parts, () => this.sent(), mostCopied)
    } else if (awaitContinue === undefined) {
      this.#upload?.go()
    } else {
      this.#upload?.hold()
      alarm.set(awaitContinue, () => this.#upload?.go())
    }
  }

  /** Ends it in whatever phase it is: it is not wanted any more, or the source of the request's content broke off. */
  cancel(cause: unknown): void {
    if (this.#phase === 'over') return
    const { address } = this.#connection
    const trouble = { phase: this.#phase, address, cause }
    this.#fail(new OriginFailure('ORIGIN_ABORTED', this.#owner.origin, trouble))
  }

  get origin(): string {
    return this.#owner.origin
  }

  get idle(): Milliseconds {
    return this.#owner.deadlines.content
  }

  room(): Buffer {
    return scratch()
  }

  read(count: number): boolean {
    this.heard = true
    let bytes = scratch().subarray(0, count)
    while (bytes.length > 0) {
      const reading = this.#connection.heads.read(bytes)
      if (reading === 'incomplete') return true
      if ('problem' in reading) {
        this.#malformed(reading.problem, reading.tooLarge)
        return false
      }
      bytes = bytes.subarray(reading.used)
      const { head } = reading
      if (head.status >= 200 || head.status === 101) {
        this.#final(head, bytes)
        return false
      }
      // The shared memory is not ours while the client is told.
      bytes = Buffer.from(bytes)
      this.#tellInterim(head)
      if (this.#phase === 'over') return false
    }
    return true
  }

  ended(): void {
    this.closed(undefined)
  }

  closed(cause: Error | undefined): void {
    this.#broken({ cause })
  }

  writing(): void {
    if (this.#phase !== 'send') return
    this.#connection.alarm.set(this.#owner.deadlines.send, this.#late)
  }

  waiting(): void {
    if (this.#phase === 'send') this.#connection.alarm.clear()
  }

  sent(): void {
    if (this.#phase !== 'send') return
    this.#phase = 'fields'
    this.#connection.alarm.set(this.#owner.deadlines.fields, this.#late)
  }

  readonly #late = (): void => {
    const { deadlines } = this.#owner
    this.#broken({ after: this.#phase === 'send' ? deadlines.send : deadlines.fields })
  }

  #broken(trouble: OriginTrouble): void {
    const { address } = this.#connection
    const phase = this.#phase === 'send' ? 'send' : 'fields'
    this.#fail(failureOf(phase, this.#owner.origin, { ...trouble, address }))
  }

  #tellInterim(head: ResponseHead): void {
    this.#interim += 1
    if (this.#interim > mostInterim) return this.#malformed('it sends interim responses only')
    if (head.status === 100) this.#upload?.go()
    this.#message.onInterim?.(head.status, head.fields)
  }

  #final(head: ResponseHead, behind: Buffer): void {
    if (head.status === 101) return this.#switched(head, behind)
    const framing = framingOf(this.#message.method, head)
    if ('problem' in framing) return this.#malformed(framing.problem)
    const connection = this.#connection
    this.#phase = 'content'
    this.#upload?.answered()
    connection.alarm.clear()
    connection.keep = keepOf(head)
    if (offersBinding(head.fields)) connection.bound = true
    if (connection.bound) connection.handshake = continuesHandshake(head.status, head.fields)
    this.#stays = framing.kind !== 'close' && persists(head)
    const { reused, address } = connection
    const { status, reason, version, fields } = head
    const length = framing.kind === 'length' ? framing.length : undefined
    let content: OriginSource
    let trailers: (() => Fields) | undefined
    if (length !== undefined && length <= Math.min(mostWhole, behind.length)) {
      content = new WholeContent(behind, length)
      this.over(length === behind.length)
    } else {
      const streamed = new OriginContent(connection, framing, this)
      this.#content = streamed
      streamed.begin(behind)
      content = streamed
      if (framing.kind === 'chunked') trailers = () => streamed.trailers()
    }
    this.#owner.answered({
      status,
      reason,
      version,
      fields,
      length,
      content,
      trailers,
      address,
      reused,
    })
  }

  #switched(head: ResponseHead, behind: Buffer): void {
    const { upgrade } = this.#message
    if (!upgrade) return this.#malformed('it changes protocols (101) although it was not asked to')
    const { transport, address, alarm } = this.#connection
    this.#phase = 'over'
    alarm.close()
    transport.handTo(undefined)
    transport.give(behind)
    this.#owner.over(false)
    this.#owner.answered({ fields: head.fields, transport, address })
  }

  #malformed(problem: string, tooLarge = false): void {
    const { address } = this.#connection
    const code = tooLarge ? 'ORIGIN_HEAD_TOO_LARGE' : 'ORIGIN_MALFORMED'
    this.#fail(new OriginFailure(code, this.#owner.origin, { address, problem }))
  }

  #fail(failure: OriginFailure): void {
    if (this.#content !== undefined) return this.#content.fail(failure)
    if (this.#phase === 'over') return
    this.#phase = 'over'
    this.#upload?.stop()
    this.#connection.destroy()
    this.#owner.failed(failure)
  }

  /** The content needs the connection no longer. A response that came before the whole request was sent leaves it unusable. */
  over(whole: boolean): void {
    const connection = this.#connection
    // A small rest leaves before the next request does. TLS takes a write so late that the answer may come before.
    const waits = connection.transport.socket.writableLength > mostCopied
    const sent = this.#upload?.written !== false && !waits
    this.#phase = 'over'
    this.#upload?.stop()
    const free = whole && this.#stays && sent
    if (!free) connection.destroy()
    this.#owner.over(free)
  }
}

function keepOf({ fields }: ResponseHead): number | undefined {
  const time = keepAliveTime(fields)
  return time === undefined ? undefined : Math.min(Math.max(time - headStart, 0), longestKeep)
}
