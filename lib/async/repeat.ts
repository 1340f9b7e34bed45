/**
 * Runs a task repeatedly, with an interval between two runs.
 */
import type { Clock, Milliseconds } from './clock.ts'

/**
 * Runs `task` after every `interval`, the first time after one. An `interval` that is a function is called before each wait. When the task
 * returns a promise, the next interval begins after it has settled; the promise must not reject. The returned function stops the
 * repetition, but not a running task.
 */
export function repeat(
  clock: Clock,
  interval: Milliseconds | (() => Milliseconds),
  task: () => Promise<void> | undefined,
): () => void {
  let stopped = false
  const begin = () => clock.after(typeof interval === 'number' ? interval : interval(), run)
  const wait = () => {
    if (!stopped) cancel = begin()
  }
  const run = () => {
    const running = task()
    if (running === undefined) wait()
    else void running.finally(wait)
  }
  let cancel = begin()
  return () => {
    stopped = true
    cancel()
  }
}
