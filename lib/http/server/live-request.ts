/**
 * A request as it stands on a connection: the values a handler sees, and the knowledge whether its client is still there.
 */

import type { Fields } from '../message/field.ts'
import type { Peer, Request, SendInterim } from '../message/message.ts'
import type { Authority, Target } from '../message/target.ts'
import type { Connection, UnderWay } from './connections.ts'

/** What the bytes of a request said. */
export type ReadRequest = Pick<
  Request,
  | 'id'
  | 'method'
  | 'target'
  | 'version'
  | 'fields'
  | 'content'
  | 'received'
  | 'trailers'
  | 'interim'
>

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
  readonly tunnelEnd?: Authority
  readonly received: number
  readonly interim: SendInterim | undefined
  readonly trailers: (() => Fields) | undefined
  #controller: AbortController | undefined
  #over = false
  #whenOver: (() => void) | undefined

  constructor(read: ReadRequest, connection: Connection) {
    this.id = read.id
    this.method = read.method
    this.target = read.target
    this.version = read.version
    this.fields = read.fields
    this.content = read.content
    this.received = read.received
    this.trailers = read.trailers
    this.interim = read.interim
    this.client = connection.client
    this.local = connection.local
    this.secure = connection.secure
    if (connection.tunnelEnd !== undefined) this.tunnelEnd = connection.tunnelEnd
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
