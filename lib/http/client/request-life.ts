/**
 * The life of one try of a request to an origin: its states, and the next state after each event. The request, its exchange and the content
 * of its response share one such life and ask it; none of them keeps a state of its own.
 *
 *     idle ──> queued ──> dialling ──> sending ──sent──> waiting ──head──> reading ──left──> draining ──> closed
 *
 * | State | Who acts | What ends it |
 * |---|---|---|
 * | idle | the request asks the pool, or opens a connection of its own | |
 * | queued | the pool: other requests have all connections | its turn; the deadline `queue` |
 * | dialling | the dialler: name, address, parent proxy, TLS | a connection, or a failure that says which step failed |
 * | sending | the exchange writes the request, and its content as the origin takes it | the last byte; a head that comes earlier; the deadline `send` |
 * | waiting | the origin | the head; the deadline `fields` |
 * | reading | the reader of the content; bytes that it does not ask for stay in the kernel | the last byte; the deadline `content`, while a piece is asked for |
 * | draining | the content reads a small unwanted rest, so that the connection can be used again | the last byte; the deadline `content` |
 * | closed | the request needs its connection no longer | |
 *
 * # Who closes the connection
 * `ended`, with a response that lets the connection stay, gives it back to the pool. Every other way to `closed` destroys it, except
 * `switched`: then the caller owns it. A client that disconnects ends the request (`failed`) in any state. When only the content is closed,
 * a small rest is read (`left`); a larger one is not, and the connection is destroyed (`ended`).
 *
 * # Tries
 * When a kept connection closed without an answer, another try follows with a life of its own. So no late event of the first connection
 * counts for the second. A response can come before the request is sent: then the upload continues beside it.
 */

/**
 * The next state for each state and event. An event without an entry comes too late and changes nothing.
 *
 * - wait: the pool has no connection for it now; dial: one is opened; connected: it has one
 * - sent: the kernel has the last byte of the request
 * - head: the final head has come, and content may follow; switched: the head changes the protocol
 * - left: the reader wants no further bytes, and little is left; ended: the connection is no longer needed
 * - failed: either side, a deadline or the caller broke it off
 */
const transitions = {
  idle: { wait: 'queued', dial: 'dialling', connected: 'sending', failed: 'closed' },
  queued: { dial: 'dialling', connected: 'sending', failed: 'closed' },
  dialling: { connected: 'sending', failed: 'closed' },
  sending: { sent: 'waiting', head: 'reading', switched: 'closed', failed: 'closed' },
  waiting: { head: 'reading', switched: 'closed', failed: 'closed' },
  reading: { left: 'draining', ended: 'closed', failed: 'closed' },
  draining: { ended: 'closed', failed: 'closed' },
  closed: {},
} as const

export type RequestState = keyof typeof transitions
export type RequestEvent = {
  [State in RequestState]: keyof (typeof transitions)[State]
}[RequestState]

/** The state after an event. */
export function afterEvent(state: RequestState, event: RequestEvent): RequestState {
  const next: Partial<Record<RequestEvent, RequestState>> = transitions[state]
  return next[event] ?? state
}

export class RequestLife {
  #state: RequestState = 'idle'

  get state(): RequestState {
    return this.#state
  }

  /** Takes an event. Answers whether it changed the state. */
  on(event: RequestEvent): boolean {
    const before = this.#state
    this.#state = afterEvent(before, event)
    return this.#state !== before
  }
}
