/**
 * The outcomes of requests and their reasons, as closed sets of words. The access log, the counters, the response fields and the tests
 * use them.
 */
/**
 * - hit: answered from the store, whether or not the origin was asked first
 * - miss: the content came from the origin for this request, or for another one at the same time
 * - tunnel: a CONNECT that was joined to the far end
 * - intercept: a CONNECT that was intercepted; the requests that came through it have outcomes of their own
 * - refused: the policy refused the request, its head was malformed, or its method is not for archives
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
 * The reason why a Release file answers although a newer one is known: its archive has a `delay` or a `hold`. The origin was asked as
 * usual.
 */
export type DelayReason = 'suite-delayed' | 'suite-held'

/**
 * The reason why a stored file answers that the origin has not confirmed:
 * - stale-origin-failed, stale-origin-slow: the origin gave no usable answer, or none in time
 * - stale-suite-incomplete: the origin has a new Release file, but not all files of it that clients use have arrived; or the file
 *   cannot be stored, and its signature is required
 * - stale-suite-refused: the origin has another Release file that may not be adopted
 */
export type StaleReason =
  | 'stale-origin-failed'
  | 'stale-origin-slow'
  | 'stale-suite-incomplete'
  | 'stale-suite-refused'

/**
 * The reason why the content came from an origin. Some need words:
 * - range-ahead: the range lies far ahead of the transfer of the file, so an origin is asked for it
 * - own-fields: the fields of the client choose the answer (rfc9111/client-fields.ts), so it is passed through
 */
export type MissReason =
  | 'absent'
  | 'unreadable'
  | 'changed'
  | 'superseded'
  | 'joined'
  | 'range-ahead'
  | 'authorization'
  | 'no-store'
  | 'passthrough'
  | 'own-fields'
  | 'not-found-remembered'
  | 'redirected'
  | NearPlace

/** The source of content that came without asking an origin: the bucket that several nodes share. */
export type NearPlace = 'shared-store'

/** The facts for the log that every response of the proxy has. */
export interface OutcomeFacts {
  readonly outcome: Outcome
  readonly because: string
  readonly key?: string
  readonly kind?: string
  /** The authority that was asked, without credentials. */
  readonly origin?: string
  /** The parent proxy through which the origin was asked. */
  readonly parent?: string
  /** The reason why the response is not stored. */
  readonly notStored?: string | undefined
  /** The reason for which the origin has not confirmed the stored file that answers. */
  readonly failure?: string
  /** The reason for which the origin was asked about the stored file. */
  readonly revalidation?: string
  /** The build that the request names. */
  readonly build?: string
  /** The number of requests in an intercepted tunnel. */
  readonly requests?: number
  /** The bytes that the client sent through a tunnel. */
  readonly received?: number
  /** The code of the error with which a handshake failed. */
  readonly error?: string | undefined
}
