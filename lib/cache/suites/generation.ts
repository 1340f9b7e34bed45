/**
 * Generations: a generation is one adopted Release file with the indexes it names. This file is pure and also has their form on disk.
 */

import { day, type Milliseconds } from '../../async/clock.ts'
import { formatUri, parseUri } from '../../http/message/target.ts'
import { isRecord, parsedJson } from '../../json.ts'
import { decodedUrl } from '../archive/path.ts'
import { isDigest } from '../store/disk/disk.ts'
import { canonicalUri } from '../store/key.ts'
import type { SignatureEnd } from './signing/apt-policy.ts'

/** The size of a content in bytes, and its SHA-256 in lower-case hex. */
export interface Content {
  readonly size: number
  readonly digest: string
}

/**
 * A content as an index names it. When the index gives no SHA-256, `digest` is the first half of the SHA-512, which is as hard to forge as
 * a SHA-256 and has the same length.
 */
export interface NamedContent extends Content {
  readonly by?: 'sha512' | undefined
}

/** The half of a SHA-512 that `NamedContent` has. */
export function halfOf(sha512: string): string {
  return sha512.slice(0, sha512.length / 2)
}

/** A stored Release file. */
export interface ReleaseFile extends Content {
  readonly name: 'InRelease' | 'Release'
  /** Release.gpg, which belongs to a Release. */
  readonly signedBy?: Content | undefined
}

/**
 * The result of checking the signature of a Release file:
 * - good: a key of the keyrings signed it; `by` is its fingerprint, `owner` its first user ID, as the keyring has it
 * - unknown-key: it is signed by keys that are in no keyring, or that are not valid there, such as an expired copy
 * - bad: a known key's signature does not fit, or Release.gpg was made for another Release
 * - unsigned: there is no signature
 * - unchecked: there is no keyring
 */
export interface Signature {
  readonly is: 'good' | 'unknown-key' | 'bad' | 'unsigned' | 'unchecked'
  readonly by?: string
  /** Undefined when the key has no user ID. */
  readonly owner?: string
  /** When apt begins to refuse the signature; undefined when apt's policy has no end for it. */
  readonly ends?: SignatureEnd
}

/** The owner of the key in words: the user ID and the fingerprint. */
export function signerText({ by = '', owner }: Pick<Signature, 'by' | 'owner'>): string {
  return owner === undefined ? by : `${owner}, key ${by}`
}

/** An index of packages whose table is on disk. */
export interface AdoptedIndex {
  /** SHA-256 of the index: the name of its table. */
  readonly table: string
  /** The directory from which its paths begin, a decoded URL without a slash at the end. */
  readonly root: string
}

/** Paths that indexes of one suite name with different contents, which is an error of the archive. */
export interface Contradictions {
  /** The directory from which the paths begin, as in `AdoptedIndex`. */
  readonly root: string
  /** The names of the paths as tables have them, one after the other, in base64. */
  readonly names: string
  readonly count: number
  /** Some of them in words, for operators. */
  readonly examples: readonly Contradiction[]
}

/** A path, and the paths of two indexes of the suite that name different contents for it. */
export interface Contradiction {
  readonly path: string
  readonly indexes: readonly string[]
}

/** An index or another file that a Release file names. */
export interface ListedContent extends Content {
  /** The decoded path from the directory of the Release file. */
  readonly path: string
  /** The SHA-512 in lower-case hex, when the Release file gives it. Clients ask by the strongest digest of a file. */
  readonly sha512?: string | undefined
  /** When a client last asked for the file, in this generation or an earlier one. */
  readonly asked?: Milliseconds | undefined
}

/** One adopted Release file and the files of it that clients use. */
export interface Generation {
  readonly release: ReleaseFile
  /** The suite's other Release file, when it says the same: some clients use InRelease, others Release and Release.gpg. */
  readonly twin?: ReleaseFile | undefined
  readonly date?: Milliseconds | undefined
  readonly validUntil?: Milliseconds | undefined
  readonly byHash: boolean
  readonly signature: Signature
  readonly adopted: Milliseconds
  readonly indexes: readonly AdoptedIndex[]
  /** Undefined when its indexes agree about every path. */
  readonly contradictions?: readonly Contradictions[] | undefined
  /** The files that it names and that were stored in its directory when it was adopted, because clients use them. */
  readonly contents: readonly ListedContent[]
}

