/**
 * A build: the answers that one run of a program got, file by file, so that a later run gets the same bytes. This file has values and
 * decisions; it knows neither files nor sockets.
 *
 * # Facts
 * - apt, curl and wget use the host, the port and the user of a proxy's URL, and drop its path. So a build is named by a URL
 *   prefix, `/_cachesvc/build/NAME/`, or by the user of the proxy's URL: `http://build:NAME@proxy:3142/`.
 * - apt asks for optional files and continues after a 404, so a 404 is recorded too.
 * - apt can update more than once within a build. While a build is recorded, the first answer to a URL stays its answer. Otherwise a
 *   later run would get lists of one day and packages of another.
 */
import type { Milliseconds } from '../../../async/clock.ts'
import { formatUri, type TargetUri } from '../../../http/message/target.ts'
import type { Entry } from '../../store/entry.ts'
import { canonicalUri, keepingKey } from '../../store/key.ts'

/** A file that the build got: its content by digest, and its fields. */
export type GivenFile = Pick<Entry, 'digest' | 'size' | 'lastModified' | 'fields'>

/** A status that the build got instead of a file: 404, 410, or a redirect with its location. */
export interface GivenStatus {
  readonly status: number
  readonly location?: string | undefined
}

export type GivenAnswer = GivenFile | GivenStatus

export interface Build {
  readonly name: string
  readonly begun: Milliseconds
  /** The moment when it was locked; undefined while it is recorded. */
  readonly locked: Milliseconds | undefined
  /** Whether the service was killed during the recording, so that the last answers may be missing. */
  readonly interrupted: boolean
  /** The answers by URL. */
  readonly answers: ReadonlyMap<string, GivenAnswer>
  /** The URLs whose answers are not recorded, each with the reason in words. */
  readonly lacking: ReadonlyMap<string, string>
}

/** The decision about a request that names a build. */
export type BuildDecision =
  | { readonly use: 'file'; readonly file: GivenFile }
  | { readonly use: 'status'; readonly given: GivenStatus }
  /** Answer like any other request, and record the answer. */
  | { readonly use: 'record' }
  | { readonly use: 'refuse'; readonly because: BuildRefusal; readonly sentence: string }

/**
 * - no-build: there is no build of this name, and this client may not begin one
 * - not-recorded: the build is locked, or the client may not add to it, and has no answer for this URL
 * - not-kept: the build names the content, and the store does not have it
 * - unread-tunnel: files that go through a tunnel unread cannot be recorded
 */
export type BuildRefusal = 'no-build' | 'not-recorded' | 'not-kept' | 'unread-tunnel'

export function isFile(answer: GivenAnswer): answer is GivenFile {
  return 'digest' in answer
}

/** Whether the answer to a request may be recorded: the client may not add to the build, or the build is being locked. */
type MayRecord = 'yes' | 'no' | 'locking'

/** Decides by the record of a build. */
export function decideInBuild(build: Build, url: string, mayRecord: MayRecord): BuildDecision {
  const answer = build.answers.get(url)
  if (answer !== undefined) {
    return isFile(answer) ? { use: 'file', file: answer } : { use: 'status', given: answer }
  }
  if (build.locked === undefined && mayRecord === 'yes') return { use: 'record' }
  const file = byDigest(build, url)
  if (file !== undefined) return { use: 'file', file }
  const why = build.lacking.get(url)
  const rest =
    build.locked === undefined
      ? mayRecord === 'locking'
        ? 'was not recorded, and the build is being locked'
        : 'and this client may not add to it: see builds.clients'
      : why === undefined
        ? 'was never recorded'
        : `was asked for and not recorded: ${why}`
  const sentence = `${url} is missing in the build ${build.name}: it ${rest}.`
  return { use: 'refuse', because: 'not-recorded', sentence }
}

/**
 * The recorded file that a by-hash name stands for: a file of the directory with this SHA-256. Another run of the program may ask for an
 * index by hash, because of another setting of apt. Undefined when there is none, and for a digest by another algorithm, which is not known.
 */
function byDigest({ answers }: Build, url: string): GivenFile | undefined {
  const [, directory, digest] = /^(.*\/)by-hash\/SHA256\/([0-9a-f]{64})$/.exec(url) ?? []
  if (directory === undefined || digest === undefined) return undefined
  for (const [known, answer] of answers) {
    if (isFile(answer) && answer.digest === digest && known.startsWith(directory)) return answer
  }
  return undefined
}

/** Whether a text may be the name of a build. The name is used in file names and URLs without escapes. */
export function isBuildName(text: string): boolean {
  return /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/.test(text)
}

export const buildNameRule =
  'A name of a build has up to 64 letters, digits, dots, hyphens and underscores, and begins with a letter or digit.'

/** The URL under which an answer is recorded: the canonical URL of the request before routing, without credentials. */
export function recordedUrl(asked: TargetUri): string {
  const { userinfo: _, ...uri } = canonicalUri(asked) ?? asked
  return formatUri(uri)
}

/** The entry that keeps the content of a file for builds, with the fields of its answer. */
export function keepingEntry(file: GivenFile, now: Milliseconds): Entry {
  const { digest, size, lastModified, fields } = file
  const key = keepingKey(digest)
  return { key, fields, digest, size, lastModified, stored: now, validated: now, initialAge: 0 }
}

/** The bytes of all contents of some builds, each counted once. */
export function contentsOf(builds: Iterable<Build>): ReadonlyMap<string, number> {
  const sizes = new Map<string, number>()
  for (const { answers } of builds) {
    for (const answer of answers.values()) {
      if (isFile(answer)) sizes.set(answer.digest, answer.size)
    }
  }
  return sizes
}
