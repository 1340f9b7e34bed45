/**
 * Keeps the statistics in one small JSON file in the cache directory. The service reads it at the start, and writes it when a count has
 * changed.
 *
 * # Promises
 * - Counts are on disk within `flushInterval`, and when the service stops. After kill -9 the counts of at most one interval are lost.
 * - A file that cannot be used is renamed, and the log names the new name.
 * - Statistics never stop the cache: when the disk fails, counting goes on in memory.
 *
 * # Format
 * `{"version":1,"daily":{"2025-01-31":{"requests":3,"hits":1,"misses":1,"tunnel":1,"traffic_down":…, …}},`
 * `"unanswered":{"2025-01-31":{"refused":0,"failed":2}},"recent":{"2025-01-31T11:00:00.000Z":{"hits":7,…}}}`
 *
 * `recent` has the hours with requests among the last 25. Invalid parts of it and of `unanswered` are ignored. A day with invalid figures is left out, and the log names it; the other days are read.
 */
import { constants, copyFile, readFile, rename, stat } from 'node:fs/promises'
import { join } from 'node:path'
import type { Clock, Milliseconds } from '../../async/clock.ts'
import { repeat } from '../../async/repeat.ts'
import { explainError, type Facts, systemCode } from '../../errors.ts'
import { writeFileAtomically } from '../../files/atomic-file.ts'
import { isCount, isRecord } from '../../json.ts'
import {
  type Counters,
  counterNames,
  type Days,
  type History,
  type Hour,
  hourNames,
  noHistory,
  Statistics,
  type UnansweredCounts,
} from './statistics.ts'

/** The longest time for which counts are in memory only. */
export const flushInterval: Milliseconds = 30_000

/** The name of the file in the cache directory. */
export const statisticsFileName = 'statistics.json'

/** The bytes of the largest file that is read. They suffice for more than a century of days. */
const sizeLimit = 16 * 1024 * 1024

interface StatisticsFileOptions {
  readonly clock: Clock
  readonly warn: (sentence: string, facts: Facts) => void
}

export class StatisticsFile {
  readonly statistics: Statistics
  readonly #path: string
  readonly #options: StatisticsFileOptions
  #written: number
  #writing: Promise<void> = Promise.resolve()
  /** A write that has not begun. All calls of `flush` until then share it. */
  #waiting: Promise<void> | undefined
  #failing = false
  readonly #stop: () => void

  private constructor(
    path: string,
    options: StatisticsFileOptions,
    { days, history }: Pick<DecodedDays, 'days' | 'history'>,
  ) {
    this.#path = path
    this.#options = options
    this.statistics = new Statistics(options.clock, days, history)
    this.#written = this.statistics.changes
    this.#stop = repeat(options.clock, flushInterval, () => void this.flush())
  }

  /** Reads the statistics of earlier runs from `directory`, which must exist, and starts the timer. Never throws. */
  static async open(directory: string, options: StatisticsFileOptions): Promise<StatisticsFile> {
    const path = join(directory, statisticsFileName)
    return new StatisticsFile(path, options, await recordedDays(path, options))
  }

  /** Writes the file if a count has changed since the last write. A failure is logged, and a later call tries again. */
  flush(): Promise<void> {
    this.#waiting ??= this.#writing.then(() => {
      this.#waiting = undefined
      return this.#write()
    })
    this.#writing = this.#waiting
    return this.#waiting
  }

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

async function recordedDays(
  path: string,
  { clock, warn }: StatisticsFileOptions,
): Promise<Pick<DecodedDays, 'days' | 'history'>> {
  const stamp = new Date(clock.now()).toISOString().replace(/[-:]|\.\d+/g, '')
  const aside = `${path}.set-aside-${stamp}`
  /** The name under which the damaged file is kept, or the reason why it cannot be kept. */
  const kept = (keeping: Promise<void>) =>
    keeping.then(
      () => ({ aside }),
      (error: unknown) => ({ problem: explainError(error) }),
    )
  try {
    const { size } = await stat(path)
    if (size > sizeLimit) throw new Error(`${size} bytes are more than this file may have`)
    const decoded = decodeDays(await readFile(path, 'utf8'))
    const { unreadable } = decoded
    if (unreadable.length > 0) {
      const done = await kept(copyFile(path, aside, constants.COPYFILE_EXCL))
      const fate = 'aside' in done ? '; the file as it was is kept' : ''
      const sentence = `the statistics of some days make no sense and are left out${fate}`
      const days = unreadable.slice(0, 10).join(', ')
      warn(sentence, { path, days, count: unreadable.length, ...done })
    }
    return decoded
  } catch (error) {
    if (systemCode(error) !== 'ENOENT') {
      const done = await kept(rename(path, aside))
      const fate =
        'aside' in done
          ? ' and was set aside; counting starts again'
          : ', and not be set aside either; it will be replaced'
      const because = explainError(error)
      warn(`the statistics file cannot be used${fate}`, { path, because, ...done })
    }
    return { days: new Map(), history: noHistory }
  }
}

