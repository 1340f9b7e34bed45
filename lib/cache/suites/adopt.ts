/**
 * Reads the Release files of a suite and the indexes they name, and writes the missing tables. The work is heavy, so this file is the
 * program of a thread of its own, which thread.ts starts.
 */
import { createHash, type Hash, hash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { stat } from 'node:fs/promises'
import { pipeline } from 'node:stream/promises'
import { isDeepStrictEqual } from 'node:util'
import { parentPort } from 'node:worker_threads'
import type { Milliseconds } from '../../async/clock.ts'
import { lowerPriority } from '../../async/thread.ts'
import { explainError, systemCode, valueUnlessMissing } from '../../errors.ts'
import { writeFileAtomically } from '../../files/atomic-file.ts'
import { readBounded } from '../../files/bounded-file.ts'
import { makeDirectory } from '../../files/directory-owner.ts'
import { DecompressError, decompress, usualLimits } from '../archive/decompress.ts'
import { indexedFiles, type ListedFile, type PackageIndex } from '../archive/listed-file.ts'
import { maxReleaseBytes, type Release, readRelease } from '../archive/release.ts'
import { currentReleases, indexChoices, rootOf } from '../archive/suite-layout.ts'
import { Layout } from '../store/disk/disk.ts'
import {
  type AdoptedIndex,
  baseOf,
  type Content,
  type Contradiction,
  type Contradictions,
  type Generation,
  halfOf,
  type ListedContent,
  type NamedContent,
  type ReleaseFile,
  releaseIn,
  type Signature,
  type SuitePolicy,
} from './generation.ts'
import { distrustReason, rankOf, refusalReason } from './policy.ts'
import { checkSignature } from './signing/signature.ts'
import {
  type Disagreement,
  disagreements,
  nameText,
  pathName,
  Table,
  TableBuilder,
} from './table.ts'
import { tablePath } from './tables.ts'

/** The message to the thread: the suite to adopt, and the means to judge it. */
export interface Job {
  readonly cacheDirectory: string
  /** The key of the suite's directory. */
  readonly at: string
  readonly releases: readonly ReleaseFile[]
  readonly adopted: Generation | undefined
  readonly policy: SuitePolicy
  readonly now: Milliseconds
  readonly mostTableBytes: number
  /** When it is given, the thread adopts nothing and finds out which of these paths the store lacks. */
  readonly inUse?: readonly string[]
  /** The SHA-256 of contents by their SHA-512, for Release files that give no other digest. */
  readonly sha256s?: ReadonlyMap<string, string>
}

/** A file that a Release file names by its SHA-512 alone. */
export interface Sha512File {
  readonly path: string
  readonly size: number
  readonly sha512: string
}

/** Contents whose SHA-512 is wanted. */
export interface HashJob {
  readonly cacheDirectory: string
  readonly hash: readonly Content[]
}

export interface Adoption {
  /** Undefined when none of the Release files may be adopted. */
  readonly generation?: Generation
  /** The files that the Release file names by a SHA-512 for which `sha256s` has no SHA-256. */
  readonly unknown?: readonly Sha512File[]
  /** The files in use that the Release file names and the store lacks; undefined when the Release file may not be adopted. */
  readonly missing?: MissingFiles
  /** The SHA-512 of the contents of a HashJob, by their SHA-256. */
  readonly sha512?: ReadonlyMap<string, string>
  /** The signature of the adopted Release file, when it no longer counts. */
  readonly distrusted?: Signature | undefined
  /** Sentences that say which Release files were not adopted and which indexes were not read, and why. */
  readonly refused: readonly string[]
  /** Indexes whose packing this program does not read. */
  readonly notRead?: ReadonlyArray<{ readonly path: string; readonly because: string }>
}

/** The answer of the thread to a job. `failed` is the reason in words. */
export type JobAnswer = { readonly adoption: Adoption } | { readonly failed: string }

/** The files that a new generation lacks in the store. */
export interface MissingFiles {
  readonly files: readonly ListedContent[]
  /** Paths of files that perhaps no client uses. They do not hold the Release file back. */
  readonly optional?: ReadonlySet<string>
  /** Paths of files that few clients need, or that no client needs to install packages. They hold the Release file back for a moment. */
  readonly secondary?: ReadonlySet<string>
  /** Whether the origin gives the files by digest. */
  readonly byHash: boolean
  /** Paths that the adopted Release file names and the new one does not, at most `mostDropped`. */
  readonly dropped?: ReadonlySet<string>
  /** The facts of the new Release file; undefined when it may not be adopted. */
  readonly facts?: ReleaseFacts
}

/** The facts of a Release file that may be adopted, and the files that clients use of those it names. */
export type ReleaseFacts = Pick<Generation, 'date' | 'validUntil' | 'signature' | 'contents'>

type PackedIndex = ListedContent & { readonly kind: PackageIndex }

/** An index whose table exists, and the packing that it was made of. */
type ReadIndex = AdoptedIndex & { readonly from: PackedIndex }

/** At most this many bytes are unpacked for one adoption; the remaining indexes are not read. */
const mostUnpacked = 8 * 1024 ** 3

/** `MissingFiles.dropped` has at most this many paths. */
const mostDropped = 1000

/** Indexes of a suite are compared with each other when their tables have at most this many bytes together. */
const mostCompared = 256 * 1024 ** 2

/** At most this many paths on which indexes disagree are noted, and this many of them by their paths. */
const mostContradictions = 20_000
const mostExamples = 20

/** At most this many bytes are hashed again for one job, because a Release file can name every content of the store. */
const mostHashed = 512 * 1024 ** 2

const readBytes = 256 * 1024

/** Adopts the best of the Release files. Rejects when tables cannot be written. */
async function adopt(job: Job): Promise<Adoption> {
  const { at, mostTableBytes, inUse } = job
  const layout = new Layout(job.cacheDirectory)
  const base = baseOf({ at })
  const refused: string[] = []
  const found = []
  let distrusted: Signature | undefined
  for (const file of job.releases) {
    const { release, signature, because } = await readOne(file, job, layout)
    if (release === undefined) {
      const isAdopted = job.adopted && releaseIn(job.adopted, file.digest) !== undefined
      if (isAdopted && signature && distrustReason(signature, job.policy)) distrusted = signature
      if (because !== undefined) refused.push(`${file.name} is not adopted: ${because}`)
    } else {
      const inPlace = file.name === 'InRelease'
      found.push({ file, release, signature, base, inPlace, rank: rankOf(signature) })
    }
  }
  const [chosen] = currentReleases(found)
  if (chosen === undefined) return { refused, distrusted }
  const { release, file, signature } = chosen
  const { date, validUntil, byHash } = release
  const { named, unknown } = namedBy(release, job.sha256s)
  const used = inUse && new Set(inUse)
  const stored: ListedContent[] = []
  const missing: ListedContent[] = []
  for (const one of named) {
    if (used?.has(one.path) === false) continue
    const found = await valueUnlessMissing(stat(layout.blob(one.digest)))
    const those = found?.size === one.size ? stored : missing
    those.push(one)
  }
  if (used !== undefined) {
    const dropped = await droppedBy(release, job.adopted, layout)
    const facts = { date, validUntil, signature, contents: [...stored, ...missing] }
    return { missing: { files: missing, byHash, dropped, facts }, refused }
  }
  await makeDirectory(layout.suites)
  const tables = new TableMaker(layout, mostTableBytes, base)
  await tables.ofRelease(file, release)
  const read: ReadIndex[] = []
  for (const choice of indexChoices(stored)) {
    const index = await tables.ofOne(choice)
    if (index !== undefined) read.push(index)
  }
  const indexes = read.map(({ table, root }) => ({ table, root }))
  const contradictions = await tables.contradictions(read)
  const twin = found.find(one => one !== chosen && saysTheSame(one.release, release))?.file
  const about = { twin, date, validUntil, byHash, signature, adopted: job.now }
  const own = { release: file, ...about, indexes, contents: stored }
  const generation = contradictions.length === 0 ? own : { ...own, contradictions }
  const { notRead } = tables
  return { generation, unknown, refused: [...refused, ...tables.refused], notRead }
}

/** The SHA-512 of contents by their SHA-256. A content that is missing, has another size or exceeds `mostHashed` is left out. */
async function sha512s({ hash, cacheDirectory }: HashJob): Promise<Map<string, string>> {
  const layout = new Layout(cacheDirectory)
  const found = new Map<string, string>()
  let left = mostHashed
  for (const { digest, size } of hash) {
    if (size > left || found.has(digest)) continue
    left -= size
    const sha512 = await sha512Of(layout.blob(digest), size).catch(() => undefined)
    if (sha512 !== undefined) found.set(digest, sha512)
  }
  return found
}

/** The SHA-512 of a file; undefined for a file of another size, such as one that is still being written. */
async function sha512Of(path: string, size: number): Promise<string | undefined> {
  const sha512 = createHash('sha512')
  const content = createReadStream(path, { highWaterMark: readBytes })
  await pipeline(content, sha512)
  return content.bytesRead === size ? sha512.digest('hex') : undefined
}

/**
 * Reads and judges a Release file, and says why when it may not be adopted. The result is empty for the Release file of a component, such
 * as `main/binary-amd64/Release`: it names no files, is not signed, and the Release file of its suite lists it.
 */
async function readOne({ name, digest, size, signedBy }: ReleaseFile, job: Job, layout: Layout) {
  if (size > maxReleaseBytes) return { because: 'it is too long' }
  const content = await contentOf(digest, layout)
  if (content === undefined) return { because: 'its content is not in the store' }
  const { release, because } = readRelease(content)
  const names = release !== undefined && release.files.size > 0
  if (!names && signedBy === undefined && /^Component: /m.test(content.toString('latin1')))
    return {}
  if (release === undefined) return { because }
  if (!names) return { because: 'it names no files' }
  const detached = name === 'Release' && signedBy && (await contentOf(signedBy.digest, layout))
  const { keyrings } = job.policy
  const signature = await checkSignature(content, detached || undefined, { keyrings, now: job.now })
  const refused = refusalReason({ ...release, signature }, job)
  return refused === undefined ? { release, signature } : { signature, because: refused }
}

/** The paths that the Release file of a generation names and this one does not. */
async function droppedBy(
  { files }: Release,
  adopted: Generation | undefined,
  layout: Layout,
): Promise<ReadonlySet<string>> {
  const content = adopted && (await contentOf(adopted.release.digest, layout))
  const before = content && readRelease(content).release
  const dropped = [...(before?.files.keys() ?? [])].filter(path => !files.has(path))
  return new Set(dropped.slice(0, mostDropped))
}

/** The bytes of a Release file or its signature; undefined when it is missing or has another digest. Rejects when the disk fails. */
async function contentOf(digest: string, layout: Layout): Promise<Buffer | undefined> {
  const found = await readBounded(layout.blob(digest), maxReleaseBytes).catch(unlessDiskFails)
  return found && hash('sha256', found.bytes) === digest ? found.bytes : undefined
}

/** Passes over the error of a file that is missing or too long. Throws other errors. */
function unlessDiskFails(error: unknown): undefined {
  const code = systemCode(error)
  if (code !== undefined && code !== 'ENOENT') throw error
}

/** Whether two Release files have the same dates and name the same files. */
function saysTheSame(one: Release, other: Release): boolean {
  return (
    one.date === other.date &&
    one.validUntil === other.validUntil &&
    isDeepStrictEqual(strongOf(one), strongOf(other))
  )
}

/** The size, SHA-256 and SHA-512 of each file of a Release file, by its path. Files with weaker digests alone are left out. */
function strongOf({ files }: Release) {
  const strong = [...files.values()].filter(file => promiseOf(file) !== undefined)
  return new Map(
    strong.map(({ path, size, digests: { sha256, sha512 } }) => [path, { size, sha256, sha512 }]),
  )
}

/** The files that a Release file names, and those whose SHA-512 alone is known. */
function namedBy({ files }: Release, sha256s?: ReadonlyMap<string, string>) {
  const [named, unknown]: [ListedContent[], Sha512File[]] = [[], []]
  for (const { path, size, digests } of files.values()) {
    const { sha512, sha256: digest = sha256s?.get(sha512 ?? '') } = digests
    if (digest !== undefined) named.push({ path, size, digest, ...(sha512 && { sha512 }) })
    else if (sha512 !== undefined) unknown.push({ path, size, sha512 })
  }
  return { named, unknown }
}

/** The size and digest that a list promises for a file; undefined when it gives neither a SHA-256 nor a SHA-512. */
function promiseOf({ size, digests: { sha256, sha512 } }: ListedFile): NamedContent | undefined {
  if (sha256 !== undefined) return { size, digest: sha256 }
  return sha512 === undefined ? undefined : { size, digest: halfOf(sha512), by: 'sha512' }
}

/** Makes the tables of a Release file and its indexes. A Release file may name one index in many directories. */
class TableMaker {
  readonly #layout: Layout
  readonly #mostBytes: number
  /** The decoded URL of the suite's directory. */
  readonly #base: string
  /** The same lists as those of `Adoption`. */
  readonly refused: string[] = []
  readonly notRead: { path: string; because: string }[] = []
  /** The common directories of the tables, by the SHA-256 of their indexes; undefined when an index cannot be read. */
  readonly #common = new Map<string, string | undefined>()
  #left = mostUnpacked

  constructor(layout: Layout, mostBytes: number, base: string) {
    this.#layout = layout
    this.#mostBytes = mostBytes
    this.#base = base
  }

  /** Makes the table of the files that the Release file names, with paths from its own directory. */
  async ofRelease({ digest }: ReleaseFile, { files }: Release): Promise<void> {
    if ((await this.#existing(digest)) !== undefined) return
    const builder = new TableBuilder(this.#mostBytes)
    for (const file of files.values()) {
      const promise = promiseOf(file)
      if (promise !== undefined) builder.add(file.path, promise)
    }
    await this.#write(digest, builder)
  }

  /** The first packing of an index whose table exists or can be made. Notes the packings that cannot be read. */
  async ofOne(choice: readonly PackedIndex[]): Promise<ReadIndex | undefined> {
    const base = this.#base
    for (const from of choice) {
      const { digest } = from
      const known = this.#common.has(digest)
      const common = known ? this.#common.get(digest) : await this.#existing(digest)
      if (common === undefined) continue
      this.#common.set(digest, common)
      return { table: digest, root: rootOf(base, common), from }
    }
    for (const index of choice) {
      const { digest, path } = index
      if (this.#common.has(digest)) continue
      this.#common.set(digest, undefined)
      try {
        const common = await this.#make(index)
        this.#common.set(digest, common)
        return { table: digest, root: rootOf(base, common), from: index }
      } catch (error) {
        const because = explainError(error)
        if (error instanceof DecompressError && error.code === 'not-read') {
          this.notRead.push({ path, because })
        } else this.refused.push(`${base}/${path} cannot be read: ${because}`)
      }
    }
    return undefined
  }

  /** The paths that these indexes name with different contents, for each directory from which their paths begin. */
  async contradictions(indexes: readonly ReadIndex[]): Promise<readonly Contradictions[]> {
    const byRoot = new Map<string, Map<string, PackedIndex>>()
    for (const { root, table, from } of indexes) {
      const same = byRoot.get(root) ?? new Map<string, PackedIndex>()
      byRoot.set(root, same.has(table) ? same : same.set(table, from))
    }
    const found: Contradictions[] = []
    for (const [root, choices] of byRoot) {
      if (choices.size < 2) continue
      const [tables, from]: [Table[], PackedIndex[]] = [[], []]
      let bytes = 0
      for (const [digest, index] of choices) {
        const table = await this.#table(digest)
        bytes += table?.bytes ?? 0
        if (table === undefined || bytes > mostCompared) break
        tables.push(table)
        from.push(index)
      }
      const some = disagreements(tables, mostContradictions)
      if (some.length === 0) continue
      const names = Buffer.from(some.map(({ name }) => name).join(''), 'latin1').toString('base64')
      const examples = await this.#examples(some.slice(0, mostExamples), from).catch(() => [])
      found.push({ root, names, count: some.length, examples })
    }
    return found
  }

  /** Reads the paths of some disagreements in one of the two indexes, because tables have only the digests of paths. */
  async #examples(
    some: readonly Disagreement[],
    indexes: readonly PackedIndex[],
  ): Promise<readonly Contradiction[]> {
    const examples: Contradiction[] = []
    for (const [n, index] of indexes.entries()) {
      const wanted = new Map(
        some.flatMap(one => (one.between[0] === n ? [[one.name, one] as const] : [])),
      )
      if (wanted.size === 0) continue
      const content = this.#unpacked(index.digest)
      for await (const { path } of indexedFiles(index.kind, content)) {
        const name = nameText(pathName(path))
        const between = wanted.get(name)?.between
        if (between === undefined) continue
        wanted.delete(name)
        examples.push({ path, indexes: between.flatMap(at => indexes[at]?.path ?? []) })
        if (wanted.size === 0) break
      }
    }
    return examples
  }

  async #make({ digest, kind }: PackedIndex): Promise<string> {
    if (this.#left <= 0) throw new Error('the indexes of its Release file unpack to too much')
    const sha256 = createHash('sha256')
    const builder = new TableBuilder(this.#mostBytes)
    for await (const file of indexedFiles(kind, this.#unpacked(digest, sha256))) {
      const promise = promiseOf(file)
      if (promise !== undefined) builder.add(file.path, promise)
    }
    if (sha256.digest('hex') !== digest) throw new Error('its content is not what it says')
    return this.#write(digest, builder)
  }

  async *#unpacked(digest: string, sha256?: Hash): AsyncGenerator<Uint8Array> {
    const packed = createReadStream(this.#layout.blob(digest), { highWaterMark: readBytes })
    const hashed = async function* (): AsyncGenerator<Uint8Array> {
      for await (const chunk of packed) {
        sha256?.update(chunk)
        yield chunk
      }
    }
    const most = Math.min(usualLimits.most, this.#left)
    for await (const chunk of decompress(hashed(), { ...usualLimits, most })) {
      this.#left -= chunk.length
      yield chunk
    }
  }

  /** The common directory of an existing table; undefined when the table is missing, damaged or too large. */
  async #existing(digest: string): Promise<string | undefined> {
    return (await this.#table(digest))?.common
  }

  async #table(digest: string): Promise<Table | undefined> {
    const path = tablePath(this.#layout, digest)
    const file = await readBounded(path, this.#mostBytes).catch(() => undefined)
    return file && Table.read(file.bytes)
  }

  async #write(digest: string, builder: TableBuilder): Promise<string> {
    const path = tablePath(this.#layout, digest)
    await writeFileAtomically(path, builder.finish(), { durable: false })
    return builder.common
  }
}

/** The thread has a lower priority than the service, because clients wait for adoptions, but hits come first. */
const niceness = 5

async function answer(job: Job | HashJob): Promise<JobAnswer> {
  try {
    if ('hash' in job) return { adoption: { sha512: await sha512s(job), refused: [] } }
    return { adoption: await adopt(job) }
  } catch (error) {
    return { failed: explainError(error) }
  }
}

// A program without a parent port is not a thread and does nothing.
if (parentPort !== null) {
  const port = parentPort
  lowerPriority(niceness)
  port.on(
    'message',
    (job: Job | HashJob) => void answer(job).then(found => port.postMessage(found)),
  )
}
