/**
 * The known suites with their generations. Each suite has a file on disk.
 */
import { hash } from 'node:crypto'
import { join } from 'node:path'
import { explainError } from '../../errors.ts'
import { writeFileAtomically } from '../../files/atomic-file.ts'
import { directoriesOf } from '../archive/path.ts'
import { Disk, type DiskOptions, Layout, type Surroundings } from '../store/disk/disk.ts'
import type { ContentStanding } from '../store/retention-rules.ts'
import {
  type AdoptedIndex,
  baseOf,
  type Contradictions,
  decodeSuite,
  encodeSuite,
  type Generation,
  type KnownSuite,
  releasesOf,
} from './generation.ts'
import { namesFrom, nameText } from './table.ts'
import { readSmall, Tables } from './tables.ts'

/** An index that may name a file, with the generation that has the index. */
export interface Source {
  readonly suite: KnownSuite
  readonly generation: Generation
  readonly table: string
}

/** At most this many suites are known, because clients may ask for any number of directories. The suite adopted longest ago is forgotten. */
const mostSuites = 1000

/** The largest file of a suite that is read, bytes. */
const mostBytes = 16 * 1024 * 1024

export class KnownSuites {
  readonly #parts: Surroundings
  /** Suites by the key of their directory; the suite adopted longest ago is the first. */
  readonly #suites = new Map<string, KnownSuite>()
  /** Suites by the decoded URL of their directory. */
  readonly #bases = new Map<string, KnownSuite>()
  readonly #sources = new Map<string, Source[]>()
  readonly #named = new Set<string>()
  /** The names of paths on which indexes of one suite disagree, by the decoded URL at which the paths begin. */
  readonly #contradicted = new Map<string, ReadonlySet<string>[]>()
  /** Names of files that the disk could not read yet. They are not overwritten, and no table is removed while there are any. */
  readonly #unread = new Set<string>()
  /** Whether the names of the files have been read. */
  #listed = false
  #writing: Promise<unknown> = Promise.resolve()

  private constructor(parts: Surroundings) {
    this.#parts = parts
  }

  /** The suites of an earlier run. Never rejects. */
  static async open(parts: Surroundings): Promise<KnownSuites> {
    const known = new KnownSuites(parts)
    await known.readOn()
    return known
  }

  /** Whether all files of an earlier run have been read. */
  get complete(): boolean {
    return this.#listed && this.#unread.size === 0
  }

