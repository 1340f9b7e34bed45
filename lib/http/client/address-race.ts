/**
 * Asks an origin at several addresses of its name. When one has been silent for a while, the same request goes to the next address as well,
 * and the first head counts. The others are given up then.
 *
 * # Facts
 * - The silent address may only be slow, and so may all of them: an archive that makes its indexes on demand takes up to a minute for a
 *   head. So no address is given up before another one has answered or its own deadline has passed.
 * - An address may only be slow while the next one is broken. So an answer that says that the origin fails counts only when the other
 *   addresses have been silent for another `longSilence`, or have failed.
 * - An address that was silent for longer than the answer of another one took counts as silent from then on.
 * - All tries count against the limit of connections to the origin. Where that is reached, the next address takes the connection of a silent
 *   one, which is given up for it.
 * - A name with one address is asked once.
 */
import type { Clock, Milliseconds } from '../../async/clock.ts'
import {
  type AddressOfName,
  longSilence,
  type SilentAddresses,
} from './dialling/silent-addresses.ts'
import type { OriginFailure } from './errors.ts'

/** The most addresses that one request is sent to. With three seconds between them apt still waits for the last. */
const mostTries = 3

/** What a try adds to the request. */
export interface TryOptions {
  /** The addresses of the tries before; undefined for the first try. */
  readonly except: ReadonlySet<string> | undefined
  readonly onConnected: (peer: AddressOfName) => void
  /** To be called when the try has to wait for a connection. */
  readonly onWaiting: () => void
  /** The number of other tries under way. */
  readonly beside: () => number
}

interface Try {
  /** The moment at which it got its connection; undefined before. */
  connected: Milliseconds | undefined
  peer: AddressOfName | undefined
  cancel: (cause: unknown) => void
}

interface RaceParts<Response> {
  readonly clock: Clock
  readonly silent: SilentAddresses
  readonly origin: string
  /** The silence after which the next address is asked. */
  readonly after: Milliseconds
  /** Sends the request. Calls `told` once, and returns the function that gives the try up. */
  readonly send: (
    options: TryOptions,
    told: (failure: OriginFailure | undefined, response: Response | undefined) => void,
  ) => (cause: unknown) => void
  /** Whether a response says that the origin fails. */
  readonly fails: (response: Response) => boolean
  /** Drops a response that does not count. */
  readonly drop: (response: Response) => void
  readonly told: (failure: OriginFailure | undefined, response: Response | undefined) => void
}

export class AddressRace<Response> {
  readonly #parts: RaceParts<Response>
  readonly #running = new Set<Try>()
  readonly #addresses = new Set<string>()
  #tries = 0
  #failure: OriginFailure | undefined
  /** A response that counts when no other one comes, and the try that got it. */
  #refusal: { readonly one: Try; readonly response: Response } | undefined
  #over = false
  #cancelTimer = () => {}
  #cancelRefusal = () => {}

  constructor(parts: RaceParts<Response>) {
    this.#parts = parts
  }

  begin(): void {
    this.#try(undefined)
  }

  #try(except: ReadonlySet<string> | undefined): void {
    const { send } = this.#parts
    const one: Try = { connected: undefined, peer: undefined, cancel: () => {} }
    this.#tries += 1
    this.#running.add(one)
    const onConnected = (peer: AddressOfName) => this.#connected(one, peer)
    const onWaiting = () => this.#yieldTo(one)
    const beside = () =>
      [...this.#running].filter(other => other !== one && other.peer !== undefined).length
    one.cancel = send({ except, onConnected, onWaiting, beside }, (failure, response) => {
      // A try that was given up for another one is no longer in the race.
      if (this.#over || !this.#running.delete(one)) return
      if (response !== undefined) return this.#answered(one, response)
      this.#failure ??= failure
      if (this.#running.size > 0) return
      const refusal = this.#refusal
      if (refusal !== undefined && failure?.code !== 'ORIGIN_ABORTED') {
        return this.#won(refusal.one, refusal.response)
      }
      this.#finish(this.#failure, undefined)
    })
  }

  #answered(one: Try, response: Response): void {
    const { clock, fails, drop } = this.#parts
    if (this.#running.size === 0 || !fails(response)) return this.#won(one, response)
    if (this.#refusal !== undefined) return drop(response)
    this.#refusal = { one, response }
    this.#cancelRefusal = clock.after(longSilence, () => this.#won(one, response))
  }

  #connected(one: Try, peer: AddressOfName): void {
    const { clock, after } = this.#parts
    one.peer = peer
    one.connected = clock.elapsed()
    this.#addresses.add(peer.address)
    this.#cancelTimer()
    if (this.#over || this.#addresses.size > peer.others || this.#tries >= mostTries) return
    this.#cancelTimer = clock.after(after, () => this.#try(new Set(this.#addresses)))
  }

  /** Gives up the first try whose address has been silent, so that a waiting one gets its connection. */
  #yieldTo(waiting: Try): void {
    const { clock, silent, origin, after } = this.#parts
    for (const one of this.#running) {
      const { peer, connected, cancel } = one
      if (one === waiting || peer === undefined || connected === undefined) continue
      if (clock.elapsed() - connected < after) continue
      this.#running.delete(one)
      silent.note(peer, origin)
      return cancel(new Error('the next address takes its connection'))
    }
  }

  #won(winner: Try, response: Response): void {
    const { clock, silent, origin } = this.#parts
    const now = clock.elapsed()
    const took = now - (winner.connected ?? now)
    const others = [...this.#running]
    this.#finish(undefined, response)
    for (const { peer, connected = now, cancel } of others) {
      if (peer !== undefined && now - connected > took) silent.note(peer, origin)
      cancel(new Error('another address has answered'))
    }
  }

  #finish(failure: OriginFailure | undefined, response: Response | undefined): void {
    this.#over = true
    this.#cancelTimer()
    this.#cancelRefusal()
    this.#running.clear()
    if (this.#refusal !== undefined && this.#refusal.response !== response) {
      this.#parts.drop(this.#refusal.response)
    }
    this.#parts.told(failure, response)
  }
}
