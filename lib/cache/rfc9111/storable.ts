/**
 * May a response be stored? RFC 9111 section 3, for a shared cache of APT archives. Pure.
 *
 * Stricter than the RFC where leaking or mixing would be the price: nothing asked for with Authorization, nothing partial.
 * That the content is complete only shows at its end; whoever receives it checks that.
 */
import { type RequestDirectives, responseDirectives } from '../../http/message/cache-control.ts'
import { type Fields, listMembers } from '../../http/message/field.ts'
import { endToEnd } from '../../http/proxy/hop-by-hop.ts'

/** A request as it went to the origin, and the head of the answer. */
export interface Candidate {
  readonly method: string
  /** Fields of the request as sent to the origin. */
  readonly request: Fields
  /** What the client's own request asks of caches. */
  readonly directives: RequestDirectives
  /** Whether the policy says passthrough. */
  readonly passthrough: boolean
  readonly status: number
  /** Fields of the response as received. */
  readonly response: Fields
}

/** Why a response is not stored; the words of the request's side come first. */
export type UnstorableReason =
  | 'passthrough'
  | 'method'
  | 'authorization'
  | 'request-no-store'
  | 'range'
  | 'status'
  | 'partial'
  | 'no-store'
  | 'private'
  | 'vary'

export type Storability =
  | { readonly store: true }
  | { readonly store: false; readonly because: UnstorableReason }

/** Whether the answer to this request may become an entry, decided on its head. */
export function storable(candidate: Candidate): Storability {
  const because = reasonAgainst(candidate)
  return because === undefined ? { store: true } : { store: false, because }
}

/**
 * The fields an entry keeps: end-to-end ones without framing, without Age (section 4.2.3 counts it anew), without cookies,
 * and without those the origin exempts by `private="…"` or `no-cache="…"` (sections 5.2.2.4 and 5.2.2.7).
 */
export function fieldsToStore(response: Fields): Fields {
  const { noCacheFields, privateFields } = responseDirectives(response)
  return endToEnd(response).without(
    'Content-Length',
    'Age',
    'Set-Cookie',
    'Set-Cookie2',
    ...noCacheFields,
    ...privateFields,
  )
}

function reasonAgainst(candidate: Candidate): UnstorableReason | undefined {
  const { request, response } = candidate
  if (candidate.passthrough) return 'passthrough'
  // "the request method is understood by the cache": HEAD has no content to keep, and archives know nothing else.
  if (candidate.method !== 'GET') return 'method'
  // "if the cache is shared, the Authorization header field is not present in the request": no exception is made for
  // `public` or `s-maxage`; a subscriber's archive that says so by mistake would be open to everybody here.
  if (request.has('authorization')) return 'authorization'
  // 5.2.1.5: no-store in a request forbids to store any part of it and of its response.
  if (candidate.directives.noStore) return 'request-no-store'
  // Misses are fetched whole. A Range that went out all the same resumes another download: not ours to store.
  if (request.has('range')) return 'range'
  // "the response status code is final", and "the cache understands the response status code": 200 is the one that carries
  // a file. A remembered 404 is no stored response; lookup.ts knows about it.
  if (candidate.status !== 200) return 'status'
  // 3.3: no partial content as if it were complete. 200 has no Content-Range; a server that sends one has sent a part.
  if (response.has('content-range')) return 'partial'
  const directives = responseDirectives(response)
  // "the no-store cache directive is not present in the response". With must-understand it is meant for caches that do not
  // understand the status (5.2.2.3), and 200 is understood.
  if (directives.noStore && !directives.mustUnderstand) return 'no-store'
  // "if the cache is shared: the private response directive is either not present or allows a shared cache to store a
  // modified response": the modified one is without the fields it lists.
  if (directives.private) return 'private'
  // "the response contains at least one of …": 200 is heuristically cacheable, so the list is always met.
  return variesOnEverything(response) ? 'vary' : undefined
}

/**
 * Section 4.1. What we send for the cache is the same whoever asks: client fields such as Accept, Accept-Language, Cookie and
 * User-Agent are not passed on, and Authorization is never stored. So a response that varies on named fields always matches
 * the next request, and only `*` never does.
 */
function variesOnEverything(response: Fields): boolean {
  const vary = response.get('vary')
  return vary !== undefined && listMembers(vary).includes('*')
}