const formatVersion = 1

interface DecodedDays {
  readonly days: Days
  readonly history: History
  readonly unreadable: readonly string[]
}

/** Decodes the text of the file. Throws an error with the reason when no part of it can be used. */
export function decodeDays(text: string): DecodedDays {
  let file: unknown
  try {
    file = JSON.parse(text)
  } catch (error) {
    throw new Error(`it is not JSON: ${explainError(error)}`)
  }
  if (!isRecord(file)) throw new Error('it is not a JSON object')
  const { version, daily } = file
  if (typeof version === 'number' && version > formatVersion) {
    throw new Error(
      `it has version ${version}, written by a newer release; this one knows version ${formatVersion}`,
    )
  }
  if (version !== formatVersion) throw new Error('it names no version this release knows')
  if (!isRecord(daily)) throw new Error('it has no "daily" object')
  const days = new Map<string, Counters>()
  const unreadable: string[] = []
  for (const [date, value] of Object.entries(daily)) {
    const counters = isDate(date) ? decodeCounters(value) : undefined
    if (counters === undefined) unreadable.push(date)
    else days.set(date, counters)
  }
  return { days, history: decodeHistory(file), unreadable }
}

/** The text of the file, with the days in order of their dates. */
export function encodeDays(days: Days, { unanswered, hours }: History = noHistory): string {
  const file = {
    version: formatVersion,
    daily: inOrder(days),
    unanswered: inOrder(unanswered),
    recent: Object.fromEntries(
      hours.map(({ from, ...counters }) => [new Date(from).toISOString(), counters]),
    ),
  }
  return `${JSON.stringify(file)}\n`
}

function inOrder(byDate: ReadonlyMap<string, unknown>): object {
  return Object.fromEntries([...byDate].sort(([a], [b]) => (a < b ? -1 : 1)))
}

function decodeHistory(file: Readonly<Record<string, unknown>>): History {
  const unanswered = new Map<string, UnansweredCounts>()
  const found = isRecord(file['unanswered']) ? file['unanswered'] : {}
  for (const [date, value] of Object.entries(found)) {
    if (!isDate(date) || !isRecord(value)) continue
    const { refused, failed } = value
    if (isCount(refused) && isCount(failed)) unanswered.set(date, { refused, failed })
  }
  const { recent } = file
  return { unanswered, hours: isRecord(recent) ? decodeRecent(recent) : [] }
}

/** The most hours that are read. A file of this release has fewer, unless the time zone changed by half an hour between its runs. */
const mostHours = 100

function decodeRecent(recent: Readonly<Record<string, unknown>>): readonly Hour[] {
  return Object.entries(recent)
    .flatMap(([moment, value]): readonly Hour[] => {
      const from = Date.parse(moment)
      if (Number.isNaN(from) || new Date(from).toISOString() !== moment) return []
      const counters = countersIn(value, hourNames)
      return counters === undefined ? [] : [{ from, ...counters }]
    })
    .sort((a, b) => a.from - b.from)
    .slice(-mostHours)
}

function decodeCounters(value: unknown): Counters | undefined {
  const counters = countersIn(value, counterNames)
  const { requests, hits = 0, misses = 0, tunnel = 0 } = counters ?? {}
  return requests === hits + misses + tunnel ? counters : undefined
}

/** The counters of these names in a value; undefined when one of them is not a count. */
function countersIn<Name extends string>(value: unknown, names: readonly Name[]) {
  if (!isRecord(value) || !names.every(name => isCount(value[name]))) return undefined
  return Object.fromEntries(names.map(name => [name, value[name]])) as Record<Name, number>
}

/** Whether a text is a date of the calendar. 2025-02-30 is not one. */
function isDate(text: string): boolean {
  if (!/^\d{4}-\d{2}-\d{2}$/.test(text)) return false
  const moment = Date.parse(`${text}T00:00:00Z`)
  return !Number.isNaN(moment) && new Date(moment).toISOString().startsWith(text)
}
