/**
 * The link of an instance to the shared store. It knows whether the store is reachable, and answers questions accordingly.
 *
 * # States
 * | State | Event | Next | Besides |
 * |---|---|---|---|
 * | away | a connection is open, has signed in and may write | here | the log says how long it was away; `arrived` gets the connection |
 * | here | a question of a request has no answer after `PATIENCE` | slow | the question is answered `away` |
 * | slow | an answer comes | here | |
 * | here, slow | a question has no answer after `LONGEST`, an answer is of another kind, the connection ends, the node is of no use | away | the connection is destroyed; the log says why, once |
 *
 * In `slow` and `away` a question of a request is answered `away` at once: of all requests together, those that are under way wait once.
 * A heartbeat asks each second, so that mostly no request has to find out. It keeps a key of this link alive: one that is gone, as after FLUSHALL, means that the
 * store has lost all there was, and a new connection brings both together.
 */
import type { Clock, Milliseconds } from '../../async/clock.ts'
import { pause, resultInTime } from '../../async/deadline.ts'
import { explainError } from '../../errors.ts'
import type { Logger } from '../../log/log.ts'
import { type Connection, StoreRefusal } from './connection.ts'

/** The longest time a request waits for the store. */
export const PATIENCE: Milliseconds = 50
/** The longest time other work waits for an answer. */
export const LONGEST: Milliseconds = 2000
const HEARTBEAT: Milliseconds = 1000
/** Milliseconds until the probe lapses. */
const PROBE = '60000'
/** Time between two attempts to connect. */
const PAUSES: readonly Milliseconds[] = [100, 200, 500, 1000, 2000]

/** The outcome of a question: an answer, the error of the store, or no answer in time. */
export type StoreAnswer =
  | { readonly ok: true; readonly answer: unknown }
  | { readonly ok: false; readonly because: 'away' | 'refused' }

export type LinkState = 'here' | 'slow' | 'away'

interface LinkOptions {
  /** Opens a connection to the node that accepts writes. Throws the reason when there is none. */
  readonly dial: (within: Milliseconds) => Promise<Connection>
  /** The key of this link, which is written to check that the node accepts and keeps writes. */
  readonly probe: string
  readonly clock: Clock
  readonly log: Logger
}

/** The first words of errors of a node that is loading, is a replica, does not have our keys, is full, or refuses our user. */
const USELESS = new Set([
  ...['LOADING', 'READONLY', 'MOVED', 'ASK', 'CLUSTERDOWN', 'MASTERDOWN', 'TRYAGAIN', 'BUSY'],
  ...['NOAUTH', 'WRONGPASS', 'MISCONF', 'OOM', 'NOREPLICAS', 'UNBLOCKED'],
])

const away: StoreAnswer = { ok: false, because: 'away' }
const refused: StoreAnswer = { ok: false, because: 'refused' }

export class StoreLink {
  /** The number of questions of requests without an answer. */
  unanswered = 0
  readonly #options: LinkOptions
  #arrived: (connection: Connection) => Promise<void> = async () => undefined
  readonly #closing = new AbortController()
  /** The commands whose refusal has been logged since the store was last away. */
  readonly #told = new Set<string>()
  #connection: Connection | undefined
  #state: LinkState = 'away'
  #since: Milliseconds
  #why = 'it has not been asked yet'
  #toldAway = false
  #running: Promise<void> = Promise.resolve()

  constructor(options: LinkOptions) {
    this.#options = options
    this.#since = options.clock.elapsed()
  }

  get state(): LinkState {
    return this.#state
  }

  /** The reason why the store is away, for the administrator; undefined while it is reachable. */
  get problem(): string | undefined {
    return this.#state === 'away' ? this.#why : undefined
  }

  /**
   * Connects, and connects again whenever the connection is lost. `arrived` gets each new connection; an error it throws ends that
   * connection. The promise settles after the first attempt.
   */
  async open(arrived: (connection: Connection) => Promise<void>): Promise<void> {
    this.#arrived = arrived
    const first = await this.#attempt()
    this.#running = this.#keepOpen(first)
  }

  /** Asks on behalf of a request, which waits for at most `PATIENCE`. Never throws. */
  async ask(command: readonly string[]): Promise<StoreAnswer> {
    const answer = await this.#askInTime(command)
    if (!answer.ok) this.unanswered += 1
    return answer
  }

