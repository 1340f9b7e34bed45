/**
 * Runs adoptions in a thread, one after the other, because unpacking and hashing would delay requests. The thread starts with the first
 * adoption. It ends when it had no job for a while, because an update brings several adoptions.
 */
import { Worker } from 'node:worker_threads'
import type { Clock, Milliseconds } from '../../async/clock.ts'
import type { Adoption, HashJob, Job, JobAnswer } from './adopt.ts'

/** The heap of the thread. A Release file of half a megabyte and the stanzas of an index take a tenth of it. */
const heapMegabytes = 512

const idle: Milliseconds = 15_000

/** How long a job may take. A thread that takes longer is terminated. */
export const longestJob: Milliseconds = 120_000

interface Waiting {
  readonly job: Job | HashJob
  readonly resolve: (adoption: Adoption) => void
  readonly reject: (error: Error) => void
}

export class AdoptionThread {
  readonly #clock: Clock
  readonly #start: () => Worker
  readonly #waiting: Waiting[] = []
  #running: Waiting | undefined
  #worker: Worker | undefined
  #cancelTimer: (() => void) | undefined
  #closed = false

  constructor(clock: Clock, start = startWorker) {
    this.#clock = clock
    this.#start = start
  }

  /** Has the thread do a job. Rejects when the thread fails at it or takes too long, and after `close`. */
  run(job: Job | HashJob): Promise<Adoption> {
    if (this.#closed) return Promise.reject(new Error('the service stops'))
    return new Promise((resolve, reject) => {
      this.#waiting.push({ job, resolve, reject })
      if (this.#running === undefined) this.#next()
    })
  }

  get jobs(): number {
    return this.#waiting.length + (this.#running === undefined ? 0 : 1)
  }

  async close(): Promise<void> {
    this.#closed = true
    const worker = this.#worker
    const error = new Error('the service stops')
    for (const { reject } of this.#waiting.splice(0)) reject(error)
    this.#fail(error)
    this.#cancelTimer?.()
    await worker?.terminate()
  }

  #next(): void {
    this.#cancelTimer?.()
    // Preparations go before adoptions, because clients wait for them.
    const first = this.#waiting.findIndex(({ job }) => 'inUse' in job)
    this.#running = this.#waiting.splice(Math.max(0, first), 1)[0]
    if (this.#running === undefined) {
      this.#cancelTimer = this.#clock.after(idle, () => {
        void this.#worker?.terminate()
        this.#worker = undefined
      })
      return
    }
    this.#cancelTimer = this.#clock.after(longestJob, () => {
      this.#fail(new Error('it takes too long'))
    })
    try {
      this.#worker ??= this.#started()
      this.#worker.postMessage(this.#running.job)
    } catch (error) {
      this.#fail(new Error('the thread cannot be started', { cause: error }))
    }
  }

  #started(): Worker {
    const worker = this.#start()
    worker.unref()
    const over = (error: Error): void => {
      if (this.#worker === worker) this.#fail(error)
    }
    worker.on('error', over)
    worker.on('exit', () => over(new Error('the thread ended early')))
    worker.on('message', (answer: JobAnswer) => {
      if (this.#worker !== worker) return
      const { resolve, reject } = this.#running ?? {}
      if ('failed' in answer) reject?.(new Error(answer.failed))
      else resolve?.(answer.adoption)
      this.#next()
    })
    return worker
  }

  /** Terminates the thread, fails its job, and begins the next job in a new thread. */
  #fail(error: Error): void {
    void this.#worker?.terminate()
    this.#worker = undefined
    this.#running?.reject(error)
    this.#next()
  }
}

function startWorker(): Worker {
  return new Worker(new URL('./adopt.js', import.meta.url), {
    resourceLimits: { maxOldGenerationSizeMb: heapMegabytes },
  })
}
