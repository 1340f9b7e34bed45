/**
 * Reads the Release files of a suite and the indexes they name, and writes the tables that are missing. Heavy work: it runs in a
 * thread of its own (thread.ts).
 */
import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { mkdir, readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import type { Milliseconds } from '../../async/clock.ts'
import { writeFileAtomically } from '../../atomic-file.ts'
import { explainError } from '../../errors.ts'
import { decompress, usualLimits } from '../archive/decompress.ts'
import { indexedFiles } from '../archive/package-index.ts'
import { maxReleaseBytes, type Release, readRelease } from '../archive/release.ts'
import {
  currentReleases,
  indexChoices,
  type KnownRelease,
  type ListedStored,
  rootOf,
  type UsableIndex,
} from '../archive/suite-layout.ts'
import { Layout } from '../store/disk/layout.ts'
import {
  type AdoptedIndex,
  baseOf,
  type Generation,
  type Listed,
  type ReleaseFile,
  type Signature,
} from './generation.ts'
import { acceptable, type Policy } from './policy.ts'
import { Table, TableBuilder } from './table.ts'

/** What the thread is told. */
export interface Job {
  readonly cacheDirectory: string
  /** The key of the suite's directory. */
  readonly at: string
  /** The stored Release files. */
  readonly releases: readonly ReleaseFile[]
  readonly adopted: Generation | undefined
  readonly policy: Policy
  readonly now: Milliseconds
  /** Bytes a table may have. */
  readonly mostTableBytes: number
  /** Nothing is adopted yet: it is found out what of these paths is missing. */
  readonly inUse?: readonly string[]
}

/** What it answers. */
export interface Adoption {
  /** Undefined when none of the Release files may be adopted. */
  readonly generation: Generation | undefined
  /** The files in use that the Release file names and the store has not; undefined when it may not be adopted. */
  readonly missing?: Missing | undefined
  /** What was not adopted or not read, in sentences. */
  readonly refused: readonly string[]
}

/** What a new generation lacks. */
export interface Missing {
  readonly files: readonly Listed[]
  /** Whether they can be asked for by digest. */
  readonly byHash: boolean
}

/** How signatures are checked; the thread gives it. */
export type CheckSignature = (
  release: Buffer,
  detached: Buffer | undefined,
  given: { readonly keyrings: readonly string[]; readonly now: Milliseconds },
) => Promise<Signature>

/** Bytes that are unpacked for one adoption, at most: then the indexes left are not read. */
const mostUnpacked = 8 * 1024 ** 3

/** How far the indexes of a Release file are read. It may name one index in many directories. */
interface Reading {
  readonly places: Layout
  readonly mostTableBytes: number
  /** The common directories of the tables, by the SHA-256 of their indexes; undefined when an index cannot be read. */
  readonly tables: Map<string, string | undefined>
  /** Bytes that may still be unpacked. */
  left: number
}

/** Adopts the best of the Release files. Rejects when tables cannot be written. */
export async function adopt(job: Job, check: CheckSignature): Promise<Adoption> {
  const places = new Layout(job.cacheDirectory)
  const refused: string[] = []
  const found: Array<KnownRelease & { of: ReleaseFile; signature: Signature }> = []
  for (const of of job.releases) {
    const known = await readKnown(of, job, { places, check })
    const because =
      'because' in known
        ? known.because
        : acceptable({ ...known.release, signature: known.signature }, job)
    if (because !== undefined) refused.push(`${of.name} is not adopted: ${because}`)
    else if (!('because' in known)) found.push({ ...known, of })
  }
  const [chosen] = currentReleases(found)
  if (chosen === undefined) return { generation: undefined, refused }
  const { release, of, signature } = chosen
  if (job.inUse !== undefined) {
    const missing = await missingOf(places, release, job.inUse)
    return { generation: undefined, missing, refused }
  }
  await mkdir(places.suites, { recursive: true })
  const reading: Reading = {
    places,
    mostTableBytes: job.mostTableBytes,
    tables: new Map(),
    left: mostUnpacked,
  }
  await writeReleaseTable(reading, of, chosen)
  const claims = await storedClaims(places, chosen)
  const indexes: AdoptedIndex[] = []
  for (const choice of indexChoices(chosen.base, claims)) {
    const index = await adoptOne(reading, choice, refused)
    if (index !== undefined) indexes.push(index)
  }
  const { date, validUntil, byHash } = release
  const contents = claims.map(({ file, listed }) => ({
    path: listed.path,
    size: listed.size,
    digest: file.digest,
  }))
  const about = { date, validUntil, byHash, signature, adopted: job.now }
  return { generation: { release: of, ...about, indexes, contents }, refused }
}

async function missingOf(
  places: Layout,
  { files, byHash }: Release,
  inUse: readonly string[],
): Promise<Missing> {
  const missing: Listed[] = []
  for (const path of inUse) {
    const { size, digests } = files.get(path) ?? {}
    const digest = digests?.sha256
    if (size === undefined || digest === undefined) continue
    const found = await stat(places.blob(digest)).catch(() => undefined)
    if (found?.size !== size) missing.push({ path, size, digest })
  }
  return { files: missing, byHash }
}

type Known = KnownRelease & { readonly signature: Signature }

interface Means {
  readonly places: Layout
  readonly check: CheckSignature
}

async function readKnown(
  { name, digest, size, signedBy }: Job['releases'][number],
  { at, policy, now }: Job,
  { places, check }: Means,
): Promise<Known | { readonly because: string }> {
  if (size > maxReleaseBytes) return { because: 'it is too long' }
  const content = await readWhole(places, digest)
  if (content === undefined) return { because: 'its content is not in the store' }
  const read = readRelease(content)
  if (read.release === undefined) return read
  // Release files of single components list nothing; they are listed themselves.
  if (read.release.files.size === 0) return { because: 'it names no files' }
  const detached = signedBy === undefined ? undefined : await readWhole(places, signedBy.digest)
  const { keyrings } = policy
  const signature = await check(content, name === 'InRelease' ? undefined : detached, {
    keyrings,
    now,
  })
  const file = { key: `${at}/${name}`, digest, size, stored: 0, validated: 0 }
  return { file, base: baseOf({ at }), release: read.release, signature }
}

/** Content of a few megabytes at most; undefined when it is not there, or is not what it says. */
async function readWhole(places: Layout, digest: string): Promise<Buffer | undefined> {
  const content = await readFile(places.blob(digest)).catch(() => undefined)
  if (content === undefined) return undefined
  return createHash('sha256').update(content).digest('hex') === digest ? content : undefined
}

/** The table of what the Release file itself names, from its own directory. */
async function writeReleaseTable(
  reading: Reading,
  { digest }: ReleaseFile,
  { release }: KnownRelease,
): Promise<void> {
  if ((await readTable(reading, digest)) !== undefined) return
  const builder = new TableBuilder(reading.mostTableBytes)
  for (const { path, size, digests } of release.files.values()) {
    if (digests.sha256 !== undefined) builder.add(path, { size, digest: digests.sha256 })
  }
  await writeTable(reading.places, digest, builder)
}

/** What the Release file names and the store has, under whichever name. */
async function storedClaims(places: Layout, known: KnownRelease): Promise<readonly ListedStored[]> {
  const claims: ListedStored[] = []
  for (const listed of known.release.files.values()) {
    const digest = listed.digests.sha256
    if (digest === undefined) continue
    const found = await stat(places.blob(digest)).catch(() => undefined)
    if (found?.size !== listed.size) continue
    const key = `${known.base}/${listed.path}`
    claims.push({ file: { key, digest, size: listed.size, stored: 0, validated: 0 }, listed })
  }
  return claims
}

/** Of one index in several packings, the first whose table is there or can be made. */
async function adoptOne(
  reading: Reading,
  choice: readonly UsableIndex[],
  refused: string[],
): Promise<AdoptedIndex | undefined> {
  const { tables } = reading
  for (const { file, base } of choice) {
    const { digest } = file
    const common =
      tables.get(digest) ??
      (tables.has(digest) ? undefined : (await readTable(reading, digest))?.common)
    if (common === undefined) continue
    tables.set(digest, common)
    return { table: digest, root: rootOf(base, common) }
  }
  for (const index of choice) {
    const { digest, key } = index.file
    if (tables.has(digest)) continue
    tables.set(digest, undefined)
    try {
      const { common } = await makeTable(reading, index)
      tables.set(digest, common)
      return { table: digest, root: rootOf(index.base, common) }
    } catch (error) {
      refused.push(`${key} cannot be read: ${explainError(error)}`)
    }
  }
  return undefined
}

async function makeTable(reading: Reading, { file, kind }: UsableIndex): Promise<Table> {
  const { places, mostTableBytes } = reading
  if (reading.left <= 0) throw new Error('the indexes of its Release file unpack to too much')
  const hash = createHash('sha256')
  const packed = createReadStream(places.blob(file.digest), { highWaterMark: 256 * 1024 })
  const hashed = async function* (): AsyncGenerator<Uint8Array> {
    for await (const chunk of packed) {
      hash.update(chunk)
      yield chunk
    }
  }
  const unpacked = async function* (): AsyncGenerator<Uint8Array> {
    const most = Math.min(usualLimits.most, reading.left)
    for await (const chunk of decompress(hashed(), { ...usualLimits, most })) {
      reading.left -= chunk.length
      yield chunk
    }
  }
  const builder = new TableBuilder(mostTableBytes)
  for await (const { path, size, digests } of indexedFiles(kind, unpacked())) {
    if (digests.sha256 !== undefined) builder.add(path, { size, digest: digests.sha256 })
  }
  // A decoder may stop before the end of the file.
  for await (const chunk of packed) hash.update(chunk)
  if (hash.digest('hex') !== file.digest) throw new Error('its content is not what it says')
  return writeTable(places, file.digest, builder)
}

/** The table that is there; undefined when it is damaged or too large. */
async function readTable(
  { places, mostTableBytes }: Reading,
  digest: string,
): Promise<Table | undefined> {
  const path = tablePath(places, digest)
  const { size } = (await stat(path).catch(() => undefined)) ?? {}
  if (size === undefined || size > mostTableBytes) return undefined
  const file = await readFile(path).catch(() => undefined)
  return file && Table.read(file)
}

async function writeTable(places: Layout, digest: string, builder: TableBuilder): Promise<Table> {
  const bytes = builder.finish()
  await writeFileAtomically(tablePath(places, digest), bytes, { durable: false })
  const table = Table.read(bytes)
  if (table === undefined) throw new Error('a table that was just made cannot be read')
  return table
}

/** How the files of tables end. */
export const tableSuffix = '.table'

/** The file of the table of the index with this SHA-256. */
export function tablePath(places: Pick<Layout, 'suites'>, digest: string): string {
  return join(places.suites, `${digest}${tableSuffix}`)
}
