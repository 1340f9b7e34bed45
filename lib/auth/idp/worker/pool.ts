/**
 * A pool of worker threads, one job each at a time, every job with a deadline. A job that runs beyond its deadline ends its thread
 * and no other.
 *
 * One thread does the work. It is there before its first job when a browser goes to the IdP, and lives as long as messages come or
 * the browser is awaited; then it ends soon, since it takes 16 MB and more. To start another costs 0.2 s of processor time, and its first messages
 * cost twice as much as later ones, so that happens only when many jobs wait.
 *
 * Logins, logouts and metadata have a pool each, so that none waits for another: strangers may send messages, and an aggregate of a
 * federation takes seconds. What waits is bounded by time and by bytes and not by number: on a Monday morning hundreds of
 * logins arrive at once, and each takes milliseconds.
 *
 * # Order of jobs that wait
 * - A client that began a login here goes before one that did not.
 * - Among equals the client addresses take turns, one job each: an address with 300 jobs delays another by one job at a time. There is
 *   no quota for each address, because all people of an office may share one.
 * - When too much waits, the newest job of the address with the most jobs is dropped, of strangers as long as there are any.
 */
import { setMaxListeners } from 'node:events'
import { Worker } from 'node:worker_threads'
import { Alarm } from '../../../async/alarm.ts'
import type { Clock, Milliseconds } from '../../../async/clock.ts'
import { withDeadline } from '../../../async/deadline.ts'
import { Line } from '../../../async/line.ts'
import { Failure } from '../../../errors.ts'
import type { MayDecrypt } from '../../../saml/response/verify-response.ts'
import type { DecryptionQuestion, Job, JobAnswer, ResultOf } from './jobs.ts'

/** The bounds of a pool: the number of threads, the time a job may take or wait, and the memory it may use. */
export interface PoolBounds {
  /** The most threads. All but the first run only while many jobs wait. */
  readonly threads: number
  /** The time for one job in its thread. */
  readonly deadline: Milliseconds
  /** How long a job may wait for a thread. */
  readonly patience: Milliseconds
  /** The most bytes of all waiting jobs. With 0 no job waits. */
  readonly waitingBytes: number
  readonly heapMegabytes: number
  /** The time for which a thread without a job is kept. */
  readonly idleTime: Milliseconds
}

export const loginBounds: PoolBounds = {
  threads: 2,
  deadline: 10_000,
  patience: 30_000,
  waitingBytes: 64 * 1024 * 1024,
  heapMegabytes: 192,
  idleTime: 3000,
}

/** Logout messages are small, and whether one is answered a second later does not matter. */
export const logoutBounds: PoolBounds = {
  ...loginBounds,
  threads: 1,
  waitingBytes: 8 * 1024 * 1024,
}

/** An aggregate of 10 MiB takes two seconds, with its signature three, and half of this memory. Small machines take longer. */
export const metadataBounds: PoolBounds = {
  threads: 1,
  deadline: 120_000,
  patience: 120_000,
  waitingBytes: 64 * 1024 * 1024,
  heapMegabytes: 512,
  idleTime: 0,
}

/** The client for whom a job is done. */
export interface Client {
  /** The client's address, or the network that counts as one client. */
  readonly address: string
  /** Whether the client has begun a login at this gateway. */
  readonly hasBegunLogin: boolean
}

export type WorkerReason = `verifier_${'deadline' | 'busy' | 'crashed'}`

/** The error when a job has no result: it took too long, too many jobs waited, or the thread died. */
export class WorkerFailure extends Failure {
  declare readonly code: WorkerReason

  constructor(code: WorkerReason, message: string, cause?: unknown) {
    const fault = code === 'verifier_crashed' ? 'internal' : 'downstream'
    const publicText = 'The answer of the identity provider could not be checked.'
    super(message, { code, fault, publicText, cause })
  }
}

interface Waiter {
  /** The address of the job's client. */
  readonly client: string
  readonly size: number
  readonly begin: () => void
  readonly giveUp: (because: Error) => void
}

/** How long a thread waits for a browser that has gone to the IdP. */
const expected: Milliseconds = 60_000

/** The number of waiting jobs that starts another thread. They take one thread as long as another takes to start. */
const WORTH_A_THREAD = 8

/** The memory of a job in addition to its bytes. */
const ENTRY = 4096

