/**
 * The program of the thread in which a check runs. Only thread.ts starts it.
 */
import { type MessagePort, parentPort, workerData } from 'node:worker_threads'
import { type Milliseconds, systemClock } from '../../async/clock.ts'
import { backgroundNiceness, lowerPriority } from '../../async/thread.ts'
import { type Logger, silentLog } from '../../log/log.ts'
import { openStoreForReading } from '../store/store.ts'
import { suitePolicy } from '../suites/policy.ts'
import type { Message, Task } from './thread.ts'
import { verify } from './verifier.ts'

/** One message has this many digests of whole contents. */
const wholeAtOnce = 100
/** The shortest time between two messages about the progress. */
const progressInterval: Milliseconds = 200

async function work(port: MessagePort, { directory, rate, settings }: Task): Promise<void> {
  const tell = (message: Message): void => port.postMessage(message)
  lowerPriority(backgroundNiceness)
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

// `verifyInThread` passes a Task as `workerData`. A program without a parent port is not a thread and does nothing.
if (parentPort !== null) await work(parentPort, workerData)
