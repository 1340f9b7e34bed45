/**
 * Time as a parameter. All code that reads the time or waits takes a Clock: tests have one that stands still. `test/time.ts` names the
 * files that ask the machine itself.
 */

/** Milliseconds: a duration, or a moment since the Unix epoch where the name says so. */
export type Milliseconds = number

/** Whole seconds: the unit HTTP fields count in. */
export type Seconds = number

export const hour: Milliseconds = 60 * 60 * 1000
export const day: Milliseconds = 24 * hour

export interface Clock {
  /** The moment, in milliseconds since the Unix epoch. */
  now(): Milliseconds
  /** Milliseconds that never go back, even when the machine's clock is set: for durations. Only differences mean anything. */
  elapsed(): Milliseconds
  /**
   * Calls `action` once after `delay`, however long that is, and never when it is infinite; the answer cancels it. A pending
   * timer never keeps the process alive.
   */
  after(delay: Milliseconds, action: () => void): () => void
}

/** The machine's own clock. */
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

/** Settles as a promise does. The process stays alive until then, which timers of a clock alone would not make it do. */
export async function keepAlive<T>(work: Promise<T>): Promise<T> {
  const nothing = setInterval(() => undefined, hour)
  try {
    return await work
  } finally {
    clearInterval(nothing)
  }
}

/** Node takes a timer that is longer for one of 1 ms. */
const longestTimer: Milliseconds = 2 ** 31 - 1
