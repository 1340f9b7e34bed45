/**
 * Limits a wait: it ends with the work, with its deadline, or with its signal.
 */
import type { Clock, Milliseconds } from './clock.ts'

interface Limit {
  readonly clock: Clock
  readonly after: Milliseconds
  readonly signal: AbortSignal
  /** Makes the error thrown when the deadline has passed. */
  readonly late: () => Error
  /** Makes the error thrown when the signal has fired. */
  readonly aborted: () => Error
}

/** Settles as `work` does, or rejects when the limit comes first. Then `stop` fires, so that the work releases its resources. */
export function withDeadline<T>(limit: Limit, work: (stop: AbortSignal) => Promise<T>): Promise<T> {
  const { signal } = limit
  if (signal.aborted) return Promise.reject(limit.aborted())
  return new Promise((resolve, reject) => {
    const stop = new AbortController()
    const giveUp = (error: Error) => {
      done()
      reject(error)
      stop.abort(error)
    }
    const onAbort = () => giveUp(limit.aborted())
    const cancelTimer = limit.clock.after(limit.after, () => giveUp(limit.late()))
    const done = () => {
      cancelTimer()
      signal.removeEventListener('abort', onAbort)
    }
    signal.addEventListener('abort', onAbort)
    work(stop.signal).then(resolve, reject).finally(done)
  })
}

/** Settles as `promise` does, or resolves to undefined when that takes longer than `wait`. The work behind the promise then continues. */
export function resultInTime<Result>(
  promise: Promise<Result>,
  clock: Clock,
  wait: Milliseconds,
): Promise<Result | undefined> {
  return new Promise((resolve, reject) => {
    const cancel = clock.after(wait, () => resolve(undefined))
    promise.then(resolve, reject).finally(cancel)
  })
}

/** Resolves when the time has passed, or at once when the signal fires. */
export function pause(clock: Clock, time: Milliseconds, signal?: AbortSignal): Promise<void> {
  if (signal?.aborted === true) return Promise.resolve()
  return new Promise(resolve => {
    const over = (): void => {
      cancel()
      signal?.removeEventListener('abort', over)
      resolve()
    }
    const cancel = clock.after(time, over)
    signal?.addEventListener('abort', over)
  })
}
