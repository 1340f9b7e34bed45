/**
 * Finds where the files of a suite lie: those a Release file lists, its indexes, and their packages. Pure.
 *
 * # Facts
 * - A suite lies anywhere below `dists/`, nested (`jessie/updates`) or not; its indexes are named from the directory of the
 *   Release file, by plain names and by hash.
 * - Paths of packages begin at the root of the archive: what stands before `dists/`. A flat repository has no `dists/`; its
 *   paths begin in the directory of its Release file, or, when sources.list names a subdirectory, in one above it.
 * - InRelease and Release of one suite may be of different days when a client last asked for only one of them: the younger
 *   one counts.
 */
import type { Milliseconds } from '../../async/clock.ts'
import { digests } from './digest.ts'
import type { ListedFile } from './listed-file.ts'
import { directoriesOf, packageIndexOf, parentOf } from './path.ts'
import type { Release } from './release.ts'

/** A stored file: the part of its entry that matters here. */
export interface StoredFile {
  readonly key: string
  /** SHA-256 of its content. */
  readonly digest: string
  readonly size: number
  readonly stored: Milliseconds
  readonly validated: Milliseconds
}

/** A stored Release file and where the suite it describes lies. */
export interface StoredRelease {
  readonly file: StoredFile
  /** The decoded URL of its directory, without a slash at the end. */
  readonly base: string
}

/** A Release file that was read. */
export interface KnownRelease extends StoredRelease {
  readonly release: Release
}

/** A stored file and how a Release file lists it. */
export interface ListedStored {
  readonly file: StoredFile
  readonly listed: ListedFile
}

/** Of the Release files of each suite the one that counts. */
export function currentReleases<One extends KnownRelease>(
  releases: readonly One[],
): readonly One[] {
  const current = new Map<string, One>()
  for (const one of releases) {
    const other = current.get(one.base)
    if (other === undefined || isYounger(one, other)) current.set(one.base, one)
  }
  return [...current.values()]
}

function isYounger(one: KnownRelease, other: KnownRelease): boolean {
  const difference = (one.release.date ?? 0) - (other.release.date ?? 0)
  return difference === 0 ? one.file.key.endsWith('/InRelease') : difference > 0
}

/** Everything stored that a Release file lists, by its plain name and by hash; `named` has the files of a decoded URL. */
export function* storedOf(
  known: KnownRelease,
  named: (name: string) => readonly StoredFile[],
): Generator<ListedStored> {
  for (const listed of known.release.files.values()) {
    const name = `${known.base}/${listed.path}`
    for (const file of named(name)) yield { file, listed }
    for (const { algorithm, release } of digests) {
      const digest = listed.digests[algorithm]
      if (digest === undefined) continue
      const byHash = `${parentOf(name)}/by-hash/${release}/${digest}`
      for (const file of named(byHash)) yield { file, listed }
    }
  }
}

/** Where paths of an index may begin, the likeliest first. `base` is the directory of its Release file. */
export function rootsOf(base: string): readonly string[] {
  const dists = base.lastIndexOf('/dists/')
  return dists < 0 ? [...directoriesOf(`${base}/`)] : [base.slice(0, dists)]
}

/**
 * Where the paths of an index begin, given the directory all of them lie in: the directory of the Release file, unless that
 * directory's own name stands at the beginning of every path.
 */
export function rootOf(base: string, common: string): string {
  const [first = base, ...above] = rootsOf(base)
  const within = above.find(root => `${common}/`.startsWith(`${base.slice(root.length + 1)}/`))
  return within ?? first
}

/** An index of packages that is right, or that no Release file says anything about. */
export interface UsableIndex {
  readonly file: StoredFile
  readonly kind: 'Packages' | 'Sources'
  /** The directory of its Release file; of the index itself when there is none. */
  readonly base: string
}

/**
 * The confirmed indexes of packages of a suite, each content once: of one index in several packings the one that is unpacked
 * soonest comes first, the others stand behind it for when it cannot be read.
 */
export function indexChoices(
  base: string,
  confirmed: readonly ListedStored[],
): ReadonlyArray<readonly UsableIndex[]> {
  const choices = new Map<string, UsableIndex[]>()
  const byCost = [...confirmed].sort((a, b) => costOf(a.listed.path) - costOf(b.listed.path))
  for (const { file, listed } of byCost) {
    const kind = packageIndexOf(listed.path)
    if (kind === undefined) continue
    const name = `${parentOf(listed.path)}/${kind}`
    const same = choices.get(name) ?? []
    if (same.every(index => index.file.digest !== file.digest)) same.push({ file, kind, base })
    choices.set(name, same)
  }
  return [...choices.values()]
}

/** How long unpacking takes, by rank. */
function costOf(path: string): number {
  const order = ['.gz', '.zst', '.xz', '.lzma', '.bz2']
  return order.findIndex(ending => path.endsWith(ending)) + 1
}

/** Those of some indexes of packages that lie outside the directories of all stored Release files. */
export function unsignedIndexes(
  indexes: readonly StoredFile[],
  releases: readonly StoredRelease[],
): readonly UsableIndex[] {
  const bases = new Set(releases.map(({ base }) => base))
  return indexes.flatMap(file => {
    const kind = packageIndexOf(file.key)
    const base = parentOf(file.key)
    const signed = [...directoriesOf(file.key)].some(at => bases.has(at))
    return kind === undefined || signed ? [] : [{ file, kind, base }]
  })
}
