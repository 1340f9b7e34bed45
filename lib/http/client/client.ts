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
import { type Authority, formatAuthority, formatUri } from '../message/target.ts'
import { LastBlock } from '../wire/field-lines.ts'
import { type ResponseHead, ResponseHeadReader } from '../wire/response-head.ts'
import { AddressRace } from './address-race.ts'
import { type BoundConnection, BoundConnections, type BoundLessee } from './bound-connections.ts'
import { type DialledConnection, OriginConnection } from './connection.ts'
import { ConnectionLimits } from './connection-limits.ts'
import { Dialler } from './dialling/dialler.ts'
import { hurriedDeadlines, type Parent, type Way } from './dialling/parents.ts'
import { type AddressOfName, longSilence } from './dialling/silent-addresses.ts'
import { failureOf, OriginFailure } from './errors.ts'
import { type ExchangeOwner, OriginExchange } from './exchange.ts'
import { defaultOriginDeadlines, defaultOriginLimits, type OriginOptions } from './options.ts'
import { OriginNames } from './origin-names.ts'
import { ConnectionPool, type PoolCounts, relief, type Turn } from './pool.ts'
import {
  type ConnectionLine,
  type ConnectionOwner,
  isHandshakeStep,
  type LateRequest,
  type OriginDeadlines,
  type OriginRequest,
  type OriginResponse,
  type OriginSwitched,
  type WireRequest,
  wireRequestOf,
} from './request.ts'
import { RequestLife } from './request-life.ts'
import {
  BROKEN_OFF,
  isNotTaken,
  isRepeatable,
  isSafe,
  longestRetryAfter,
  mostRefusals,
  refusalStatuses,
  unreachable,
} from './send-again.ts'

export { defaultOriginDeadlines, type OriginLimits, type OriginOptions } from './options.ts'
export type { LateRequest, OriginDeadlines, OriginRequest, OriginResponse } from './request.ts'

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
  /** The most connections to each origin. */
  readonly connectionLimits: ConnectionLimits
  readonly #parts: ClientParts
  #closed = false

  constructor(options: OriginOptions) {
    const limits = { ...defaultOriginLimits, ...options.limits }
    const deadlines = { ...defaultOriginDeadlines, ...options.deadlines }
    this.dialler = new Dialler({ ...options, deadlines })
    const { clock, connectionsTo = () => undefined } = options
    this.connectionLimits = new ConnectionLimits(clock, options.onFewerConnections)
    const pool = new ConnectionPool(limits, this.connectionLimits)
    const underWay = new Members<PendingRequest>()
    this.#parts = {
      clock,
      pool,
      bound: new BoundConnections(pool),
      relieve: limits.lasting === undefined ? undefined : relief({ clock, pool, underWay }),
      dialler: this.dialler,
      connectionLimits: this.connectionLimits,
      connectionsTo,
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
      fails: response =>
        'status' in response && (response.status >= 500 || response.status === 429),
      drop: response => 'status' in response && response.content.close(),
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
  readonly connectionLimits: ConnectionLimits
  readonly connectionsTo: (authority: Authority) => number | undefined
  readonly deadlines: OriginDeadlines
  readonly headLimit: number
  /** The head that came last. An origin sends similar heads over all its connections. */
  readonly lastHead: LastBlock<ResponseHead>
  /** Requests whose responses have not ended. */
  readonly underWay: Members<PendingRequest>
  readonly counts: { opened: number; reused: number; retried: number }
  readonly names: OriginNames
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
  /** Called when it has to wait, because its origin has all connections that it may have. */
  readonly onWaiting?: (() => void) | undefined
  /** The number of other tries of the same request that are under way. */
  readonly beside?: (() => number) | undefined
  /** The number of times that the origin has refused it as one of several. */
  readonly refusals?: number
  /** The time before it asks for a connection. */
  readonly delay?: Milliseconds
}

/**
 * A request on its way to an origin: it gets a kept or new connection, uses it, and is sent once more when a kept one had closed. When a
 * parent proxy fails, another PendingRequest with the remaining ways replaces it.
 *
 * A request that got no byte in answer on a kept connection is sent once more, on a new one, when its method is idempotent and it has no
 * content: the origin probably closed the connection at that moment (RFC 9112 section 9.3.1).
 */
