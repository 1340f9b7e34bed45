/**
 * The failures of fetches other than those of connections and of the store, and the time for which a client waits.
 */
import type { Milliseconds } from '../../async/clock.ts'
import { Failure } from '../../errors.ts'

/**
 * The longest time from a request to the head of its answer, for a client that cannot get a stored file. apt gives up after 30 seconds
 * without a byte unless its user has set another time, and tries again after a 503 with a text.
 */
export function clientPatience({
  connect,
  fields,
}: {
  readonly connect: Milliseconds
  readonly fields: Milliseconds
}): Milliseconds {
  return connect + fields
}

/** What an operator can do about an origin that is late. */
export const lateAdvice = 'For an archive that needs longer, raise `timeouts.fields`'

/** The most fetches under way at the same time. A client can ask for any number of files and disconnect. */
export const mostFetches = 4096

/** The sentence for a file that is not stored while the service is offline. */
export const offlineSentence =
  'The file is not stored here, and this proxy is offline (`offline`): nothing is fetched.'

/** For each code the text for the log and the text for the client, with placeholders in braces. */
const failures = {
  offline: ['the service is offline', offlineSentence],
  ORIGIN_SLOW: [
    '{origin} has not answered in time',
    'The origin has not answered in time; {fate}.',
  ],
  ORIGIN_IMPOSTOR: [
    'the origin answered with something else ({found})',
    'The origin answered with something that is not this file.',
  ],
  ORIGIN_BEHIND: [
    'no origin has the right file for {target}',
    'No origin of this archive has the wanted file now.',
  ],
  ORIGIN_WITHOUT_SUITE: [
    '{origin} no longer has a Release file of a suite that it had',
    'The origin no longer has a Release file of this suite, which counts as a fault of the origin until `suites.gone_after` has passed.',
  ],
  ORIGIN_PAUSED: [
    '{origin} answered {status} a moment ago and is left alone for {seconds} s',
    'The origin answered {status} a moment ago, and is asked again in {seconds} seconds.',
  ],
  // Another try does not help.
  REDIRECT_LOOP: ['redirects in a circle: {circle}', 'The origin redirects in a circle: {circle}.'],
  ORIGIN_REFUSES_REST: [
    'the origin answered {status} when asked for the rest',
    'The origin does not send the rest of the file.',
  ],
  STALE_FORBIDDEN: [
    '{origin} has not confirmed what is stored and forbids serving it stale',
    'The origin has not confirmed the stored file, and forbids serving it stale.',
  ],
  SUITE_BEHIND: [
    '{origin} does not have a file of the Release that is adopted',
    'The archive is being updated, and the origin does not have this file of the Release that clients get meanwhile; try again.',
  ],
  RELEASE_OUTDATED: [
    '{origin} has a newer Release file and no longer has this file of the earlier one',
    'The archive has published a newer Release file meanwhile and no longer has this file; update again.',
  ],
  RELEASE_REFUSED: [
    '{origin} has a Release file that may not be adopted and no longer has this file, which the earlier one names',
    'The archive has an older Release file, or one that may not be adopted, and no longer has this file, which the Release file of the clients names.',
  ],
  TOO_MANY_FETCHES: [
    `${mostFetches} fetches are under way`,
    'This proxy is fetching as much as it can; try again.',
  ],
  // The content must be hashed before it is served, and the origin cannot send the file either.
  CONTENT_UNPROVEN: [
    'the stored content is still being checked',
    'The stored file is still being checked after an unclean stop; try again.',
  ],
  // The suite has a delay or a hold, so the origin may have a newer file than clients may get.
  RELEASE_UNREADABLE: [
    'the stored Release file of a delayed suite cannot be read',
    'The Release file of this delayed suite cannot be read now, and a newer one is not given in its place; try again.',
  ],
  NOT_JOINABLE: [
    'a fetch from {origin} is under way that cannot be joined',
    'The file is being fetched for another client and cannot be stored; try again.',
  ],
  ABANDONED: ['no client waits for it, and it does not end', 'The fetch was given up; try again.'],
  NOT_SHARED: ['the shared store does not have it', 'The shared store does not have the file.'],
  FETCH_FAILED: ['fetching {target} failed', 'This proxy could not fetch the file.'],
} as const

type Code = keyof typeof failures

/** The failures of this proxy itself. An origin or another node is at fault for all others. */
const internal: ReadonlySet<Code> = new Set<Code>([
  'CONTENT_UNPROVEN',
  'RELEASE_UNREADABLE',
  'NOT_JOINABLE',
  'ABANDONED',
  'FETCH_FAILED',
])

type WordsIn<Text> = Text extends `${string}{${infer Word}}${infer Rest}`
  ? Word | WordsIn<Rest>
  : never

/** The failure with this code. `words` has the values for the placeholders. */
export function fetchFailure<Kind extends Code>(
  code: Kind,
  words: Readonly<Record<WordsIn<(typeof failures)[Kind][number]>, string | number>>,
  cause?: unknown,
): Failure {
  const [message, publicText] = failures[code]
  const fault = internal.has(code) ? 'internal' : 'upstream'
  const all: Readonly<Record<string, string | number>> = words
  const filled = (text: string) => text.replace(/\{(\w+)\}/g, (_, name) => String(all[name]))
  return new Failure(filled(message), { code, fault, publicText: filled(publicText), cause })
}

/** The failure of an origin that has not answered in time. `fate` says what the client can do. */
export function slowOrigin(origin: string, fate = 'try again'): Failure {
  return fetchFailure('ORIGIN_SLOW', { origin, fate })
}

/** The failure of an origin that is left alone because its last answer had this status. */
export function restingOrigin(origin: string, status: number, seconds: number): Failure {
  return fetchFailure('ORIGIN_PAUSED', { origin, status, seconds })
}

/** Whether the origin is at fault. Then another request can help, unlike when the disk fails or the service stops. */
export function isUpstream(error: unknown): boolean {
  return error instanceof Failure && error.fault === 'upstream'
}
