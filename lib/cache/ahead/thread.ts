/**
 * Runs a search for newer packages in a thread of its own: unpacking would keep requests waiting.
 */
import { once } from 'node:events'
import { Worker } from 'node:worker_threads'
import type { Newer, Search } from './newest.ts'

/** The packages that are looked for and the stanzas of an index take a tenth of it. */
const heapMegabytes = 512

/** Searches. Rejects with the reason of `signal`, or when an index cannot be read. */
export async function searchInThread(
  search: Search,
  signal: AbortSignal,
): Promise<readonly Newer[]> {
  signal.throwIfAborted()
  const worker = new Worker(new URL('./worker.js', import.meta.url), {
    workerData: search,
    resourceLimits: { maxOldGenerationSizeMb: heapMegabytes },
  })
  const ended = new AbortController()
  try {
    const exit = once(worker, 'exit', { signal: ended.signal }).then(() => {
      throw new Error('the thread of the search ended early')
    })
    const told = once(worker, 'message', { signal })
    const [found] = await Promise.race([told, exit])
    return found
  } finally {
    ended.abort()
    void worker.terminate()
  }
}