export class WorkerPool {
  readonly #clock: Clock
  readonly #bounds: PoolBounds
  readonly #threads = new Set<Thread>()
  readonly #idle: Thread[] = []
  readonly #known = new Line<Waiter>()
  readonly #strangers = new Line<Waiter>()
  readonly #closing = new AbortController()
  #running = 0
  /** The bytes of the waiting jobs. */
  #waiting = 0
  /** The browsers that have gone to the IdP, with the moment until which they are awaited. */
  #awaited = 0
  #awaitedUntil: Milliseconds = 0

  constructor(clock: Clock, bounds: PoolBounds) {
    this.#clock = clock
    this.#bounds = bounds
    // Every job adds a listener, and only the bytes of the jobs bound their number.
    setMaxListeners(0, this.#closing.signal)
  }

  /** Has a thread ready ahead of its job: a browser has gone to the IdP and will be back. */
  warm(): void {
    if (this.#closing.signal.aborted) return
    this.#awaited = this.#awaits + 1
    this.#awaitedUntil = this.#clock.elapsed() + expected
    if (this.#alive === 0) this.#rest(this.#thread())
  }

  /** Does a job in a thread, which asks before it decrypts. Throws a WorkerFailure when there is no result. */
  async run<J extends Job>(
    job: J,
    client: Client = ourselves,
    mayDecrypt: MayDecrypt = () => true,
  ): Promise<ResultOf<J>> {
    const { deadline, patience } = this.#bounds
    if (client.hasBegunLogin) this.#awaited = Math.max(0, this.#awaits - 1)
    const size = ('encoded' in job ? job.encoded : job.bytes).length + ENTRY
    await this.#within(patience, 'verifier_busy', stop => this.#turn(size, client, stop))
    try {
      return await this.#within(deadline, 'verifier_deadline', stop =>
        this.#ask(job, mayDecrypt, stop),
      )
    } finally {
      this.#release()
    }
  }

  #within<T>(
    after: Milliseconds,
    code: 'verifier_busy' | 'verifier_deadline',
    work: (stop: AbortSignal) => Promise<T>,
  ): Promise<T> {
    const what = code === 'verifier_busy' ? 'no thread was free' : 'no result'
    const late = () => new WorkerFailure(code, `${what} within ${after / 1000} s`)
    const aborted = () => new WorkerFailure('verifier_crashed', 'the service stops')
    const { signal } = this.#closing
    return withDeadline({ clock: this.#clock, after, signal, late, aborted }, work)
  }

  /** Ends the threads. Jobs under way fail. */
  async close(): Promise<void> {
    this.#closing.abort()
    await Promise.all([...this.#threads].map(thread => thread.end()))
  }

  /** Waits until a job may begin: when fewer run than there may be threads, or instead of one that is over. */
  async #turn(size: number, { address, hasBegunLogin }: Client, stop: AbortSignal): Promise<void> {
    await new Promise<void>((resolve, giveUp) => {
      let begun = false
      const begin = () => {
        begun = true
        resolve()
      }
      const waiter: Waiter = { client: address, size, begin, giveUp }
      const line = hasBegunLogin ? this.#known : this.#strangers
      line.add(waiter)
      this.#waiting += size
      this.#begin()
      stop.addEventListener('abort', () => {
        if (begun) this.#release()
        else if (line.delete(waiter)) this.#waiting -= size
        giveUp(stop.reason)
      })
      while (this.#waiting > this.#bounds.waitingBytes) {
        const dropped = this.#strangers.drop() ?? this.#known.drop()
        if (dropped === undefined) break
        this.#waiting -= dropped.size
        dropped.giveUp(new WorkerFailure('verifier_busy', 'too much waits for a thread'))
      }
    })
  }

  /** Counts the end of a job, and begins the next ones. */
  #release(): void {
    this.#running -= 1
    this.#begin()
  }

  /** Begins waiting jobs while there are threads for them. */
  #begin(): void {
    while (this.#hasPlace) {
      const next = this.#known.take() ?? this.#strangers.take()
      if (next === undefined) return
      this.#running += 1
      this.#waiting -= next.size
      next.begin()
    }
  }

  /** Whether one more job may begin. */
  get #hasPlace(): boolean {
    if (this.#running >= this.#bounds.threads) return false
    const waiting = this.#known.size + this.#strangers.size
    return this.#running < Math.max(1, this.#alive) || waiting >= WORTH_A_THREAD
  }

  async #ask<J extends Job>(
    job: J,
    mayDecrypt: MayDecrypt,
    stop: AbortSignal,
  ): Promise<ResultOf<J>> {
    if (stop.aborted) throw stop.reason
    const thread = this.#thread()
    const end = () => void thread.end()
    stop.addEventListener('abort', end)
    try {
      return await thread.ask(job, mayDecrypt)
    } finally {
      stop.removeEventListener('abort', end)
      if (thread.alive && this.#bounds.idleTime > 0) this.#rest(thread)
      else this.#end(thread)
    }
  }

  #thread(): Thread {
    const idle = this.#idle.pop()
    idle?.rest.close()
    if (idle?.alive) return idle
    if (idle !== undefined) this.#end(idle)
    const thread = new Thread(this.#clock, this.#bounds.heapMegabytes)
    this.#threads.add(thread)
    return thread
  }

  /** Keeps a thread for the next job. */
  #rest(thread: Thread): void {
    this.#idle.push(thread)
    thread.rest.set(this.#bounds.idleTime, () => this.#rested(thread))
  }

  /** No job came in time, so the thread ends. The last one stays while a browser is awaited. */
  #rested(thread: Thread): void {
    if (thread.alive && this.#alive === 1 && this.#awaits > 0) {
      const left = this.#awaitedUntil - this.#clock.elapsed()
      return thread.rest.set(left, () => this.#rested(thread))
    }
    this.#idle.splice(this.#idle.indexOf(thread), 1)
    this.#end(thread)
  }

  get #awaits(): number {
    return this.#clock.elapsed() < this.#awaitedUntil ? this.#awaited : 0
  }

  get #alive(): number {
    return [...this.#threads].filter(({ alive }) => alive).length
  }

  #end(thread: Thread): void {
    void thread.end().finally(() => this.#threads.delete(thread))
  }
}

/** The client of jobs of the gateway itself. */
const ourselves: Client = { address: '', hasBegunLogin: true }

/** One thread: is asked one job at a time, and says when it has died. It keeps the process alive only while it works. */
class Thread {
  /** Cancels the timer for the time without a job. */
  readonly rest: Alarm
  readonly #worker: Worker
  #alive = true
  /** `never`, because an answer is of the kind of the job that was asked. */
  #settle: (answer: JobAnswer<never> | WorkerFailure) => void = () => {}
  #mayDecrypt: MayDecrypt = () => false

