/**
 * A request as it stands on a connection: the values a handler sees, and the knowledge whether its client is still there.
 */
import type { IncomingMessage } from 'node:http'
import type { Connection, UnderWay } from './connections.ts'
import { Fields } from './field.ts'
import type { Peer, Request, SendInterim } from './message.ts'
import { RequestContent } from './request-content.ts'
import type { Target } from './target.ts'

export class LiveRequest implements Request, UnderWay {
  readonly id: string
  readonly method: string
  readonly target: Target
  readonly version: '1.0' | '1.1'
  readonly fields: Fields
  readonly content: AsyncIterable<Buffer>
  readonly client: Peer
  readonly local: Peer
  readonly secure: boolean
  readonly received: number
  readonly interim: SendInterim | undefined
  readonly trailers: () => Fields
  #controller: AbortController | undefined
  #over = false
  #whenOver: (() => void) | undefined

  constructor(
    message: IncomingMessage,
    connection: Connection,
    given: {
      id: string
      target: Target
      received: number
      content?: AsyncIterable<Buffer>
      interim?: SendInterim | undefined
    },
  ) {
    this.id = given.id
    this.target = given.target
    this.received = given.received
    this.method = message.method ?? ''
    this.version = message.httpVersionMinor === 0 ? '1.0' : '1.1'
    this.fields = Fields.fromFlat(message.rawHeaders)
    const content = given.content ?? new RequestContent(message)
    this.content = content
    this.trailers = () => (content instanceof RequestContent ? content.trailers() : Fields.empty)
    this.interim = given.interim
    this.client = connection.client
    this.local = connection.local
    this.secure = connection.secure
  }

  /** Made when first asked for: most hits never need it. */
  get signal(): AbortSignal {
    this.#controller ??= new AbortController()
    if (this.#over) this.#controller.abort()
    return this.#controller.signal
  }

  /** Whether the client has gone or the exchange has ended. */
  get over(): boolean {
    return this.#over
  }

  /** Called once when the exchange ends, one way or the other. */
  onceOver(act: () => void): void {
    if (this.#over) act()
    else this.#whenOver = act
  }

  gone(): void {
    if (this.#over) return
    this.#over = true
    this.#whenOver?.()
    this.#controller?.abort()
  }
}
