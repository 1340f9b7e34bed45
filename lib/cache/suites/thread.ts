/**
 * Runs adoptions in a thread, one after the other: unpacking and hashing would keep requests waiting. The thread starts with
 * the first adoption and ends when there was no more to do for a while: an update brings several adoptions.
 */
import { Worker } from 'node:worker_threads'
import type { Clock, Milliseconds } from '../../async/clock.ts'
import type { Adoption, Job } from './adopt.ts'

/** What the thread answers a job. */
export type Answer =
  | { readonly adoption: Adoption }
  /** Why it failed, in words. */
  | { readonly failed: string }

/** A Release of half a megabyte and the stanzas of an index take a tenth of it. */
const heapMegabytes = 512

/** How long the thread stays when there is no more to do. */
const idle: Milliseconds = 15_000

interface Waiting {
  readonly job: Job
  readonly resolve: (adoption: Adoption) => void
  readonly reject: (error: Error) => void
}

export class AdoptionThread {
  readonly #clock: Clock
  readonly #waiting: Waiting[] = []
  #worker: Worker | undefined
  #cancelEnd: (() => void) | undefined
  #closed = false

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Rejects when the thread fails, and when this is closed. */
  run(job: Job): Promise<Adoption> {
    if (this.#closed) return Promise.reject(new Error('the service stops'))
    return new Promise((resolve, reject) => {
      this.#waiting.push({ job, resolve, reject })
      if (this.#waiting.length === 1) this.#next()
    })
  }

  async close(): Promise<void> {
    this.#closed = true
    this.#cancelEnd?.()
    const worker = this.#worker
    this.#fail(new Error('the service stops'))
    await worker?.terminate()
  }

  #next(): void {
    const [first] = this.#waiting
    this.#cancelEnd?.()
    if (first === undefined) {
      this.#cancelEnd = this.#clock.after(idle, () => {
        void this.#worker?.terminate()
        this.#worker = undefined
      })
    } else {
      this.#worker ??= this.#start()
      this.#worker.postMessage(first.job)
    }
  }

  #start(): Worker {
    const worker = new Worker(new URL('./worker.js', import.meta.url), {
      resourceLimits: { maxOldGenerationSizeMb: heapMegabytes },
    })
    worker.unref()
    const over = (error: Error): void => {
      if (this.#worker === worker) this.#fail(error)
    }
    worker.on('error', over)
    worker.on('exit', () => over(new Error('the thread ended early')))
    worker.on('message', (answer: Answer) => {
      const first = this.#waiting.shift()
      if ('failed' in answer) first?.reject(new Error(answer.failed))
      else first?.resolve(answer.adoption)
      this.#next()
    })
    return worker
  }

  #fail(error: Error): void {
    this.#worker = undefined
    for (const { reject } of this.#waiting.splice(0)) reject(error)
  }
}