class PendingRequest implements BoundLessee, ExchangeOwner, LateRequest, Member {
  place = 0
  readonly key: string
  readonly boundKey: string
  readonly origin: string
  readonly deadlines: OriginDeadlines
  fresh: boolean
  bound: BoundConnection | undefined
  leased: Milliseconds = 0
  /** `changes` of the limits when it got its connection. */
  #seen = 0
  /** Whether the connection has been given back to be used again. */
  #gaveBack = false
  /** The request that was sent instead of this one after a refusal. */
  #next: PendingRequest | undefined
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
    this.key = upgrade ? '' : key
    this.boundKey = key
  }

  get most(): number | undefined {
    return this.#parts.connectionsTo(this.#asked.uri)
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
    const { delay = 0 } = this.#errand
    if (delay > 0) this.#pause(delay)
    else this.#lease()
  }

  /** Called when the signal has fired or the lifetime has ended. */
  readonly #onOver = (): void => {
    const { signal, within } = this.#asked
    this.cancel(signal?.aborted ? signal.reason : within?.reason)
  }

  /** Ends it in any phase, its content included. */
  cancel(cause?: unknown): void {
    if (this.#next !== undefined) return this.#next.cancel(cause)
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
    this.#seen = this.#parts.connectionLimits.changes
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
    if ('status' in response) {
      const { refusals = 0 } = this.#errand
      if (!refusalStatuses.has(response.status)) {
        if (refusals > 0) this.#parts.connectionLimits.answered(this.key, this.#seen)
      } else if (this.#sendsAgain(response)) return
    }
    this.#told(undefined, response)
  }

  get reused(): boolean {
    return this.#connection?.reused === true
  }

  get alone(): boolean {
    return this.#parts.pool.mostNow(this.key) === 1
  }

  get awaited(): boolean {
    return this.#parts.pool.waiting(this.key) > 0
  }

  onLate(): Milliseconds {
    return this.#others.length > 0 ? 0 : (this.#asked.onLate?.(this) ?? 0)
  }

  onSilence(): void {
    this.#noteSilence()
  }

  onFailure(failure: OriginFailure): void {
    const silent = this.#connection?.reused === true && this.#exchange?.heard === false
    const brokenOff = BROKEN_OFF.includes(failure.code)
    // What is malformed on a kept connection may be the rest of an earlier answer. An application has carried the request out.
    const misread = this.#connection?.reused === true && failure.code === 'ORIGIN_MALFORMED'
    const mayAskTwice = isSafe(this.#asked) && this.#asked.nextAddressAfter !== undefined
    const again = (isRepeatable(this.#asked) && silent && brokenOff) || (misread && mayAskTwice)
    if (!again) return this.#fail(failure, brokenOff ? this.#isRefused(failure.code) : undefined)
    this.#parts.counts.retried += 1
    this.#exchange = undefined
    this.#connection = undefined
    this.#life = new RequestLife()
    this.fresh = true
    this.leaseFromPool()
  }

  onDone(free: boolean): void {
    this.#gaveBack = free
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
    this.#errand.onWaiting?.()
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
        const again = isNotTaken(failure) ? this.#isRefused(failure.code) : undefined
        if (!this.#upgrade) pool.vacate(this.key)
        this.#fail(failure, again)
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

  /** `again` is the time after which it is sent again, because the origin has refused it as one of several. */
  #fail(failure: OriginFailure, again?: Milliseconds): void {
    this.#life.on('failed')
    this.#done()
    this.#parts.bound.release(this, undefined)
    if (again !== undefined) return this.#sendAgain(again)
    if (!this.#goesOn(failure)) this.#told(failure, undefined)
  }

  /**
   * The time after which this request is to be sent again, because the origin has refused it as one of several; undefined when it has not.
   * Lowers the limit of the origin.
   */
  #isRefused(because: string): Milliseconds | undefined {
    const { pool, connectionLimits } = this.#parts
    const { refusals = 0 } = this.#errand
    if (this.#way !== undefined || this.#upgrade || !isSafe(this.#asked)) return undefined
    const { key, origin } = this
    // A connection that was given back already is free now, and was one of them. Other tries of this request say nothing about the number.
    const busy = pool.busy(key) + (this.#gaveBack ? 1 : 0) - (this.#errand.beside?.() ?? 0)
    const target = formatUri(this.#asked.uri)
    const counts = { busy, most: pool.most(key), seen: this.#seen }
    const delay = connectionLimits.refused(key, { ...counts, origin, target, because })
    if (delay === undefined) return undefined
    pool.shrink(key)
    return refusals < mostRefusals ? delay : undefined
  }

  /** Sends it again after a status with which the origin refuses one of several requests, unless it is to be sent much later. */
  #sendsAgain({ status, fields, content }: OriginResponse): boolean {
    const after = Number(/^\d{1,4}$/.exec(fields.get('Retry-After') ?? '0') ?? Number.NaN) * 1000
    const delay = this.#isRefused(String(status))
    if (delay === undefined || !(after <= longestRetryAfter)) return false
    content.close()
    this.#sendAgain(Math.max(delay, after))
    return true
  }

  #sendAgain(delay: Milliseconds): void {
    const { refusals = 0 } = this.#errand
    const errand = { ...this.#errand, delay, refusals: refusals + 1 }
    this.#next = new PendingRequest(this.#parts, errand, this.#told)
    this.#next.begin()
  }

  /** Waits before it asks for a connection. */
  #pause(delay: Milliseconds): void {
    this.#life.on('wait')
    const cancel = this.#parts.clock.after(delay, () => {
      this.#stopWaiting = undefined
      this.#life = new RequestLife()
      this.#lease()
    })
    this.#stopWaiting = cause => {
      cancel()
      this.#fail(this.#aborted(cause))
    }
  }

  #done(): void {
    const { signal, within } = this.#asked
    this.#parts.underWay.delete(this)
    signal?.removeEventListener('abort', this.#onOver)
    within?.forget(this.#onOver)
  }
}