/** A newer generation that clients do not get yet, because of a delay or a hold. Its Release file is stored under its digest. */
export interface WaitingGeneration
  extends Pick<Generation, 'release' | 'date' | 'validUntil' | 'signature' | 'contents'> {
  /** When the service first saw it, by `SteadyTime`. */
  readonly seen: Milliseconds
  /** The same moment by the clock of the machine, for operators. */
  readonly noticed: Milliseconds
  /** The permission of an operator for this generation. */
  readonly released?: Permission | undefined
}

/** The permission of an operator to give generations to clients. */
export interface Permission {
  readonly by: string
  readonly reason: string
  /** The moment of the permission, by the clock of the machine. */
  readonly at: Milliseconds
}

/** A permission for all generations that come until a moment. */
export interface OpenPermission extends Permission {
  readonly until: Milliseconds
}

/** The Release file that clients of a suite get while its archive has a delay or a hold, and why they get it. */
export interface GivenGeneration {
  readonly digest: string
  readonly because: 'first' | 'ripe' | 'released' | 'expiring'
  /** The moment since which clients get it, by the clock of the machine. */
  readonly since: Milliseconds
  /** When the service first saw it, by `SteadyTime`; undefined when it never waited. */
  readonly seen?: Milliseconds | undefined
  /** The latest Date that clients had before. A generation without a Date does not say how old it is. */
  readonly dateBefore?: Milliseconds | undefined
  /** The permission of an operator, when it was the reason. */
  readonly permission?: Permission | undefined
}

/** The rules by which the Release files of an archive are judged. */
export interface SuitePolicy {
  readonly verify: 'require' | 'prefer'
  /** Paths of keyring files and of directories with keyring files. */
  readonly keyrings: readonly string[]
  /** True when the configuration lists the archive. */
  readonly listed?: true
}

/** A suite with its generations, the adopted one first. */
export interface KnownSuite {
  /** The key of its directory, without a slash at the end. */
  readonly at: string
  readonly generations: readonly Generation[]
  /** The moment since which the origin has a newer Release file that clients do not get, because files of it cannot be fetched. */
  readonly heldSince?: Milliseconds | undefined
  /** The generations that clients do not get yet, in the order in which they were first seen. */
  readonly waiting?: readonly WaitingGeneration[] | undefined
  /** The Release files that clients get during a delay or a hold, by their names. */
  readonly given?: Readonly<Partial<Record<ReleaseFile['name'], GivenGeneration>>> | undefined
  readonly open?: OpenPermission | undefined
  /** The policy by which its Release files were judged last; undefined when an earlier version of this program judged them. */
  readonly policy?: SuitePolicy | undefined
}

/** The content that an index names for a file, and the generation that has the index. */
export interface Claim extends NamedContent {
  /** Key of the directory of the Release file that names the index. */
  readonly suite: string
  readonly generation: Generation
  /**
   * The other contents that the file may have, because indexes contradict each other and none of them is the client's own. The file can
   * then change under its name. Undefined when the client's own index decides, and when all indexes agree.
   */
  readonly others?: readonly NamedContent[] | undefined
  /** The indexes that contradict each other about the file, by their URLs. */
  readonly contradicting?: readonly string[] | undefined
}

/** The newest past generations, this many, are always kept. */
const pastGenerations = 3
/** Older past generations of a suite have at most this many files, because all of them are in memory and in one file. */
const mostPastFiles = 20_000

/** The key of a file in a suite, by its path; undefined for a path that cannot be a key. */
export function keyIn(at: string, path: string): string | undefined {
  const uri = parseUri(`${at}/${encodeURI(path).replaceAll('?', '%3F').replaceAll('#', '%23')}`)
  const spelt = 'problem' in uri ? undefined : canonicalUri(uri)
  return spelt && formatUri(spelt)
}

/** The path under which clients can ask for a file by its SHA-256. */
export function byHashPath({ path, digest }: Pick<ListedContent, 'path' | 'digest'>): string {
  return `${directoryOf(path)}by-hash/SHA256/${digest}`
}

/** Files whose content another file in their directory has too, so that both have the same name by digest. */
export function sameContents(files: readonly ListedContent[]): readonly ListedContent[] {
  const [seen, same] = [new Set<string>(), new Set<string>()]
  for (const path of files.map(byHashPath)) (seen.has(path) ? same : seen).add(path)
  return files.filter(file => same.has(byHashPath(file)))
}

/** The paths under which clients ask for a file by its digests, the strongest first. */
export function byHashPaths(listed: ListedContent): readonly string[] {
  return namesByDigest(listed).map(name => `${directoryOf(listed.path)}${name}`)
}

