/**
 * Time as a parameter. All code that reads the time or waits takes a Clock, and tests use a manual one. `test/time.ts` names the files that
 * ask the machine itself.
 */

/** Milliseconds: a duration, or a moment since the Unix epoch where the name says so. */
export type Milliseconds = number

/** Whole seconds, the unit of HTTP fields. */
export type Seconds = number

export const hour: Milliseconds = 60 * 60 * 1000
export const day: Milliseconds = 24 * hour

export interface Clock {
  /** The current moment, in milliseconds since the Unix epoch. */
  now(): Milliseconds
  /** Milliseconds that never go back, even when the machine's clock is set. Use it for durations: only differences have a meaning. */
  elapsed(): Milliseconds
  /**
   * Calls `action` once after `delay`, which may be of any length; an infinite one never ends. The returned function cancels it. A pending
   * timer never keeps the process alive.
   */
  after(delay: Milliseconds, action: () => void): () => void
}

export const systemClock: Clock = {
  now: () => Date.now(),
  elapsed: () => performance.now(),
  after(delay, action) {
    let timer: NodeJS.Timeout | undefined
    const wait = (left: Milliseconds): void => {
      if (left === Number.POSITIVE_INFINITY) return
      timer =
        left > longestTimer
          ? setTimeout(wait, longestTimer, left - longestTimer)
          : setTimeout(action, left)
      timer.unref()
    }
    wait(delay)
    return () => clearTimeout(timer)
  },
}

/** Settles as a promise does. The process stays alive until then; timers of a clock alone would not keep it alive. */
export async function keepAlive<T>(work: Promise<T>): Promise<T> {
  const nothing = setInterval(() => undefined, hour)
  try {
    return await work
  } finally {
    clearInterval(nothing)
  }
}

/** Node treats a longer timer as one of 1 ms. */
const longestTimer: Milliseconds = 2 ** 31 - 1
