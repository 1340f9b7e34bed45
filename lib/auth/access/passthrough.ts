/**
 * Decides which paths and tokens pass without a login. Pure.
 *
 * # Facts
 * - A prefix is compared with the very bytes that are forwarded. Servers decode, merge and resolve those bytes in different
 *   ways: some read `/public/..%2fadmin` as /admin. A path that servers can read in two ways never passes without a login.
 * - `/api` also lets `/api-admin` pass; `/api/` does not.
 */
import { createHash, timingSafeEqual } from 'node:crypto'
import type { Milliseconds } from '../../async/clock.ts'
import type { Fields } from '../../http/message/field.ts'
import { ownField } from './own-fields.ts'

/** A passthrough token: the settings hold its name for the log, its hash, and the moment it ends. */
interface PassthroughToken {
  readonly name: string
  readonly sha256: Buffer
  /** The moment since the epoch at which the token ends; undefined when it never ends. */
  readonly expires: Milliseconds | undefined
}

/** The prefix a path begins with, when that alone lets it pass; undefined when it does not, or when it is ambiguous. */
export function passthroughPrefix(path: string, prefixes: readonly string[]): string | undefined {
  const prefix = prefixes.find(candidate => path.startsWith(candidate))
  return prefix === undefined || isAmbiguous(path) ? undefined : prefix
}

/** Whether two servers could see different paths in these bytes. */
export function isAmbiguous(path: string): boolean {
  return AMBIGUOUS.some(pattern => pattern.test(path)) || hasLookalike(path)
}

/**
 * Whether a separator or a dot segment appears when characters are folded, as servers do that normalise Unicode (NFKC), file
 * systems that drop spaces at the end of a name, and code pages that put "/" for what only looks like it.
 */
function hasLookalike(path: string): boolean {
  let text: string
  try {
    text = decodeURIComponent(path)
  } catch {
    return true // not UTF-8: servers read it in different ways
  }
  // The time of normalize grows with the square of the accents on one letter.
  if (text.length > MOST_FOLDED && /[^\x20-\x7e]/.test(text)) return true
  const folded = text
    .replace(/[\u2044\u2215\u29f8\u2571]/g, '/')
    .replace(/[\u2216\u29f5\u2572]/g, '\\')
  const plain = folded.normalize('NFKC')
  const count = (of: string) => of.split(/[/\\%;?#]/).length
  return count(plain) > count(text) || plain.split('/').some(isDots)
}

/** Characters of a path that is not ASCII. */
const MOST_FOLDED = 2048

/** Whether a segment is of dots, or of dots and spaces. */
function isDots(segment: string): boolean {
  return segment.includes('.') && !/[^. ]/.test(segment)
}

const AMBIGUOUS: readonly RegExp[] = [
  // Separators that some see and others do not, and empty segments that some merge.
  /\\|\/\/|;/,
  // Encoded: separators, dots, NUL and other controls, "?", "#", ";", "%" itself (decoded twice), DEL.
  /%(?:2f|5c|2e|[01][0-9a-f]|3f|23|3b|25|7f)/i,
  // A percent sign without two hex digits.
  /%(?![0-9a-f]{2})/i,
  // Overlong UTF-8: bytes that never occur, which lenient decoders read as "/" or ".".
  /%(?:c0|c1|f[5-9a-f])/i,
  // Non-standard %u002f.
  /%u/i,
  // Dot segments (RFC 3986 section 5.2.4).
  /\/\.{1,2}(?:\/|$)/,
  // Anything but visible ASCII.
  /[^\x21-\x7e]/,
]

/** What is wrong with a configured prefix, as the end of a sentence; undefined when nothing is. */
export function prefixProblem(prefix: string): string | undefined {
  if (!prefix.startsWith('/')) return 'a prefix begins with "/"'
  if (prefix === '/')
    return '"/" would let every request pass without a login; name the paths that are meant'
  if (/[?#]/.test(prefix)) return 'a prefix is compared with the path alone; leave out "?" and "#"'
  if (isAmbiguous(prefix)) {
    return 'a prefix has no encoded or repeated separators, dot segments, ";" or backslashes, because such paths always need a login'
  }
  return undefined
}

/** The field a token comes in. It never reaches the backend. */
export const tokenField = ownField('Authorization')

/** The name of the token and the moment it ends, or why the one that came lets nothing pass. One that is unknown may be a person's. */
type TokenVerdict =
  | Pick<PassthroughToken, 'name' | 'expires'>
  | { readonly because: 'expired' | 'malformed' }
  | { readonly because: 'unknown'; readonly presented: string }

/**
 * What the token of a request is worth at `now`; undefined when it has none. Takes the same time whichever token is meant and
 * however wrong it is.
 */
export function checkToken(
  fields: Fields,
  tokens: readonly PassthroughToken[],
  now: Milliseconds,
): TokenVerdict | undefined {
  const [line, ...more] = fields.all(tokenField)
  if (line === undefined) return undefined
  const [, presented] = /^bearer +([\x21-\x7e]{1,8192})$/i.exec(line) ?? []
  if (more.length > 0 || presented === undefined) return { because: 'malformed' }
  if (tokens.length === 0) return { because: 'unknown', presented }
  const digest = tokenDigest(presented)
  const found = tokens.filter(({ sha256 }) => timingSafeEqual(sha256, digest)).at(-1)
  if (found === undefined) return { because: 'unknown', presented }
  const { name, expires } = found
  return expires === undefined || expires > now ? { name, expires } : { because: 'expired' }
}

/** SHA-256 of a token, as it is kept. */
export function tokenDigest(token: string): Buffer {
  return createHash('sha256').update(token, 'utf8').digest()
}
