/**
 * The thread adoptions run in. Started by thread.ts alone.
 */
import { parentPort } from 'node:worker_threads'
import { lowerPriority } from '../../async/thread.ts'
import { explainError } from '../../errors.ts'
import { adopt, type Job } from './adopt.ts'
import { checkSignature } from './signature.ts'
import type { Answer } from './thread.ts'

/** Clients wait for adoptions, but hits come first. */
const niceness = 5

async function work(job: Job): Promise<Answer> {
  try {
    return { adoption: await adopt(job, checkSignature) }
  } catch (error) {
    return { failed: explainError(error) }
  }
}

// Without a parent it is not a thread and does nothing.
if (parentPort !== null) {
  const port = parentPort
  lowerPriority(niceness)
  port.on('message', (job: Job) => void work(job).then(answer => port.postMessage(answer)))
}
