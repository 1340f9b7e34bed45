/**
 * The format of the statistics file. Pure: text in, values out.
 *
 * # Format
 * `{"version":1,"daily":{"2025-01-31":{"requests":3,"hits":1,"misses":1,"tunnel":1,"traffic_down":…, …}},`
 * `"unanswered":{"2025-01-31":{"refused":0,"failed":2}},"hours":{"date":"2025-01-31","hits":[0,…],…}}`
 *
 * `unanswered` and `hours` may be absent, as in files of earlier releases; where they make no sense they are left out.
 * A day whose figures make no sense is left out and named; the others stand.
 */
import { explainError } from '../../errors.ts'
import { isCount, isRecord } from '../../json.ts'
import {
  type Counters,
  counterNames,
  type Days,
  type History,
  type Hours,
  noCounters,
  noHistory,
  outcomeNames,
  type Unanswered,
} from './statistics.ts'

const formatVersion = 1

export interface DecodedDays {
  readonly days: Days
  readonly history: History
  /** Keys of days whose figures make no sense. */
  readonly unreadable: readonly string[]
}

/** Takes the file's text apart. Throws when it cannot be used at all, and says why. */
export function decodeDays(text: string): DecodedDays {
  const file = parse(text)
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

function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch (error) {
    throw new Error(`it is not JSON: ${explainError(error)}`)
  }
}

/** The file's text, days in order of date. */
export function encodeDays(days: Days, { unanswered, hours }: History = noHistory): string {
  const file = {
    version: formatVersion,
    daily: inOrder(days),
    unanswered: inOrder(unanswered),
    hours: hours && { date: hours.date, ...hours.counts },
  }
  return `${JSON.stringify(file)}\n`
}

function inOrder(byDate: ReadonlyMap<string, unknown>): object {
  return Object.fromEntries([...byDate].sort(([a], [b]) => (a < b ? -1 : 1)))
}

function decodeHistory(file: Readonly<Record<string, unknown>>): History {
  const unanswered = new Map<string, Unanswered>()
  const found = isRecord(file['unanswered']) ? file['unanswered'] : {}
  for (const [date, value] of Object.entries(found)) {
    if (!isDate(date) || !isRecord(value)) continue
    const { refused, failed } = value
    if (isCount(refused) && isCount(failed)) unanswered.set(date, { refused, failed })
  }
  return { unanswered, hours: decodeHours(file['hours']) }
}

function decodeHours(found: unknown): Hours | undefined {
  if (!isRecord(found)) return undefined
  const { date } = found
  if (typeof date !== 'string' || !isDate(date)) return undefined
  const counts = { hits: [], misses: [], tunnel: [], refused: [], failed: [] }
  const read: Record<(typeof outcomeNames)[number], readonly number[]> = counts
  for (const name of outcomeNames) {
    const hours = found[name]
    if (!Array.isArray(hours) || hours.length !== 24 || !hours.every(isCount)) return undefined
    read[name] = hours
  }
  return { date, counts: read }
}

function decodeCounters(value: unknown): Counters | undefined {
  if (!isRecord(value)) return undefined
  const counters: Record<keyof Counters, number> = { ...noCounters }
  for (const name of counterNames) {
    const found = value[name]
    if (!isCount(found)) return undefined
    counters[name] = found
  }
  const { requests, hits, misses, tunnel } = counters
  return requests === hits + misses + tunnel ? counters : undefined
}

/** Whether a text is a date of the calendar: 2025-02-30 is not. */
function isDate(text: string): boolean {
  if (!/^\d{4}-\d{2}-\d{2}$/.test(text)) return false
  const moment = Date.parse(`${text}T00:00:00Z`)
  return !Number.isNaN(moment) && new Date(moment).toISOString().startsWith(text)
}
