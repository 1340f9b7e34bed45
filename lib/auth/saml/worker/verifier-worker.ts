/**
 * The thread in which messages of strangers are parsed and verified. One job at a time; it holds nothing between two.
 */
import { parentPort } from 'node:worker_threads'
import { runJob, type VerifierJob } from './verifier-job.ts'

const port = parentPort
if (port === null) throw new Error('this file runs as a worker thread')

port.on('message', (job: VerifierJob) => {
  void runJob(job).then(result => port.postMessage(result))
})
