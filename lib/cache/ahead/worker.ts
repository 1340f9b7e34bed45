/**
 * The program of the thread a search for newer packages runs in. Started by ahead.ts alone.
 */
import { parentPort, workerData } from 'node:worker_threads'
import { lowerPriority } from '../../async/thread.ts'
import { newest } from './newest.ts'

/** As nice as background jobs are. */
const niceness = 10

// Without a parent it is not a thread and does nothing.
if (parentPort !== null) {
  lowerPriority(niceness)
  parentPort.postMessage(await newest(workerData))
}
