/**
 * Reads metadata in a thread of its own. A federation's aggregate of 10 MiB takes seconds, a hostile one more time and memory
 * than anybody has: requests wait for neither, and what passes its bounds ends with its thread. The metadata of a single IdP is
 * read in less time than a thread takes to start, so it is read here.
 */
import { Worker } from 'node:worker_threads'
import type { Clock, Milliseconds } from '../../../async/clock.ts'
import { within } from '../../../async/deadline.ts'
import { type MetadataJob, type MetadataResult, readMetadata } from './metadata-job.ts'

export interface MetadataThread {
  readonly clock: Clock
  readonly signal: AbortSignal
  readonly deadline?: Milliseconds
  readonly heapMegabytes?: number
}

/** An aggregate of 10 MiB takes two seconds, with its signature ten; several times that on a small machine under load. */
const DEADLINE: Milliseconds = 120_000
/** Twice what such an aggregate needs with its signature. */
const HEAP_MEGABYTES = 512

/** Bytes that are read in some milliseconds, and in some dozens at the worst. */
const SMALL = 32_768

/** Does the job; rejects with one sentence when the thread is late, dies or is stopped. */
export async function readInThread(
  job: MetadataJob,
  thread: MetadataThread,
): Promise<MetadataResult> {
  if (job.bytes.length <= SMALL) return readMetadata(job)
  const { clock, signal, deadline = DEADLINE, heapMegabytes = HEAP_MEGABYTES } = thread
  const limit = {
    clock,
    signal,
    after: deadline,
    late: () => new Error(`it could not be read within ${deadline / 1000} s`),
    aborted: () => new Error('the service stops'),
  }
  return within(limit, stop => run(job, heapMegabytes, stop))
}

function run(job: MetadataJob, heapMegabytes: number, stop: AbortSignal): Promise<MetadataResult> {
  return new Promise((resolve, reject) => {
    const worker = new Worker(new URL('./metadata-worker.js', import.meta.url), {
      workerData: job,
      // The environment is none of its business.
      env: {},
      resourceLimits: { maxOldGenerationSizeMb: heapMegabytes, stackSizeMb: 4 },
    })
    const end = () => {
      stop.removeEventListener('abort', end)
      void worker.terminate()
    }
    stop.addEventListener('abort', end)
    worker.on('message', (result: MetadataResult) => {
      end()
      resolve(result)
    })
    worker.on('error', cause => {
      end()
      reject(new Error('the thread that read it has died', { cause }))
    })
    worker.on('exit', () => {
      end()
      reject(new Error('the thread that read it ended early'))
    })
  })
}
