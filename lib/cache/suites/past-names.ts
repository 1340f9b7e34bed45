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
import { isMainThread, parentPort, workerData } from 'node:worker_threads'
import { lowerPriority, runInThread } from '../../async/thread.ts'
import { systemCode } from '../../errors.ts'
import { decompress } from '../archive/decompress.ts'
import { indexedFiles } from '../archive/listed-file.ts'
import { Layout } from '../store/disk/disk.ts'
import type { OtherIndex, StoredPackage } from './references.ts'

type AskedPackage = Pick<StoredPackage, 'key' | 'url' | 'digest'>

interface PastTask {
  readonly cacheDirectory: string
  readonly indexes: readonly OtherIndex[]
  readonly packages: readonly AskedPackage[]
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
export async function readOthers({
  cacheDirectory,
  indexes,
  packages,
}: PastTask): Promise<NamedBy> {
  const layout = new Layout(cacheDirectory)
  const named = new Map<string, OtherIndex>()
  for (const index of indexes) {
    const asked = packages.filter(
      ({ key, url }) => !named.has(key) && url.startsWith(`${index.below}/`),
    )
    if (asked.length === 0) continue
    const byDigest = groupsOf(asked, ({ digest }) => digest)
    const byName = groupsOf(asked, ({ url }) => basename(url))
    const note = ({ key }: AskedPackage): unknown => named.set(key, index)
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

function groupsOf<One>(
  all: readonly One[],
  nameOf: (one: One) => string,
): ReadonlyMap<string, readonly One[]> {
  const groups = new Map<string, One[]>()
  for (const one of all) {
    const name = nameOf(one)
    const group = groups.get(name)
    if (group === undefined) groups.set(name, [one])
    else group.push(one)
  }
  return groups
}

/** The priority of background jobs. */
const niceness = 10

if (!isMainThread && parentPort !== null) {
  lowerPriority(niceness)
  parentPort.postMessage(await readOthers(workerData))
}