  constructor(clock: Clock, heapMegabytes: number) {
    this.rest = new Alarm(clock)
    this.#worker = new Worker(new URL('./worker.js', import.meta.url), {
      // Secrets arrive with a job; the thread has no use for the environment.
      env: {},
      resourceLimits: { maxOldGenerationSizeMb: heapMegabytes, stackSizeMb: 4 },
    })
    this.#worker.on('message', (message: JobAnswer<never> | DecryptionQuestion) => {
      if ('ok' in message) this.#settle(message)
      else void this.#answer(message)
    })
    this.#worker.on('error', cause => this.#die('the thread has died', cause))
    this.#worker.on('exit', () => this.#die('the thread ended early'))
    // This comes last, because a listener for messages keeps the process alive again.
    this.#worker.unref()
  }

  /** Whether the thread can do another job. */
  get alive(): boolean {
    return this.#alive
  }

  /** Does a job. Throws a WorkerFailure when the thread dies first. */
  ask<J extends Job>(job: J, mayDecrypt: MayDecrypt): Promise<ResultOf<J>> {
    this.#mayDecrypt = mayDecrypt
    return new Promise((resolve, reject) => {
      this.#settle = answer => {
        this.#worker.unref()
        if (answer instanceof WorkerFailure) reject(answer)
        else if (answer.ok) resolve(answer.result)
        else reject(new WorkerFailure('verifier_crashed', answer.problem))
      }
      this.#worker.ref()
      this.#worker.postMessage(job)
    })
  }

  async #answer({ encryptedKeys }: DecryptionQuestion): Promise<void> {
    this.#worker.postMessage(await this.#mayDecrypt(encryptedKeys))
  }

  /** Ends the thread, and fails its job. */
  async end(): Promise<void> {
    this.#die('the thread was ended')
    await this.#worker.terminate()
  }

  #die(message: string, cause?: unknown): void {
    this.#alive = false
    this.#settle(new WorkerFailure('verifier_crashed', message, cause))
  }
}
