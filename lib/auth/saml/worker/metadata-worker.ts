/**
 * The thread in which one document of metadata is read. Started by metadata-thread.ts alone; it ends with its answer.
 */
import { parentPort, workerData } from 'node:worker_threads'
import { type MetadataJob, readMetadata } from './metadata-job.ts'

const port = parentPort
if (port === null) throw new Error('this file runs as a worker thread')

const job: MetadataJob = workerData
port.postMessage(readMetadata(job))
