/**
 * The thread a check runs in: hashing and unpacking must not keep requests waiting. Started by thread.ts alone.
 */
import { setPriority } from 'node:os'
import { type MessagePort, parentPort, workerData } from 'node:worker_threads'
import { systemClock } from '../../async/clock.ts'
import { explainError } from '../../errors.ts'
import { type Logger, silentLog } from '../../log/log.ts'
import { openStoreForReading } from '../store/reading.ts'
import type { Message, Task } from './messages.ts'
import { verify } from './verifier.ts'

/** As nice as background jobs are. */
const niceness = 10
/** How often progress is told, milliseconds. */
const progressInterval = 200

async function work(port: MessagePort, { directory, rate }: Task): Promise<void> {
  const tell = (message: Message): void => port.postMessage(message)
  try {
    // On Linux this is the priority of the calling thread, not of the process.
    if (process.platform === 'linux') setPriority(niceness)
  } catch {
    // Then it runs like everybody else.
  }
  const log = telling(tell)
  const store = await openStoreForReading({ directory, clock: systemClock, log })
  let last = Number.NEGATIVE_INFINITY
  try {
    const report = await verify({
      store,
      clock: systemClock,
      rate,
      onProgress: progress => {
        const now = performance.now()
        if (now - last < progressInterval) return
        last = now
        tell({ tell: 'progress', progress })
      },
      onWrong: wrong => tell({ tell: 'wrong', wrong }),
    })
    tell({ tell: 'report', report })
  } finally {
    await store.close()
  }
}

/** Warnings of the store, told to whoever started the check. */
function telling(tell: (message: Message) => void): Logger {
  const log: Logger = {
    ...silentLog,
    warn: (message, facts) => tell({ tell: 'warning', message, facts }),
    child: () => log,
  }
  return log
}

function isTask(value: unknown): value is Task {
  if (typeof value !== 'object' || value === null) return false
  if (!('directory' in value) || !('rate' in value)) return false
  return typeof value.directory === 'string' && typeof value.rate === 'number'
}

if (parentPort !== null && isTask(workerData)) {
  const port = parentPort
  await work(port, workerData).catch(error => {
    const message: Message = { tell: 'failed', because: explainError(error) }
    port.postMessage(message)
  })
}
