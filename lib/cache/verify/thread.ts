/**
 * Runs a check in a thread of its own.
 */
import { Worker } from 'node:worker_threads'
import type { Logger } from '../../log/log.ts'
import type { Message, Task } from './messages.ts'
import type { Progress, VerificationReport, Wrong } from './report.ts'

export interface ThreadOptions extends Task {
  readonly signal: AbortSignal
  readonly log: Logger
  readonly onProgress?: (progress: Progress) => void
  /** Told of everything wrong as soon as it is found. Must not throw. */
  readonly onWrong: (wrong: Wrong) => void
}

/** A million files take half of this. */
const heapMegabytes = 2048

/** Checks the store in a directory. Rejects with the reason of `signal`, or when the thread fails. */
export function verifyInThread(options: ThreadOptions): Promise<VerificationReport> {
  const { directory, rate, signal, log, onProgress, onWrong } = options
  const task: Task = { directory, rate }
  return new Promise((resolve, reject) => {
    signal.throwIfAborted()
    const worker = new Worker(new URL('./worker.js', import.meta.url), {
      workerData: task,
      resourceLimits: { maxOldGenerationSizeMb: heapMegabytes },
    })
    const end = (): void => {
      signal.removeEventListener('abort', abort)
      void worker.terminate()
    }
    const abort = (): void => {
      end()
      reject(signal.reason)
    }
    signal.addEventListener('abort', abort, { once: true })
    worker.on('message', (message: Message) => {
      switch (message.tell) {
        case 'progress':
          onProgress?.(message.progress)
          break
        case 'wrong':
          onWrong(message.wrong)
          break
        case 'warning':
          log.warn(message.message, message.facts)
          break
        case 'report':
          end()
          resolve(message.report)
          break
        case 'failed':
          end()
          reject(new Error(message.because))
      }
    })
    worker.on('error', error => {
      end()
      reject(error)
    })
    worker.on('exit', () => {
      end()
      reject(new Error('the thread of the check ended early'))
    })
  })
}
