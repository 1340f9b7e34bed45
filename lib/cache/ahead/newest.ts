/**
 * Finds the packages that new indexes name in place of those that earlier indexes named. This is the program of a thread, which ahead.ts
 * starts, because the work is heavy.
 */
import { createReadStream } from 'node:fs'
import type { Milliseconds } from '../../async/clock.ts'
import { doTaskOfThread } from '../../async/thread.ts'
import { decompress } from '../archive/decompress.ts'
import { indexedFiles, type ListedFile } from '../archive/listed-file.ts'
import { compareVersions } from '../archive/version.ts'
import { Layout } from '../store/disk/disk.ts'
import { type PackageFile, packageFile } from '../store/upkeep/versions.ts'
import type { AdoptedIndex } from '../suites/generation.ts'

/** The task of the search. */
export interface Search {
  readonly cacheDirectory: string
  /** The earlier and the new indexes, by the digests of their contents. */
  readonly before: readonly AdoptedIndex[]
  readonly after: readonly AdoptedIndex[]
  /** The last uses of packages by clients, by their decoded URLs. */
  readonly used: ReadonlyMap<string, Milliseconds>
}

/** A package that replaces one that clients use. */
export interface NewerPackage {
  /** The last use of the replaced package. */
  readonly lastUsed: Milliseconds
  /** The decoded URL of the directory from which its path counts. */
  readonly root: string
  readonly path: string
  readonly size: number
  readonly digest: string
}

/** A package in an index, identified by directory, name and architecture. */
interface Indexed {
  readonly file: PackageFile
  readonly name: string
  readonly root: string
  readonly listed: ListedFile
}

/**
 * The newest version of each used package that earlier indexes named. The package that was used last comes first. Throws when an index
 * cannot be read.
 */
async function newest(search: Search): Promise<readonly NewerPackage[]> {
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
    // File names lack the epoch. If the old file is not named any more, the new one is newer whatever their names say.
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

await doTaskOfThread(newest)
