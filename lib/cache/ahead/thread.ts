/**
 * Runs a search for newer packages in a thread of its own: unpacking would keep requests waiting.
 */
import { Worker } from 'node:worker_threads'
import type { Clock } from '../../async/clock.ts'
import { longestJob } from '../suites/thread.ts'
import type { Newer, Search } from './newest.ts'

/** The packages that are looked for and the stanzas of an index take a tenth of it. */
const heapMegabytes = 512

/** Searches. Rejects with the reason of `signal`, when it takes too long, and when an index cannot be read. */
export async function searchInThread(
  search: Search,
  { clock, signal }: { readonly clock: Clock; readonly signal: AbortSignal },
): Promise<readonly Newer[]> {
  signal.throwIfAborted()
  const worker = new Worker(new URL('./worker.js', import.meta.url), {
    workerData: search,
    resourceLimits: { maxOldGenerationSizeMb: heapMegabytes },
  })
  let end = (): void => undefined
  try {
    return await new Promise((resolve, reject) => {
      const stopped = (): void => reject(signal.reason)
      const cancel = clock.after(longestJob, () => reject(new Error('it takes too long')))
      signal.addEventListener('abort', stopped)
      end = () => {
        cancel()
        signal.removeEventListener('abort', stopped)
      }
      worker.on('error', reject)
      worker.on('exit', () => reject(new Error('the thread of the search ended early')))
      worker.on('message', resolve)
    })
  } finally {
    end()
    void worker.terminate()
  }
}
