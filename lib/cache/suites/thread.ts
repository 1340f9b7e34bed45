/**
 * Runs adoptions in threads, because unpacking and hashing would delay requests. There are two lanes, each with one job at a time. A thread
 * starts with the first job of its lane. It ends when it had no job for a while, because an update brings several adoptions.
 *
 * # Which job runs
 * - Any client chooses which suites are adopted, so a stranger's archive can have jobs that take minutes. Clients of other archives wait
 *   for theirs a few seconds only (`suites.wait`).
 * - A job begins in the quick lane. When it has run for `quickTime` there and a job of another archive waits, it goes on in the long lane
 *   and the waiting job begins. When the long lane is busy, the job begins again there later.
 * - Jobs of archives that the configuration lists come first, then those of archives that have not used up their `quickTime` since
 *   there was last nothing to do. Among these, preparations come before adoptions, because clients wait for them.
 */
import { Worker } from 'node:worker_threads'
import type { Clock, Milliseconds } from '../../async/clock.ts'
import { parseUri } from '../../http/message/target.ts'
import { recentEntries } from '../../recent.ts'
import type { Adoption, HashJob, Job, JobAnswer } from './adopt.ts'

/** The heap of a thread. A Release file of half a megabyte and the stanzas of an index take a tenth of it. */
const heapMegabytes = 512

const idle: Milliseconds = 15_000

/** How long a job may take. A thread that takes longer is terminated. */
export const longestJob: Milliseconds = 120_000

/** How long a job may keep the jobs of other archives waiting. Most indexes are read in less. */
export const quickTime: Milliseconds = 500

/** The most archives of which the used time is remembered. Clients can keep the threads busy with any number of them. */
const mostArchives = 1000

interface Waiting {
  readonly job: Job | HashJob
  readonly resolve: (adoption: Adoption) => void
  readonly reject: (error: Error) => void
}

interface Running extends Waiting {
  readonly begun: Milliseconds
  readonly cancelTimer: () => void
}

/** A thread with the job that it does. */
interface Lane {
  readonly waiting: Waiting[]
  running?: Running | undefined
  worker?: Worker | undefined
  cancelTimer?: (() => void) | undefined
}

export class AdoptionThreads {
  readonly #clock: Clock
  readonly #start: () => Worker
  readonly #quick: Lane = { waiting: [] }
  readonly #long: Lane = { waiting: [] }
  /** How long jobs of each archive have run since there was last nothing to do. */
  readonly #used = recentEntries<string, Milliseconds>(mostArchives)
  #cancelQuickTime: (() => void) | undefined
  #closed = false

  constructor(clock: Clock, start = startWorker) {
    this.#clock = clock
    this.#start = start
  }

