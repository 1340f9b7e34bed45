/**
 * Runs a task again and again, a fixed time apart.
 */
import type { Clock, Milliseconds } from './clock.ts'

/**
 * Runs `task` every `interval`, first when one has passed. When the task returns a promise, the next interval begins after it
 * has settled; it must not reject. The returned function stops the repetition, but not a running task.
 */
export function repeat(
  clock: Clock,
  interval: Milliseconds,
  task: () => Promise<void> | undefined,
): () => void {
  let stopped = false
  const wait = () => {
    if (!stopped) cancel = clock.after(interval, run)
  }
  const run = () => {
    const running = task()
    if (running === undefined) wait()
    else void running.finally(wait)
  }
  let cancel = clock.after(interval, run)
  return () => {
    stopped = true
    cancel()
  }
}
