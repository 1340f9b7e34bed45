/**
 * The suites that are known, with their generations. Each is kept in a file on disk.
 */
import { createHash } from 'node:crypto'
import { join } from 'node:path'
import { writeFileAtomically } from '../../atomic-file.ts'
import { explainError } from '../../errors.ts'
import type { Disk, Surroundings } from '../store/disk/disk.ts'
import { baseOf, decodeSuite, encodeSuite, type Generation, type Suite } from './generation.ts'

/** An index that may name a file, with the Release that names the index. */
export interface Source {
  readonly suite: Suite
  readonly generation: Generation
  readonly table: string
}

/** Clients may ask for any number of directories; beyond this the suite adopted longest ago is forgotten. */
const mostSuites = 1000

export class KnownSuites {
  readonly #parts: Surroundings
  /** By the key of their directory; the one adopted longest ago first. */
  readonly #suites = new Map<string, Suite>()
  readonly #bases = new Map<string, Suite>()
  readonly #sources = new Map<string, readonly Source[]>()
  #named = new Set<string>()

  private constructor(parts: Surroundings) {
    this.#parts = parts
  }

  /** The suites of an earlier run; files that are damaged are passed over. */
  static async open(parts: Surroundings): Promise<KnownSuites> {
    const known = new KnownSuites(parts)
    const { disk, layout, log } = parts
    try {
      const suites: Suite[] = []
      for (const name of await disk.names(layout.suites)) {
        if (!name.endsWith(suffix)) continue
        const suite = decodeSuite(await readText(disk, join(layout.suites, name)))
        if (suite !== undefined && fileName(suite.at) === name) suites.push(suite)
      }
      const adopted = ({ generations }: Suite): number => generations[0]?.adopted ?? 0
      for (const suite of suites.sort((a, b) => adopted(a) - adopted(b))) {
        known.#suites.set(suite.at, suite)
      }
    } catch (error) {
      log.warn('cannot read what is known of suites', { because: explainError(error) })
    }
    known.#index()
    return known
  }

  get all(): readonly Suite[] {
    return [...this.#suites.values()]
  }

  get size(): number {
    return this.#suites.size
  }

  /** The suite in the directory with this key. */
  at(key: string): Suite | undefined {
    return this.#suites.get(key)
  }

  /** The suite in the directory with this decoded URL. */
  based(base: string): Suite | undefined {
    return this.#bases.get(base)
  }

  /** The adopted indexes whose paths begin at a decoded URL, those of the newest Release first. */
  rootedAt(root: string): readonly Source[] {
    return this.#sources.get(root) ?? none
  }

  /** Whether a generation that is kept names this content. */
  names(digest: string): boolean {
    return this.#named.has(digest)
  }

  /** Names of the tables that are needed, those of past generations last. */
  tables(): ReadonlySet<string> {
    const tables = new Set<string>()
    for (const { generations } of this.#suites.values()) {
      const [adopted] = generations
      if (adopted !== undefined) tables.add(adopted.release.digest)
      for (const { table } of adopted?.indexes ?? []) tables.add(table)
    }
    for (const { generations } of this.#suites.values()) {
      for (const { release } of generations) tables.add(release.digest)
    }
    return tables
  }

  async put(suite: Suite): Promise<void> {
    this.#suites.delete(suite.at)
    this.#suites.set(suite.at, suite)
    const [oldest] = this.#suites.keys()
    if (this.#suites.size > mostSuites && oldest !== undefined) this.#suites.delete(oldest)
    this.#index()
    const path = join(this.#parts.layout.suites, fileName(suite.at))
    await this.#try(() => writeFileAtomically(path, encodeSuite(suite), { durable: false }))
    if (this.#suites.size >= mostSuites && oldest !== undefined) await this.#remove(oldest)
  }

  /** Forgets a suite. */
  async forget(at: string): Promise<void> {
    if (!this.#suites.delete(at)) return
    this.#index()
    await this.#remove(at)
  }

  async #remove(at: string): Promise<void> {
    if (this.#suites.has(at)) return
    await this.#try(() => this.#parts.disk.remove(join(this.#parts.layout.suites, fileName(at))))
  }

  async #try(act: () => Promise<unknown>): Promise<void> {
    try {
      await act()
    } catch (error) {
      this.#parts.log.warn('cannot note what is known of a suite', { because: explainError(error) })
    }
  }

  #index(): void {
    this.#bases.clear()
    this.#sources.clear()
    this.#named = new Set()
    const byRoot = new Map<string, Source[]>()
    for (const suite of this.#suites.values()) {
      this.#bases.set(baseOf(suite), suite)
      for (const { release, contents } of suite.generations) {
        this.#named.add(release.digest)
        for (const { digest } of contents) this.#named.add(digest)
      }
      const [generation] = suite.generations
      for (const { table, root } of generation?.indexes ?? []) {
        const same = byRoot.get(root) ?? []
        if (generation !== undefined) same.push({ suite, generation, table })
        byRoot.set(root, same)
      }
    }
    for (const [root, sources] of byRoot) {
      const date = ({ generation }: Source): number => generation.date ?? 0
      this.#sources.set(
        root,
        sources.sort((a, b) => date(b) - date(a)),
      )
    }
  }
}

const none: readonly Source[] = []

const suffix = '.json'

function fileName(at: string): string {
  return `${createHash('sha256').update(at).digest('hex').slice(0, 16)}${suffix}`
}

/** Largest file of a suite that is read, bytes: some thousand digests. */
const mostBytes = 16 * 1024 * 1024

async function readText(disk: Disk, path: string): Promise<string> {
  const file = await disk.openIfThere(path)
  if (file === undefined) return ''
  try {
    const { size } = await file.look()
    return size > mostBytes ? '' : (await file.bytes(0, size)).toString()
  } finally {
    file.close()
  }
}
