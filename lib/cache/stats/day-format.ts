/**
 * How recorded days are written down. Pure: text in, values out.
 *
 * # Format
 * `{"version":1,"daily":{"2025-01-31":{"requests":3,"hits":1,"misses":1,"tunnel":1,"traffic_down":…, …}}}`
 *
 * A day whose figures make no sense is left out and named; the others stand.
 */
import { explainError } from '../../errors.ts'
import { isRecord } from '../../json.ts'
import type { Counters, Days } from './counters.ts'

const formatVersion = 1

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
  if (!isRecord(file)) return 'it is not a JSON object'
  const { version, daily } = file
  if (typeof version === 'number' && version > formatVersion) {
    return `it has version ${version}, written by a newer release; this one knows version ${formatVersion}`
  }
  if (version !== formatVersion) return 'it names no version this release knows'
  if (!isRecord(daily)) return 'it has no "daily" object'
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
  if (!isRecord(value)) return undefined
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

/** Whether a text is a date of the calendar: 2025-02-30 is not. */
function isDate(text: string): boolean {
  if (!/^\d{4}-\d{2}-\d{2}$/.test(text)) return false
  const moment = Date.parse(`${text}T00:00:00Z`)
  return !Number.isNaN(moment) && new Date(moment).toISOString().startsWith(text)
}
