/**
 * One connection to the node of the shared store that accepts writes, by @redis/client. It is used until its first error, and
 * then closed.
 *
 * # Facts about @redis/client 6.3.1
 * - The timeout of a command ends when the command is written, so it does not cover the wait for the answer. Our timeout does.
 * - After an answer that cannot be read the client goes on with the next bytes, and answers could reach other questions. So the first `error`
 *   ends the connection.
 * - It has no bound on an answer. The bytes are counted on its socket.
 * - It allocates a list as soon as the list's length arrives: eight lengths in a hundred bytes took 2 GB. So our code adds up
 *   the lengths first.
 * - It waits for a lost connection with commands in a queue, and dials again by itself. Both are off: store-link.ts does that.
 */
import { createClient, ErrorReply } from '@redis/client'
import type { Clock, Milliseconds } from '../../async/clock.ts'
import { resultInTime } from '../../async/deadline.ts'
import { Failure } from '../../errors.ts'
import type { StateConfig } from '../config/config.ts'

/** The address of a store, and the user there. */
interface StoreAddress
  extends Pick<StateConfig, 'host' | 'port' | 'database' | 'user' | 'password' | 'tls'> {
  /** PEM of authorities besides those of Node.js. */
  readonly authorities: readonly string[] | undefined
}

interface TimeLimit {
  readonly clock: Clock
  readonly within: Milliseconds
}

/** The server has answered a command with an error; `word` is the first of its text, such as READONLY. */
export class StoreRefusal extends Failure {
  readonly word: string

  constructor(command: string, cause: Error) {
    const sentence = `the store refuses ${command}: ${cause.message.slice(0, 200)}`
    super(sentence, { code: 'STORE_REFUSAL', cause })
    this.word = cause.message.split(' ', 1)[0] ?? ''
  }
}

/** The most bytes between two answers. */
const LARGEST_ANSWER = 8 * 1024 * 1024
/** The most elements of all lists between two answers. */
const MOST_ELEMENTS = 100_000
/** The start of a list in RESP. A start without its end continues in the next chunk. */
const LISTS = /[*%~>|]\+?(\d+)\r/g
const UNFINISHED = /[*%~>|]\+?\d*$/
/** The most commands that wait for their answers. */
const MOST_WAITING = 1000

/**
 * Opens a connection to the node that accepts writes: the node in the settings, or the node that the sentinels name now. The
 * sentinels are asked in order, as their guidelines for clients say; one that does not know or does not answer is skipped.
 * Throws the reason when there is none.
 */
export async function dialStore(
  config: StateConfig,
  authorities: readonly string[] | undefined,
  time: TimeLimit,
): Promise<Connection> {
  const { sentinels, sentinelPassword: password } = config
  const store = { ...config, authorities }
  if (sentinels.length === 0) return connect(store, time)
  const problems: unknown[] = []
  const each = { ...time, within: time.within / sentinels.length }
  for (const sentinel of sentinels) {
    try {
      const asked = { ...store, ...sentinel, database: 0, user: undefined, password }
      const node = await askSentinel(asked, config.host, each)
      return await connect({ ...store, ...node }, time)
    } catch (error) {
      problems.push(error)
    }
  }
  throw new Error(`no sentinel leads to the store "${config.host}"`, { cause: problems[0] })
}

async function askSentinel(
  address: StoreAddress,
  name: string,
  time: TimeLimit,
): Promise<{ readonly host: string; readonly port: number }> {
  const connection = await connect(address, time)
  try {
    const asked = connection.ask(['SENTINEL', 'GET-MASTER-ADDR-BY-NAME', name])
    const answer = await resultInTime(asked, time.clock, time.within)
    const [host, port]: readonly unknown[] = Array.isArray(answer) ? answer : []
    const number = Number(port)
    if (typeof host === 'string' && Number.isInteger(number) && number > 0 && number < 65_536) {
      return { host, port: number }
    }
    throw new Error(`the sentinel knows no node of "${name}"`)
  } finally {
    connection.destroy(new Error('the sentinel has been asked'))
  }
}

/** Opens a connection, and signs in. Throws when that does not succeed in time. */
export async function connect(
  address: StoreAddress,
  { clock, within }: TimeLimit,
): Promise<Connection> {
  const connection = new Connection(address, clock)
  await connection.open(within)
  return connection
}

