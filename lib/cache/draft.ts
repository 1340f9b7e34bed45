/**
 * From the origin's response to an entry: which fields are kept, what Last-Modified clients will see, how old it already was.
 * RFC 9111 sections 3.1, 3.2 and 4.2.3. Pure.
 */
import type { Milliseconds, Seconds } from '../clock.ts'
import { ageOf } from '../http/cache-control.ts'
import { formatDate, parseDate } from '../http/date.ts'
import { Fields } from '../http/field.ts'
import { endToEnd } from '../http/hop-by-hop.ts'
import type { Entry } from './store/entry.ts'

/** An entry whose content is still arriving. */
export type EntryDraft = Omit<Entry, 'digest' | 'size'>

export interface Exchanged {
  /** When the request left. */
  readonly requested: Milliseconds
  /** When the response head arrived. */
  readonly received: Milliseconds
}

/**
 * What is not kept: framing and history of the one message (it is made anew for each answer), and cookies, which belong to one
 * client.
 */
const notKept = [
  'Content-Length',
  'Content-Range',
  'Accept-Ranges',
  'Age',
  'Via',
  'X-Cache',
  'Cache-Status',
  'Set-Cookie',
  'Set-Cookie2',
  'Alt-Svc',
  'Strict-Transport-Security',
  'Clear-Site-Data',
]

export function draftEntry(
  key: string,
  fields: Fields,
  given: Exchanged & { previous: Entry | undefined },
): EntryDraft {
  return {
    key,
    fields: [...endToEnd(fields).without(...notKept)],
    lastModified: lastModifiedFor(fields, given.received, given.previous),
    stored: given.received,
    validated: given.received,
    initialAge: initialAge(fields, given),
  }
}

/**
 * The entry when the content is whole. Content that turned out to be what was stored already keeps its date and its age in the
 * store: for a client nothing has changed.
 */
export function finishedEntry(
  draft: EntryDraft,
  content: { digest: string; size: number },
  previous: Entry | undefined,
): Entry {
  const entry = { ...draft, digest: content.digest, size: content.size }
  if (previous?.digest !== content.digest) return entry
  return { ...entry, lastModified: previous.lastModified, stored: previous.stored }
}

/** The entry after a 304: fields the origin sent anew replace the stored ones (RFC 9111 section 3.2). */
export function confirmedEntry(stored: Entry, fields: Fields, given: Exchanged): Entry {
  const fresh = endToEnd(fields).without(
    ...notKept,
    'Last-Modified',
    'Content-Type',
    'Content-Encoding',
  )
  const names = [...fresh].map(([name]) => name)
  const kept = Fields.of(...stored.fields).without(...names)
  return {
    ...stored,
    fields: [...kept, ...fresh],
    validated: given.received,
    initialAge: initialAge(fields, given),
  }
}

/**
 * The origin's date, or, when it gives none, the moment this content first arrived: apt can neither resume nor revalidate
 * without a date. Two contents never share a date we made up, or a resumed download could join their halves.
 */
function lastModifiedFor(
  fields: Fields,
  received: Milliseconds,
  previous: Entry | undefined,
): string {
  const given = parseDate(fields.get('Last-Modified') ?? '', received)
  if (given !== undefined) return formatDate(given)
  const before = previous === undefined ? undefined : parseDate(previous.lastModified, received)
  return formatDate(before === undefined ? received : Math.max(received, before + 1000))
}

/** RFC 9111 section 4.2.3: corrected_initial_age, in seconds. */
function initialAge(fields: Fields, given: Exchanged): Seconds {
  const date = parseDate(fields.get('Date') ?? '', given.received)
  const apparent = date === undefined ? 0 : Math.max(0, given.received - date)
  const delay = given.received - given.requested
  const corrected = (ageOf(fields) ?? 0) * 1000 + delay
  return Math.floor(Math.max(apparent, corrected) / 1000)
}
