/**
 * Makes an entry of the origin's response: whether it may be stored, which fields are kept, which Last-Modified clients will
 * see, how old it already was. RFC 9111 section 3, for a shared cache of APT archives.
 *
 * # Facts
 * - Only the answer to a fetch of ours comes here: a GET without Authorization and without Range, answered 200. A request with
 *   credentials, one with `no-store` for what is not stored, and a host that is only passed through are answered without the
 *   store (`lookup`). So of the conditions of section 3 only those about the fields of the response are left.
 * - Nothing asked for with Authorization is stored, even if `public` or `s-maxage` allows it (section 3.5): a subscriber's archive
 *   that says so by mistake would be open to every client of this proxy.
 * - Whether the content is complete only shows at its end: the download checks that.
 */

import type { Milliseconds } from '../../async/clock.ts'
import { responseDirectives } from '../../http/message/cache-control.ts'
import { formatDate, parseDate } from '../../http/message/date.ts'
import { Fields, listMembers } from '../../http/message/field.ts'
import { endToEndFields } from '../../http/proxy/hop-by-hop.ts'
import type { Entry, EntryProof } from '../store/entry.ts'
import { initialAge, type ResponseTimes } from './lookup.ts'

/** Why a response is not stored. */
export type UnstorableReason = 'partial' | 'no-store' | 'private' | 'vary'

/**
 * Why the fields of a 200 forbid storing it; undefined when it may be stored. `always`: an operator knows that the owner of the
 * archive lets it be stored, so only what is no whole file is not.
 */
export function unstorable(response: Fields, always = false): UnstorableReason | undefined {
  // 3.3: no partial content as if it were complete. 200 has no Content-Range; a server that sends one has sent a part.
  if (response.has('content-range')) return 'partial'
  // Against section 3: Gitea marks each package `private`, GitLab and Rails each answer.
  if (always) return undefined
  const directives = responseDirectives(response)
  // "the no-store cache directive is not present in the response". With must-understand it is meant for caches that do not
  // understand the status (5.2.2.3), and 200 is understood.
  if (directives.noStore && !directives.mustUnderstand) return 'no-store'
  // "if the cache is shared: the private response directive is either not present or allows a shared cache to store a
  // modified response": the modified one is without the fields it lists.
  if (directives.private) return 'private'
  // "the response contains at least one of …": 200 is heuristically cacheable, so the list is always met.
  // 4.1: what we send for the cache is the same for every client (Accept, Accept-Language, Cookie and User-Agent are not passed
  // on), so a response that varies on named fields matches every next request, and only `*` never does.
  const vary = response.get('vary')
  return vary !== undefined && listMembers(vary).includes('*') ? 'vary' : undefined
}

/** An entry whose content is still arriving. */
export type EntryDraft = Omit<Entry, 'digest' | 'size'>

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
 * The entry when the content is whole, and what that was verified by. Content that is the same as what was stored already keeps
 * its date and its age in the store: for a client nothing has changed.
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
 * The fields of an origin's response that an entry keeps: end-to-end ones without those below and without those the origin
 * exempts by `private="…"` or `no-cache="…"` (sections 5.2.2.4 and 5.2.2.7).
 */
export function keptFields(response: Fields): Fields {
  const { noCacheFields, privateFields } = responseDirectives(response)
  return endToEndFields(response).where(name => {
    const lower = name.toLowerCase()
    return !notKept.has(lower) && !noCacheFields.includes(lower) && !privateFields.includes(lower)
  })
}

/** RFC 9110 section 6.6.1: a response without a date that can be read gets the moment at which it was received. */
function datedFields(fields: Fields, received: Milliseconds): Fields {
  const dated = parseDate(fields.get('Date') ?? '', received) !== undefined
  return dated ? fields : fields.with('Date', formatDate(received))
}

/**
 * Framing and cookies; what is made anew for each answer (section 4.2.3 counts Age anew); and what concerns the origin's own
 * site, which is not ours.
 */
const notKept: ReadonlySet<string> = new Set([
  ...['content-length', 'content-range', 'accept-ranges', 'set-cookie', 'set-cookie2'],
  ...['age', 'via', 'x-cache', 'cache-status'],
  ...['alt-svc', 'strict-transport-security', 'clear-site-data'],
])

/** What describes the stored bytes themselves: a 304 does not change it. */
const unchangeable = ['Last-Modified', 'Content-Type', 'Content-Encoding']

/** The entry after a 304: fields the origin sent anew replace the stored ones (section 3.2). */
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
 * without a date. Two contents of one target never share a date: a resumed download could join a half of each. So a date that
 * the stored content has already been given with is moved on by a second.
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

/** The moment of a date; undefined when there is none, and for one of the last year of all: few dates can come after that. */
function dateBeforeEnd(text: string, now: Milliseconds): Milliseconds | undefined {
  const moment = parseDate(text, now)
  return moment !== undefined && moment < Date.UTC(9999, 0) ? moment : undefined
}
