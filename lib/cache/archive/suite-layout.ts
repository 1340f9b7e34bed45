/**
 * Finds the Release file of a suite that counts, the directory in which the paths of its indexes begin, and the indexes to read. This file
 * is pure.
 *
 * # Facts
 * - A suite is anywhere below `dists/`, and may be nested (`jessie/updates`). Its indexes have paths from the directory of the Release file,
 *   by plain names and by digest.
 * - Paths of packages begin at the root of the archive, the part of the URL before `dists/`. A flat repository has no `dists/`. Its paths
 *   begin in the directory of its Release file, or in one above it when sources.list names a subdirectory.
 * - InRelease and Release of one suite may have different dates when a client last asked for only one of them. The one with the better
 *   signature counts, and of two with equally good ones the newer one: a file without a signature can have any date.
 */
import type { PackageIndex } from './listed-file.ts'
import { directoriesOf, packageIndexOf, parentOf } from './path.ts'
import type { Release } from './release.ts'

/** A Release file that was read. */
export interface KnownRelease {
  /** The decoded URL of its directory, without a slash at the end. */
  readonly base: string
  /** Whether it is signed in place: an InRelease. */
  readonly inPlace: boolean
  readonly release: Release
  /** How much its signature counts; a higher number counts more. */
  readonly rank: number
}

/** The Release file that counts, for each suite. */
export function currentReleases<One extends KnownRelease>(
  releases: readonly One[],
): readonly One[] {
  const current = new Map<string, One>()
  for (const one of releases) {
    const other = current.get(one.base)
    const order = other && (one.rank - other.rank || dateOf(one) - dateOf(other))
    if (order === undefined || order > 0 || (order === 0 && one.inPlace)) current.set(one.base, one)
  }
  return [...current.values()]
}

function dateOf({ release }: KnownRelease): number {
  return release.date ?? 0
}

/** The directories in which the paths of an index may begin, the likeliest first. `base` is the directory of its Release file. */
export function rootsOf(base: string): readonly string[] {
  const dists = base.lastIndexOf('/dists/')
  return dists < 0 ? [...directoriesOf(`${base}/`)] : [base.slice(0, dists)]
}

/**
 * The directory in which the paths of an index begin. `common` is the longest directory that all its paths have. The result is the
 * likeliest directory, unless every path begins with the name of the Release file's directory.
 */
export function rootOf(base: string, common: string): string {
  const [first = base, ...above] = rootsOf(base)
  const within = above.find(root => `${common}/`.startsWith(`${base.slice(root.length + 1)}/`))
  return within ?? first
}

/** A file that a Release file names. */
interface NamedFile {
  readonly path: string
  readonly digest: string
}

/**
 * The indexes of packages among the right files of a suite, each content once. A choice has the packings of one index, the one that is
 * unpacked fastest first. The others are read when an earlier one cannot be read.
 */
export function indexChoices<File extends NamedFile>(
  right: readonly File[],
): ReadonlyArray<ReadonlyArray<File & { readonly kind: PackageIndex }>> {
  const choices = new Map<string, (File & { readonly kind: PackageIndex })[]>()
  for (const file of [...right].sort((a, b) => costOf(a.path) - costOf(b.path))) {
    const kind = packageIndexOf(file.path)
    if (kind === undefined) continue
    const name = `${parentOf(file.path)}/${kind}`
    const same = choices.get(name) ?? []
    if (same.every(({ digest }) => digest !== file.digest)) same.push({ ...file, kind })
    choices.set(name, same)
  }
  return [...choices.values()]
}

/** The rank of a packing by the time that unpacking takes. */
function costOf(path: string): number {
  const order = ['.gz', '.zst', '.xz', '.lzma', '.bz2']
  return order.findIndex(ending => path.endsWith(ending)) + 1
}