/** The keys under which a file in a suite is stored: the key of its plain name first, then the keys of its digests. */
export function keysOf(at: string, listed: ListedContent): readonly string[] {
  const key = keyIn(at, listed.path)
  if (key === undefined) return []
  return [key, ...namesByDigest(listed).map(name => `${directoryOf(key)}${name}`)]
}

function namesByDigest({
  digest,
  sha512,
}: Pick<ListedContent, 'digest' | 'sha512'>): readonly string[] {
  const strongest = sha512 === undefined ? [] : [`by-hash/SHA512/${sha512}`]
  return [...strongest, `by-hash/SHA256/${digest}`]
}

/** The directory of a path, with the slash at its end. */
function directoryOf(path: string): string {
  return path.slice(0, path.lastIndexOf('/') + 1)
}

/** The decoded URL of a suite's directory. */
export function baseOf({ at }: Pick<KnownSuite, 'at'>): string {
  return decodedUrl(at) ?? at
}

/** A Release file that may be adopted, with its detached signature if it has one. */
export function releaseFile(
  { key, digest, size }: Content & { readonly key: string },
  signature: Content | undefined,
): ReleaseFile {
  const name = key.endsWith('/InRelease') ? 'InRelease' : 'Release'
  const signedBy = signature && { digest: signature.digest, size: signature.size }
  return { name, digest, size, ...(signedBy && { signedBy }) }
}

/** The Release files of a generation, the adopted one first. */
export function releasesOf({ release, twin }: Generation): readonly ReleaseFile[] {
  return twin === undefined ? [release] : [release, twin]
}

/** The Release file of a generation with this SHA-256. */
export function releaseIn(generation: Generation, digest?: string): ReleaseFile | undefined {
  return releasesOf(generation).find(release => release.digest === digest)
}

/** The generation whose Release file has this SHA-256. */
export function generationOf(suite?: KnownSuite, release?: string): Generation | undefined {
  return suite?.generations.find(generation => releaseIn(generation, release) !== undefined)
}

/**
 * A suite after the adoption of a generation, which may be the present one again. The suite keeps the newest past generations, and for the
 * last `days` the last adopted generation of each day (UTC).
 */
export function withNextGeneration(
  suite: KnownSuite | undefined,
  {
    at,
    next,
    days,
    policy,
  }: Pick<KnownSuite, 'at' | 'policy'> & {
    readonly next: Generation
    readonly days: number
  },
): KnownSuite {
  const before = suite?.generations ?? []
  const [head] = before
  const isNext = (one: Generation): boolean =>
    releasesOf(one).some(({ digest }) => releaseIn(next, digest) !== undefined)
  const once = head !== undefined && isNext(head)
  const adopted = once ? Math.min(head.adopted, next.adopted) : next.adopted
  const past = before.filter(one => !isNext(one))
  const since = next.adopted - days * day
  let files = 0
  const kept = past.filter(({ adopted: from, contents }, place) => {
    const until = past[place - 1]?.adopted ?? adopted
    if (place < pastGenerations) return true
    files += contents.length
    const last = Math.floor(from / day) !== Math.floor(until / day)
    return days > 0 && until > since && last && files <= mostPastFiles
  })
  const { heldSince, waiting = [], given, open } = suite ?? {}
  const facts = { date: next.date, ...sightOf(next, suite) }
  const stays = (one: WaitingGeneration): boolean =>
    releaseIn(next, one.release.digest) === undefined && isNewer(one, facts)
  const wait = waiting.filter(stays)
  return {
    at,
    generations: [{ ...next, adopted }, ...kept],
    heldSince: once ? heldSince : undefined,
    waiting: wait.length > 0 ? wait : undefined,
    given,
    open,
    policy,
  }
}

/** When a generation that is adopted now was first seen, and the latest Date before it. Empty when it never waited. */
function sightOf(next: Generation, { waiting = [], given = {} }: Partial<KnownSuite> = {}): Age {
  const isNext = ({ digest }: Pick<GivenGeneration, 'digest'>): boolean =>
    releaseIn(next, digest) !== undefined
  const { seen, dateBefore } = Object.values(given).find(isNext) ?? {}
  return { seen: seen ?? waiting.find(one => isNext(one.release))?.seen, dateBefore }
}

