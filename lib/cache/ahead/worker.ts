/**
 * The thread a search for newer packages runs in. Started by thread.ts alone.
 */
import { setPriority } from 'node:os'
import { parentPort, workerData } from 'node:worker_threads'
import { newest } from './newest.ts'

/** As nice as background jobs are. */
const niceness = 10

// `searchInThread` gives it a Search; without a parent it is not a thread and does nothing.
if (parentPort !== null) {
  try {
    // On Linux this is the priority of the calling thread, not of the process. Without it the thread works all the same.
    if (process.platform === 'linux') setPriority(niceness)
  } catch {}
  parentPort.postMessage(await newest(workerData))
}
