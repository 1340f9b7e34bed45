/**
 * A session token in cookies: whole in `__authproxy_session` when it fits, else spread over `__authproxy_session`,
 * `__authproxy_session.1` and so on. Knows names and sizes, not what a token says.
 *
 * # Format
 * One cookie: the token. Several: `<count>:<tag>:<part>` in the first, `<tag>:<part>` in the others; the tag is random and
 * tells parts of one token from those of another, which a browser may hold beside them (other Path or Domain, or a write that
 * was only half done).
 */
import type { Seconds } from '../../async/clock.ts'
import { cookiePairs, largestCookie, setCookie } from '../../http/message/cookie.ts'
import { Fields } from '../../http/message/field.ts'

export const sessionCookie = '__authproxy_session'

/** Cookies of one name that are looked at: whoever sends more gets no more work out of us. */
const MOST_CANDIDATES = 12
const MOST_PARTS = 8
/** Room for `<count>:<tag>:` and for attributes: strict browsers count the whole Set-Cookie line. */
const PART = largestCookie - sessionCookie.length - 200

/** Whether a cookie is ours, so that the backend never sees it: the session's, and what logins leave. */
export function isOwnCookie(name: string): boolean {
  return /^(?:__(?:Host|Secure)-)?_{0,2}authproxy[_.-]/i.test(name)
}

/** The tokens the cookies of a request may hold, the likeliest first, all different. */
export function tokensIn(fields: Fields): readonly string[] {
  const first: string[] = []
  const parts = new Map<string, string[]>()
  for (const { name, value } of cookiePairs(fields)) {
    if (name === sessionCookie) {
      if (first.length < MOST_CANDIDATES) first.push(value)
    } else if (isSessionCookie(name)) {
      const known = parts.get(name)
      if (known === undefined) parts.set(name, [value])
      else if (known.length < MOST_CANDIDATES) known.push(value)
    }
  }
  const tokens = first.map(value => (value.includes(':') ? joined(value, parts) : value) ?? '')
  return [...new Set(tokens)].filter(token => token !== '')
}

/** Cookies of ours in a request: how many, and how large with their names. */
export function sessionCookies(fields: Fields): { readonly count: number; readonly bytes: number } {
  const own = cookiePairs(fields).filter(({ name }) => isSessionCookie(name))
  return {
    count: own.length,
    bytes: own.reduce((sum, { name, value }) => sum + name.length + value.length + 3, 0),
  }
}

/** What becomes of a token: the Set-Cookie lines, or the size that is too much. */
export type Written =
  | { readonly fits: true; readonly lines: Fields }
  | { readonly fits: false; readonly bytes: number }

/**
 * The Set-Cookie lines of a token, and those that remove what the browser holds besides. `limit` is for names and values
 * together, in bytes.
 */
export function writeToken(
  token: string,
  to: {
    readonly limit: number
    readonly maxAge: Seconds
    readonly tag: string
    readonly held: Fields
  },
): Written {
  const cookies: Array<readonly [name: string, value: string]> = []
  if (token.length <= PART) cookies.push([sessionCookie, token])
  else {
    const count = Math.ceil(token.length / PART)
    for (let i = 0; i < count; i += 1) {
      const part = token.slice(i * PART, (i + 1) * PART)
      const value = i === 0 ? `${count}:${to.tag}:${part}` : `${to.tag}:${part}`
      cookies.push([i === 0 ? sessionCookie : `${sessionCookie}.${i}`, value])
    }
  }
  const bytes = cookies.reduce((sum, [name, value]) => sum + name.length + 1 + value.length, 0)
  if (bytes > to.limit || cookies.length > MOST_PARTS) return { fits: false, bytes }
  const written = new Set(cookies.map(([name]) => name))
  const surplus = heldNames(to.held).filter(name => !written.has(name))
  return {
    fits: true,
    lines: Fields.of(
      ...cookies.map(([name, value]) => line(setCookie(name, value, { maxAge: to.maxAge }))),
      ...surplus.map(name => line(setCookie(name, '', { maxAge: 0 }))),
    ),
  }
}

/**
 * Set-Cookie lines that remove every session cookie: those the request shows, and the first in any case; for this host, and
 * for the domains above it that somebody could have set one for.
 */
export function clearingLines(held: Fields, domain: string): Fields {
  const names = new Set([sessionCookie, ...heldNames(held)])
  const twice = sessionCookies(held).count > names.size
  const domains = [undefined, ...(twice ? domainsAbove(domain) : [])]
  return Fields.of(
    ...domains.flatMap(above =>
      [...names].map(name =>
        line(
          setCookie(name, '', above === undefined ? { maxAge: 0 } : { maxAge: 0, domain: above }),
        ),
      ),
    ),
  )
}

function line(value: string): readonly ['Set-Cookie', string] {
  return ['Set-Cookie', value]
}

function heldNames(fields: Fields): readonly string[] {
  const names = cookiePairs(fields).map(({ name }) => name)
  return [...new Set(names.filter(isSessionCookie))].slice(0, 16)
}

function isSessionCookie(name: string): boolean {
  return name === sessionCookie || /^__authproxy_session\.\d{1,2}$/.test(name)
}

/** The host itself and the domains above it, but not the last label alone. */
function domainsAbove(host: string): readonly string[] {
  const labels = host.replace(/:\d+$/, '').split('.')
  const domains: string[] = []
  for (let i = 0; i + 1 < labels.length; i += 1) domains.push(labels.slice(i).join('.'))
  return domains.slice(0, 4)
}

function joined(first: string, held: ReadonlyMap<string, readonly string[]>): string | undefined {
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
