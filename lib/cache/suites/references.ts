/**
 * Finds stored packages that no index of their archive names any more.
 *
 * # Facts
 * - An index speaks for the packages of its component and its architecture, or for the sources, and for no others: an archive has
 *   many indexes, and clients fetch some of them.
 * - Of an index that is stored and cannot be read, and of a Release file that clients use and that is not adopted, it is not known what
 *   they name. So nothing is said of any package of their archive.
 * - Tables are there for the adopted generations alone. What other generations name stands in their stored indexes (past-names.ts).
 */
import type { Milliseconds } from '../../async/clock.ts'
import type { PackageIndex } from '../archive/listed-file.ts'
import { decodedUrl, directoriesOf, packageIndexOf, suiteOfRelease } from '../archive/path.ts'
import { indexChoices, rootsOf } from '../archive/suite-layout.ts'
import type { ListedEntry } from '../store/catalogue/catalogue.ts'
import { baseOf, generationOf, type ListedContent, type Suite } from './generation.ts'
import { type AdoptedSuites, type Source, standingOf } from './known-suites.ts'
import { pathName, type Table } from './table.ts'

/** A stored package by its decoded URL. */
export interface StoredPackage extends ListedEntry {
  readonly url: string
}

/** An index of a generation that is kept and not the adopted one. */
export interface OtherIndex {
  /** Its contents by their packing; any of them may be stored. */
  readonly digests: readonly string[]
  readonly kind: PackageIndex
  /** The decoded URL of the directory in which the packages lie that it may name. */
  readonly below: string
}

/** A Release file that no client asked for in so long blinds nothing: it may be left from before its suite had an InRelease. */
const releaseInUse: Milliseconds = 60 * 24 * 60 * 60 * 1000

/** Packages that are looked up in one turn of the event loop. */
const atOnce = 1_000

export class References {
  readonly #parts: AdoptedSuites

  constructor(parts: AdoptedSuites) {
    this.#parts = parts
  }

  /** Whether all that an earlier run knew has been read. */
  get complete(): boolean {
    return this.#parts.known.complete
  }

  /**
   * Those of these packages for which adopted indexes speak and which none names. `stop` rejects between two tables. Gives the event
   * loop a turn after each.
   */
  async unnamed(
    packages: readonly StoredPackage[],
    stop: AbortSignal,
  ): Promise<readonly StoredPackage[]> {
    const { known } = this.#parts
    const byRoot = new Map<string, StoredPackage[]>()
    for (const one of packages) {
      for (const root of directoriesOf(one.url)) {
        if (known.rootedAt(root).length === 0) continue
        const same = byRoot.get(root)
        if (same === undefined) byRoot.set(root, [one])
        else same.push(one)
        break
      }
    }
    const found: StoredPackage[] = []
    for (const [root, some] of byRoot) {
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

  /** Decoded URLs of directories of whose packages nothing is said: a stored index of the suite could not be read. */
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

  /** The same for a stored Release file that clients use and that is not adopted; undefined for any other file. */
  blindBelow({ key, digest, lastUsed }: ListedEntry, now: Milliseconds): string | undefined {
    const at = suiteOfRelease(key)
    if (at === undefined || key.endsWith('.gpg') || now - lastUsed > releaseInUse) return undefined
    const { known } = this.#parts
    const suite = known.at(at)
    if (generationOf(suite, digest) !== undefined) return undefined
    if (suite?.waiting?.some(({ release }) => release.digest === digest)) return undefined
    const base = decodedUrl(at)
    if (base === undefined) return undefined
    // The Release files of components name nothing and are listed by that of their suite.
    if (suite === undefined && known.above(base) !== undefined) return undefined
    return packagesOf({ at })
  }

  /** The indexes of generations that are kept beside the adopted ones: past ones, and those that wait. */
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

export function otherIndexName({ digests, below }: OtherIndex): string {
  return `${digests.join(' ')} ${below}`
}

/** The decoded URL of the directory in which the packages of a suite lie. */
function packagesOf(suite: Pick<Suite, 'at'>): string {
  const base = baseOf(suite)
  return rootsOf(base)[0] ?? base
}

/** Tells for which paths an index speaks. */
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

/** A binary package: its architecture, when its name has one, and how it ends. */
const binary = /(?:_([A-Za-z0-9-]+))?\.(deb|udeb|ddeb)$/

/**
 * The directory of an index's component: the one that all its packages lie in, up to where the component's name stands in it. An
 * index of one package would otherwise speak for the directory of that package alone.
 */
function directoryFor(path: string, common: string): string {
  const component = /([^/]+)\/(?:debian-installer\/)?(?:binary-[^/]+|source)\/[^/]+$/.exec(
    path,
  )?.[1]
  const segments = common.split('/')
  const at = component === undefined ? -1 : segments.indexOf(component)
  return at < 0 ? common : segments.slice(0, at + 1).join('/')
}
