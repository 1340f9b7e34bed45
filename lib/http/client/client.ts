/**
 * The client for origins: sends a request over a kept or a new connection and returns the response as a value whose content is a source of
 * pieces. Owns the connections. Knows neither caching nor redirects: the response is as the origin sent it.
 *
 * A request is a PendingRequest: it leases an OriginConnection from the pool, or dials one, and has an OriginExchange on it. The table in
 * request-life.ts says which states it has, and which of them closes its connection.
 */
import type { Clock, Milliseconds } from '../../async/clock.ts'
import { networkOf } from '../../ip.ts'
import { type Member, Members } from '../../members.ts'
import { noContent } from '../message/message.ts'
import { formatAuthority } from '../message/target.ts'
import { LastBlock } from '../wire/field-lines.ts'
import { type ResponseHead, ResponseHeadReader } from '../wire/response-head.ts'
import { type BoundConnection, BoundConnections, type BoundLessee } from './bound-connections.ts'
import { AddressRace } from './address-race.ts'
import { type DialledConnection, OriginConnection } from './connection.ts'
import { Dialler, type DialOptions } from './dialling/dialler.ts'
import { hurriedDeadlines, type Parent, type Way } from './dialling/parents.ts'
import type { AddressOfName } from './dialling/silent-addresses.ts'
import { failureOf, OriginFailure } from './errors.ts'
import { type ExchangeOwner, OriginExchange } from './exchange.ts'
import { ConnectionPool, type PoolCounts, type PoolLimits, relief, type Turn } from './pool.ts'
import {
  type ConnectionLine,
  type ConnectionOwner,
  isHandshakeStep,
  type OriginDeadlines,
  type OriginRequest,
  type OriginResponse,
  type OriginSwitched,
  type WireRequest,
  wireRequestOf,
} from './request.ts'
import { RequestLife } from './request-life.ts'

export type { OriginDeadlines, OriginRequest, OriginResponse } from './request.ts'

export const defaultOriginDeadlines: OriginDeadlines = {
  queue: 30_000,
  lookup: 10_000,
  connect: 10_000,
  parent: 20_000,
  tls: 10_000,
  send: 30_000,
  fields: 30_000,
  content: 30_000,
}

export interface OriginLimits extends PoolLimits {
  /** The most bytes of a response's head. */
  readonly head: number
}

const defaultOriginLimits: OriginLimits = {
  perOrigin: 16,
  all: 4096,
  freePerOrigin: 8,
  free: 64,
  waiting: 1000,
  idle: 4000,
  head: 65_536,
}

export interface OriginOptions extends Omit<DialOptions, 'deadlines'> {
  readonly clock: Clock
  readonly deadlines?: Partial<OriginDeadlines>
  readonly limits?: Partial<OriginLimits>
}

interface OriginCounts extends PoolCounts {
  readonly opened: number
  /** The number of requests that went over a kept connection. */
  readonly reused: number
  /** The number of requests sent once more because a kept connection had closed. */
  readonly retried: number
}

export class OriginClient {
  /** Opens connections under the same rules, for tunnels. */
  readonly dialler: Dialler
  readonly #parts: ClientParts
  #closed = false