/** The facts by which one generation is newer than another. */
export interface Age {
  readonly date?: Milliseconds | undefined
  /** Undefined when it never waited. Then every waiting generation was seen later. */
  readonly seen?: Milliseconds | undefined
  /** The latest Date that clients had before. It counts when this generation has no Date. */
  readonly dateBefore?: Milliseconds | undefined
}

/** Whether a waiting generation is newer than another: by their Dates, and where one is missing, by when they were seen. */
export function isNewer(
  { date, seen }: Pick<WaitingGeneration, 'date' | 'seen'>,
  than: Age,
): boolean {
  const latest = than.date ?? than.dateBefore
  if (date !== undefined && latest !== undefined && date <= latest) return false
  if (date !== undefined && than.date !== undefined) return true
  return than.seen === undefined || seen > than.seen
}

/** The adopted generation of a suite at a moment; undefined when the moment is before the oldest kept generation. */
export function generationAt(
  { generations }: KnownSuite,
  moment: Milliseconds,
): Generation | undefined {
  return generations.find(({ adopted }) => adopted <= moment)
}

const version = 1

export function encodeSuite(suite: KnownSuite): string {
  return `${JSON.stringify({ version, ...suite })}\n`
}

/** The suite in a file; undefined when the file is damaged or of another version. */
export function decodeSuite(text: string): KnownSuite | undefined {
  const value = parsedJson(text)
  if (!isRecord(value)) return undefined
  const { version: written, ...suite } = value
  return written === version && isSuite(suite) ? suite : undefined
}

type Check = (value: unknown) => boolean

const isText: Check = value => typeof value === 'string'
const isNumber: Check = value => typeof value === 'number'
const isSha256: Check = value => typeof value === 'string' && isDigest(value)

function oneOf(...values: readonly unknown[]): Check {
  return value => values.includes(value)
}

function optional(is: Check): Check {
  return value => value === undefined || is(value)
}

function listOf(is: Check, least = 0): Check {
  return value => Array.isArray(value) && value.length >= least && value.every(is)
}

function recordOf(members: Readonly<Record<string, Check>>): Check {
  const checks = Object.entries(members)
  return value => isRecord(value) && checks.every(([name, is]) => is(value[name]))
}

const content = { digest: isSha256, size: isNumber }

const isReleaseFile = recordOf({
  ...content,
  name: oneOf('InRelease', 'Release'),
  signedBy: optional(recordOf(content)),
})

const isListed = recordOf({
  ...content,
  path: isText,
  sha512: optional(isText),
  asked: optional(isNumber),
})

const isSignature = recordOf({
  is: oneOf('good', 'unknown-key', 'bad', 'unsigned', 'unchecked'),
  by: optional(isText),
  owner: optional(isText),
  ends: optional(recordOf({ at: isNumber, because: isText })),
})

/** The members that adopted and waiting generations have. */
const generation = {
  release: isReleaseFile,
  date: optional(isNumber),
  validUntil: optional(isNumber),
  signature: isSignature,
  contents: listOf(isListed),
}

const contradictions = {
  root: isText,
  names: isText,
  count: isNumber,
  examples: listOf(recordOf({ path: isText, indexes: listOf(isText) })),
}

const isAdopted = recordOf({
  ...generation,
  twin: optional(isReleaseFile),
  byHash: oneOf(true, false),
  adopted: isNumber,
  indexes: listOf(recordOf({ table: isSha256, root: isText })),
  contradictions: optional(listOf(recordOf(contradictions))),
})

const permission = { by: isText, reason: isText, at: isNumber }

const isWaiting = recordOf({
  ...generation,
  seen: isNumber,
  noticed: isNumber,
  released: optional(recordOf(permission)),
})

const isGiven = recordOf({
  digest: isSha256,
  because: oneOf('first', 'ripe', 'released', 'expiring'),
  since: isNumber,
  seen: optional(isNumber),
  dateBefore: optional(isNumber),
  permission: optional(recordOf(permission)),
})

const hasMembersOfSuite = recordOf({
  at: isText,
  generations: listOf(isAdopted, 1),
  heldSince: optional(isNumber),
  waiting: optional(listOf(isWaiting)),
  given: optional(recordOf({ InRelease: optional(isGiven), Release: optional(isGiven) })),
  open: optional(recordOf({ ...permission, until: isNumber })),
  policy: optional(
    recordOf({
      verify: oneOf('require', 'prefer'),
      keyrings: listOf(isText),
      listed: optional(oneOf(true)),
    }),
  ),
})

function isSuite(value: unknown): value is KnownSuite {
  return hasMembersOfSuite(value)
}
