/**
 * The check inside the daemon: every so often by the clock, gently, and with what came of the last one.
 */
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Clock, Milliseconds } from '../../async/clock.ts'
import { writeFileAtomically } from '../../atomic-file.ts'
import { explainError, systemCode } from '../../errors.ts'
import type { Logger } from '../../log/log.ts'
import type { Config } from '../config/config.ts'
import type { VerificationReport, Wrong } from './report.ts'
import { type ThreadOptions, verifyInThread } from './thread.ts'

/** What came of a check, in figures. */
export interface LastVerification {
  readonly finished: Milliseconds
  readonly took: Milliseconds
  readonly files: number
  readonly bytes: number
  readonly suites: number
  readonly confirmed: number
  readonly wrong: number
}

export interface ScheduleOptions {
  readonly directory: string
  readonly clock: Clock
  readonly log: Logger
  /** Asked anew each time. */
  readonly settings: () => Config['verification']
  /** Removes what is wrong. Must not throw. */
  readonly evict: (wrong: Wrong) => Promise<unknown>
  readonly run?: (options: ThreadOptions) => Promise<VerificationReport>
}

/** How often it is looked whether a check is due. */
const lookInterval: Milliseconds = 5 * 60 * 1000
/** Not while everybody comes back after a restart. */
const afterStart: Milliseconds = 30 * 60 * 1000
/** What broke one off is likely to break off the next. */
const afterFailure: Milliseconds = 60 * 60 * 1000

/** Beside `statistics.json` in the cache directory. */
const fileName = 'verification.json'
const fileVersion = 1

export class VerificationSchedule {
  readonly #options: ScheduleOptions
  readonly #stop = new AbortController()
  #notBefore: Milliseconds
  #last: LastVerification | undefined
  #running: Promise<void> | undefined
  #cancel: () => void = () => undefined

  private constructor(options: ScheduleOptions, last: LastVerification | undefined) {
    this.#options = options
    this.#last = last
    this.#notBefore = options.clock.now() + afterStart
  }

  /** A schedule that knows of the last check of an earlier run. */
  static async start(options: ScheduleOptions): Promise<VerificationSchedule> {
    const schedule = new VerificationSchedule(options, await readLast(options))
    schedule.#lookLater()
    return schedule
  }

  /** What came of the last check that reached its end; undefined before the first. */
  get last(): LastVerification | undefined {
    return this.#last
  }

  get running(): boolean {
    return this.#running !== undefined
  }

  /** Breaks off a check that runs. */
  async close(): Promise<void> {
    this.#stop.abort(new Error('the service stops'))
    this.#cancel()
    await this.#running
  }

  #lookLater(): void {
    this.#cancel = this.#options.clock.after(lookInterval, () => {
      if (this.#isDue()) {
        this.#running = this.#verify().finally(() => {
          this.#running = undefined
          if (!this.#stop.signal.aborted) this.#lookLater()
        })
      } else this.#lookLater()
    })
  }

  #isDue(): boolean {
    const now = this.#options.clock.now()
    const { interval } = this.#options.settings()
    if (interval === 0 || now < this.#notBefore) return false
    const since = this.#last === undefined ? Number.POSITIVE_INFINITY : now - this.#last.finished
    // A check to come was made before the clock was set back.
    return since >= interval || since < 0
  }

  async #verify(): Promise<void> {
    const { directory, clock, log, settings, evict, run = verifyInThread } = this.#options
    let evicting: Promise<unknown> = Promise.resolve()
    try {
      log.info('verification: begins')
      const report = await run({
        directory,
        rate: settings().rate,
        signal: this.#stop.signal,
        log,
        onWrong: wrong => {
          evicting = evicting.then(() => evict(wrong))
        },
      })
      await evicting
      this.#last = lastOf(report)
      const { unchecked, unread } = report
      log.info('verification: finished', { ...this.#last, ...unchecked, unread: unread.length })
      await this.#write(this.#last)
    } catch (error) {
      if (this.#stop.signal.aborted) return
      log.warn('verification: broken off', { because: explainError(error) })
      this.#notBefore = clock.now() + afterFailure
    }
  }

  async #write(last: LastVerification): Promise<void> {
    const { directory, log } = this.#options
    const text = `${JSON.stringify({ version: fileVersion, ...last })}\n`
    await writeFileAtomically(join(directory, fileName), text).catch(error => {
      log.warn('cannot write down the last verification', { because: explainError(error) })
    })
  }
}

function lastOf(report: VerificationReport): LastVerification {
  const finished = Date.parse(report.finished)
  const { files, bytes, repositories, confirmed, wrong } = report
  return {
    finished,
    took: finished - Date.parse(report.started),
    files,
    bytes,
    suites: repositories.length,
    confirmed,
    wrong: wrong.length,
  }
}

async function readLast({
  directory,
  log,
}: ScheduleOptions): Promise<LastVerification | undefined> {
  try {
    const found: unknown = JSON.parse(await readFile(join(directory, fileName), 'utf8'))
    return decode(found)
  } catch (error) {
    if (systemCode(error) !== 'ENOENT') {
      log.warn('cannot read what the last verification found', { because: explainError(error) })
    }
    return undefined
  }
}

function decode(found: unknown): LastVerification | undefined {
  if (typeof found !== 'object' || found === null) return undefined
  const facts: Readonly<Record<string, unknown>> = { ...found }
  if (facts['version'] !== fileVersion) return undefined
  const { finished, took, files, bytes, suites, confirmed, wrong } = facts
  if (!isCount(finished) || !isCount(took) || !isCount(files) || !isCount(bytes)) return undefined
  if (!isCount(suites) || !isCount(confirmed) || !isCount(wrong)) return undefined
  return { finished, took, files, bytes, suites, confirmed, wrong }
}

function isCount(value: unknown): value is number {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0
}