  /** Has a thread do a job. Rejects when the thread fails at it or takes too long, and after `close`. */
  run(job: Job | HashJob): Promise<Adoption> {
    if (this.#closed) return Promise.reject(new Error('the service stops'))
    return new Promise((resolve, reject) => {
      this.#quick.waiting.push({ job, resolve, reject })
      if (this.#quick.running === undefined) this.#next(this.#quick)
      else this.#makeRoom()
    })
  }

  get jobs(): number {
    const lanes = [this.#quick, this.#long]
    return lanes.reduce((sum, { waiting, running }) => sum + waiting.length + (running ? 1 : 0), 0)
  }

  async close(): Promise<void> {
    this.#closed = true
    const lanes = [this.#quick, this.#long]
    const workers = lanes.map(({ worker }) => worker)
    const error = new Error('the service stops')
    for (const lane of lanes) {
      for (const { reject } of lane.waiting.splice(0)) reject(error)
      this.#fail(lane, error)
      lane.cancelTimer?.()
    }
    this.#cancelQuickTime?.()
    await Promise.all(workers.map(worker => worker?.terminate()))
  }

  #next(lane: Lane): void {
    lane.cancelTimer?.()
    const waiting = this.#first(lane)
    lane.running = undefined
    if (waiting === undefined) {
      if (this.jobs === 0) this.#used.clear()
      lane.cancelTimer = this.#clock.after(idle, () => {
        void lane.worker?.terminate()
        lane.worker = undefined
      })
      return
    }
    const cancelTimer = this.#clock.after(longestJob, () => {
      const late = [this.#quick, this.#long].find(({ running: one }) => one === running)
      if (late !== undefined) this.#fail(late, new Error('it takes too long'))
    })
    const running: Running = { ...waiting, begun: this.#clock.elapsed(), cancelTimer }
    lane.running = running
    try {
      lane.worker ??= this.#started()
      lane.worker.postMessage(running.job)
    } catch (error) {
      return this.#fail(lane, new Error('the thread cannot be started', { cause: error }))
    }
    if (lane === this.#quick) this.#makeRoom()
  }

  /** Takes the job out of a lane that goes first. */
  #first({ waiting }: Lane): Waiting | undefined {
    let [best, least] = [-1, Number.POSITIVE_INFINITY]
    for (const [n, { job }] of waiting.entries()) {
      const overdrawn = (this.#used.get(archiveOf(job)) ?? 0) >= quickTime
      const rank = (isListed(job) ? 0 : overdrawn ? 4 : 2) + ('inUse' in job ? 0 : 1)
      if (rank < least) [best, least] = [n, rank]
    }
    return best < 0 ? undefined : waiting.splice(best, 1)[0]
  }

  /** Has the job of the quick lane leave it once it has run for `quickTime`, when jobs of another archive wait. */
  #makeRoom(): void {
    this.#cancelQuickTime?.()
    const { running, waiting } = this.#quick
    if (running === undefined) return
    const archive = archiveOf(running.job)
    const keepsWaiting = waiting.some(({ job }) => archiveOf(job) !== archive)
    if (!keepsWaiting || isListed(running.job)) return
    const left = running.begun + quickTime - this.#clock.elapsed()
    this.#cancelQuickTime = this.#clock.after(Math.max(0, left), () => this.#leaveQuick(running))
  }

  #leaveQuick(running: Running): void {
    const [quick, long] = [this.#quick, this.#long]
    if (quick.running !== running) return
    this.#note(running)
    if (long.running === undefined) {
      // The thread takes its job along.
      long.cancelTimer?.()
      void long.worker?.terminate()
      long.worker = quick.worker
      long.running = running
    } else {
      running.cancelTimer()
      void quick.worker?.terminate()
      long.waiting.push(running)
    }
    quick.worker = undefined
    this.#next(quick)
  }

  /** Adds the time of a job to that of its archive. */
  #note({ job, begun }: Running): void {
    const archive = archiveOf(job)
    this.#used.set(archive, (this.#used.get(archive) ?? 0) + this.#clock.elapsed() - begun)
  }

  #started(): Worker {
    const worker = this.#start()
    const laneOf = (): Lane | undefined =>
      [this.#quick, this.#long].find(lane => lane.worker === worker)
    worker.unref()
    const over = (error: Error): void => {
      const lane = laneOf()
      if (lane !== undefined) this.#fail(lane, error)
    }
    worker.on('error', over)
    worker.on('exit', () => over(new Error('the thread ended early')))
    worker.on('message', (answer: JobAnswer) => {
      const lane = laneOf()
      if (lane?.running === undefined) return
      const { resolve, reject } = lane.running
      this.#ended(lane)
      if ('failed' in answer) reject(new Error(answer.failed))
      else resolve(answer.adoption)
      this.#next(lane)
    })
    return worker
  }

  #ended({ running }: Lane): void {
    if (running === undefined) return
    running.cancelTimer()
    this.#note(running)
  }

  /** Terminates the thread of a lane, fails its job, and begins the next job in a new thread. */
  #fail(lane: Lane, error: Error): void {
    void lane.worker?.terminate()
    lane.worker = undefined
    this.#ended(lane)
    lane.running?.reject(error)
    this.#next(lane)
  }
}

/** The archive of a job: its host. Jobs that hash contents have none. */
function archiveOf(job: Job | HashJob): string {
  if ('hash' in job) return ''
  const uri = parseUri(job.at)
  return 'problem' in uri ? job.at : `${uri.host}:${uri.port}`
}

function isListed(job: Job | HashJob): boolean {
  return 'policy' in job && job.policy.listed === true
}

function startWorker(): Worker {
  return new Worker(new URL('./adopt.js', import.meta.url), {
    resourceLimits: { maxOldGenerationSizeMb: heapMegabytes },
  })
}
