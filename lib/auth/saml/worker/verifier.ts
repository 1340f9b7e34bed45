/**
 * The way to the verifying threads: a few of them, one job each at a time, every job with a deadline. What keeps a thread busy
 * beyond it costs that thread its life and nobody else anything.
 */
import { Worker } from 'node:worker_threads'
import type { Clock, Milliseconds } from '../../../async/clock.ts'
import { Failure } from '../../../errors.ts'
import type { LogoutMessage, LogoutRules } from '../binding/logout-message.ts'
import type { ResponseRules, ResponseVerdict } from '../core/verify-response.ts'
import type { VerifierJob, VerifierResult } from './verifier-job.ts'

export interface VerifierOptions {
  readonly clock: Clock
  /** Threads at most; each is started when it is first needed. */
  readonly threads?: number
  /** For one job, waiting for a thread included. */
  readonly deadline?: Milliseconds
  /** Jobs that may wait. */
  readonly waiting?: number
}

interface Waiting {
  readonly job: VerifierJob
  /** Fires when its deadline has passed. */
  readonly late: AbortSignal
  readonly settle: (result: VerifierResult | Error) => void
}

/** It took too long, too many wait, or the thread died: for the log; whoever is to blame cannot be told. */
export class VerifierFailure extends Failure {
  constructor(code: 'verifier_deadline' | 'verifier_busy' | 'verifier_crashed', message: string) {
    super(message, {
      code,
      fault: code === 'verifier_crashed' ? 'internal' : 'downstream',
      publicText: 'The answer of the identity provider could not be checked.',
    })
  }
}

export class Verifier {
  readonly #clock: Clock
  readonly #threads: number
  readonly #deadline: Milliseconds
  readonly #mostWaiting: number
  readonly #idle: Worker[] = []
  readonly #all = new Set<Worker>()
  readonly #queue: Waiting[] = []
  #closed = false

  constructor(options: VerifierOptions) {
    this.#clock = options.clock
    this.#threads = options.threads ?? 2
    this.#deadline = options.deadline ?? 10_000
    this.#mostWaiting = options.waiting ?? 32
  }

  /** Starts the first thread ahead of its first job: somebody has gone to the IdP and will be back. */
  warm(): void {
    if (this.#all.size === 0 && !this.#closed) this.#idle.push(this.#start())
  }

  /** Verifies a response. Throws a VerifierFailure when there is no verdict. */
  async response(bytes: Uint8Array, rules: ResponseRules): Promise<ResponseVerdict> {
    const result = await this.#run({ kind: 'response', bytes, rules })
    if (result.kind !== 'response') throw crashed('the verifier answered something else')
    return result.verdict
  }

  /** Reads a logout message, and verifies the signature inside it if there is one. Throws a VerifierFailure. */
  async logout(bytes: Uint8Array, rules: LogoutRules): Promise<LogoutMessage> {
    const result = await this.#run({ kind: 'logout', bytes, rules })
    if (result.kind !== 'logout') throw crashed('the verifier answered something else')
    return result.message
  }

  /** Ends the threads; what is under way fails. */
  async close(): Promise<void> {
    this.#closed = true
    for (const waiting of this.#queue.splice(0)) waiting.settle(crashed('the service stops'))
    await Promise.all([...this.#all].map(worker => worker.terminate()))
  }

  #run(job: VerifierJob): Promise<VerifierResult> {
    if (this.#closed) return Promise.reject(crashed('the service stops'))
    if (this.#queue.length >= this.#mostWaiting) {
      return Promise.reject(
        new VerifierFailure('verifier_busy', 'too many messages wait to be verified'),
      )
    }
    return new Promise((resolve, reject) => {
      const cancelTimer = this.#clock.after(this.#deadline, () => {
        const index = this.#queue.indexOf(waiting)
        if (index >= 0) this.#queue.splice(index, 1)
        late.abort()
        waiting.settle(
          new VerifierFailure('verifier_deadline', `not verified within ${this.#deadline} ms`),
        )
      })
      const late = new AbortController()
      const waiting: Waiting = {
        job,
        late: late.signal,
        settle: result => {
          cancelTimer()
          if (result instanceof Error) reject(result)
          else if (result.kind === 'crashed') reject(crashed(result.problem))
          else resolve(result)
        },
      }
      this.#queue.push(waiting)
      this.#next()
    })
  }

  #next(): void {
    const [waiting] = this.#queue
    if (waiting === undefined) return
    const worker = this.#idle.pop() ?? (this.#all.size < this.#threads ? this.#start() : undefined)
    if (worker === undefined) return
    this.#queue.shift()
    this.#assign(worker, waiting)
  }

  #assign(worker: Worker, waiting: Waiting): void {
    const done = () => {
      worker.unref()
      worker.off('message', onMessage)
      worker.off('error', onGone)
      worker.off('exit', onGone)
      waiting.late.removeEventListener('abort', onLate)
    }
    const onMessage = (result: VerifierResult) => {
      done()
      this.#idle.push(worker)
      waiting.settle(result)
      this.#next()
    }
    const onGone = (why: unknown) => {
      done()
      this.#drop(worker)
      waiting.settle(crashed(why instanceof Error ? why.message : `the thread ended (${why})`))
    }
    const onLate = () => {
      done()
      this.#drop(worker)
    }
    worker.on('message', onMessage)
    worker.on('error', onGone)
    worker.on('exit', onGone)
    waiting.late.addEventListener('abort', onLate)
    worker.ref()
    worker.postMessage(waiting.job)
  }

  #start(): Worker {
    const worker = new Worker(new URL('./verifier-worker.js', import.meta.url), {
      // Secrets arrive with a job; the environment is none of its business.
      env: {},
      resourceLimits: { maxOldGenerationSizeMb: 192, stackSizeMb: 4 },
    })
    worker.unref()
    worker.on('error', () => this.#drop(worker))
    worker.on('exit', () => this.#drop(worker))
    this.#all.add(worker)
    return worker
  }

  #drop(worker: Worker): void {
    if (!this.#all.delete(worker)) return
    const index = this.#idle.indexOf(worker)
    if (index >= 0) this.#idle.splice(index, 1)
    void worker.terminate().finally(() => undefined)
    if (!this.#closed) this.#next()
  }
}

function crashed(problem: string): VerifierFailure {
  return new VerifierFailure('verifier_crashed', problem)
}
