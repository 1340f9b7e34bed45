/**
 * Runs a task in a thread of its own, so that heavy work does not delay requests.
 */
import { getPriority, setPriority } from 'node:os'
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads'
import type { Clock, Milliseconds } from './clock.ts'
import { withDeadline } from './deadline.ts'

interface ThreadTask {
  /** The `workerData` of the thread's program. */
  readonly task: unknown
  readonly heapMegabytes: number
  readonly signal: AbortSignal
}

/**
 * Runs a program in a thread and gives its messages to `hear`, which calls `resolve` at the last one. Rejects with the reason of `signal`,
 * and when the thread fails or ends early. The thread is terminated in each case.
 */
export async function runInThread<Message, Result>(
  program: URL,
  { task, heapMegabytes, signal }: ThreadTask,
  hear: (message: Message, resolve: (result: Result) => void) => void,
): Promise<Result> {
  signal.throwIfAborted()
  const worker = new Worker(program, {
    workerData: task,
    resourceLimits: { maxOldGenerationSizeMb: heapMegabytes },
  })
  let abort = (): void => undefined
  try {
    return await new Promise((resolve, reject) => {
      abort = () => reject(signal.reason)
      signal.addEventListener('abort', abort)
      worker.on('error', reject)
      worker.on('exit', () => reject(new Error('the thread ended early')))
      worker.on('message', (message: Message) => hear(message, resolve))
    })
  } finally {
    signal.removeEventListener('abort', abort)
    void worker.terminate()
  }
}

/** Returns the one message that the program of a thread sends. Rejects also when that takes longer than `longest`. */
export function answerOfThread<Result>(
  program: URL,
  thread: ThreadTask,
  { clock, longest }: { readonly clock: Clock; readonly longest: Milliseconds },
): Promise<Result> {
  const { signal } = thread
  const late = () => new Error('it takes too long')
  const limit = { clock, after: longest, signal, late, aborted: () => signal.reason }
  return withDeadline(limit, stop =>
    runInThread(program, { ...thread, signal: stop }, (result: Result, resolve) => resolve(result)),
  )
}

/**
 * In a thread, does its task with the priority of background jobs, and sends the result. In the main thread it does nothing, because a
 * program of a thread can also be a module of others.
 */
export async function doTaskOfThread<Task>(work: (task: Task) => Promise<unknown>): Promise<void> {
  if (isMainThread || parentPort === null) return
  lowerPriority(backgroundNiceness)
  parentPort.postMessage(await work(workerData))
}

/** The priority of background jobs. */
export const backgroundNiceness = 10

/**
 * Lowers the priority of the calling thread, unless the whole process has that priority already. Does nothing where the system forbids it.
 */
export function lowerPriority(niceness: number): void {
  try {
    // On Linux this sets the priority of the calling thread; elsewhere it would set that of the whole process.
    if (process.platform === 'linux' && getPriority() < niceness) setPriority(niceness)
  } catch {}
}
