/**
 * Finds what new indexes name in place of packages that the indexes before them named. Heavy work: this is the program of a
 * thread of its own, which ahead.ts starts.
 */
import { createReadStream } from 'node:fs'
import { parentPort, workerData } from 'node:worker_threads'
import type { Milliseconds } from '../../async/clock.ts'
import { lowerPriority } from '../../async/thread.ts'
import { decompress } from '../archive/decompress.ts'
import { indexedFiles, type ListedFile } from '../archive/listed-file.ts'
import { compareVersions } from '../archive/version.ts'
import { Layout } from '../store/disk/disk.ts'
import { type PackageFile, packageFile } from '../store/upkeep/versions.ts'
import type { AdoptedIndex } from '../suites/generation.ts'

/** What is looked for. */
export interface Search {
  readonly cacheDirectory: string
  /** The indexes before and after, by the digests of their contents. */
  readonly before: readonly AdoptedIndex[]
  readonly after: readonly AdoptedIndex[]
  /** When clients used packages last, by their decoded URLs. */
  readonly used: ReadonlyMap<string, Milliseconds>
}

/** A package that has come in place of one that clients use. */
export interface Newer {
  /** When the one before was used. */
  readonly lastUsed: Milliseconds
  /** Where its path begins, a decoded URL. */
  readonly root: string
  readonly path: string
  readonly size: number
  readonly digest: string
}

/** A package of an index, found by directory, name and architecture. */
interface Indexed {
  readonly file: PackageFile
  readonly name: string
  readonly root: string
  readonly listed: ListedFile
}

/**
 * Of each package that is used and was named before, the newest that is named now; the one used last first. Throws when an index
 * cannot be read.
 */
async function newest(search: Search): Promise<readonly Newer[]> {
  const lastUsed = (one?: Indexed): Milliseconds => search.used.get(one?.name ?? '') ?? 0
  const before = new Map<string, Indexed>()
  for await (const one of packagesOf(search, search.before)) {
    const { name } = one.file
    if (lastUsed(one) > lastUsed(before.get(name))) before.set(name, one)
  }
  const after = new Map<string, Indexed>()
  const still = new Set<string>()
  for await (const one of packagesOf(search, search.after)) {
    const { file } = one
    const old = before.get(file.name)
    if (old === undefined) continue
    if (old.name === one.name) still.add(file.name)
    const other = after.get(file.name)
    const newer = other === undefined || compareVersions(file.version, other.file.version) > 0
    if (newer) after.set(file.name, one)
  }
  const found = [...after.values()].flatMap(({ file, name, root, listed }) => {
    const old = before.get(file.name)
    const { sha256: digest } = listed.digests
    if (old === undefined || digest === undefined || old.name === name) return []
    // File names lack the epoch. What took the place of another is newer whatever its name says.
    const older = still.has(file.name) && compareVersions(file.version, old.file.version) <= 0
    const { path, size } = listed
    return older ? [] : [{ lastUsed: lastUsed(old), root, path, size, digest }]
  })
  return found.sort((a, b) => b.lastUsed - a.lastUsed)
}

async function* packagesOf(
  { cacheDirectory }: Search,
  indexes: readonly AdoptedIndex[],
): AsyncGenerator<Indexed> {
  const layout = new Layout(cacheDirectory)
  for (const { table, root } of indexes) {
    const unpacked = decompress(createReadStream(layout.blob(table)))
    for await (const listed of indexedFiles('Packages', unpacked)) {
      const name = `${root}/${listed.path}`
      const file = packageFile(name)
      if (file !== undefined) yield { file, name, root, listed }
    }
  }
}

/** Background jobs are as nice as this. */
const niceness = 10

// Without a parent it is not a thread and does nothing.
if (parentPort !== null) {
  lowerPriority(niceness)
  parentPort.postMessage(await newest(workerData))
}
