/**
 * Runs a task again and again, a fixed time apart.
 */
import type { Clock, Milliseconds } from './clock.ts'

/**
 * Runs `task` every `interval`, first when one has passed. While a task that answers with a promise runs, no time counts; it
 * must not reject. The answer stops the repetition, though not a task that is running.
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