function clientFor(address: StoreAddress) {
  const { host, port, database, user, password, tls, authorities } = address
  return createClient({
    RESP: 2,
    socket: {
      host,
      port,
      reconnectStrategy: false,
      ...(tls ? { tls: true, ca: authorities === undefined ? undefined : [...authorities] } : {}),
    },
    ...(user === undefined ? {} : { username: user }),
    ...(password === undefined ? {} : { password }),
    database,
    disableOfflineQueue: true,
    disableClientInfo: true,
    maintNotifications: 'disabled',
    commandsQueueMaxLength: MOST_WAITING,
  })
}

export class Connection {
  readonly #clock: Clock
  readonly #password: string | undefined
  readonly #client: ReturnType<typeof clientFor>
  #sinceAnswer = 0
  #elements = 0
  #unfinished = ''
  #end: (error: unknown) => void = () => {}
  #ended: unknown
  /** Settles with the reason when the connection has ended. */
  readonly closed: Promise<unknown>

  constructor(address: StoreAddress, clock: Clock) {
    this.#clock = clock
    this.#password = address.password
    this.#client = clientFor(address)
    this.closed = new Promise(resolve => {
      this.#end = resolve
    })
    this.#client.on('error', error => {
      // The client throws a TypeError when an answer arrives without a question.
      const unasked = error instanceof TypeError
      this.destroy(unasked ? new Error('the store answers what was not asked') : error)
    })
    this.#client.on('end', () => this.destroy(new Error('the store has closed the connection')))
    const socket = this.#client._ejectSocket()
    socket.on('data', (chunk: Buffer) => {
      this.#sinceAnswer += chunk.length
      if (this.#sinceAnswer > LARGEST_ANSWER) {
        this.destroy(new Error(`an answer has more than ${LARGEST_ANSWER} bytes`))
      }
      const text = this.#unfinished + chunk.toString('latin1')
      for (const [, length] of text.matchAll(LISTS)) this.#elements += Number(length)
      this.#unfinished = UNFINISHED.exec(text.slice(-20))?.[0] ?? ''
      if (this.#elements > MOST_ELEMENTS) {
        this.destroy(new Error(`an answer has lists of more than ${MOST_ELEMENTS} elements`))
      }
      // The client reads this chunk next, so it is emptied when the connection has ended.
      if (this.#ended !== undefined) chunk.fill(0)
    })
    this.#client._insertSocket(socket)
  }

  async open(within: Milliseconds): Promise<void> {
    const opened = this.#client.connect().then(() => true)
    const timely = await resultInTime(opened, this.#clock, within).catch((error: unknown) => {
      throw this.#whyEnded(error)
    })
    if (timely === true && this.#ended === undefined) return
    this.destroy(new Error(`the store has not answered in ${within} ms`))
    throw this.#ended
  }

  /** The answer to a command, without a deadline. Throws a StoreRefusal, or the reason why the connection has ended. */
  async ask(command: readonly string[]): Promise<unknown> {
    if (this.#ended !== undefined) throw this.#ended
    try {
      const answer: unknown = await this.#client.sendCommand([...command])
      this.#answered()
      return answer
    } catch (error) {
      if (!(error instanceof ErrorReply)) throw this.#whyEnded(error)
      this.#answered()
      throw new StoreRefusal(command[0] ?? '', error)
    }
  }

  #answered(): void {
    this.#sinceAnswer = 0
    this.#elements = 0
  }

  /** Ends the connection, and with it all questions that wait. */
  destroy(because: unknown): void {
    if (this.#ended !== undefined) return
    this.#ended = this.#withoutPassword(because)
    this.#end(this.#ended)
    this.#client.destroy()
  }

  /** The first reason is kept, because the client rejects waiting commands with an error of its own. */
  #whyEnded(error: unknown): unknown {
    return this.#ended ?? this.#withoutPassword(error)
  }

  /** A server that does not know a command answers with the beginning of its arguments, which may be the password. */
  #withoutPassword(error: unknown): unknown {
    const password = this.#password
    if (password === undefined || !(error instanceof Error)) return error
    const hasIt = error.message.includes(password.slice(0, 20))
    return hasIt
      ? new Error(`${error.message.split(' ', 1)[0]} (the answer repeats the password)`)
      : error
  }
}
