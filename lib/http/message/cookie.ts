/**
 * Cookies, RFC 6265: reads Cookie fields and writes Set-Cookie lines.
 *
 * # Facts
 * - A browser may send several cookies of one name (other Path, other Domain); nothing in the field tells them apart.
 * - Browsers ignore a cookie whose name and value together exceed 4096 bytes, without an error.
 */
import type { Seconds } from '../../async/clock.ts'
import { Fields, sameName, trimWhitespace } from './field.ts'

/** Bytes of name and value that browsers keep. */
export const largestCookie = 4096

export interface CookiePair {
  readonly name: string
  readonly value: string
}

/** Every cookie of a request in the order it came (5.4), those of one name included. What has no "=" is left out. */
export function cookiePairs(fields: Fields): readonly CookiePair[] {
  const pairs: CookiePair[] = []
  for (const line of fields.all('Cookie')) {
    for (const piece of line.split(';')) {
      const pair = parsePair(piece)
      if (pair !== undefined) pairs.push(pair)
    }
  }
  return pairs
}

/** The values of every cookie of this name, in the order they came. */
export function cookieValues(fields: Fields, name: string): readonly string[] {
  return cookiePairs(fields)
    .filter(pair => pair.name === name)
    .map(pair => pair.value)
}

/** The fields less the cookies whose name `drop` names; what stays keeps its bytes. */
export function withoutCookies(fields: Fields, drop: (name: string) => boolean): Fields {
  if (!fields.has('Cookie')) return fields
  const flat: string[] = []
  for (const [name, value] of fields) {
    if (!sameName(name, 'Cookie')) {
      flat.push(name, value)
      continue
    }
    const pieces = value.split(';')
    const kept = pieces.filter(piece => !drop(nameOf(piece)))
    if (kept.length === pieces.length) flat.push(name, value)
    else if (kept.some(piece => piece.trim() !== '')) flat.push(name, kept.join(';').trim())
  }
  return Fields.fromFlat(flat)
}

export interface CookieOptions {
  /** Undefined: for as long as the browser runs. 0 or less removes the cookie. */
  readonly maxAge?: Seconds
  readonly path?: string
  /** Undefined: this host alone. */
  readonly domain?: string
  readonly sameSite?: 'Strict' | 'Lax' | 'None'
}

/** A Set-Cookie value, Secure and HttpOnly. Throws when name or value could be read as anything else. */
export function setCookie(name: string, value: string, options: CookieOptions = {}): string {
  if (!NAME.test(name) || !VALUE.test(value)) throw new TypeError(`"${name}" makes no cookie`)
  const { maxAge, path = '/', domain, sameSite = 'Lax' } = options
  const parts = [`${name}=${value}`, `Path=${path}`]
  if (domain !== undefined) parts.push(`Domain=${domain}`)
  if (maxAge !== undefined) parts.push(`Max-Age=${Math.max(0, Math.floor(maxAge))}`)
  parts.push('Secure', 'HttpOnly', `SameSite=${sameSite}`)
  return parts.join('; ')
}

/** The name a Set-Cookie line sets. A cookie without one (`=a=b`) comes back from browsers as its value alone, `a=b`. */
export function setCookieName(line: string): string {
  const pair = line.split(';', 1)[0] ?? ''
  return nameOf(pair.replace(/^[\t =]+/, ''))
}

/** cookie-name and cookie-octet (4.1.1) */
const NAME = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/
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
