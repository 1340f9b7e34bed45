/**
 * The outcome of a request in a closed set of words. The access log, the counters, the response fields and the tests use them.
 */
/**
 * - hit: answered from the store, whether or not the origin was asked first
 * - miss: the content came from the origin for this request, or for another one at the same time
 * - tunnel: a CONNECT that was joined to the far end
 * - intercept: a CONNECT that was intercepted; the requests that came through it have outcomes of their own
 * - refused: the policy refused it, or the head was malformed, or its method is not for archives
 * - failed: neither the store nor the origin had an answer
 * - operations: a page or figure about the proxy itself
 */
export type Outcome = 'hit' | 'miss' | 'tunnel' | 'intercept' | 'refused' | 'failed' | 'operations'

export type HitReason =
  | 'immutable'
  | 'fresh'
  | 'validated-just-now'
  | 'validated'
  | 'max-stale'
  | 'offline'
  | 'as-released'
  | DelayReason
  | 'recorded'
  | StaleReason

/**
 * Why a Release file answers although a newer one is known: the archive has a `delay`, or a `hold`. The origin has been asked as
 * ever.
 */
export type DelayReason = 'suite-delayed' | 'suite-held'

/**
 * Why a stored file answers that the origin has not confirmed:
 * - stale-origin-failed, stale-origin-slow: the origin did not say anything of use, or not in time
 * - stale-suite-incomplete: the origin has a new Release file, and not yet all files it names that clients use; or it cannot be
 *   stored, and its signature is required
 * - stale-suite-refused: the origin has another Release file that may not be adopted
 */
export type StaleReason =
  | 'stale-origin-failed'
  | 'stale-origin-slow'
  | 'stale-suite-incomplete'
  | 'stale-suite-refused'

export type MissReason =
  | 'absent'
  | 'unreadable'
  | 'changed'
  | 'superseded'
  | 'joined'
  | 'authorization'
  | 'no-store'
  | 'passthrough'
  | 'not-found-remembered'
  | 'redirected'
  | NearPlace

/** Where content came from that no origin was asked for: the bucket that several nodes share, or the node that was fetching it. */
export type NearPlace = 'shared-store' | 'peer'

/** The facts every response of the proxy path carries, for the log. */
export interface OutcomeFacts {
  readonly outcome: Outcome
  readonly because: string
  readonly key?: string
  readonly kind?: string
  /** The authority that was asked, without credentials. */
  readonly origin?: string
  /** The parent proxy by which the origin was asked. */
  readonly parent?: string
  /** Why the response is not stored. */
  readonly notStored?: string | undefined
  /** The build that the request names. */
  readonly build?: string
  /** Requests inside an intercepted tunnel. */
  readonly requests?: number
  /** Bytes from the client through a tunnel. */
  readonly received?: number
  /** Why a handshake failed. */
  readonly error?: string | undefined
}
