/**
 * A pool of worker threads: a few, started when first needed, one job each at a time, every job with a deadline. A job that runs
 * beyond its deadline ends its thread and no other.
 *
 * Messages and metadata have a pool each, so that neither waits for the other: strangers may send messages, and an aggregate of a
 * federation takes seconds.
 */
import { setMaxListeners } from 'node:events'
import type { Clock, Milliseconds } from '../../../async/clock.ts'
import { within } from '../../../async/deadline.ts'
import type { Job, ResultOf } from './jobs.ts'
import { Thread, WorkerFailure } from './thread.ts'

export interface PoolBounds {
  /** Threads at a time. */
  readonly threads: number
  /** For one job, waiting for a thread included. */
  readonly deadline: Milliseconds
  /** Jobs that may wait. */
  readonly waiting: number
  readonly heapMegabytes: number
  /** Whether a thread without a job is kept for the next one. */
  readonly keepsIdle: boolean
}

export const messageBounds: PoolBounds = {
  threads: 2,
  deadline: 10_000,
  waiting: 32,
  heapMegabytes: 192,
  keepsIdle: true,
}

/**
 * An aggregate of 10 MiB takes two seconds, with its signature ten, and half of this memory; the deadline allows for a small
 * machine under load.
 */
export const metadataBounds: PoolBounds = {
  threads: 1,
  deadline: 120_000,
  waiting: 8,
  heapMegabytes: 512,
  keepsIdle: false,
}

export class WorkerPool {
  readonly #clock: Clock
  readonly #bounds: PoolBounds
  readonly #threads = new Set<Thread>()
  readonly #idle: Thread[] = []
  /** Jobs that wait; each call lets one begin. */
  readonly #queue: Array<() => void> = []
  readonly #closing = new AbortController()
  #running = 0

  constructor(clock: Clock, bounds: PoolBounds) {
    this.#clock = clock
    this.#bounds = bounds
    setMaxListeners(bounds.threads + bounds.waiting, this.#closing.signal)
  }

  /** Starts the first thread ahead of its first job: a browser has gone to the IdP and will be back. */
  warm(): void {
    if (this.#threads.size === 0 && !this.#closing.signal.aborted) this.#idle.push(this.#thread())
  }

  /** Does a job in a thread. Throws a WorkerFailure when there is no result. */
  run<J extends Job>(job: J): Promise<ResultOf<J>> {
    const { deadline: after, waiting } = this.#bounds
    if (this.#queue.length >= waiting) {
      return Promise.reject(new WorkerFailure('verifier_busy', 'too many jobs wait for a thread'))
    }
    const limit = {
      clock: this.#clock,
      after,
      signal: this.#closing.signal,
      late: () => new WorkerFailure('verifier_deadline', `no result within ${after / 1000} s`),
      aborted: () => new WorkerFailure('verifier_crashed', 'the service stops'),
    }
    return within(limit, async stop => {
      await this.#turn(stop)
      try {
        return await this.#ask(job, stop)
      } finally {
        const next = this.#queue.shift()
        if (next === undefined) this.#running -= 1
        else next()
      }
    })
  }

  /** Ends the threads; what is under way fails. */
  async close(): Promise<void> {
    this.#closing.abort()
    await Promise.all([...this.#threads].map(thread => thread.end()))
  }

  /** Waits until a job may begin: when fewer run than there may be threads, or in the place of one that is over. */
  async #turn(stop: AbortSignal): Promise<void> {
    if (this.#running < this.#bounds.threads) {
      this.#running += 1
      return
    }
    await new Promise<void>((begin, giveUp) => {
      this.#queue.push(begin)
      stop.addEventListener('abort', () => {
        const place = this.#queue.indexOf(begin)
        if (place >= 0) this.#queue.splice(place, 1)
        giveUp(stop.reason)
      })
    })
  }

  async #ask<J extends Job>(job: J, stop: AbortSignal): Promise<ResultOf<J>> {
    if (stop.aborted) throw stop.reason
    const thread = this.#thread()
    const end = () => void thread.end()
    stop.addEventListener('abort', end)
    try {
      return await thread.ask(job)
    } finally {
      stop.removeEventListener('abort', end)
      if (thread.alive && this.#bounds.keepsIdle) this.#idle.push(thread)
      else void thread.end().finally(() => this.#threads.delete(thread))
    }
  }

  #thread(): Thread {
    const idle = this.#idle.pop()
    if (idle?.alive) return idle
    const thread = new Thread(this.#bounds.heapMegabytes)
    this.#threads.add(thread)
    return thread
  }
}
