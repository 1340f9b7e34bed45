/**
 * Writes a session token into cookies, in parts when it is long, and finds it in those of a request. The file knows names and
 * sizes, not the content of a token.
 *
 * # Format
 * One cookie, `__authproxy_session`: the token. Several, that one and `__authproxy_session.1` and so on: `<count>:<tag>:<part>`
 * in the first, `<tag>:<part>` in the others. The random tag tells parts of one token from those of another, which a browser
 * may hold beside them: with another Path or Domain, or after a write that was only half done.
 *
 * `__Host-authproxy_browser`: a random name of the browser, which no neighbour under the parent domain can set. A token holds its
 * hash, so that a session of another browser is not valid in this one. It is made before a login and kept by the next ones: tabs
 * that log in at the same time would otherwise take it from each other.
 */
import { createHash } from 'node:crypto'
import type { Seconds } from '../../async/clock.ts'
import { type CookieOptions, largestCookie, setCookie } from '../../http/message/cookie.ts'
import { Fields } from '../../http/message/field.ts'
import { ownCookies, ownValues } from '../access/own-cookies.ts'

export const sessionCookie = '__authproxy_session'

/** The most cookies of one name that are tried. */
const MOST_CANDIDATES = 12
const MOST_PARTS = 8
/** The most characters of one part: strict browsers count the whole Set-Cookie line, with `<count>:<tag>:` and attributes. */
const PART = largestCookie - sessionCookie.length - 200

const BROWSER = '__Host-authproxy_browser'
/** The lifetime of cookies about a browser: the longest possible session, so that they outlive the browser's sessions. */
export const longestSession: Seconds = 30 * 86_400

/** The browser of a request by its cookie, for `browserLine` and `browserHash`; undefined when it has no name yet. */
export function browserIn(fields: Fields): string | undefined {
  return ownValues(fields, BROWSER).find(value => /^[\w-]{22}$/.test(value))
}

/** A name for a browser that has none. */
export function newBrowser(random: (size: number) => Buffer): string {
  return random(16).toString('base64url')
}

/** The Set-Cookie value that gives a browser its name. The IdP's answer has to bring it, so it is SameSite=None. */
export function browserLine(name: string): string {
  return setCookie(BROWSER, name, { maxAge: longestSession, sameSite: 'None' })
}

/** The hash of a browser's name for a token, in which the name itself cannot be read. */
export function browserHash(name: string): string {
  return createHash('sha256').update(name).digest('base64url').slice(0, 22)
}

/** The different tokens that the cookies of a request may hold, the likeliest first. */
export function tokensIn(fields: Fields): readonly string[] {
  const held = new Map<string, readonly string[]>()
  for (const { name, value } of ownCookies(fields)) {
    if (!isSessionCookie(name)) continue
    const values = held.get(name) ?? []
    if (values.length < MOST_CANDIDATES) held.set(name, [...values, value])
  }
  const tokens = held.get(sessionCookie)?.map(value => joined(value, held) ?? '') ?? []
  return [...new Set(tokens)].filter(token => token !== '')
}

/** The number of session cookies in a request, and their size with their names. */
export function sessionCookies(fields: Fields): { readonly count: number; readonly bytes: number } {
  const own = ownCookies(fields).filter(({ name }) => isSessionCookie(name))
  return {
    count: own.length,
    bytes: own.reduce((sum, { name, value }) => sum + name.length + value.length + 3, 0),
  }
}

/**
 * The Set-Cookie lines of a token, and those that remove other session cookies of the browser; or the bytes of names and values
 * together, when they are more than `limit`.
 */
export function writeToken(
  token: string,
  to: {
    readonly limit: number
    readonly maxAge: Seconds
    readonly tag: string
    readonly requestFields: Fields
  },
): Fields | { readonly tooLarge: number } {
  const count = Math.ceil(token.length / PART)
  const cookies = Array.from({ length: count }, (_, i) => {
    const part = token.slice(i * PART, (i + 1) * PART)
    if (i > 0) return [`${sessionCookie}.${i}`, `${to.tag}:${part}`] as const
    return [sessionCookie, count === 1 ? part : `${count}:${to.tag}:${part}`] as const
  })
  const bytes = cookies.reduce((sum, [name, value]) => sum + name.length + 1 + value.length, 0)
  if (bytes > to.limit || count > MOST_PARTS) return { tooLarge: bytes }
  const surplus = new Set(heldNames(to.requestFields))
  for (const [name] of cookies) surplus.delete(name)
  return Fields.of(
    ...cookies.map(([name, value]) => line(name, value, { maxAge: to.maxAge })),
    ...[...surplus].map(name => line(name, '', { maxAge: 0 })),
  )
}

/**
 * The Set-Cookie lines that remove every session cookie: those of the request, and the first in any case. They are for this
 * host, and for the domains above it, for which other hosts could have set one.
 */
export function clearingLines(held: Fields, domain: string): Fields {
  const names = [...new Set([sessionCookie, ...heldNames(held)])]
  const twice = sessionCookies(held).count > names.length
  const places = twice ? domainsAbove(domain).map(above => ({ domain: above })) : []
  return Fields.of(
    ...[{}, ...places].flatMap(place => names.map(name => line(name, '', { maxAge: 0, ...place }))),
  )
}

function line(name: string, value: string, options: CookieOptions): ['Set-Cookie', string] {
  return ['Set-Cookie', setCookie(name, value, options)]
}

function heldNames(fields: Fields): readonly string[] {
  const names = ownCookies(fields).map(({ name }) => name)
  return [...new Set(names.filter(isSessionCookie))].slice(0, 16)
}

function isSessionCookie(name: string): boolean {
  return name === sessionCookie || /^__authproxy_session\.\d{1,2}$/.test(name)
}

/** The host itself and the domains above it, but not the last label alone. */
function domainsAbove(host: string): readonly string[] {
  const labels = host.replace(/:\d+$/, '').split('.')
  return labels
    .slice(0, 4)
    .flatMap((_, i) => (i + 1 < labels.length ? labels.slice(i).join('.') : []))
}

/** The token whose first cookie this is; undefined when a part is missing. */
function joined(first: string, held: ReadonlyMap<string, readonly string[]>): string | undefined {
  if (!first.includes(':')) return first
  const [, count = '', tag = '', part = ''] = /^(\d):([A-Za-z0-9]{1,16}):(.*)$/.exec(first) ?? []
  const parts = [part]
  for (let i = 1; i < Math.min(Number(count), MOST_PARTS); i += 1) {
    const wanted = `${tag}:`
    const next = held.get(`${sessionCookie}.${i}`)?.find(value => value.startsWith(wanted))
    if (next === undefined) return undefined
    parts.push(next.slice(wanted.length))
  }
  return parts.length === Number(count) ? parts.join('') : undefined
}
