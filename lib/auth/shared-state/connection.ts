/**
 * One connection to the node of the shared store that accepts writes. It is used until its first error, and then closed: answers come in
 * the order of the questions, so after an answer that cannot be read the next ones could reach other questions.
 */
import { once } from 'node:events'
import { connect as connectSocket, isIP, type Socket } from 'node:net'
import { connect as connectTls } from 'node:tls'
import type { Clock, Milliseconds } from '../../async/clock.ts'
import { resultInTime } from '../../async/deadline.ts'
import { Failure } from '../../errors.ts'
import type { StateConfig } from '../config/config.ts'
import { AnswerReader, commandText, ErrorReply } from './resp.ts'

/** The address of a store, and the user there. */
interface StoreAddress
  extends Pick<StateConfig, 'host' | 'port' | 'database' | 'user' | 'password' | 'tls'> {
  /** PEM of authorities in addition to those of Node.js. */
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

function socketFor({ host, port, tls, authorities }: StoreAddress): Socket {
  const at = { host, port, noDelay: true, keepAlive: true }
  if (!tls) return connectSocket(at)
  return connectTls({
    ...at,
    ...(isIP(host) === 0 ? { servername: host } : {}),
    ...(authorities === undefined ? {} : { ca: [...authorities] }),
  })
}

/** A question on its way. */
interface Question {
  readonly answer: (answer: unknown) => void
  readonly fail: (because: unknown) => void
}

export class Connection {
  readonly #address: StoreAddress
  readonly #clock: Clock
  readonly #socket: Socket
  readonly #questions: Question[] = []
  #end: (error: unknown) => void = () => {}
  #ended: unknown
  /** Settles with the reason when the connection has ended. */
  readonly closed: Promise<unknown>

  constructor(address: StoreAddress, clock: Clock) {
    this.#address = address
    this.#clock = clock
    this.closed = new Promise(resolve => {
      this.#end = resolve
    })
    const reader = new AnswerReader(answer => {
      const question = this.#questions.shift()
      if (question === undefined) throw new Error('the store answers what was not asked')
      question.answer(answer)
    })
    this.#socket = socketFor(address)
    this.#socket.on('data', (chunk: Buffer) => {
      try {
        if (this.#ended === undefined) reader.take(chunk)
      } catch (error) {
        this.destroy(error)
      }
    })
    this.#socket.on('error', error => this.destroy(error))
    this.#socket.on('close', () => this.destroy(new Error('the store has closed the connection')))
  }

  async open(within: Milliseconds): Promise<void> {
    const opened = this.#signIn().then(() => true)
    const timely = await resultInTime(opened, this.#clock, within).catch((error: unknown) => {
      this.destroy(error)
      throw this.#ended
    })
    if (timely === true) return
    this.destroy(new Error(`the store has not answered in ${within} ms`))
    throw this.#ended
  }

  async #signIn(): Promise<void> {
    const { user, password, database, tls } = this.#address
    const connected = once(this.#socket, tls ? 'secureConnect' : 'connect')
    await Promise.race([connected, this.closed])
    if (this.#ended !== undefined) throw this.#ended
    if (password !== undefined) {
      await this.ask(['AUTH', ...(user === undefined ? [] : [user]), password])
    }
    if (database !== 0) await this.ask(['SELECT', String(database)])
  }

  /** The answer to a command, without a deadline. Throws a StoreRefusal, or the reason why the connection has ended. */
  async ask(command: readonly string[]): Promise<unknown> {
    if (this.#ended !== undefined) throw this.#ended
    if (this.#questions.length >= MOST_WAITING) throw new Error('too many commands wait')
    const answer = await new Promise<unknown>((resolve, reject) => {
      this.#questions.push({ answer: resolve, fail: reject })
      this.#socket.write(commandText(command))
    })
    if (!(answer instanceof ErrorReply)) return answer
    throw new StoreRefusal(command[0] ?? '', this.#withoutPassword(answer))
  }

  /** Ends the connection, and with it all questions that wait. */
  destroy(because: unknown): void {
    if (this.#ended !== undefined) return
    this.#ended = because
    this.#end(because)
    this.#socket.destroy()
    for (const { fail } of this.#questions.splice(0)) fail(because)
  }

  /** A server that does not know a command answers with the beginning of its arguments, which may be the password. */
  #withoutPassword(error: Error): Error {
    const { password } = this.#address
    const hasIt = password !== undefined && error.message.includes(password.slice(0, 20))
    return hasIt
      ? new Error(`${error.message.split(' ', 1)[0]} (the answer repeats the password)`)
      : error
  }
}
