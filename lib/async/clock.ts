/**
 * Time as a parameter. All code that reads the time or waits takes a Clock, so tests use a manual clock.
 */

/** Milliseconds: a duration, or a moment since the Unix epoch where the name says so. */
export type Milliseconds = number

/** Whole seconds: the unit HTTP fields count in. */
export type Seconds = number

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

/** Node takes a timer that is longer for one of 1 ms. */
const longestTimer: Milliseconds = 2 ** 31 - 1

interface Appointment {
  readonly at: Milliseconds
  readonly action: () => void
}

/** A clock that stands still until `advance` is called: for tests only. */
export class ManualClock implements Clock {
  #now: Milliseconds
  #elapsed: Milliseconds = 0
  #appointments = new Set<Appointment>()

  constructor(start: Milliseconds) {
    this.#now = start
  }

  now(): Milliseconds {
    return this.#now
  }

  elapsed(): Milliseconds {
    return this.#elapsed
  }

  after(delay: Milliseconds, action: () => void): () => void {
    const appointment = { at: this.#elapsed + delay, action }
    this.#appointments.add(appointment)
    return () => this.#appointments.delete(appointment)
  }

  /** Sets the wall clock, as an operator or NTP does; no timer falls due. */
  set(now: Milliseconds): void {
    this.#now = now
  }

  /** Lets time pass: runs the actions that fall due, in their order. */
  advance(by: Milliseconds): void {
    const until = this.#elapsed + by
    for (;;) {
      const due = [...this.#appointments]
        .filter(appointment => appointment.at <= until)
        .sort((a, b) => a.at - b.at)[0]
      if (due === undefined) break
      this.#appointments.delete(due)
      this.#pass(due.at)
      due.action()
    }
    this.#pass(until)
  }

  #pass(until: Milliseconds): void {
    this.#now += until - this.#elapsed
    this.#elapsed = until
  }
}
