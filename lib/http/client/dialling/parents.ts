/**
 * The ways to an origin: parent proxies in the order in which they are tried, and the direct way. Remembers the parents that failed, so
 * that requests pass them over for a while.
 *
 * # Facts
 * - A request that one parent fails goes by the next way, if it has sent nothing or may be sent twice.
 * - A parent fails when it takes no connection, does not accept our credentials, or gives no answer in time. A refusal (4xx) is an answer.
 *   So is 502, 503 or 504: then the next way is tried for this request, and the parent is not passed over, because the fault may be the
 *   origin's.
 * - Only the parent knows whether the origin or the parent is silent. A parent that has answered another request meanwhile is not silent.
 * - The answer to an http request may come from the origin, even a 407, malformed HTTP or the end of the connection. Then the next way is
 *   tried. The parent is passed over only when it has answered no request for a minute. Otherwise an origin could make all other requests
 *   pass the parents over.
 * - When all parents are passed over, they are still tried.
 */
import type { Clock, Milliseconds } from '../../../async/clock.ts'
import { Rests } from '../../../async/rests.ts'
import { scratchBuffer } from '../../../bytes/landing.ts'
import { Fields } from '../../message/field.ts'
import { type Authority, formatAuthority } from '../../message/target.ts'
import { requestHead } from '../../wire/framing.ts'
import { ResponseHeadReader } from '../../wire/response-head.ts'
import type { Transport } from '../connection.ts'
import { OriginFailure } from '../errors.ts'

/** The parent proxy that a request uses; undefined: it goes directly. */
export type Way = Parent | undefined

export interface ParentRules {
  readonly parents: readonly Parent[]
  /** Whether an authority is asked through a parent. */
  readonly asks: (parent: Parent, authority: Authority) => boolean
  /** Whether an authority is asked directly when all of its parents fail. */
  readonly direct: boolean
  /** Called when a parent is passed over from now on, with the failure, and when it answers again, without one. */
  readonly onChange?: (parent: string, failure: OriginFailure | undefined) => void
}

/** Rules with one parent for every authority. */
export function singleParent(parent: Parent): ParentRules {
  return { parents: [parent], asks: () => true, direct: false }
}

/** The state of a parent. */
export interface ParentState {
  /** Host and port. */
  readonly name: string
  readonly answered: number
  readonly failed: number
  /** The reason for which it is passed over; undefined while it answers. */
  readonly because: string | undefined
}

type Mutable<T> = { -readonly [K in keyof T]: T[K] }
type Known = Mutable<ParentState> & { heard: Milliseconds }

/** The most time a parent may take while another way is open. */
const shortConnect: Milliseconds = 3000
const shortFields: Milliseconds = 10_000

/** The time for which an answer shows that a parent works. */
const trust: Milliseconds = 60_000

const onlyDirectly: readonly Way[] = [undefined]
const noParents: ParentRules = { parents: [], asks: () => false, direct: true }

export class Parents {
  readonly #clock: Clock
  readonly #rules: ParentRules
  readonly #rests: Rests
  readonly #known: ReadonlyMap<Parent, Known>

  constructor(clock: Clock, rules: ParentRules = noParents) {
    this.#clock = clock
    this.#rules = rules
    this.#rests = new Rests(clock)
    const nothing = { answered: 0, failed: 0, because: undefined, heard: Number.NEGATIVE_INFINITY }
    this.#known = new Map(
      rules.parents.map(parent => [parent, { ...nothing, name: formatAuthority(parent) }]),
    )
  }

  /** The ways for a request that goes now; at least one. Those that failed recently come last. */
  waysTo(authority: Authority): readonly Way[] {
    const { parents, asks, direct } = this.#rules
    if (parents.length === 0) return onlyDirectly
    const all = parents.filter(parent => asks(parent, authority))
    if (all.length === 0) return onlyDirectly
    if (all.length === 1 && !direct) return all
    const { healthy, failing } = this.#rests.inTurn(all, formatAuthority)
    return direct ? [...healthy, undefined] : [...healthy, ...failing]
  }

  /** To be called when a response has come by this way. */
  answered(way: Parent): void {
    const known = this.#known.get(way)
    if (known === undefined) return
    known.answered += 1
    known.heard = this.#clock.elapsed()
    if (known.because === undefined) return
    known.because = undefined
    this.#rests.forget(known.name)
    this.#rules.onChange?.(known.name, undefined)
  }

  /** Whether a request that failed on this way, where it began at `begun`, must go by the next one. Notes the failure of the parent. */
  failed(way: Way, failure: OriginFailure, begun: Milliseconds): boolean {
    const known = way && this.#known.get(way)
    if (known === undefined || !isOfParent(failure)) return false
    const meanwhile = known.heard > begun
    if (failure.phase !== 'parent-proxy' && meanwhile) return false
    const { status = 0 } = failure.facts
    known.failed += 1
    if (typeof status === 'number' && status >= 500) return true
    const lately = !failure.timedOut && this.#clock.elapsed() - known.heard < trust
    if (!isCertain(failure) && (meanwhile || lately)) return true
    const news = known.because === undefined
    known.because = failure.message
    this.#rests.note(known.name)
    if (news) this.#rules.onChange?.(known.name, failure)
    return true
  }

  states(): readonly ParentState[] {
    return [...this.#known.values()].map(({ heard, ...state }) => state)
  }
}

