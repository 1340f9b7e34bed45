/**
 * Keeps the statistics in one small JSON file in the cache directory: read at start, written when something was counted.
 *
 * # Promises
 * - What was counted is on disk within `flushInterval`, and at once when the service stops: kill -9 costs one interval.
 * - A file that cannot be used is set aside under another name, which the log tells.
 * - Statistics never stop the cache: when the disk fails, counting goes on in memory.
 */
import { constants, copyFile, readFile, rename, stat } from 'node:fs/promises'
import { join } from 'node:path'
import type { Clock, Milliseconds } from '../../async/clock.ts'
import { repeat } from '../../async/repeat.ts'
import { writeFileAtomically } from '../../atomic-file.ts'
import { explainError, type Facts, systemCode } from '../../errors.ts'
import { type DecodedDays, decodeDays, encodeDays } from './day-format.ts'
import { noHistory, Statistics } from './statistics.ts'

/** The longest time that counted figures are in memory only. */
export const flushInterval: Milliseconds = 30_000

/** Name of the file inside the cache directory. */
export const dayLogName = 'statistics.json'

/** Far beyond a century of days; a larger file is not ours. */
const sizeLimit = 16 * 1024 * 1024

interface StatisticsFileOptions {
  readonly clock: Clock
  /** Told when an administrator should look at the file. */
  readonly warn: (sentence: string, facts: Facts) => void
}

export class StatisticsFile {
  readonly statistics: Statistics
  readonly #path: string
  readonly #options: StatisticsFileOptions
  #written: number
  #writing: Promise<void> = Promise.resolve()
  /** A write that has not begun: it serves every `flush` until it does. */
  #waiting: Promise<void> | undefined
  #failing = false
  readonly #stop: () => void

  private constructor(path: string, options: StatisticsFileOptions, recorded: Recorded) {
    this.#path = path
    this.#options = options
    this.statistics = new Statistics(options.clock, recorded.days, recorded.history)
    this.#written = this.statistics.changes
    this.#stop = repeat(options.clock, flushInterval, () => void this.flush())
  }

  /** Reads what earlier runs recorded under `directory`, which must exist, and starts the timer. Never throws. */
  static async open(directory: string, options: StatisticsFileOptions): Promise<StatisticsFile> {
    const path = join(directory, dayLogName)
    return new StatisticsFile(path, options, await recordedDays(path, options))
  }

  /** Writes the days down if anything was counted since they last were. A failure is logged and tried again later. */
  flush(): Promise<void> {
    this.#waiting ??= this.#writing.then(() => {
      this.#waiting = undefined
      return this.#write()
    })
    this.#writing = this.#waiting
    return this.#waiting
  }

  /** Stops the timer and flushes. */
  async close(): Promise<void> {
    this.#stop()
    await this.flush()
  }

  async #write(): Promise<void> {
    const { changes, days, history } = this.statistics
    if (changes === this.#written) return
    try {
      await writeFileAtomically(this.#path, encodeDays(days, history))
      this.#written = changes
      this.#failing = false
    } catch (error) {
      if (!this.#failing) {
        const sentence = 'the statistics cannot be written; counting goes on in memory'
        this.#options.warn(sentence, { path: this.#path, because: explainError(error) })
      }
      this.#failing = true
    }
  }
}

type Recorded = Pick<DecodedDays, 'days' | 'history'>

async function recordedDays(path: string, options: StatisticsFileOptions): Promise<Recorded> {
  let decoded: DecodedDays
  try {
    const { size } = await stat(path)
    if (size > sizeLimit) throw new Error(`${size} bytes are more than this file can have`)
    decoded = decodeDays(await readFile(path, 'utf8'))
  } catch (error) {
    if (systemCode(error) !== 'ENOENT') await setAside(path, explainError(error), options)
    return { days: new Map(), history: noHistory }
  }
  if (decoded.unreadable.length > 0) await keepCopy(path, decoded.unreadable, options)
  return decoded
}

async function setAside(
  path: string,
  because: string,
  options: StatisticsFileOptions,
): Promise<void> {
  const done = await keep(path, options, aside => rename(path, aside))
  const fate =
    'aside' in done
      ? ' and was set aside; counting starts anew'
      : ', and not be set aside either; it will be replaced'
  options.warn(`the statistics file cannot be used${fate}`, { path, because, ...done })
}

async function keepCopy(
  path: string,
  unreadable: readonly string[],
  options: StatisticsFileOptions,
): Promise<void> {
  const done = await keep(path, options, aside => copyFile(path, aside, constants.COPYFILE_EXCL))
  const fate = 'aside' in done ? '; the file as it was is kept' : ''
  const facts = { path, days: unreadable.slice(0, 10).join(', '), count: unreadable.length }
  const sentence = `the statistics of some days make no sense and are left out${fate}`
  options.warn(sentence, { ...facts, ...done })
}

/** Keeps the file under a name such as `statistics.json.set-aside-20250131T235959Z`, or says why it cannot. */
async function keep(
  path: string,
  { clock }: StatisticsFileOptions,
  put: (aside: string) => Promise<void>,
): Promise<{ readonly aside: string } | { readonly problem: string }> {
  const stamp = new Date(clock.now()).toISOString().replace(/[-:]|\.\d+/g, '')
  const aside = `${path}.set-aside-${stamp}`
  return put(aside).then(
    () => ({ aside }),
    error => ({ problem: explainError(error) }),
  )
}
