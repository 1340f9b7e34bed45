/**
 * The program of a worker thread: does one job at a time and keeps nothing of a message. Started by pool.ts alone.
 */
import { parentPort } from 'node:worker_threads'
import { lowerPriority } from '../../../async/thread.ts'
import { type DecryptionQuestion, type Job, runJob } from './jobs.ts'

const port = parentPort
if (port === null) throw new Error('this file runs as a worker thread')

// The thread has a lower priority, because requests of signed-in users come before logins.
lowerPriority(5)

let settle: (allowed: boolean) => void = () => {}

/** Asks the main thread, which knows the tries of other messages. */
function mayDecrypt(encryptedKeys: readonly string[]): Promise<boolean> {
  const question: DecryptionQuestion = { encryptedKeys }
  return new Promise(resolve => {
    settle = resolve
    port?.postMessage(question)
  })
}

port.on('message', (message: Job | boolean) => {
  if (typeof message === 'boolean') settle(message)
  else void runJob(message, mayDecrypt).then(answer => port.postMessage(answer))
})
