/**
 * Failures of fetches beside those of connections and of the store, and how long a client waits.
 */
import type { Milliseconds } from '../../async/clock.ts'
import { Failure } from '../../errors.ts'
import { formatUri, type TargetUri } from '../../http/message/target.ts'

/**
 * How long a client that has nothing to fall back to is kept waiting, from the request to the head of its answer: apt gives up
 * after 30 seconds without a byte, and comes back after a 503 with a text.
 */
export const firstByteDeadline: Milliseconds = 20_000

/** The origin has not answered within it. */
export function slowOrigin(origin: string, fate = 'try again'): Failure {
  return new Failure(`${origin} has not answered in time`, {
    code: 'ORIGIN_SLOW',
    fault: 'upstream',
    publicText: `The origin has not answered in time; ${fate}.`,
  })
}

/** Fetches under way at once. Clients may ask for any number of files, and leave. */
export const mostFetches = 4096

/** So many fetches are under way that no other is begun. */
export function tooMany(): Failure {
  return new Failure(`${mostFetches} fetches are under way`, {
    code: 'TOO_MANY_FETCHES',
    fault: 'upstream',
    publicText: 'This proxy is fetching as much as it can; try again.',
  })
}

/** The origin's response was plainly not the file; `found` says what it was. */
export function somethingElse(found: string): Failure {
  return new Failure(`the origin answered with something else (${found})`, {
    code: 'ORIGIN_IMPOSTOR',
    fault: 'upstream',
    publicText: 'The origin answered with something that is not this file.',
  })
}

/** Whether an error is the origin's: it can be asked again, unlike a disk that refuses or a service that stops. */
export function isUpstream(error: unknown): boolean {
  return error instanceof Failure && error.fault === 'upstream'
}

/** What was thrown while a target was fetched, as a Failure. */
export function asFailure(uri: TargetUri, error: unknown): Failure {
  if (error instanceof Failure) return error
  return new Failure(`fetching ${formatUri(uri)} failed`, {
    code: 'FETCH_FAILED',
    fault: 'internal',
    publicText: 'This proxy could not fetch the file.',
    cause: error,
  })
}

/** The origin has not confirmed a stored file that it forbids to serve stale. */
export function unconfirmed(origin: string): Failure {
  return new Failure(`${origin} has not confirmed what is stored and forbids to serve it stale`, {
    code: 'STALE_FORBIDDEN',
    fault: 'upstream',
    publicText: 'The origin has not confirmed the stored file, and forbids to serve it stale.',
  })
}

/** The origin lacks a file of the Release that is adopted. */
export function superseded(origin: string): Failure {
  return new Failure(`${origin} does not have a file of the Release that is adopted`, {
    code: 'SUITE_BEHIND',
    fault: 'upstream',
    publicText:
      'The archive is being updated, and the origin does not have this file of the Release that clients get meanwhile; try again.',
  })
}

/** The content has to be hashed before it is served, and the origin does not give the file instead. */
export function unproven(): Failure {
  return new Failure('the stored content is still being checked', {
    code: 'CONTENT_UNPROVEN',
    fault: 'internal',
    publicText: 'The stored file is still being checked after an unclean stop; try again.',
  })
}

/** Another fetch of the file cannot be joined. */
export function passedBy(origin: string): Failure {
  return new Failure(`a fetch from ${origin} is under way that cannot be joined`, {
    code: 'NOT_JOINABLE',
    fault: 'internal',
    publicText: 'The file is being fetched for another client and cannot be stored; try again.',
  })
}
