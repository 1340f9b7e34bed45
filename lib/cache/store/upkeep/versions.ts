/**
 * Finds older versions of packages among the keys of a store, by their file names alone.
 *
 * A package is identified by its directory, its name and its architecture. There are two walks over the keys. The first counts the files
 * of each package in a table of fixed size. The second remembers only packages with too many files. When two packages share a place in
 * the table, the second walk remembers more than it needs; the result is the same.
 */
import { crc32 } from 'node:zlib'
import { type PackageFile, packageFile } from '../../archive/package-file.ts'
import { compareVersions } from '../../archive/version.ts'

type Some = ReadonlyArray<{ readonly key: string }>

const places = 1 << 20

/** The keys of all but the `keep` newest versions of each package. `keys` is called for each walk. */
export async function olderVersions(
  keys: () => AsyncIterable<Some>,
  keep: number,
): Promise<readonly string[]> {
  /** The number of files of each package, at most 255, at the place of its name's hash. */
  const counts = new Uint8Array(places)
  for await (const some of keys()) {
    for (const { name } of filesAmong(some)) {
      const at = placeOf(name)
      counts[at] = Math.min(255, (counts[at] ?? 0) + 1)
    }
  }
  const packages = new Map<string, { readonly key: string; readonly version: string }[]>()
  for await (const some of keys()) {
    for (const { key, name, version } of filesAmong(some)) {
      if ((counts[placeOf(name)] ?? 0) <= keep) continue
      const versions = packages.get(name)
      if (versions === undefined) packages.set(name, [{ key, version }])
      else versions.push({ key, version })
    }
  }
  return [...packages.values()].flatMap(versions => {
    const newest = versions.sort((a, b) => compareVersions(b.version, a.version))
    const last = newest[keep - 1]?.version
    if (last === undefined) return []
    return newest.filter(one => compareVersions(one.version, last) < 0).map(({ key }) => key)
  })
}

function* filesAmong(some: Some): Generator<PackageFile & { readonly key: string }> {
  for (const { key } of some) {
    const file = packageFile(key)
    if (file !== undefined) yield { key, ...file }
  }
}

function placeOf(name: string): number {
  return crc32(name) & (places - 1)
}
