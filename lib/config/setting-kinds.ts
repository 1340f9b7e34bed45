/**
 * The kinds of settings of both services: switches, words, numbers, durations, sizes, paths.
 */
import { isAbsolute, normalize, resolve } from 'node:path'
import { day, type Milliseconds } from '../async/clock.ts'
import { mismatch, nearestName, type ReadResult, readFailure, readResult } from './reading.ts'
import { type Kind, kind } from './settings.ts'
import { formatDuration, formatSize, parseDuration, parseSize } from './units.ts'

/** `true` or `false`; the words of YAML 1.1 (`yes`, `no`, `on`, `off`) are understood because old files have them. */
export const boolean: Kind<boolean> = kind(
  { name: 'boolean', json: { type: 'boolean' } },
  found => {
    if (typeof found === 'boolean') return readResult(found)
    const word = typeof found === 'string' ? found.toLowerCase() : ''
    if (['yes', 'on'].includes(word)) return readResult(true)
    if (['no', 'off'].includes(word)) return readResult(false)
    return mismatch(found, 'true or false')
  },
)

/** Any text that messages may quote; `secretText` is for the rest. */
export const text: Kind<string> = kind({ name: 'text', json: { type: 'string' } }, found => {
  if (typeof found === 'string') return readResult(found)
  const isPlain = typeof found === 'number' || typeof found === 'boolean'
  return mismatch(found, 'text', isPlain ? `put it between quotes: "${found}"` : undefined)
})

/** Text that no message may quote. */
export const secretText: Kind<string> = kind({ name: 'text', json: { type: 'string' } }, found =>
  typeof found === 'string'
    ? readResult(found)
    : readFailure('found something else, expected text; put it between quotes'),
)

/** One of a few words. */
export function oneOf<const W extends string>(...words: readonly W[]): Kind<W> {
  return kind({ name: 'word', range: words.join(', '), json: { enum: words } }, found => {
    const word = words.find(w => w === found)
    if (word !== undefined) return readResult(word)
    const near = typeof found === 'string' ? nearestName(found, words) : undefined
    const mend = near === undefined ? undefined : `did you mean ${near}?`
    return mismatch(found, `one of ${words.join(', ')}`, mend)
  })
}

/** A day such as `2026-11-01`, as the moment at which it ends by UTC. */
export const calendarDay: Kind<Milliseconds> = kind(
  { name: 'day', json: { type: 'string', pattern: '^\\d{4}-\\d\\d-\\d\\d$' } },
  found => {
    const begin =
      typeof found === 'string' && /^\d{4}-\d\d-\d\d$/.test(found) ? Date.parse(found) : Number.NaN
    // Date.parse takes the 31st of February for a day of March.
    return Number.isNaN(begin) || new Date(begin).toISOString().slice(0, 10) !== found
      ? mismatch(found, 'a day', 'such as "2026-11-01"')
      : readResult(begin + day)
  },
)

/** A whole number between two bounds, both included. */
export function integer(least: number, most: number, what = 'a whole number'): Kind<number> {
  const range = `${least} to ${most}`
  const json = { type: 'integer', minimum: least, maximum: most }
  return kind({ name: 'integer', range, json }, found => {
    if (typeof found === 'number' && Number.isInteger(found) && found >= least && found <= most) {
      return readResult(found)
    }
    const quoted = typeof found === 'string' && /^\d+$/.test(found)
    return mismatch(found, `${what} from ${range}`, quoted ? 'remove the quotes' : undefined)
  })
}

/** A port that a client can connect to. */
export const port: Kind<number> = integer(1, 65_535, 'a port')

/** A duration between two bounds, in milliseconds. */
export const duration = measure('duration', {
  parse: parseDuration,
  format: formatDuration,
  example: '30s or 5m',
})

/** A size between two bounds, in bytes. */
export const size = measure('size', { parse: parseSize, format: formatSize, example: '64K or 2G' })

/** An absolute path, normalised. */
export const absolutePath: Kind<string> = kind({ name: 'path', json: { type: 'string' } }, readPath)

/** Reads an absolute path; a relative one is answered with what it would be here. */
export function readPath(found: unknown): ReadResult<string> {
  if (typeof found !== 'string' || found === '') return mismatch(found, 'an absolute path')
  if (found.includes('\0')) return readFailure('a path has no NUL byte')
  if (isAbsolute(found)) return readResult(normalize(found))
  const mend = found.startsWith('~')
    ? 'there is no shell here to replace the ~'
    : `write it in full, such as ${resolve(found)}`
  return mismatch(found, 'an absolute path', mend)
}

interface Measure {
  readonly parse: (text: string) => ReadResult<number>
  readonly format: (value: number) => string
  readonly example: string
}

/** The kinds of what is written as a number and a unit, each between two bounds. */
function measure(name: string, { parse, format, example }: Measure) {
  return (lower: string, upper: string): Kind<number> => {
    const least = certain(parse(lower))
    const most = certain(parse(upper))
    const range = `${lower} to ${upper}`
    const what = `a ${name} from ${range}`
    return kind({ name, range, json: { type: ['string', 'integer'] } }, found => {
      if (typeof found !== 'string' && typeof found !== 'number') {
        return mismatch(found, what, `such as ${example}`)
      }
      const read = parse(String(found))
      if (!read.ok) return mismatch(found, what, read.problem)
      if (read.value >= least && read.value <= most) return read
      const taken = format(read.value)
      return mismatch(found, what, taken === String(found) ? undefined : `that is ${taken}`)
    })
  }
}

/** The value of a bound that is written in the source. */
function certain(read: ReadResult<number>): number {
  if (read.ok) return read.value
  throw new TypeError(read.problem)
}