  /** Reads the files that the disk could not read before, and passes over damaged ones. Never rejects. */
  async readOn(): Promise<void> {
    if (this.complete) return
    const { disk, layout, log } = this.#parts
    const unreadable = (error: unknown): void => {
      log.warn('cannot read what is known of suites', { because: explainError(error) })
    }
    const found: KnownSuite[] = []
    try {
      const names = this.#listed ? [] : await disk.names(layout.suites)
      for (const name of names) if (name.endsWith(suffix)) this.#unread.add(name)
      this.#listed = true
    } catch (error) {
      unreadable(error)
    }
    for (const name of [...this.#unread]) {
      try {
        const text = await readSmall(disk, join(layout.suites, name), mostBytes)
        const suite = text && decodeSuite(text.toString())
        if (suite !== undefined && fileName(suite.at) === name) found.push(suite)
        this.#unread.delete(name)
      } catch (error) {
        unreadable(error)
      }
    }
    const suites = [...found.filter(({ at }) => !this.#suites.has(at)), ...this.#suites.values()]
    const adopted = ({ generations }: KnownSuite): number => generations[0]?.adopted ?? 0
    suites.sort((a, b) => adopted(a) - adopted(b))
    this.#suites.clear()
    for (const suite of suites) this.#suites.set(suite.at, suite)
    this.#index()
  }

  get all(): readonly KnownSuite[] {
    return [...this.#suites.values()]
  }

  get size(): number {
    return this.#suites.size
  }

  at(key: string): KnownSuite | undefined {
    return this.#suites.get(key)
  }

  /** The suite whose directory has the file with this decoded URL, and the path of the file from there. */
  above(name: string): { readonly suite: KnownSuite; readonly path: string } | undefined {
    for (const base of directoriesOf(name)) {
      const suite = this.#bases.get(base)
      if (suite !== undefined) return { suite, path: name.slice(base.length + 1) }
    }
    return undefined
  }

  /** The adopted indexes whose paths begin at a decoded URL, the indexes of the newest Release file first. */
  rootedAt(root: string | undefined): readonly Source[] {
    return this.#sources.get(root ?? '') ?? []
  }

  /** The nearest directory above a decoded URL at which the paths of adopted indexes begin. */
  rootAbove(name: string): string | undefined {
    for (const root of directoriesOf(name)) if (this.#sources.has(root)) return root
    return undefined
  }

  /** Whether adopted indexes of one suite name different contents for a path from `root`, by its `pathName`. */
  isContradicted(root: string, path: Buffer): boolean {
    const sets = this.#contradicted.get(root)
    if (sets === undefined) return false
    const name = nameText(path)
    return sets.some(names => names.has(name))
  }

  /** Whether a kept generation has this content. */
  names(digest: string): boolean {
    return this.#named.has(digest)
  }

  /** The names of the tables that are needed; the tables of past generations are last. */
  tables(): ReadonlySet<string> {
    const adopted = this.all.flatMap(({ generations: [one] }) => one ?? [])
    const all = this.all.flatMap(({ generations }) => generations)
    return new Set([
      ...adopted.flatMap(({ release, indexes }) => [release.digest, ...indexes.map(tableOf)]),
      ...all.map(({ release }) => release.digest),
    ])
  }

  async put(suite: KnownSuite): Promise<void> {
    this.#suites.delete(suite.at)
    this.#suites.set(suite.at, suite)
    this.#index()
    await this.#write(suite.at)
  }

  /** The suite to forget when too many are known; undefined when they are not. */
  excess(): KnownSuite | undefined {
    if (this.#suites.size <= mostSuites) return undefined
    // A forgotten suite with a delay would give its newest Release file at once, so suites without a delay are forgotten first.
    const delayed = ({ given }: KnownSuite): boolean => given !== undefined
    return this.all.find(one => !delayed(one)) ?? this.all[0]
  }

  /** Notes why clients do not get the newest generation of a suite. */
  async note(at: string, state: Partial<Omit<KnownSuite, 'at' | 'generations'>>): Promise<void> {
    const suite = this.#suites.get(at)
    if (suite === undefined) return
    const next = { ...suite, ...state }
    this.#suites.set(at, next)
    // Only waiting generations change what the index below is made of.
    if ('waiting' in state) this.#index()
    else this.#bases.set(baseOf(next), next)
    await this.#write(at)
  }

  async #write(at: string): Promise<void> {
    const name = fileName(at)
    const path = join(this.#parts.layout.suites, name)
    await this.#inTurn(async () => {
      const latest = this.#suites.get(at)
      if (latest === undefined || !this.#listed || this.#unread.has(name)) return
      await writeFileAtomically(path, encodeSuite(latest), { durable: false })
    })
  }

  /** Settles when all writes have ended. */
  async close(): Promise<void> {
    await this.#writing
  }

  async forget(at: string): Promise<void> {
    const name = fileName(at)
    const known = this.#suites.delete(at)
    if (!this.#unread.delete(name) && !known) return
    this.#index()
    const path = join(this.#parts.layout.suites, name)
    await this.#inTurn(() => this.#parts.disk.remove(path))
  }

  /** Changes files one after the other, so that each file has the latest state in the end. Never rejects. */
  #inTurn(act: () => Promise<unknown>): Promise<unknown> {
    this.#writing = this.#writing.then(act).catch((error: unknown) => {
      this.#parts.log.warn('cannot note what is known of a suite', { because: explainError(error) })
    })
    return this.#writing
  }

  #index(): void {
    this.#bases.clear()
    this.#sources.clear()
    this.#named.clear()
    this.#contradicted.clear()
    for (const suite of this.#suites.values()) {
      this.#bases.set(baseOf(suite), suite)
      for (const one of [...suite.generations, ...(suite.waiting ?? [])]) {
        const releases = 'seen' in one ? [one.release] : releasesOf(one)
        const signatures = releases.flatMap(({ signedBy }) => signedBy ?? [])
        const files = [...releases, ...signatures, ...one.contents]
        for (const { digest } of files) this.#named.add(digest)
      }
      const [generation] = suite.generations
      for (const { table, root } of generation?.indexes ?? []) {
        const same = this.#sources.get(root) ?? []
        if (generation !== undefined) same.push({ suite, generation, table })
        this.#sources.set(root, same)
      }
    }
    for (const { generations } of this.#suites.values()) {
      for (const one of generations[0]?.contradictions ?? []) {
        const sets = this.#contradicted.get(one.root) ?? []
        this.#contradicted.set(one.root, [...sets, namesIn(one)])
      }
    }
    const date = ({ generation }: Source): number => generation.date ?? 0
    for (const sources of this.#sources.values()) sources.sort((a, b) => date(b) - date(a))
  }
}

const namesOf = new WeakMap<Contradictions, ReadonlySet<string>>()

/** The names of contradicted paths. They are decoded once. */
function namesIn(contradictions: Contradictions): ReadonlySet<string> {
  const known = namesOf.get(contradictions)
  if (known !== undefined) return known
  const names = new Set(namesFrom(Buffer.from(contradictions.names, 'base64')))
  namesOf.set(contradictions, names)
  return names
}

const tableOf = ({ table }: AdoptedIndex): string => table

const suffix = '.json'

function fileName(at: string): string {
  return `${hash('sha256', at).slice(0, 16)}${suffix}`
}

export interface AdoptedParts extends Pick<Surroundings, 'clock' | 'log'> {
  readonly cacheDirectory: string
  /** Bytes of memory for tables. */
  readonly memory: number
  /** Another file system, for tests with failing disks. */
  readonly disk?: Pick<DiskOptions, 'files' | 'deadline'> | undefined
}

/** The adopted suites and the tables of their indexes. */
export interface AdoptedSuites {
  readonly known: KnownSuites
  readonly tables: Tables
}

/**
 * Reads the suites of an earlier run. This process must own the store. Never rejects.
 */
export async function openAdopted(parts: AdoptedParts): Promise<AdoptedSuites> {
  const { clock, log, memory, cacheDirectory } = parts
  const around = {
    disk: new Disk({ ...parts.disk, clock }),
    layout: new Layout(cacheDirectory),
    clock,
    log,
  }
  const known = await KnownSuites.open(around)
  const tables = new Tables({ ...around, memory })
  await tables.warm(known.tables())
  return { known, tables }
}

/** The standing of a content by the kept generations and the adopted indexes. */
export function standingOf({ known, tables }: AdoptedSuites, digest: string): ContentStanding {
  if (known.names(digest)) return 'generation'
  return tables.names(digest) ? 'named' : 'unknown'
}
