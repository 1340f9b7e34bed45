/**
 * Makes an entry from the origin's response, RFC 9111 section 3, for a shared cache of APT archives. It decides whether the response
 * may be stored, which fields are kept, which Last-Modified clients see, and the age of the response on arrival.
 *
 * # Facts
 * - Only 200 responses to requests of the proxy itself come here: GETs without Range and without Authorization of a client. Requests
 *   with credentials, requests with `no-store` for files that are not stored, and passed-through hosts are answered without the
 *   store (`lookup`). So of the conditions of section 3 only those about the fields of the response are left.
 * - No response to a client's Authorization is stored, even if `public` or `s-maxage` allows it (section 3.5). An archive for
 *   subscribers that says so by mistake would be open to every client of this proxy.
 * - The download checks that the content is complete, because only its end shows that.
 */

import type { Milliseconds } from '../../async/clock.ts'
import { responseDirectives } from '../../http/message/cache-control.ts'
import { formatDate, parseDate } from '../../http/message/date.ts'
import { Fields, listMembers } from '../../http/message/field.ts'
import { endToEndFields } from '../../http/message/hop-by-hop.ts'
import type { Entry, EntryProof } from '../store/entry.ts'
import { initialAge, type ResponseTimes } from './lookup.ts'

/** The reason why the fields of a response forbid storing it. */
export type UnstorableReason = 'partial' | 'no-store' | 'private' | 'vary'

/**
 * The reason why the fields of a 200 forbid storing it; undefined when it may be stored. With `always`, the operator knows that the
 * owner of the archive agrees, so every whole file is stored.
 */
export function unstorableReason(response: Fields, always = false): UnstorableReason | undefined {
  // 3.3: partial content is not stored as if it were complete. A 200 with Content-Range, which it should not have, is a part.
  if (response.has('content-range')) return 'partial'
  // This deviates from section 3, because Gitea marks every package `private`, and GitLab and Rails every response.
  if (always) return undefined
  const directives = responseDirectives(response)
  // "the no-store cache directive is not present in the response". With must-understand, no-store is for caches that do not
  // understand the status (5.2.2.3), and this one understands 200.
  if (directives.noStore && !directives.mustUnderstand) return 'no-store'
  // "if the cache is shared: the private response directive is either not present or allows a shared cache to store a
  // modified response". `keptFields` makes the modified response, without the fields that the directive lists.
  if (directives.private) return 'private'
  // "the response contains at least one of …": 200 is heuristically cacheable, so this condition is always met.
  // 4.1: the proxy sends the same request for every client (it does not pass on Accept, Accept-Language, Cookie and User-Agent), so
  // a response that varies on named fields matches every later request. Only `*` never matches.
  const vary = response.get('vary')
  return vary !== undefined && listMembers(vary).includes('*') ? 'vary' : undefined
}

/** An entry whose content is still arriving. */
export type EntryDraft = Omit<Entry, 'digest' | 'size'>

/** The fields of an entry for which there was no response. */
export const nothingSaid = Fields.of(['Content-Type', 'application/octet-stream'])

export function draftEntry(
  key: string,
  fields: Fields,
  times: ResponseTimes,
  previous?: EntryDraft,
): EntryDraft {
  return {
    key,
    fields: [...datedFields(keptFields(fields), times.received)],
    lastModified: lastModifiedFor(fields, times.received, previous),
    stored: times.received,
    validated: times.received,
    initialAge: initialAge(fields, times),
  }
}

/**
 * The entry of a complete content, with the proof of its verification. If the content equals the stored one, the entry keeps the
 * stored date and the moment of storing, because nothing has changed for clients.
 */
export function finishedEntry(
  draft: EntryDraft,
  { digest, size }: { digest: string; size: number },
  previous: Entry | undefined,
  verified?: EntryProof,
): Entry {
  const { key, fields, validated, initialAge } = draft
  const { lastModified, stored } = previous?.digest === digest ? previous : draft
  const entry = { key, fields, lastModified, stored, validated, initialAge, digest, size }
  return verified === undefined ? entry : { ...entry, verified }
}

/**
 * The fields of an origin's response that an entry keeps. These are the end-to-end fields except those of `notKept` and those that
 * the origin exempts by `private="…"` or `no-cache="…"` (sections 5.2.2.4 and 5.2.2.7).
 */
export function keptFields(response: Fields): Fields {
  const { noCacheFields, privateFields } = responseDirectives(response)
  return endToEndFields(response).where(name => {
    const lower = name.toLowerCase()
    return !notKept.has(lower) && !noCacheFields.includes(lower) && !privateFields.includes(lower)
  })
}

/** RFC 9110 section 6.6.1: a response without a readable date gets the moment when it was received. */
function datedFields(fields: Fields, received: Milliseconds): Fields {
  const dated = parseDate(fields.get('Date') ?? '', received) !== undefined
  return dated ? fields : fields.with('Date', formatDate(received))
}

/**
 * The fields that are not kept: framing and cookies, fields that each answer makes again (section 4.2.3 for Age), and fields about
 * the origin's own site.
 */
const notKept: ReadonlySet<string> = new Set([
  ...['content-length', 'content-range', 'accept-ranges', 'set-cookie', 'set-cookie2'],
  ...['age', 'via', 'x-cache', 'cache-status'],
  ...['alt-svc', 'strict-transport-security', 'clear-site-data'],
])

/** The fields that describe the stored bytes. A 304 does not change them. */
const unchangeable = ['Last-Modified', 'Content-Type', 'Content-Encoding']

/** The entry after a 304. The fields of the 304 replace the stored ones (section 3.2). */
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
 * The origin's date, or, when it sends none, the moment when this content first arrived, because apt can neither resume nor revalidate
 * without a date. Two contents of one target never share a date, because a resumed download could join parts of both. So a date that
 * the stored content already has is moved on by a second.
 */
function lastModifiedFor(
  fields: Fields,
  received: Milliseconds,
  previous: EntryDraft | undefined,
): string {
  const given = dateBeforeEnd(fields.get('Last-Modified') ?? '', received)
  const before = dateBeforeEnd(previous?.lastModified ?? '', received)
  if (given === undefined) {
    return formatDate(before === undefined ? received : Math.max(received, before + 1000))
  }
  const origins = Fields.of(...(previous?.fields ?? [])).get('Last-Modified')
  const same = given === before || fields.get('Last-Modified') === origins
  return formatDate(before !== undefined && same ? Math.max(given, before + 1000) : given)
}

/** The moment of a date; undefined without a date and in the year 9999, after which no date can be written. */
function dateBeforeEnd(text: string, now: Milliseconds): Milliseconds | undefined {
  const moment = parseDate(text, now)
  return moment !== undefined && moment < Date.UTC(9999, 0) ? moment : undefined
}
