/**
 * The program of a worker thread: does one job at a time and keeps nothing between two. Started by pool.ts alone.
 */
import { parentPort } from 'node:worker_threads'
import { lowerPriority } from '../../../async/thread.ts'
import { type Job, runJob } from './jobs.ts'

const port = parentPort
if (port === null) throw new Error('this file runs as a worker thread')

// Requests of users who are signed in come before logins.
lowerPriority(5)

port.on('message', (job: Job) => {
  void runJob(job).then(answer => port.postMessage(answer))
})