  async #askInTime(command: readonly string[]): Promise<StoreAnswer> {
    const connection = this.#connection
    if (connection === undefined || this.#state !== 'here') return away
    const asked = this.#askOn(connection, command)
    const timely =
      (await resultInTime(asked, this.#options.clock, PATIENCE)) ?? (await arrivedMeanwhile(asked))
    if (timely !== undefined) return timely
    if (this.#state === 'here' && this.#connection === connection) {
      this.#state = 'slow'
      void asked.then(() => {
        if (this.#state === 'slow' && this.#connection === connection) this.#state = 'here'
      })
    }
    return away
  }

  /** Asks when no request waits for the answer, with a longer deadline. Never throws. */
  async askLater(command: readonly string[]): Promise<StoreAnswer> {
    const connection = this.#connection
    return connection === undefined ? away : this.#askOn(connection, command)
  }

  async close(): Promise<void> {
    this.#closing.abort()
    this.#connection?.destroy(new Error('the service stops'))
    await this.#running
  }

  async #askOn(connection: Connection, command: readonly string[]): Promise<StoreAnswer> {
    const answered = connection.ask(command).then(
      (answer): StoreAnswer => ({ ok: true, answer }),
      (error: unknown): StoreAnswer => {
        if (!(error instanceof StoreRefusal)) return away
        this.#refusedBy(connection, error)
        return refused
      },
    )
    const timely = await resultInTime(answered, this.#options.clock, LONGEST)
    if (timely !== undefined) return timely
    connection.destroy(new Error(`${command[0]} has had no answer for ${LONGEST} ms`))
    return away
  }

  #refusedBy(connection: Connection, error: StoreRefusal): void {
    if (USELESS.has(error.word)) return connection.destroy(error)
    if (this.#told.has(error.message)) return
    if (this.#told.size < 20) this.#told.add(error.message)
    this.#options.log.warn('the shared store refuses a command: see state in authproxy.yaml(5)', {
      error,
    })
  }

  /** Opens one connection; answers undefined, and notes the reason, when that fails. */
  async #attempt(): Promise<Connection | undefined> {
    const { dial, probe, clock } = this.#options
    let connection: Connection | undefined
    try {
      connection = await dial(LONGEST)
      const written = connection.ask(['SET', probe, '1', 'PX', PROBE])
      if ((await resultInTime(written, clock, LONGEST)) !== 'OK') {
        throw new Error('the store does not answer a write as it should')
      }
      this.#arrive(connection)
      return connection
    } catch (error) {
      connection?.destroy(error)
      this.#leave(error)
      return undefined
    }
  }

  async #keepOpen(first: Connection | undefined): Promise<void> {
    const { clock } = this.#options
    const { signal } = this.#closing
    let connection = first
    let attempts = 0
    while (!signal.aborted) {
      if (connection !== undefined) {
        const begun = clock.elapsed()
        this.#leave(await this.#used(connection))
        // The pause grows when a connection is lost as soon as it is made, for instance because an access list lacks a command.
        if (clock.elapsed() - begun >= LONGEST) attempts = 0
      }
      const wait = PAUSES[Math.min(attempts, PAUSES.length - 1)] ?? LONGEST
      attempts += 1
      await pause(clock, wait, signal)
      if (!signal.aborted) connection = await this.#attempt()
    }
    connection?.destroy(new Error('the service stops'))
  }

  /** Uses a connection until it ends; the promise settles with the reason. */
  async #used(connection: Connection): Promise<unknown> {
    const { clock, probe } = this.#options
    const over = new AbortController()
    this.#arrived(connection).catch((error: unknown) => connection.destroy(error))
    const beat = async () => {
      while (!over.signal.aborted) {
        await pause(clock, HEARTBEAT, over.signal)
        if (over.signal.aborted) return
        const asked = await this.#askOn(connection, ['PEXPIRE', probe, PROBE])
        if (asked.ok && asked.answer !== 1) {
          connection.destroy(new Error('the store has lost what was written to it'))
        }
      }
    }
    const beating = beat()
    const because = await connection.closed
    over.abort()
    await beating
    return because
  }

  #arrive(connection: Connection): void {
    const { clock, log } = this.#options
    this.#connection = connection
    this.#state = 'here'
    this.#told.clear()
    const time = Math.round(clock.elapsed() - this.#since)
    if (this.#toldAway) log.info('the shared store is here again', { away_for: time })
    else log.info('connected to the shared store')
    this.#toldAway = false
  }

  #leave(because: unknown): void {
    const { clock, log } = this.#options
    if (this.#state !== 'away') this.#since = clock.elapsed()
    this.#connection = undefined
    this.#state = 'away'
    this.#why = explainError(because)
    if (this.#toldAway || this.#closing.signal.aborted) return
    this.#toldAway = true
    log.warn(
      'the shared store is away: sessions go on, ends of sessions hold here and are passed on later',
      { error: because },
    )
  }
}

/**
 * The answer, when it arrived while this process was busy. Node runs due timers before it reads from sockets, and one turn of
 * the event loop is enough to read the answer.
 */
function arrivedMeanwhile(asked: Promise<StoreAnswer>): Promise<StoreAnswer | undefined> {
  return new Promise(resolve => {
    void asked.then(resolve)
    setImmediate(() => setImmediate(resolve, undefined))
  })
}
