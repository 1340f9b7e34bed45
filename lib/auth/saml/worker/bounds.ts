/**
 * How many worker threads do each kind of job, how long a job may take or wait, and how much memory it may have.
 */
import type { Milliseconds } from '../../../async/clock.ts'

export interface PoolBounds {
  /** Threads at a time; all but the first only while many jobs wait. */
  readonly threads: number
  /** The time for one job in its thread. */
  readonly deadline: Milliseconds
  /** How long a job may wait for a thread. */
  readonly patience: Milliseconds
  /** Bytes of all jobs that wait; none waits with 0. */
  readonly waiting: number
  readonly heapMegabytes: number
  /** How long a thread without a job is kept for the next one. */
  readonly idle: Milliseconds
}

export const loginBounds: PoolBounds = {
  threads: 2,
  deadline: 10_000,
  patience: 30_000,
  waiting: 64 * 1024 * 1024,
  heapMegabytes: 192,
  idle: 3000,
}

/** Logout messages are small, and whether one is answered a second later does not matter. */
export const logoutBounds: PoolBounds = { ...loginBounds, threads: 1, waiting: 8 * 1024 * 1024 }

/**
 * An aggregate of 10 MiB takes two seconds, with its signature ten, and half of this memory; the deadline allows for a small
 * machine under load.
 */
export const metadataBounds: PoolBounds = {
  threads: 1,
  deadline: 120_000,
  patience: 120_000,
  waiting: 64 * 1024 * 1024,
  heapMegabytes: 512,
  idle: 0,
}
