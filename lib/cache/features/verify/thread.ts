/**
 * Runs a check in a thread of its own, because hashing and unpacking would delay requests. This file is also the program of the thread.
 */
import { isMainThread, type MessagePort, parentPort, workerData } from 'node:worker_threads'
import { type Milliseconds, systemClock } from '../../../async/clock.ts'
import { backgroundNiceness, lowerPriority, runInThread } from '../../../async/thread.ts'
import { type LogFacts, type Logger, silentLog } from '../../../log/log.ts'
import type { Config } from '../../config/config.ts'
import { suitePolicy } from '../../suites/policy.ts'
import type { Progress, VerificationReport, WrongFile } from './report.ts'

interface Task {
  readonly directory: string
  /** Bytes a second; 0 is no limit. */
  readonly rate: number
  /** The settings by which signatures are judged. */
  readonly settings: Pick<Config, 'archives' | 'suites'>
}

/** A message of the thread. When the check fails, the thread ends with the error. */
type Message =
  | { readonly progress: Progress }
  | { readonly wrong: WrongFile }
  | { readonly whole: readonly string[] }
  | { readonly warning: string; readonly facts: LogFacts | undefined }
  | { readonly report: VerificationReport }

export interface ThreadOptions extends Task {
  readonly signal: AbortSignal
  readonly log: Logger
  readonly onProgress?: (progress: Progress) => void
  /** Called with each wrong file as soon as it is found. It must not throw. */
  readonly onWrong: (wrong: WrongFile) => void
  /** Called with the digests of contents that were hashed lately and are right, some at a time. It must not throw. */
  readonly onWhole?: (digests: readonly string[]) => void
}

/** The heap of the thread. A million files take half of it. */
const heapMegabytes = 2048

/** Checks the store in a directory. Rejects with the reason of `signal`, or when the thread fails. */
export function verifyInThread(options: ThreadOptions): Promise<VerificationReport> {
  const { directory, rate, settings, signal, log, onProgress, onWrong, onWhole } = options
  const task: Task = { directory, rate, settings }
  const program = new URL('./thread.js', import.meta.url)
  return runInThread(program, { task, heapMegabytes, signal }, (message: Message, resolve) => {
    if ('progress' in message) onProgress?.(message.progress)
    else if ('wrong' in message) onWrong(message.wrong)
    else if ('whole' in message) onWhole?.(message.whole)
    else if ('warning' in message) log.warn(message.warning, message.facts)
    else resolve(message.report)
  })
}

/** One message has this many digests of whole contents. */
const wholeAtOnce = 100
/** The shortest time between two messages about the progress. */
const progressInterval: Milliseconds = 200

/** Checks the store in the thread. The parts are loaded there alone, because the service checks rarely. */
async function work(port: MessagePort, { directory, rate, settings }: Task): Promise<void> {
  const tell = (message: Message): void => port.postMessage(message)
  lowerPriority(backgroundNiceness)
  const log: Logger = {
    ...silentLog,
    warn: (warning, facts) => tell({ warning, facts }),
    child: () => log,
  }
  const { openStoreForReading } = await import('../../store/store.ts')
  const { verify } = await import('./verifier.ts')
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

if (!isMainThread && parentPort !== null) await work(parentPort, workerData)
