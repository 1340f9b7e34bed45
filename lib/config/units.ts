/**
 * Durations and sizes as people write them: `30s`, `1h30m`, `64K`, `2G`.
 *
 * # Facts
 * - A bare number is seconds for a duration and bytes for a size, as in the files our users come from.
 * - Size units are binary: K is 1024 bytes. `KB` is refused, because half its readers mean 1000.
 *
 * Pure. A wrong text gives a sentence for the error message.
 */
import { day, hour, type Milliseconds } from '../async/clock.ts'
import { type ReadResult, readFailure } from './reading.ts'

const DURATION_UNITS: ReadonlyMap<string, Milliseconds> = new Map([
  ['w', 7 * day],
  ['d', day],
  ['h', hour],
  ['m', 60_000],
  ['s', 1000],
  ['ms', 1],
])

const SIZE_UNITS: ReadonlyMap<string, number> = new Map([
  ['T', 2 ** 40],
  ['G', 2 ** 30],
  ['M', 2 ** 20],
  ['K', 2 ** 10],
])

/** Reads `30s`, `1h30m`, `1.5d` or a bare number of seconds into milliseconds, rounded to a whole one. */
export function parseDuration(text: string): ReadResult<Milliseconds> {
  const written = text.trim()
  if (isNumber(written)) return whole(Number(written) * 1000, written)
  if (/^[+-]/.test(written)) return readFailure('a duration has no sign')
  let total = 0
  let rest = written
  do {
    const part = /^(\d+(?:\.\d+)?)\s*([^\d\s.]*)\s*/.exec(rest)
    const [all = '', count = '', unit = ''] = part ?? []
    if (part === null)
      return readFailure('a duration is a number and a unit: 500ms, 30s, 5m, 1h, 7d, 2w')
    const length = DURATION_UNITS.get(unit)
    if (length === undefined) return readFailure(badDurationUnit(unit, count))
    total += Number(count) * length
    rest = rest.slice(all.length)
  } while (rest !== '')
  return whole(total, written)
}

/** Reads `64K`, `1.5G`, `10MiB` or a bare number into bytes. */
export function parseSize(text: string): ReadResult<number> {
  const written = text.trim()
  if (isNumber(written)) return whole(Number(written), written)
  if (/^[+-]/.test(written)) return readFailure('a size has no sign')
  const part = /^(\d+(?:\.\d+)?)\s*([A-Za-z]+)$/.exec(written)
  if (part === null) return readFailure('a size is a number and a unit: 512, 64K, 10M, 2G')
  const [, count = '', unit = ''] = part
  const letter = unit.charAt(0).toUpperCase()
  const length = SIZE_UNITS.get(letter)
  if (/^[kmgt]b$/i.test(unit)) {
    return readFailure(`${unit} may mean 1000 or 1024: write ${count}${letter} for the binary unit`)
  }
  if (length === undefined || !/^[kmgt](?:i|ib)?$/i.test(unit)) {
    return readFailure(`"${clip(unit)}" is not a unit of size: use K, M, G or T`)
  }
  return whole(Number(count) * length, written)
}

/** Writes milliseconds the way `parseDuration` reads them, exactly: `1h30m`, `250ms`, `0s`. */
export function formatDuration(duration: Milliseconds): string {
  let rest = Math.max(0, Math.round(duration))
  let text = ''
  for (const [unit, length] of DURATION_UNITS) {
    if (unit === 'w') continue
    const count = Math.floor(rest / length)
    if (count > 0) text += `${count}${unit}`
    rest -= count * length
  }
  return text === '' ? '0s' : text
}

/** Writes bytes the way `parseSize` reads them, exactly: `64K`, `10M`, `1536`. */
export function formatSize(bytes: number): string {
  for (const [unit, length] of SIZE_UNITS) {
    if (bytes >= length && bytes % length === 0) return `${bytes / length}${unit}`
  }
  return String(bytes)
}

function isNumber(text: string): boolean {
  return /^\d+(?:\.\d+)?$/.test(text)
}

function whole(value: number, written: string): ReadResult<number> {
  const rounded = Math.round(value)
  if (!Number.isSafeInteger(rounded)) return readFailure(`${clip(written)} is too large`)
  return { ok: true, value: rounded }
}

/** Tells the unit that a word such as `hours` or `Min` means. `M` is a minute here: sizes do not come to this. */
function badDurationUnit(unit: string, count: string): string {
  if (unit === '') return `which unit? ${count} seconds are ${count}s, ${count} minutes ${count}m`
  const meant = /^(?:ms|milli)/i.test(unit) ? 'ms' : /^[smhdw]/i.exec(unit)?.[0].toLowerCase()
  if (meant !== undefined) return `write ${count}${meant} instead of ${count} ${clip(unit)}`
  return `"${clip(unit)}" is not a unit of time: use ms, s, m, h, d or w`
}

function clip(text: string): string {
  return text.length > 40 ? `${text.slice(0, 40)}…` : text
}
