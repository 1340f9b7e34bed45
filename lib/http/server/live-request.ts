/**
 * A request on a connection, as its handler sees it, and whether its client is still connected.
 */
import type { IncomingMessage } from 'node:http'
import type { Milliseconds } from '../../async/clock.ts'
import { Lifetime } from '../../async/lifetime.ts'
import type { Member } from '../../members.ts'
import { Fields } from '../message/field.ts'
import type { Peer, Request, SendInterim } from '../message/message.ts'
import type { Authority, Target } from '../message/target.ts'
import { checkRequest, type Refusal } from '../wire/request-rules.ts'
import type { TargetReader } from '../wire/target-reader.ts'
import type { HttpServerOptions } from './options.ts'
import { RequestContent } from './request-content.ts'

/** Both ends of the connection a request came on. */
export interface Ends extends Pick<Request, 'client' | 'local' | 'secure' | 'tunnelEnd'> {
  /** Ends when it is closed. */
  readonly life: Lifetime
}

/** What the bytes of a request said. */
type ReadRequest = Pick<
  Request,
  'method' | 'target' | 'version' | 'fields' | 'content' | 'trailers' | 'interim'
>

/** Its lifetime ends with the exchange, or when the client has gone. */
export class LiveRequest extends Lifetime implements Request, Member {
  place = 0
  readonly id: string
  readonly method: string
  readonly target: Target
  readonly version: '1.0' | '1.1'
  readonly fields: Fields
  readonly content: AsyncIterable<Buffer>
  readonly client: Peer
  readonly connection: Lifetime
  readonly local: Peer
  readonly secure: boolean
  readonly tunnelEnd?: Authority
  readonly received: Milliseconds
  /** The moment of `received` on the monotonic clock. */
  readonly begun: Milliseconds
  readonly interim: SendInterim | undefined
  readonly trailers: (() => Fields) | undefined
  holder: object | undefined

  constructor(
    read: ReadRequest,
    connection: Ends,
    { requestId, clock }: Pick<HttpServerOptions, 'requestId' | 'clock'>,
  ) {
    super()
    this.id = requestId()
    this.method = read.method
    this.target = read.target
    this.version = read.version
    this.fields = read.fields
    this.content = read.content
    this.received = clock.now()
    this.begun = clock.elapsed()
    this.trailers = read.trailers
    this.interim = read.interim
    this.client = connection.client
    this.connection = connection.life
    this.local = connection.local
    this.secure = connection.secure
    if (connection.tunnelEnd !== undefined) this.tunnelEnd = connection.tunnelEnd
  }

  get lifetime(): Lifetime {
    return this
  }

  gone(): void {
    this.end(over)
  }
}

/** One for all: making an error for each request costs more than many a request. */
const over = new Error('the exchange is over')

interface NodeRequestParts {
  readonly options: HttpServerOptions
  readonly targets: TargetReader
  readonly content?: AsyncIterable<Buffer>
  readonly interim?: SendInterim
}

/** The request that Node's parser has read, and what is wrong when its head breaks a rule that parser does not know. */
export function nodeRequest(
  message: IncomingMessage,
  ends: Ends,
  { options, targets, content = new RequestContent(message), interim }: NodeRequestParts,
): { readonly request: LiveRequest; readonly refusal: Refusal | undefined } {
  const method = message.method ?? ''
  const rawTarget = message.url ?? ''
  const fields = Fields.fromFlat(message.rawHeaders)
  const target = targets.read(method, rawTarget)
  const request = new LiveRequest(
    {
      method,
      target: 'problem' in target ? { form: 'asterisk' } : target,
      version: message.httpVersionMinor === 0 ? '1.0' : '1.1',
      fields,
      content,
      trailers: content instanceof RequestContent ? () => content.trailers() : undefined,
      interim,
    },
    ends,
    options,
  )
  const head = { method, version: message.httpVersion, rawTarget, fields }
  const problem = 'problem' in target ? target.problem : undefined
  const refusal =
    checkRequest(head, options.limits.heads) ??
    (problem === undefined ? undefined : { status: 400 as const, sentence: problem })
  return { request, refusal }
}

/** Names of requests for logs and error pages: a word that no other run uses, and a number. */
export function requestIds(random: (size: number) => Buffer): () => string {
  const run = random(4).toString('hex')
  let count = 0
  return () => {
    count += 1
    return `${run}-${count.toString(36)}`
  }
}
