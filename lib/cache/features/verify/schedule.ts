/**
 * Runs verification inside the daemon: regular checks at a limited rate, the figures of the last check, and the removals.
 */
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Clock, Milliseconds } from '../../../async/clock.ts'
import { repeat } from '../../../async/repeat.ts'
import { explainError, systemCode } from '../../../errors.ts'
import { writeFileAtomically } from '../../../files/atomic-file.ts'
import { isCount, isRecord } from '../../../json.ts'
import type { Logger } from '../../../log/log.ts'
import type { Config } from '../../config/config.ts'
import type { Store } from '../../store/store.ts'
import { evictFrom, type Fate } from './remove-wrong.ts'
import type { VerificationReport, WrongFile } from './report.ts'
import { verifyInThread } from './thread.ts'

/** The checks of all stored files. */
export interface Verification {
  readonly running: boolean
  /** The result of the last complete check; undefined before the first. */
  readonly last: LastVerification | undefined
}

/** The figures of a check: the moment of its end and its duration in milliseconds, and the numbers of what it read and found. */
const verificationFigures = [
  'finished',
  'took',
  'files',
  'bytes',
  'suites',
  'confirmed',
  'wrong',
] as const

export type LastVerification = Readonly<Record<(typeof verificationFigures)[number], number>>

interface ScheduleOptions {
  readonly directory: string
  readonly store: Pick<Store, 'evict' | 'noteChecked'>
  readonly clock: Clock
  readonly log: Logger
  /** The settings, which are asked for before each check. */
  readonly settings: () => Pick<Config, 'archives' | 'suites' | 'verification'>
  readonly onWarning: () => void
  /** Runs a check; by default in a thread. */
  readonly run?: typeof verifyInThread
}

const lookInterval: Milliseconds = 5 * 60 * 1000
/** The first check comes this long after the start, because all clients come back at once after a restart. */
const afterStart: Milliseconds = 30 * 60 * 1000
/** A check comes this long after a failed one, because the same error would probably end it too. */
const afterFailure: Milliseconds = 60 * 60 * 1000

/** The file with the figures of the last check, in the cache directory. */
const fileName = 'verification.json'
const fileVersion = 1

export class VerificationSchedule implements Verification {
  readonly #options: ScheduleOptions
  readonly #stop = new AbortController()
  #notBefore: Milliseconds
  last: LastVerification | undefined
  #running: Promise<void> | undefined
  #stopLooking: () => void = () => undefined

  private constructor(options: ScheduleOptions, last: LastVerification | undefined) {
    this.#options = options
    this.last = last
    this.#notBefore = options.clock.now() + afterStart
  }

  /** Starts the schedule. It continues from the last check of an earlier run. */
  static async start(options: ScheduleOptions): Promise<VerificationSchedule> {
    const schedule = new VerificationSchedule(options, await readLast(options))
    schedule.#stopLooking = repeat(options.clock, lookInterval, () => schedule.#look())
    return schedule
  }

  get running(): boolean {
    return this.#running !== undefined
  }

  /** Stops a running check. */
  async close(): Promise<void> {
    this.#stop.abort(new Error('the service stops'))
    this.#stopLooking()
    await this.#running
  }

  /** Removes a stored file that was found wrong, and counts the warning. */
  evict(wrong: WrongFile): Promise<Fate> {
    const { store, log, onWarning } = this.#options
    onWarning()
    return evictFrom(store, wrong, log)
  }

  #look(): Promise<void> | undefined {
    if (!this.#isDue()) return undefined
    this.#running = this.#verify().finally(() => {
      this.#running = undefined
    })
    return this.#running
  }

  #isDue(): boolean {
    const now = this.#options.clock.now()
    const { interval } = this.#options.settings().verification
    if (interval === 0 || now < this.#notBefore) return false
    const since = this.last === undefined ? Number.POSITIVE_INFINITY : now - this.last.finished
    // An end in the future means that the clock was set back since.
    return since >= interval || since < 0
  }

  async #verify(): Promise<void> {
    const { directory, store, clock, log, run = verifyInThread } = this.#options
    const { signal } = this.#stop
    const { archives, suites, verification } = this.#options.settings()
    let evicting: Promise<unknown> = Promise.resolve()
    try {
      log.info('verification: begins')
      const report = await run({
        directory,
        rate: verification.rate,
        settings: { archives, suites },
        signal,
        log,
        onWhole: digests => store.noteChecked(digests),
        onWrong: wrong => {
          evicting = evicting.then(() => this.evict(wrong))
        },
      })
      await evicting
      this.last = lastOf(report)
      const { unchecked, unread } = report
      log.info('verification: finished', { ...this.last, ...unchecked, unread: unread.length })
      const text = `${JSON.stringify({ version: fileVersion, ...this.last })}\n`
      await writeFileAtomically(join(directory, fileName), text).catch(error => {
        log.warn('cannot write down the last verification', { because: explainError(error) })
      })
    } catch (error) {
      if (signal.aborted) return
      log.warn('verification: broken off', { because: explainError(error) })
      this.#notBefore = clock.now() + afterFailure
    }
  }
}

function lastOf(report: VerificationReport): LastVerification {
  const { files, bytes, repositories, confirmed, wrong } = report
  const finished = Date.parse(report.finished)
  const took = finished - Date.parse(report.started)
  const found = { files, bytes, suites: repositories.length, confirmed, wrong: wrong.length }
  return { finished, took, ...found }
}

async function readLast({
  directory,
  log,
}: ScheduleOptions): Promise<LastVerification | undefined> {
  try {
    return decode(JSON.parse(await readFile(join(directory, fileName), 'utf8')))
  } catch (error) {
    if (systemCode(error) !== 'ENOENT') {
      log.warn('cannot read what the last verification found', { because: explainError(error) })
    }
    return undefined
  }
}

function decode(found: unknown): LastVerification | undefined {
  if (!isRecord(found) || found['version'] !== fileVersion) return undefined
  const figures = verificationFigures.map(name => [name, found[name]] as const)
  return figures.every(([, value]) => isCount(value))
    ? (Object.fromEntries(figures) as LastVerification)
    : undefined
}
