/**
 * The thread a check runs in. Started by thread.ts alone.
 */
import { type MessagePort, parentPort, workerData } from 'node:worker_threads'
import { type Milliseconds, systemClock } from '../../async/clock.ts'
import { lowerPriority } from '../../async/thread.ts'
import { type Logger, silentLog } from '../../log/log.ts'
import { openStoreForReading } from '../store/store.ts'
import { suitePolicy } from '../suites/policy.ts'
import type { Message, Task } from './thread.ts'
import { verify } from './verifier.ts'

/** Background jobs are as nice as this. */
const niceness = 10
/** The number of whole contents that are told of together. */
const wholeAtOnce = 100
/** How often progress is told. */
const progressInterval: Milliseconds = 200

async function work(port: MessagePort, { directory, rate, settings }: Task): Promise<void> {
  const tell = (message: Message): void => port.postMessage(message)
  lowerPriority(niceness)
  const log: Logger = {
    ...silentLog,
    warn: (warning, facts) => tell({ warning, facts }),
    child: () => log,
  }
  const store = await openStoreForReading({ directory, clock: systemClock, log })
  let last = Number.NEGATIVE_INFINITY
  let whole: string[] = []
  const tellWhole = (): void => {
    tell({ whole })
    whole = []
  }
  try {
    const report = await verify({
      store,
      clock: systemClock,
      rate,
      policyOf: at => suitePolicy(at, settings),
      onProgress: progress => {
        const now = systemClock.elapsed()
        if (now - last < progressInterval) return
        last = now
        tell({ progress })
      },
      onWrong: wrong => tell({ wrong }),
      onWhole: digest => {
        if (whole.push(digest) >= wholeAtOnce) tellWhole()
      },
    })
    tellWhole()
    tell({ report })
  } finally {
    await store.close()
  }
}

// `verifyInThread` gives it a Task; without a parent it is not a thread and does nothing.
if (parentPort !== null) await work(parentPort, workerData)
