/**
 * Finds the packages that stored indexes of past and waiting generations name. The work is heavy, so this file is also the program of a
 * thread of its own, which `namedByOthers` starts.
 *
 * # Facts
 * - An index that is not stored in any packing names no package, because no client can get it.
 * - An index that is stored, and cannot be read in any packing, may name every package below its archive.
 */
import { createReadStream } from 'node:fs'
import { basename } from 'node:path/posix'
import { doTaskOfThread, runInThread } from '../../async/thread.ts'
import { systemCode } from '../../errors.ts'
import { decompress } from '../archive/decompress.ts'
import { indexedFiles, type PackageIndex } from '../archive/listed-file.ts'
import type { ListedEntry } from '../store/catalogue/catalogue.ts'
import { Layout } from '../store/disk/disk.ts'

/** A stored package by its decoded URL. */
export interface StoredPackage extends ListedEntry {
  readonly url: string
}

/** An index of a past or waiting generation that is kept. */
export interface OtherIndex {
  /** The digests of its packings; the store may have any of them. */
  readonly digests: readonly string[]
  readonly kind: PackageIndex
  /** The decoded URL of the directory with the packages that the index may name. */
  readonly below: string
}

interface PastTask {
  readonly cacheDirectory: string
  readonly indexes: readonly OtherIndex[]
  readonly packages: ReadonlyArray<Pick<StoredPackage, 'key' | 'url' | 'digest'>>
}

/** The index that names a package, by the key of the package. */
export type NamedBy = ReadonlyMap<string, OtherIndex>

const heapMegabytes = 512

/** Reads the indexes in a thread. Rejects with the reason of `signal`, and when the thread fails. */
export function namedByOthers(task: PastTask, signal: AbortSignal): Promise<NamedBy> {
  const program = new URL('./past-names.js', import.meta.url)
  const packages = task.packages.map(({ key, url, digest }) => ({ key, url, digest }))
  return runInThread(
    program,
    { task: { ...task, packages }, heapMegabytes, signal },
    (found: NamedBy, resolve: (found: NamedBy) => void) => resolve(found),
  )
}

/** The packages that one of these indexes names or may name, each with the first that does. */
async function readOthers({ cacheDirectory, indexes, packages }: PastTask): Promise<NamedBy> {
  const layout = new Layout(cacheDirectory)
  const named = new Map<string, OtherIndex>()
  for (const index of indexes) {
    const asked = packages.filter(
      ({ key, url }) => !named.has(key) && url.startsWith(`${index.below}/`),
    )
    if (asked.length === 0) continue
    const byDigest = groupsOf(asked, ({ digest }) => digest)
    const byName = groupsOf(asked, ({ url }) => basename(url))
    const note = ({ key }: (typeof asked)[number]): unknown => named.set(key, index)
    const read = async (digest: string): Promise<'read' | 'absent' | 'unreadable'> => {
      try {
        const unpacked = decompress(createReadStream(layout.blob(digest)))
        for await (const { path, digests } of indexedFiles(index.kind, unpacked)) {
          for (const one of byDigest.get(digests.sha256 ?? '') ?? []) note(one)
          for (const one of byName.get(basename(path)) ?? [])
            if (one.url.endsWith(`/${path}`)) note(one)
        }
        return 'read'
      } catch (error) {
        return systemCode(error) === 'ENOENT' ? 'absent' : 'unreadable'
      }
    }
    let found: Awaited<ReturnType<typeof read>> = 'absent'
    for (const digest of index.digests) {
      const next = await read(digest)
      if (next !== 'absent') found = next
      if (next === 'read') break
    }
    if (found === 'unreadable') for (const one of asked) note(one)
  }
  return named
}

/** The items by a name that several of them can have. */
export function groupsOf<One, Name>(
  all: readonly One[],
  nameOf: (one: One) => Name,
): ReadonlyMap<Name, readonly One[]> {
  const groups = new Map<Name, One[]>()
  for (const one of all) {
    const name = nameOf(one)
    const group = groups.get(name)
    if (group === undefined) groups.set(name, [one])
    else group.push(one)
  }
  return groups
}

await doTaskOfThread(readOthers)