  constructor(options: OriginOptions) {
    const limits = { ...defaultOriginLimits, ...options.limits }
    const deadlines = { ...defaultOriginDeadlines, ...options.deadlines }
    this.dialler = new Dialler({ ...options, deadlines })
    const { clock } = options
    const pool = new ConnectionPool(limits)
    const underWay = new Members<PendingRequest>()
    this.#parts = {
      clock,
      pool,
      bound: new BoundConnections(pool),
      relieve: limits.lasting === undefined ? undefined : relief({ clock, pool, underWay }),
      dialler: this.dialler,
      deadlines,
      headLimit: limits.head,
      lastHead: new LastBlock(),
      underWay,
      counts: { opened: 0, reused: 0, retried: 0 },
      names: new OriginNames(),
    }
  }

  /** Sends a request and resolves to the head of its response. Rejects with an OriginFailure that names the phase that failed. */
  request(asked: OriginRequest): Promise<OriginResponse> {
    return new Promise((resolve, reject) => {
      this.#begin(asked, false, (failure, response) => {
        if (response !== undefined && 'status' in response) resolve(response)
        else reject(failure)
      })
    })
  }

  /**
   * Asks the origin to change to WebSocket, on a connection of its own that no limit of the pool counts. Resolves to the connection, or to
   * the response that refuses. The client writes Connection and Upgrade.
   */
  upgrade(asked: OriginRequest): Promise<OriginResponse | OriginSwitched> {
    return new Promise((resolve, reject) => {
      this.#begin(asked, true, (failure, response) => {
        if (response !== undefined) resolve(response)
        else reject(failure)
      })
    })
  }

  counts(): OriginCounts {
    return { ...this.#parts.pool.counts(), ...this.#parts.counts }
  }

  /** Breaks off all requests and resolves when every connection is closed. */
  async close(): Promise<void> {
    this.#closed = true
    for (const pending of [...this.#parts.underWay]) pending.cancel()
    await this.#parts.pool.close()
  }

  #begin(asked: OriginRequest, upgrade: boolean, told: ResponseListener): void {
    const ways = this.dialler.parents.waysTo(asked.uri)
    const errand = { asked, upgrade, ways }
    if (!this.#closed) {
      const direct = ways.length === 1 && ways[0] === undefined
      if (direct && !upgrade && asked.nextAddressAfter !== undefined && isSafe(asked)) {
        return this.#race(errand, asked.nextAddressAfter, told)
      }
      return new PendingRequest(this.#parts, errand, told).begin()
    }
    const origin = formatAuthority(asked.uri)
    told(new OriginFailure('ORIGIN_ABORTED', origin, { phase: 'queue' }), undefined)
  }

  /** Sends the request to the first address, and to the next ones while it is silent. */
  #race(errand: Errand, after: Milliseconds, told: ResponseListener): void {
    const { clock, dialler } = this.#parts
    const race = new AddressRace<OriginResponse | OriginSwitched>({
      clock,
      silent: dialler.silent,
      origin: formatAuthority(errand.asked.uri),
      after,
      told,
      send: (options, toldOne) => {
        const one = new PendingRequest(this.#parts, { ...errand, ...options }, toldOne)
        one.begin()
        return cause => one.cancel(cause)
      },
    })
    race.begin()
  }
}

interface ClientParts {
  readonly clock: Clock
  readonly pool: ConnectionPool
  readonly bound: BoundConnections
  /** To be called when a request begins to wait; undefined when no connections are set apart for requests that last. */
  readonly relieve: (() => void) | undefined
  readonly dialler: Dialler
  readonly deadlines: OriginDeadlines
  readonly headLimit: number
  /** The head that came last. An origin sends similar heads over all its connections. */
  readonly lastHead: LastBlock<ResponseHead>
  /** Requests whose responses have not ended. */
  readonly underWay: Members<PendingRequest>
  readonly counts: { opened: number; reused: number; retried: number }
  readonly names: OriginNames
}

/** The names of an origin in errors and in the pool. They are made once for consecutive requests to the same origin. */
class OriginNames {
  #last = {
    scheme: '',
    host: '',
    port: 0,
    trusted: false,
    line: '',
    origin: '',
    key: '',
    way: undefined as Way,
  }

  of(
    { uri, trusted, line = 'shared' }: OriginRequest,
    way: Way,
  ): Readonly<{ origin: string; key: string }> {
    const { scheme, host, port } = uri
    const last = this.#last
    const sameOrigin = host === last.host && port === last.port && scheme === last.scheme
    if (sameOrigin && trusted === last.trusted && line === last.line && way === last.way)
      return last
    const origin = formatAuthority(uri)
    // A request that may go to any address never shares a connection with one that may not. A request with the credentials of one parent
    // never goes over a connection to another.
    const by = way === undefined ? '' : ` by ${formatAuthority(way)}`
    const key = `${scheme}://${origin} ${trusted ? 'trusted' : 'public'} ${line}${by}`
    this.#last = { scheme, host, port, trusted, line, origin, key, way }
    return this.#last
  }
}

/** The most lines of a response's head. Node's parser drops lines beyond some thousand. */
const mostLines = 1000

/** Called once with the result of a request: the failure, or the head of the response. */
type ResponseListener = (
  failure: OriginFailure | undefined,
  response: OriginResponse | OriginSwitched | undefined,
) => void

interface Errand {
  readonly asked: OriginRequest
  readonly upgrade: boolean
  /** The remaining ways to the origin. The request takes the first. */
  readonly ways: readonly Way[]
  /** Addresses that other tries of the same request have; undefined for the first try. */
  readonly except?: ReadonlySet<string> | undefined
  /** Called with the address that the request has a connection to. */
  readonly onConnected?: ((peer: AddressOfName) => void) | undefined
}

/**
 * A request on its way to an origin: it gets a kept or new connection, uses it, and is sent once more when a kept one had closed. When a
 * parent proxy fails, another PendingRequest with the remaining ways replaces it.
 *
 * A request that got no byte in answer on a kept connection is sent once more, on a new one, when its method is idempotent and it has no
 * content: the origin probably closed the connection at that moment (RFC 9112 section 9.3.1).
 */
class PendingRequest implements BoundLessee, ExchangeOwner, Member {
  place = 0
  readonly key: string
  readonly boundKey: string
  readonly origin: string
  readonly deadlines: OriginDeadlines
  fresh: boolean
  bound: BoundConnection | undefined
  leased: Milliseconds = 0
  readonly #parts: ClientParts
  readonly #errand: Errand
  readonly #asked: OriginRequest
  readonly #upgrade: boolean
  readonly #way: Way
  /** The ways to try when this one fails. */
  readonly #others: readonly Way[]
  readonly #told: ResponseListener
  #network: string | undefined
  #message: WireRequest | undefined
  #connection: OriginConnection | undefined
  #exchange: OriginExchange | undefined
  #life = new RequestLife()
  #stopWaiting: ((cause: unknown) => void) | undefined
  #cancelTimer: (() => void) | undefined
  /** The moment at which it began, by the monotonic clock. */
  readonly #begun: Milliseconds

  constructor(parts: ClientParts, errand: Errand, told: ResponseListener) {
    const { asked, upgrade, ways, except } = errand
    const deadlines =
      asked.deadlines === undefined ? parts.deadlines : { ...parts.deadlines, ...asked.deadlines }
    ;[this.#way, ...this.#others] = ways
    this.#begun = parts.clock.elapsed()
    this.#parts = parts
    this.#errand = errand
    this.#asked = asked
    this.#upgrade = upgrade
    this.#told = told
    this.fresh = asked.fresh === true || except !== undefined
    const { origin, key } = parts.names.of(asked, this.#way)
    this.origin = origin
    this.deadlines = this.#others.length === 0 ? deadlines : hurriedDeadlines(deadlines)
    // The connections of the first try may all hang, so another try does not wait for one of them.
    this.key = upgrade ? '' : except === undefined ? key : `${key} elsewhere`
    this.boundKey = this.key === '' ? key : this.key
  }

  get client(): string {
    const { client = '' } = this.#asked
    this.#network ??= client === '' ? '' : networkOf(client)
    return this.#network
  }

  get line(): ConnectionLine {
    return this.#asked.line ?? 'shared'
  }

  get owner(): ConnectionOwner | undefined {
    return this.#asked.owner
  }

  get binds(): boolean {
    return this.#message?.binds === true
  }

  get shakesHands(): boolean {
    return isHandshakeStep(this.#asked.fields.get('Authorization'))
  }

  get parent(): string | undefined {
    return this.#way && formatAuthority(this.#way)
  }

  get connection(): OriginConnection | undefined {
    return this.#connection
  }

  begin(): void {
    const { signal, within } = this.#asked
    if (signal?.aborted) return this.#fail(this.#aborted(signal.reason))
    try {
      this.#message = wireRequestOf(this.#asked, this.#way, this.#upgrade)
    } catch (error) {
      // This is no failure of the parent, so no other way is tried.
      if (error instanceof OriginFailure) return this.#told(error, undefined)
      return this.#fail(new OriginFailure('ORIGIN_REQUEST_UNFIT', this.origin, { cause: error }))
    }
    if (within?.over) return this.#fail(this.#aborted(within.reason))
    this.#parts.underWay.add(this)
    signal?.addEventListener('abort', this.#onOver)
    within?.onceOver(this.#onOver)
    this.#lease()
  }

  /** Called when the signal has fired or the lifetime has ended. */
  readonly #onOver = (): void => {
    const { signal, within } = this.#asked
    this.cancel(signal?.aborted ? signal.reason : within?.reason)
  }

  /** Ends it in any phase, its content included. */
  cancel(cause?: unknown): void {
    if (!this.#parts.underWay.has(this)) return
    const { state } = this.#life
    if (state === 'queued' || state === 'dialling') this.#stopWaiting?.(cause)
    else {
      const waited = this.#parts.clock.elapsed() - this.leased
      // A race knows by the other addresses which one is silent.
      const alone = this.#errand.onConnected === undefined
      if (alone && state === 'waiting' && waited >= longSilence) this.#noteSilence()
      this.#exchange?.cancel(cause)
    }
  }

  /** Notes that the address was silent. Only the parent proxy knows whether it or the origin is silent. */
  #noteSilence(): void {
    const peer = this.#connection?.peer
    if (peer !== undefined && this.#way === undefined) {
      this.#parts.dialler.silent.note(peer, this.origin)
    }
  }

  turn(turn: Turn): void {
    this.#stopWaiting = undefined
    this.#cancelTimer?.()
    this.leased = this.#parts.clock.elapsed()
    if (turn === 'open') this.#dial()
    else this.#run(turn)
  }

  onHead(response: OriginResponse | OriginSwitched): void {
    const { pool, dialler } = this.#parts
    if (this.#connection !== undefined) dialler.silent.heard(this.#connection.peer)
    if ('transport' in response && this.#connection !== undefined) pool.giveUp(this.#connection)
    if (this.#way !== undefined && this.#asked.uri.scheme === 'http') {
      const failure = this.#failureOfParent(this.#way, response)
      if (failure !== undefined) {
        if ('status' in response) response.content.close()
        if (!this.#goesOn(failure)) this.#told(failure, undefined)
        return
      }
    }
    this.#told(undefined, response)
  }

  onLate(): void {
    this.#noteSilence()
  }

  onFailure(failure: OriginFailure): void {
    const silent = this.#connection?.reused === true && this.#exchange?.heard === false
    const again = silent && isRepeatable(this.#asked) && BROKEN_OFF.includes(failure.code)
    if (!again) return this.#fail(failure)
    this.#parts.counts.retried += 1
    this.#exchange = undefined
    this.#connection = undefined
    this.#life = new RequestLife()
    this.fresh = true
    this.leaseFromPool()
  }

  onDone(free: boolean): void {
    this.#done()
    const connection = this.#connection
    const { pool, bound } = this.#parts
    if (connection === undefined) return
    // Asked once: the pool may give it at once to a request that binds it for another.
    const isBound = connection.bound
    if (free && !isBound) pool.release(connection)
    bound.release(this, free && isBound ? connection : undefined)
  }

  /**
   * The failure that the parent's answer to a plain request means; undefined when the answer counts. Then it notes that the parent
   * answered.
   */
  #failureOfParent(
    way: Parent,
    response: OriginResponse | OriginSwitched,
  ): OriginFailure | undefined {
    const status = 'status' in response ? response.status : 101
    const last = this.#others.length === 0 || !isRepeatable(this.#asked)
    if (status === 407 || (!last && unreachable.has(status))) {
      const { address } = response
      const trouble = { parent: formatAuthority(way), status, address }
      return failureOf('parent-proxy', this.origin, trouble)
    }
    this.#parts.dialler.parents.answered(way)
    return undefined
  }

  /** Whether another PendingRequest continues by the next way. Notes the failure of a parent. */
  #goesOn(failure: OriginFailure): boolean {
    const { parents } = this.#parts.dialler
    if (this.#way === undefined) return false
    const atParent = failure.phase === 'parent-proxy'
    if (!atParent && this.#asked.uri.scheme !== 'http') return false
    if (!parents.failed(this.#way, failure, this.#begun) || this.#others.length === 0) return false
    // An unsent request can be sent by another way. A sent one needs to be repeatable.
    const unsent = atParent && this.#exchange === undefined
    if (!unsent && !isRepeatable(this.#asked)) return false
    const errand = { ...this.#errand, ways: this.#others }
    new PendingRequest(this.#parts, errand, this.#told).begin()
    return true
  }

  #lease(): void {
    const turn = this.#parts.bound.lease(this)
    if (turn === 'pool') this.leaseFromPool()
    else if (turn !== undefined) this.turn(turn)
    else this.#wait()
  }

  leaseFromPool(): void {
    const { pool, relieve } = this.#parts
    this.#cancelTimer?.()
    const turn = this.#upgrade ? 'open' : pool.lease(this)
    if (turn === 'full') return this.#fail(failureOf('queue', this.origin, {}))
    if (turn !== undefined) return this.turn(turn)
    this.#wait()
    relieve?.()
  }

  #wait(): void {
    const { pool, bound, clock } = this.#parts
    this.#life.on('wait')
    const leave = (failure: OriginFailure): void => {
      pool.leave(this)
      bound.leave(this)
      this.#cancelTimer?.()
      this.#fail(failure)
    }
    const after = this.deadlines.queue
    this.#cancelTimer = clock.after(after, () => leave(failureOf('queue', this.origin, { after })))
    this.#stopWaiting = cause => leave(this.#aborted(cause))
  }

  #dial(): void {
    const { dialler, pool } = this.#parts
    this.#life.on('dial')
    const { uri, trusted, fields } = this.#asked
    const { except, onConnected } = this.#errand
    const { deadlines } = this
    const via = fields.get('Via')
    const stop = new AbortController()
    this.#stopWaiting = cause => stop.abort(cause)
    const request = {
      authority: uri,
      use: uri.scheme,
      trusted,
      via,
      signal: stop.signal,
      deadlines,
      except,
      onConnected,
    }
    dialler.dialBy(this.#way, request).then(
      dialled => this.#opened(dialled, stop.signal),
      (failure: OriginFailure) => {
        if (!this.#upgrade) pool.vacate(this.key)
        this.#fail(failure)
      },
    )
  }

  #opened(dialled: DialledConnection, stopped: AbortSignal): void {
    const { clock, pool, headLimit, lastHead, counts } = this.#parts
    this.#stopWaiting = undefined
    const heads = new ResponseHeadReader({ bytes: headLimit, lines: mostLines }, lastHead)
    const connection = new OriginConnection(this.key, dialled, { clock, heads })
    counts.opened += 1
    if (!this.#upgrade) pool.add(connection)
    if (!stopped.aborted) return this.#run(connection)
    connection.destroy()
    this.#fail(this.#aborted(stopped.reason))
  }

  #run(connection: OriginConnection): void {
    if (this.#message === undefined) return
    if (connection.reused) {
      this.#parts.counts.reused += 1
      this.#errand.onConnected?.(connection.peer)
    }
    this.#life.on('connected')
    this.#connection = connection
    const around = { owner: this, life: this.#life }
    this.#exchange = new OriginExchange(connection, this.#message, around)
    this.#exchange.begin()
  }

  #aborted(cause: unknown): OriginFailure {
    return new OriginFailure('ORIGIN_ABORTED', this.origin, { phase: 'queue', cause })
  }

  #fail(failure: OriginFailure): void {
    this.#life.on('failed')
    this.#done()
    this.#parts.bound.release(this, undefined)
    if (!this.#goesOn(failure)) this.#told(failure, undefined)
  }

  #done(): void {
    const { signal, within } = this.#asked
    this.#parts.underWay.delete(this)
    signal?.removeEventListener('abort', this.#onOver)
    within?.forget(this.#onOver)
  }
}

/**
 * Statuses with which a proxy says that it could not reach the origin (RFC 9110 sections 15.6.3 to 15.6.5), or with which the origin says
 * that it fails.
 */
const unreachable: ReadonlySet<number> = new Set([502, 503, 504])

/** Failures in which the connection broke, in contrast to silence. */
const BROKEN_OFF: readonly string[] = ['ORIGIN_SEND_FAILED', 'ORIGIN_CLOSED']

/** Idempotent methods (RFC 9110 section 9.2.2). */
const IDEMPOTENT = ['GET', 'HEAD', 'OPTIONS', 'TRACE', 'PUT', 'DELETE']

/** The silence of a server whose client gives up, from which on its address counts as silent. */
const longSilence: Milliseconds = 10_000

/** Safe methods (RFC 9110 section 9.2.1) that archives have. */
function isSafe({ method, content = noContent }: OriginRequest): boolean {
  return content.kind === 'none' && (method === 'GET' || method === 'HEAD')
}

function isRepeatable({ method, content = noContent }: OriginRequest): boolean {
  return content.kind === 'none' && IDEMPOTENT.includes(method)
}
