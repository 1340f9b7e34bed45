/**
 * From the origin's response to an entry: which fields are kept, what Last-Modified clients will see, how old it already was.
 * RFC 9111 sections 3.1, 3.2 and 4.2.3. Pure.
 */
import type { Milliseconds } from '../../async/clock.ts'
import { formatDate, parseDate } from '../../http/message/date.ts'
import { Fields } from '../../http/message/field.ts'
import type { Entry } from '../store/entry.ts'
import { initialAge, type ResponseTimes } from './freshness.ts'
import { fieldsToStore } from './storable.ts'

/** An entry whose content is still arriving. */
export type EntryDraft = Omit<Entry, 'digest' | 'size'>

/**
 * Beyond what storable.ts leaves out: history of the one message, made anew for each answer, and words about the origin's own
 * site that do not belong on ours.
 */
const notKept = [
  'Content-Range',
  'Accept-Ranges',
  'Via',
  'X-Cache',
  'Cache-Status',
  'Alt-Svc',
  'Strict-Transport-Security',
  'Clear-Site-Data',
]

export function draftEntry(
  key: string,
  fields: Fields,
  given: ResponseTimes & { previous: Entry | undefined },
): EntryDraft {
  return {
    key,
    fields: [...keptFields(fields)],
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

/** The fields of an origin's response that are worth a second answer. */
export function keptFields(response: Fields): Fields {
  return fieldsToStore(response).without(...notKept)
}

/** What describes the stored bytes themselves: a 304 has no say in it. */
const unchangeable = ['Last-Modified', 'Content-Type', 'Content-Encoding']

/** The entry after a 304: fields the origin sent anew replace the stored ones (RFC 9111 section 3.2). */
export function confirmedEntry(stored: Entry, fields: Fields, given: ResponseTimes): Entry {
  const fresh = keptFields(fields).without(...unchangeable)
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
