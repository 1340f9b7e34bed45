/**
 * Compares the path of a request with the path of a rule. Pure, and linear in the length of the path.
 *
 * # Facts
 * - The bytes are forwarded as they came, and each application reads them in its way. A path is compared as all servers decode it:
 *   once. What they read in different ways is `ambiguous` (passthrough.ts).
 * - Some applications also take one spelling for another: without regard to case (IIS, Express), a slash at the end (Express,
 *   Spring), dots and spaces at the end of a name (Windows), accents and characters that are not shown (databases, file
 *   systems). `folded` has none of these differences, so it tells which other rule such an application would mean.
 */
import { isAmbiguous } from './passthrough.ts'

/** The path of a request, ready to be compared. */
export interface AskedPath {
  /** Whether two servers could see different paths in its bytes. */
  readonly ambiguous: boolean
  /** The path decoded once. */
  readonly decoded: string
  /** The decoded path without the differences that some applications overlook, and without a slash at its end. */
  readonly folded: string
}

export interface PathRule {
  /** The text of the path in the configuration file. */
  readonly written: string
  /** Whether the rule ends with a slash. Then it is for all paths below, and for the folder itself without the slash. */
  readonly isFolder: boolean
  /** The path decoded once; the path of a folder ends with "/". */
  readonly decoded: string
  readonly folded: string
}

/** Reads the path of a request line, as it is forwarded. */
export function askedPath(raw: string): AskedPath {
  if (PLAIN.test(raw))
    return { ambiguous: false, decoded: raw, folded: withoutSlash(raw.toLowerCase()) }
  if (isAmbiguous(raw)) return { ambiguous: true, decoded: raw, folded: raw }
  const decoded = raw.includes('%') ? decodeURIComponent(raw) : raw
  return { ambiguous: false, decoded, folded: folded(decoded) }
}

/** A path that is read in one way, and is its own folded form except for capitals and the slash at its end. */
const PLAIN = /^(?:\/[\w~-](?:[\w~.-]*[\w~-])?)*\/?$/

/** The path of a rule out of text for which `pathRuleProblem` finds nothing. */
export function pathRule(written: string): PathRule {
  const path = withoutMark(written)
  const { decoded, folded } = askedPath(path)
  return { written, isFolder: path === written && path.endsWith('/'), decoded, folded }
}

/** The path behind `= `, which marks a path that is no folder although it may end with a slash. */
function withoutMark(written: string): string {
  return written.startsWith('= ') ? written.slice(2) : written
}

/** What is wrong with the path of a rule, as the end of a sentence; undefined when nothing is. */
export function pathRuleProblem(written: string): string | undefined {
  const text = withoutMark(written)
  if (!text.startsWith('/')) return 'a path begins with "/"'
  if (text.includes('*')) return 'a path has no wildcards; end it with "/" to mean all paths below'
  if (/[?#]/.test(text)) return 'no rule depends on the query; leave out "?" and "#"'
  if (isAmbiguous(text)) {
    return 'a path has no encoded or repeated separators, dot segments, ";", backslashes or characters beyond ASCII, because paths with them are refused; write other characters percent-encoded'
  }
  return undefined
}

/** Whether a rule is for a path: it is the same, or lies below a folder, or is the folder itself. */
export function isFor(rule: PathRule, { decoded }: AskedPath): boolean {
  if (!rule.isFolder) return decoded === rule.decoded
  // The comparison makes no new text for each rule, because that would be half of its cost.
  const isItself = decoded.length + 1 === rule.decoded.length && rule.decoded.startsWith(decoded)
  return isItself || decoded.startsWith(rule.decoded)
}

/** Whether an application that overlooks differences of spelling could take a path for one that a rule is for. */
export function couldBeFor(rule: PathRule, { folded }: AskedPath): boolean {
  if (!folded.startsWith(rule.folded)) return false
  const { length } = rule.folded
  return folded.length === length || (rule.isFolder && folded.charAt(length) === '/')
}

/** Whether a rule is for every path that another is for. */
export function coversRule(rule: PathRule, other: PathRule): boolean {
  if (rule.decoded === other.decoded) return rule.isFolder || !other.isFolder
  if (!rule.isFolder) return false
  return (
    other.decoded.startsWith(rule.decoded) ||
    (!other.isFolder && `${other.decoded}/` === rule.decoded)
  )
}

/** Without case, accents, characters that are not shown, and what Windows drops at the end of a name. */
function folded(text: string): string {
  const plain = /[^\x20-\x7e]/.test(text)
    ? text.normalize('NFKD').replace(UNSEEN, '').toUpperCase()
    : text
  const names = plain.toLowerCase().split('/').map(bareName)
  return names.map(name => (name === '' ? '' : `/${name}`)).join('')
}

/** Accents, controls, and what has no width. */
const UNSEEN = /[\p{M}\p{C}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]/gu

/** A name without dots and spaces at its end, and without the name of a stream (`page::$DATA`). */
function bareName(name: string): string {
  const colon = name.includes(':$') ? name.indexOf(':') : name.length
  let end = colon
  while (end > 0 && (name[end - 1] === '.' || name[end - 1] === ' ')) end -= 1
  return name.slice(0, end)
}

function withoutSlash(path: string): string {
  return path.endsWith('/') ? path.slice(0, -1) : path
}
