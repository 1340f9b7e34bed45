/**
 * Keys of entries: one canonical text for each cached target, RFC 3986 section 6, and the keys of contents that are kept for builds. This
 * file is pure.
 *
 * The origin is asked for the canonical URI as well. If it were asked in the client's own spelling, it could answer two spellings of one
 * key differently, and one client could choose the content that another client gets.
 */
import { hash } from 'node:crypto'
import type { TargetUri } from '../../http/message/target.ts'

/** The name of a key's entry: the SHA-256 of its text, lower-case hex. */
export function entryName(key: string): string {
  return hash('sha256', key)
}

/** The shorter name of an entry in the table and in the log: the first 16 hex digits. */
export function nameOf(key: string): string {
  if (key === last.key) return last.name
  if (key !== before.key) before = { key, name: entryName(key).slice(0, 16) }
  ;[last, before] = [before, last]
  return last.name
}

/** The last two keys with their names. A download asks for its name four times, and the next one begins before it ends. */
let last = { key: '', name: entryName('').slice(0, 16) }
let before = last

/**
 * The target in its canonical spelling, which is its own canonical spelling. Undefined for a path that climbs above its root and for
 * control characters, escaped or not, because no archive has such names.
 */
export function canonicalUri(uri: TargetUri): TargetUri | undefined {
  if (CONTROL.test(uri.path) || (uri.query !== undefined && CONTROL.test(uri.query)))
    return undefined
  const path = canonicalPath(uri.path)
  if (path === undefined) return undefined
  const host = uri.host.toLowerCase()
  return uri.query === undefined
    ? { ...uri, host, path }
    : { ...uri, host, path, query: canonicalEscapes(uri.query, QUERY_EXCEPT) }
}

/** NUL, the other C0 controls and DEL, raw or escaped. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: these characters are refused
const CONTROL = /[\u0000-\u001f\u007f]|%[01][0-9A-Fa-f]|%7[Ff]/

/**
 * Dot segments are resolved (RFC 3986 section 5.2.4). Empty segments are removed although the RFC keeps them: `archive//dists` comes from
 * a trailing slash in sources.list, and file servers give both paths the same answer. A slash at the end stays, because it names the
 * directory.
 */
function canonicalPath(path: string): string | undefined {
  if (PLAIN_PATH.test(path)) return path
  const kept: string[] = []
  let directory = true
  for (const raw of path.split('/')) {
    const segment = canonicalEscapes(raw, PATH_EXCEPT)
    directory = segment === '' || segment === '.' || segment === '..'
    if (segment === '..') {
      if (kept.pop() === undefined) return undefined
    } else if (!directory) kept.push(segment)
  }
  return directory && kept.length > 0 ? `/${kept.join('/')}/` : `/${kept.join('/')}`
}

/**
 * Escapes of unreserved characters are decoded and all others are written in upper case (RFC 3986 section 6.2.2), so `%2F` never becomes
 * a separator. Characters that must not be raw are escaped, also a lone `%`.
 */
function canonicalEscapes(text: string, except: RegExp): string {
  if (PLAIN.test(text)) return text
  return text
    .replace(/%(?![0-9A-Fa-f]{2})/g, '%25')
    .replace(/%([0-9A-Fa-f]{2})/g, (_, hex: string) => {
      const character = String.fromCharCode(Number.parseInt(hex, 16))
      return UNRESERVED.test(character) ? character : `%${hex.toUpperCase()}`
    })
    .replace(except, escaped)
}

/** Text that is its own canonical spelling in paths and in queries, as nearly every segment is. */
const PLAIN = /^[A-Za-z0-9\-._~!$&'()*,;=:@]*$/

/** A path that is its own canonical spelling: no segment is empty or begins with a dot, and no character needs an escape. */
const PLAIN_PATH = /^(?:\/[A-Za-z0-9\-_~!$&'()*,;=:@][A-Za-z0-9\-._~!$&'()*,;=:@]*)+$/

const UNRESERVED = /^[A-Za-z0-9\-._~]$/

/**
 * The characters that are escaped in a path: all but pchar (RFC 3986 section 3.3), and also `+`, which is pchar. Object stores read a raw
 * `+` as a space, every server reads `%2B` as a plus, and apt itself sends it escaped for that reason.
 */
const PATH_EXCEPT = /[^A-Za-z0-9\-._~!$&'()*,;=:@%]/gu

/** The characters that are escaped in a query: all but pchar, `/` and `?` (section 3.4). A raw `+` is a space here and stays raw. */
const QUERY_EXCEPT = /[^A-Za-z0-9\-._~!$&'()*,;=:@%/?+]/gu

/** One character as escapes. A character below 256 is one byte of the wire; any other is escaped as UTF-8. */
function escaped(character: string): string {
  const code = character.codePointAt(0) ?? 0
  const bytes = code < 0x100 ? [code] : Buffer.from(character, 'utf8')
  return [...bytes].map(byte => `%${byte.toString(16).toUpperCase().padStart(2, '0')}`).join('')
}

/**
 * The key of the entry that keeps a content for builds. No request has such a key, because a canonical path has no empty segment and no
 * host has a name below `.invalid` (RFC 6761 section 6.4).
 */
export function keepingKey(digest: string): string {
  return `${keepingPrefix}${digest}`
}

/** The key of a content that was fetched only for a build. The key does not say which other clients may have the content. */
export function fetchedKey(digest: string): string {
  return `${fetchedPrefix}${digest}`
}

const keepingPrefix = 'http://builds.cachesvc.invalid//sha256/'
const fetchedPrefix = 'http://builds.cachesvc.invalid//fetched/'

/** Whether an entry exists only for builds. */
export function isKeepingKey(key: string): boolean {
  return key.startsWith(keepingPrefix) || isFetchedKey(key)
}

export function isFetchedKey(key: string): boolean {
  return key.startsWith(fetchedPrefix)
}
