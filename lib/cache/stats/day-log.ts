/**
 * Statistics that outlive the process: one small JSON file, read at start, written when something was counted.
 *
 * # Format
 * `{"version":1,"daily":{"2025-01-31":{"requests":3,"hits":1,"misses":1,"tunnel":1,"traffic_down":…, …}}}`
 *
 * # Promises
 * - What was counted is on disk within `flushInterval`, and at once when the service stops: kill -9 costs one interval.
 * - Nothing disappears unsaid: a file that cannot be used is set aside under another name and the log says which.
 * - Statistics never stop the cache: whatever the disk does, counting goes on in memory.
 */
import { constants, copyFile, readFile, rename, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { writeFileAtomically } from '../../atomic-file.ts'
import type { Clock, Milliseconds } from '../../clock.ts'
import { explainError, type Facts, systemCode } from '../../errors.ts'
import { type Counters, type Days, Statistics } from './counters.ts'

/** The longest time that counted figures are in memory only. */
export const flushInterval: Milliseconds = 30_000

/** Name of the file inside the cache directory. */
export const dayLogName = 'statistics.json'

const formatVersion = 1

/** Far beyond a century of days; a larger file is not ours. */
const sizeLimit = 16 * 1024 * 1024

export interface DayLogOptions {
  readonly clock: Clock
  /** Takes a sentence for the log whenever the file needs an administrator's eye. */
  readonly warn: (sentence: string, facts: Facts) => void
}

export class DayLog {
  readonly statistics: Statistics
  readonly #path: string
  readonly #options: DayLogOptions
  #written: number
  #writing: Promise<void> = Promise.resolve()
  #failing = false
  #cancelTimer: () => void = () => undefined

  private constructor(path: string, options: DayLogOptions, recorded: Days) {
    this.#path = path
    this.#options = options
    this.statistics = new Statistics(options.clock, recorded)
    this.#written = this.statistics.changes
    this.#schedule()
  }

  /** Reads what earlier runs recorded under `directory`, which must exist, and starts the timer. Never throws. */
  static async open(directory: string, options: DayLogOptions): Promise<DayLog> {
    const path = join(directory, dayLogName)
    return new DayLog(path, options, await recordedDays(path, options))
  }

  /** Writes the days down if anything was counted since they last were. A failure is logged and tried again later. */
  flush(): Promise<void> {
    this.#writing = this.#writing.then(() => this.#write())
    return this.#writing
  }

  /** Stops the timer and flushes. */
  async close(): Promise<void> {
    this.#cancelTimer()
    await this.flush()
  }

  async #write(): Promise<void> {
    const { changes, days } = this.statistics
    if (changes === this.#written) return
    try {
      await writeFileAtomically(this.#path, encodeDays(days))
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

  #schedule(): void {
    this.#cancelTimer = this.#options.clock.after(flushInterval, () => {
      void this.flush()
      this.#schedule()
    })
  }
}

async function recordedDays(path: string, options: DayLogOptions): Promise<Days> {
  const text = await readText(path)
  if (text === undefined) return new Map()
  const decoded = text instanceof Error ? explainError(text) : decodeDays(text)
  if (typeof decoded === 'string') {
    await setAside(path, decoded, options)
    return new Map()
  }
  if (decoded.unreadable.length > 0) await keepCopy(path, decoded.unreadable, options)
  return decoded.days
}

/** The file's text; undefined when there is none; the error when it cannot be read. */
async function readText(path: string): Promise<string | Error | undefined> {
  try {
    const { size } = await stat(path)
    if (size > sizeLimit) return new Error(`${size} bytes are more than this file can have`)
    return await readFile(path, 'utf8')
  } catch (error) {
    if (systemCode(error) === 'ENOENT') return undefined
    return error instanceof Error ? error : new Error(String(error))
  }
}

export interface DecodedDays {
  readonly days: Days
  /** Keys of days whose figures make no sense. */
  readonly unreadable: readonly string[]
}

/** Takes the file's text apart; a string says why it cannot be used at all. */
export function decodeDays(text: string): DecodedDays | string {
  let file: unknown
  try {
    file = JSON.parse(text)
  } catch (error) {
    return `it is not JSON: ${explainError(error)}`
  }
  if (!isObject(file)) return 'it is not a JSON object'
  const { version, daily } = file
  if (typeof version === 'number' && version > formatVersion) {
    return `it has version ${version}, written by a newer release; this one knows version ${formatVersion}`
  }
  if (version !== formatVersion) return 'it names no version this release knows'
  if (!isObject(daily)) return 'it has no "daily" object'
  const days = new Map<string, Counters>()
  const unreadable: string[] = []
  for (const [date, value] of Object.entries(daily)) {
    const counters = isDate(date) ? decodeCounters(value) : undefined
    if (counters === undefined) unreadable.push(date)
    else days.set(date, counters)
  }
  return { days, unreadable }
}

/** The file's text, days in order of date. */
export function encodeDays(days: Days): string {
  const ordered = [...days].sort(([a], [b]) => (a < b ? -1 : 1))
  return `${JSON.stringify({ version: formatVersion, daily: Object.fromEntries(ordered) })}\n`
}

function decodeCounters(value: unknown): Counters | undefined {
  if (!isObject(value)) return undefined
  const figure = (name: keyof Counters): number => {
    const found = value[name]
    return typeof found === 'number' && Number.isSafeInteger(found) && found >= 0 ? found : NaN
  }
  const counters: Counters = {
    requests: figure('requests'),
    hits: figure('hits'),
    misses: figure('misses'),
    tunnel: figure('tunnel'),
    traffic_down: figure('traffic_down'),
    traffic_up: figure('traffic_up'),
    tunnel_transfer: figure('tunnel_transfer'),
  }
  if (Object.values(counters).some(Number.isNaN)) return undefined
  const parts = counters.hits + counters.misses + counters.tunnel
  return counters.requests === parts ? counters : undefined
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** Whether a text is a date of the calendar: 2025-02-30 is not. */
function isDate(text: string): boolean {
  if (!/^\d{4}-\d{2}-\d{2}$/.test(text)) return false
  const moment = Date.parse(`${text}T00:00:00Z`)
  return !Number.isNaN(moment) && new Date(moment).toISOString().startsWith(text)
}

async function setAside(path: string, because: string, options: DayLogOptions): Promise<void> {
  const aside = asideName(path, options.clock)
  try {
    await rename(path, aside)
    const sentence = 'the statistics file cannot be used and was set aside; counting starts anew'
    options.warn(sentence, { path, because, aside })
  } catch (error) {
    const sentence =
      'the statistics file cannot be used, and not be set aside either; it will be replaced'
    options.warn(sentence, { path, because, problem: explainError(error) })
  }
}

async function keepCopy(
  path: string,
  unreadable: readonly string[],
  options: DayLogOptions,
): Promise<void> {
  const facts = { path, days: unreadable.slice(0, 10).join(', '), count: unreadable.length }
  const aside = asideName(path, options.clock)
  try {
    await copyFile(path, aside, constants.COPYFILE_EXCL)
    options.warn(
      'the statistics of some days make no sense and are left out; the file as it was is kept',
      {
        ...facts,
        aside,
      },
    )
  } catch (error) {
    const problem = explainError(error)
    options.warn('the statistics of some days make no sense and are left out', {
      ...facts,
      problem,
    })
  }
}

/** `statistics.json.set-aside-20250131T235959Z` */
function asideName(path: string, clock: Clock): string {
  const stamp = new Date(clock.now()).toISOString().replace(/[-:]|\.\d+/g, '')
  return `${path}.set-aside-${stamp}`
}