/** Whether a failure may be the parent's: it happened on the way to the parent, or before an answer that the parent passes on. */
function isOfParent({ phase, fault, facts: { status } }: OriginFailure): boolean {
  if (fault !== 'upstream') return false
  if (phase !== 'parent-proxy') return phase === 'send' || phase === 'fields'
  return typeof status !== 'number' || status === 407 || status >= 500
}

/** Whether the parent itself has failed, and not the origin: it took no connection, or has refused a CONNECT. */
function isCertain({ cause }: OriginFailure): boolean {
  return cause instanceof OriginFailure || cause instanceof ConnectRefused
}

export interface DialDeadlines {
  /** Time for the addresses of a name. */
  readonly lookup: Milliseconds
  readonly connect: Milliseconds
  /** Time for the parent proxy's answer to CONNECT. */
  readonly parent: Milliseconds
  readonly tls: Milliseconds
}

/** The deadlines of a request, or of a tunnel, which has none for `fields`, while another way is open. */
export function hurriedDeadlines<D extends DialDeadlines & { readonly fields?: Milliseconds }>(
  deadlines: D,
): D {
  const { lookup, connect, parent, fields } = deadlines
  return {
    ...deadlines,
    lookup: Math.min(lookup, shortConnect),
    connect: Math.min(connect, shortConnect),
    parent: Math.min(parent, shortFields),
    ...(fields === undefined ? {} : { fields: Math.min(fields, shortFields) }),
  }
}

/*
 * The parent proxy: another HTTP proxy between us and every origin. http requests go to it in absolute-form (RFC 9112 section 3.2.2), all
 * others through a tunnel that CONNECT opens (RFC 9110 section 9.3.6).
 */

export interface Parent extends Authority {
  /** `user:password`, decoded. Never log it. */
  readonly credentials: string | undefined
}

/** The parent answered CONNECT with a status other than 2xx. */
export class ConnectRefused extends Error {
  readonly status: number

  constructor(status: number) {
    super(`CONNECT was answered ${status}`)
    this.name = 'ConnectRefused'
    this.status = status
  }
}

/** The value of Proxy-Authorization (RFC 9110 section 11.7.1, Basic of RFC 7617); undefined without credentials. */
export function proxyAuthorization(parent: Parent): string | undefined {
  if (parent.credentials === undefined) return undefined
  return `Basic ${Buffer.from(parent.credentials).toString('base64')}`
}

/** The most bytes and lines of the parent's answer. */
const answerLimits = { bytes: 65_536, lines: 1000 }

/**
 * Makes a connection to the parent one to `to`. Rejects with a ConnectRefused or another error; then the caller destroys the connection.
 */
export function connectThrough(
  transport: Transport,
  parent: Parent,
  {
    to,
    via,
    stop,
  }: {
    readonly to: Authority
    readonly via: string | undefined
    readonly stop: AbortSignal
  },
): Promise<void> {
  const target = formatAuthority(to)
  const authorization = proxyAuthorization(parent)
  // Parents that name each other detect the circle by Via.
  const fields = Fields.of(['Host', target], ['Proxy-Authorization', authorization], ['Via', via])
  const heads = new ResponseHeadReader(answerLimits)
  return new Promise((resolve, reject) => {
    const settle = (failure?: unknown): false => {
      transport.handTo(undefined)
      if (failure === undefined) resolve()
      else reject(failure)
      return false
    }
    transport.handTo({
      room: scratchBuffer,
      read(count) {
        let bytes = scratchBuffer().subarray(0, count)
        while (bytes.length > 0) {
          const reading = heads.read(bytes)
          if (reading === 'incomplete') return true
          if ('problem' in reading) return settle(new Error(reading.problem))
          bytes = bytes.subarray(reading.used)
          const { status } = reading.head
          if (status >= 200 && status <= 299) {
            settle()
            // A server that speaks first may have sent bytes already.
            transport.give(bytes)
            return false
          }
          if (status >= 200 || status === 101) return settle(new ConnectRefused(status))
        }
        return true
      },
      ended: () => settle(new Error('the parent closed the connection instead of answering')),
      closed: error => settle(error ?? new Error('the connection to the parent has closed')),
    })
    stop.addEventListener('abort', () => settle(stop.reason), { once: true })
    transport.socket.write(requestHead('CONNECT', target, fields), 'latin1')
    transport.resume()
  })
}
