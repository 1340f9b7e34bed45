/**
 * Validators, RFC 9110 section 8.8: entity tags and dates that identify one state of a representation. Compares them and knows
 * their strength; `precondition.ts` decides what follows.
 */
import type { Milliseconds } from '../../async/clock.ts'
import { parseDate } from './date.ts'
import type { Fields } from './field.ts'

/** entity-tag = [ "W/" ] DQUOTE *etagc DQUOTE (8.8.3) */
export interface EntityTag {
  readonly weak: boolean
  /** The opaque part without its quotes. No character in it has a meaning, not even a backslash. */
  readonly opaque: string
}

/** The validators of one representation; either may be missing. */
export interface Validators {
  readonly etag?: EntityTag | undefined
  /** Moment of Last-Modified, whole seconds in milliseconds since the epoch. */
  readonly lastModified?: Milliseconds | undefined
  /**
   * Moment of the Date that came with `lastModified`, which decides whether that is strong (8.8.2.2). When it is absent, the caller
   * guarantees that the representation did not change twice within that second.
   */
  readonly date?: Milliseconds | undefined
}

/** The validators that a response carries in ETag, Last-Modified and Date. A malformed one counts as missing. */
export function validatorsOf(fields: Fields, now: Milliseconds): Validators {
  const [etag, lastModified, date] = [
    fields.get('etag'),
    fields.get('last-modified'),
    fields.get('date'),
  ]
  return {
    etag: etag === undefined ? undefined : parseEntityTag(etag),
    lastModified: lastModified === undefined ? undefined : parseDate(lastModified, now),
    date: date === undefined ? undefined : parseDate(date, now),
  }
}

/** An entity tag as a field value; undefined for any other text. "W/" is case-sensitive. */
export function parseEntityTag(text: string): EntityTag | undefined {
  const found = ENTITY_TAG.exec(text)
  if (found === null) return undefined
  return { weak: found[1] !== undefined, opaque: found[2] ?? '' }
}

/** etagc = %x21 / %x23-7E / obs-text: no quote, no space, and the backslash is an ordinary character. */
const ENTITY_TAG = /^(W\/)?"([\x21\x23-\x7e\x80-\xff]*)"$/

export function formatEntityTag(tag: EntityTag): string {
  return `${tag.weak ? 'W/' : ''}"${tag.opaque}"`
}

/**
 * "*" or the list of entity tags in If-Match or If-None-Match (13.1.1). Undefined when a part of it is malformed, or when there are more
 * than MOST_TAGS tags: to read a quarter of a million takes a seventh of a second.
 */
export function parseEntityTags(value: string): '*' | readonly EntityTag[] | undefined {
  if (value === '*') return '*'
  const tags: EntityTag[] = []
  // Entity tags may hold commas, and backslashes that escape nothing, so the list reader for quoted strings would misread them.
  for (let i = skip(value, 0, ', \t'); i < value.length; i = skip(value, i, ', \t')) {
    const open = value.startsWith('W/', i) ? i + 2 : i
    const close = value.indexOf('"', open + 1)
    const tag = parseEntityTag(value.slice(i, close + 1))
    if (tag === undefined || tags.length === MOST_TAGS) return undefined
    tags.push(tag)
    i = skip(value, close + 1, ' \t')
    if (i < value.length && value[i] !== ',') return undefined
  }
  return tags.length === 0 ? undefined : tags
}

/** The most tags of a list. A client that holds several states of a representation names a few, RFC 9110 section 13.1.2. */
const MOST_TAGS = 1000

function skip(value: string, from: number, characters: string): number {
  let i = from
  while (i < value.length && characters.includes(value.charAt(i))) i += 1
  return i
}

/** Strong comparison (8.8.3.2): the tags are equal, and neither is weak. */
export function strongMatch(a: EntityTag, b: EntityTag): boolean {
  return !a.weak && !b.weak && a.opaque === b.opaque
}

/** Weak comparison (8.8.3.2): the tags are equal; both may be weak. */
export function weakMatch(a: EntityTag, b: EntityTag): boolean {
  return a.opaque === b.opaque
}

/** Whether Last-Modified is strong (8.8.2.2): it is a second older than its Date, so a change within its second would have shown. */
export function isLastModifiedStrong(validators: Validators): boolean {
  if (validators.lastModified === undefined) return false
  return validators.date === undefined || validators.date - validators.lastModified >= 1000
}
