/**
 * The kinds of settings any service has: switches, words, numbers, durations, sizes, paths. Each reader says what it found,
 * what it expected and how to mend it.
 */
import { isAbsolute, normalize, resolve } from 'node:path'
import { nearest } from './config-file.ts'
import { describe, type Kind, kind } from './settings.ts'
import { formatDuration, formatSize, parseDuration, parseSize, type Read } from './units.ts'

/** `true` or `false`; the words of YAML 1.1 (`yes`, `no`, `on`, `off`) are understood because old files have them. */
export const boolean: Kind<boolean> = kind(
  { name: 'boolean', json: { type: 'boolean' } },
  found => {
    if (typeof found === 'boolean') return right(found)
    const word = typeof found === 'string' ? found.toLowerCase() : ''
    if (['yes', 'on'].includes(word)) return right(true)
    if (['no', 'off'].includes(word)) return right(false)
    return expected(found, 'true or false')
  },
)

/** Any text. Never one for secrets: messages quote what they met. */
export const text: Kind<string> = kind({ name: 'text', json: { type: 'string' } }, found =>
  typeof found === 'string' ? right(found) : expected(found, 'text', inQuotes(found)),
)

/** Text that no message may quote. */
export const secretText: Kind<string> = kind({ name: 'text', json: { type: 'string' } }, found =>
  typeof found === 'string'
    ? right(found)
    : wrong('found something else, expected text; put it between quotes'),
)

/** One of a few words. */
export function oneOf<const W extends string>(...words: readonly W[]): Kind<W> {
  return kind({ name: 'word', range: words.join(', '), json: { enum: words } }, found => {
    const word = words.find(w => w === found)
    if (word !== undefined) return right(word)
    const near = typeof found === 'string' ? nearest(found, words) : undefined
    const mend = near === undefined ? undefined : `did you mean ${near}?`
    return expected(found, `one of ${words.join(', ')}`, mend)
  })
}

/** A whole number between two bounds, both included. */
export function integer(least: number, most: number, what = 'a whole number'): Kind<number> {
  const range = `${least} to ${most}`
  const json = { type: 'integer', minimum: least, maximum: most }
  return kind({ name: 'integer', range, json }, found => {
    if (typeof found === 'number' && Number.isInteger(found) && found >= least && found <= most) {
      return right(found)
    }
    const quoted = typeof found === 'string' && /^\d+$/.test(found)
    return expected(found, `${what} from ${range}`, quoted ? 'remove the quotes' : undefined)
  })
}

/** A port one can connect to. */
export const port: Kind<number> = integer(1, 65_535, 'a port')

/** A duration between two bounds, in milliseconds. */
export function duration(least: string, most: string): Kind<number> {
  return measure({
    name: 'duration',
    what: 'a duration',
    example: '30s or 5m',
    parse: parseDuration,
    format: formatDuration,
    least,
    most,
  })
}

/** A size between two bounds, in bytes. */
export function size(least: string, most: string): Kind<number> {
  return measure({
    name: 'size',
    what: 'a size',
    example: '64K or 2G',
    parse: parseSize,
    format: formatSize,
    least,
    most,
  })
}

/** An absolute path, normalised. */
export const absolutePath: Kind<string> = kind({ name: 'path', json: { type: 'string' } }, readPath)

/** Reads an absolute path; a relative one is answered with what it would be here. */
export function readPath(found: unknown): Read<string> {
  if (typeof found !== 'string' || found === '') return expected(found, 'an absolute path')
  if (found.includes('\0')) return wrong('a path has no NUL byte')
  if (isAbsolute(found)) return right(normalize(found))
  const mend = found.startsWith('~')
    ? 'there is no shell here to replace the ~'
    : `write it in full, such as ${resolve(found)}`
  return expected(found, 'an absolute path', mend)
}

interface Measure {
  readonly name: string
  readonly what: string
  readonly example: string
  readonly parse: (text: string) => Read<number>
  readonly format: (value: number) => string
  readonly least: string
  readonly most: string
}

function measure(of: Measure): Kind<number> {
  const least = certain(of.parse(of.least))
  const most = certain(of.parse(of.most))
  const range = `${of.least} to ${of.most}`
  const json = { type: ['string', 'integer'] }
  return kind({ name: of.name, range, json }, found => {
    const what = `${of.what} from ${range}`
    if (typeof found !== 'string' && typeof found !== 'number') {
      return expected(found, what, `such as ${of.example}`)
    }
    const read = of.parse(String(found))
    if (!read.ok) return expected(found, what, read.problem)
    if (read.value >= least && read.value <= most) return read
    const taken = of.format(read.value)
    return expected(found, what, taken === String(found) ? undefined : `that is ${taken}`)
  })
}

/** For bounds that stand in our own source. */
function certain(read: Read<number>): number {
  if (read.ok) return read.value
  throw new TypeError(read.problem)
}

/** The sentence every kind answers with: `found X, expected Y; how to mend it`. */
export function expected(found: unknown, what: string, mend?: string): Read<never> {
  return wrong(`found ${describe(found)}, expected ${what}${mend === undefined ? '' : `; ${mend}`}`)
}

export function right<T>(value: T): Read<T> {
  return { ok: true, value }
}

export function wrong(problem: string): Read<never> {
  return { ok: false, problem }
}

function inQuotes(found: unknown): string | undefined {
  return typeof found === 'number' || typeof found === 'boolean'
    ? `put it between quotes: "${found}"`
    : undefined
}
