/**
 * Cookies, RFC 6265: reads Cookie fields and writes Set-Cookie lines.
 *
 * # Facts
 * - A browser may send several cookies of one name (other Path, other Domain); the field does not tell them apart.
 * - Browsers ignore a cookie whose name and value together exceed 4096 bytes, without an error.
 */
import type { Seconds } from '../../async/clock.ts'
import { Fields, isToken, sameName, trimWhitespace } from './field.ts'

/** The most bytes of name and value together that browsers keep. */
export const largestCookie = 4096

export interface CookiePair {
  readonly name: string
  readonly value: string
}

/** The most cookies of one line that are read. Browsers keep some 180 for a site; only an attacker sends more, to cost time. */
const MOST_PIECES = 1000

/**
 * The cookies of a request that contain `word`, in the order they came (5.4), also those that share a name. A piece without "=" is left
 * out. `word` is a global pattern: the pieces without it cost one search of the line, however many there are.
 */
export function cookiePairs(fields: Fields, word: RegExp): readonly CookiePair[] {
  const pairs: CookiePair[] = []
  for (const line of fields.all('Cookie')) {
    for (const { start, end } of piecesOf(line, word)) {
      const pair = parsePair(line.slice(start, end))
      if (pair !== undefined) pairs.push(pair)
    }
  }
  return pairs
}

/** The fields without the cookies that contain `word` and whose name `drop` accepts. A line with MOST_PIECES such cookies is left out. */
export function withoutCookies(
  fields: Fields,
  word: RegExp,
  drop: (name: string) => boolean,
): Fields {
  if (!fields.has('Cookie')) return fields
  const flat: string[] = []
  for (const [name, value] of fields) {
    if (!sameName(name, 'Cookie')) flat.push(name, value)
    else {
      const left = lineWithout(value, word, drop)
      if (left !== '') flat.push(name, left)
    }
  }
  return Fields.fromFlat(flat)
}

function lineWithout(line: string, word: RegExp, drop: (name: string) => boolean): string {
  const pieces = piecesOf(line, word)
  if (pieces.length === MOST_PIECES) return ''
  const dropped = pieces.filter(({ start, end }) => drop(nameOf(line.slice(start, end))))
  if (dropped.length === 0) return line
  const kept: string[] = []
  let from = 0
  for (const { start, end } of dropped) {
    if (start > from) kept.push(line.slice(from, start - 1))
    from = end + 1
  }
  kept.push(line.slice(from))
  return kept
    .filter(text => /[^;\s]/.test(text))
    .join(';')
    .trim()
}

/** The positions of the cookies that contain a word. Each byte is read a fixed number of times. */
function piecesOf(line: string, word: RegExp) {
  const pieces: Array<{ readonly start: number; readonly end: number }> = []
  word.lastIndex = 0
  for (;;) {
    const at = word.exec(line)?.index
    if (at === undefined || pieces.length === MOST_PIECES) return pieces
    const semicolon = line.indexOf(';', at)
    const end = semicolon < 0 ? line.length : semicolon
    pieces.push({ start: line.lastIndexOf(';', at) + 1, end })
    word.lastIndex = end
  }
}

export interface CookieOptions {
  /** Undefined: the cookie lasts until the browser ends. 0 or less removes the cookie. */
  readonly maxAge?: Seconds
  readonly path?: string
  /** Undefined: the browser sends the cookie to this host only. */
  readonly domain?: string
  readonly sameSite?: 'Strict' | 'Lax' | 'None'
}

/** A Set-Cookie value, Secure and HttpOnly. Throws when a reader could take name or value for something else. */
export function setCookie(name: string, value: string, options: CookieOptions = {}): string {
  if (!isToken(name) || !VALUE.test(value)) throw new TypeError(`"${name}" makes no cookie`)
  const { maxAge, path = '/', domain, sameSite = 'Lax' } = options
  const parts = [`${name}=${value}`, `Path=${path}`]
  if (domain !== undefined) parts.push(`Domain=${domain}`)
  if (maxAge !== undefined) parts.push(`Max-Age=${Math.max(0, Math.floor(maxAge))}`)
  parts.push('Secure', 'HttpOnly', `SameSite=${sameSite}`)
  return parts.join('; ')
}

/** The name that a Set-Cookie line sets. A cookie without one (`=a=b`) comes back from browsers as its value alone, `a=b`. */
export function setCookieName(line: string): string {
  const pair = line.split(';', 1)[0] ?? ''
  return nameOf(pair.replace(/^[\t =]+/, ''))
}

/** cookie-octet (4.1.1) */
const VALUE = /^[\x21\x23-\x2b\x2d-\x3a\x3c-\x5b\x5d-\x7e]*$/

function parsePair(piece: string): CookiePair | undefined {
  const equals = piece.indexOf('=')
  if (equals < 0) return undefined
  return {
    name: trimWhitespace(piece.slice(0, equals)),
    value: trimWhitespace(piece.slice(equals + 1)),
  }
}

function nameOf(piece: string): string {
  const equals = piece.indexOf('=')
  return trimWhitespace(equals < 0 ? piece : piece.slice(0, equals))
}
