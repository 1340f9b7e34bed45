/**
 * Finds stored packages that indexes of their archive no longer name.
 *
 * # Facts
 * - An archive has many indexes, and clients fetch only some of them. An index covers only the packages of its component and its
 *   architecture, or the sources of its component.
 * - The packages that an unreadable stored index names are not known, nor those of a Release file that clients use and that is not
 *   adopted. So no package of their archive is called unnamed.
 * - Only the adopted generations have tables. Other generations have their stored indexes (past-names.ts).
 */
import type { Milliseconds } from '../../async/clock.ts'
import { decodedUrl, packageIndexOf, suiteOfRelease } from '../archive/path.ts'
import { indexChoices, rootsOf } from '../archive/suite-layout.ts'
import type { ListedEntry } from '../store/catalogue/catalogue.ts'
import { baseOf, generationOf, type KnownSuite, type ListedContent } from './generation.ts'
import { type AdoptedSuites, type Source, standingOf } from './known-suites.ts'
import { groupsOf, type OtherIndex, type StoredPackage } from './past-names.ts'
import { pathName, type Table } from './table.ts'

/** A Release file that no client asked for in this time does not count: it may be older than the InRelease of its suite. */
const releaseInUse: Milliseconds = 60 * 24 * 60 * 60 * 1000

/** The number of packages that are looked up in one turn of the event loop. */
const atOnce = 1_000

export class References {
  readonly #parts: AdoptedSuites

  constructor(parts: AdoptedSuites) {
    this.#parts = parts
  }

  get complete(): boolean {
    return this.#parts.known.complete
  }

  /**
   * Those of these packages that adopted indexes cover and do not name. Rejects with the reason of `stop` between two tables. The event
   * loop gets a turn after each table.
   */
  async unnamed(
    packages: readonly StoredPackage[],
    stop: AbortSignal,
  ): Promise<readonly StoredPackage[]> {
    const { known } = this.#parts
    const byRoot = groupsOf(packages, ({ url }) => known.rootAbove(url))
    const found: StoredPackage[] = []
    for (const [root, some] of byRoot) {
      if (root === undefined) continue
      for (const one of await this.#unnamedBelow(root, some, stop)) {
        if (standingOf(this.#parts, one.digest) === 'unknown') found.push(one)
      }
    }
    return found
  }

  async #unnamedBelow(
    root: string,
    packages: readonly StoredPackage[],
    stop: AbortSignal,
  ): Promise<readonly StoredPackage[]> {
    const { known, tables } = this.#parts
    const asked = packages.map(one => {
      const path = one.url.slice(root.length + 1)
      return { one, path, name: pathName(path), spoken: false, named: false }
    })
    for (const source of known.rootedAt(root)) {
      const table = tables.hot(source.table) ?? (await tables.load(source.table))
      stop.throwIfAborted()
      if (table === undefined || table === 'unreadable') return []
      const speaks = voiceOf(source, table)
      for (const [n, it] of asked.entries()) {
        if (n > 0 && n % atOnce === 0) await new Promise(resolve => setImmediate(resolve))
        if (it.named) continue
        if (table.find(it.name) !== undefined) it.named = true
        else it.spoken ||= speaks(it.path)
      }
      await new Promise(resolve => setImmediate(resolve))
    }
    return asked.filter(({ spoken, named }) => spoken && !named).map(({ one }) => one)
  }

  /** Decoded URLs of directories whose packages cannot be judged, because a stored index of the suite could not be read. */
  unreadBelow(): readonly string[] {
    return this.#parts.known.all.flatMap(suite => {
      const [adopted] = suite.generations
      const read = new Set(adopted?.indexes.map(({ table }) => table))
      const all = indexChoices(adopted?.contents ?? [])
      return all.every(choice => choice.some(({ digest }) => read.has(digest)))
        ? []
        : [packagesOf(suite)]
    })
  }

  /** The same directory for a stored Release file that clients use and that is not adopted; undefined for any other file. */
  blindBelow({ key, digest, lastUsed }: ListedEntry, now: Milliseconds): string | undefined {
    const at = suiteOfRelease(key)
    if (at === undefined || key.endsWith('.gpg') || now - lastUsed > releaseInUse) return undefined
    const { known } = this.#parts
    const suite = known.at(at)
    if (generationOf(suite, digest) !== undefined) return undefined
    if (suite?.waiting?.some(({ release }) => release.digest === digest)) return undefined
    const base = decodedUrl(at)
    if (base === undefined) return undefined
    // The Release file of a component names no files, and the Release file of its suite lists it.
    if (suite === undefined && known.above(base) !== undefined) return undefined
    return packagesOf({ at })
  }

  /** The indexes of past and waiting generations, except those that the adopted generation has as well. */
  others(): readonly OtherIndex[] {
    const found = new Map<string, OtherIndex>()
    for (const suite of this.#parts.known.all) {
      const [adopted, ...past] = suite.generations
      const read = new Set(adopted?.indexes.map(({ table }) => table))
      const below = packagesOf(suite)
      for (const { contents } of [...past, ...(suite.waiting ?? [])]) {
        for (const packings of indexChoices(contents)) {
          const [first] = packings
          const digests = packings.map(({ digest }) => digest)
          if (first === undefined || digests.some(digest => read.has(digest))) continue
          const index = { digests, kind: first.kind, below }
          found.set(otherIndexName(index), index)
        }
      }
    }
    return [...found.values()]
  }
}

/** A text that identifies an index by its packings and its directory. */
export function otherIndexName({ digests, below }: OtherIndex): string {
  return `${digests.join(' ')} ${below}`
}

/** The decoded URL of the directory with the packages of a suite. */
function packagesOf(suite: Pick<KnownSuite, 'at'>): string {
  const base = baseOf(suite)
  return rootsOf(base)[0] ?? base
}

/** Answers whether an index covers a path, so that it would name the package if the archive still had it. */
function voiceOf({ generation, table: digest }: Source, table: Table): (path: string) => boolean {
  if (table.count === 0) return () => false
  const voices = generation.contents
    .filter(one => one.digest === digest)
    .flatMap(one => kindsOf(one, table.common))
  return path => voices.some(speaks => speaks(path))
}

function kindsOf({ path }: ListedContent, common: string): Array<(path: string) => boolean> {
  const kind = packageIndexOf(path)
  if (kind === undefined) return []
  const directory = directoryFor(path, common)
  const inside = (file: string): boolean => directory === '' || file.startsWith(`${directory}/`)
  if (kind === 'Sources') return [file => inside(file) && !binary.test(file)]
  const installer = path.includes('debian-installer/')
  const [, own] = /(?:^|\/)binary-([^/]+)\//.exec(path) ?? []
  return [
    file => {
      const [, of, ending] = binary.exec(file) ?? []
      if (ending === undefined || (ending === 'udeb') !== installer || !inside(file)) return false
      const any = own === undefined || of === undefined || of === 'all'
      return any || of === own
    },
  ]
}

/** The file name of a binary package: its architecture, when the name has one, and its suffix. */
const binary = /(?:_([A-Za-z0-9-]+))?\.(deb|udeb|ddeb)$/

/**
 * The directory of an index's component: the common directory of its packages, cut off after the name of the component. An index with one
 * package would otherwise cover only the directory of that package.
 */
function directoryFor(path: string, common: string): string {
  const component = /([^/]+)\/(?:debian-installer\/)?(?:binary-[^/]+|source)\/[^/]+$/.exec(
    path,
  )?.[1]
  const segments = common.split('/')
  const at = component === undefined ? -1 : segments.indexOf(component)
  return at < 0 ? common : segments.slice(0, at + 1).join('/')
}
