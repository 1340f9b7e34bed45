/**
 * Tells which files of a generation clients use, and which names by digest they have.
 */
import type { Clock, Milliseconds } from '../../async/clock.ts'
import { explainError } from '../../errors.ts'
import type { Logger } from '../../log/log.ts'
import { packageIndexOf } from '../archive/path.ts'
import type { Reading } from '../store/entry.ts'
import type { Store } from '../store/store.ts'
import type { Strong } from './adopt.ts'
import { type AskedIndexes, componentOf } from './asked-indexes.ts'
import { type Content, type Generation, keysOf, type Listed, sameContents } from './generation.ts'

interface InUseParts {
  readonly clock: Clock
  readonly log: Logger
  readonly store: Pick<Store, 'read'>
  readonly asked: AskedIndexes
  /** The SHA-512 of contents by their SHA-256, as far as they are there. */
  readonly sha512: (contents: readonly Content[]) => Promise<ReadonlyMap<string, string>>
}

export class InUse {
  readonly #parts: InUseParts

  constructor(parts: InUseParts) {
    this.#parts = parts
  }

  /**
   * Of the files of a generation whose contents the store has, those that clients use: others may have the same content, such as
   * none at all, and no client has ever asked for them. `unreadable` when the disk does not say of one.
   */
  async among(
    at: string,
    { contents }: Generation,
    adopted: Generation | undefined,
  ): Promise<readonly Listed[] | 'unreadable'> {
    const { store, clock } = this.#parts
    const before = new Map(adopted?.contents.map(one => [one.path, this.#lastAsked(at, one)]))
    const used: Listed[] = []
    for (const listed of contents) {
      const entries = await Promise.all(keysOf(at, listed).map(key => store.read(key)))
      if (entries.includes('unreadable')) return 'unreadable'
      const stored = entries.some(entry => hasContent(entry, listed))
      const earlier = before.get(listed.path)
      if (!stored && earlier === undefined) continue
      const asked = Math.max(this.#lastAsked(at, listed), earlier ?? 0) || clock.now()
      used.push({ ...listed, asked })
    }
    return used
  }

  /**
   * The same files, each with its SHA-512 if that is right: content is put under that name, where it counts as what the name says.
   * It is right where it was with the generation before, where an entry has that name, and where hashing says so.
   */
  async withRightNames(
    at: string,
    used: readonly Listed[],
    adopted: Generation | undefined,
  ): Promise<readonly Listed[]> {
    const { store } = this.#parts
    const known = new Map(adopted?.contents.map(one => [one.digest, one.sha512]))
    for (const listed of used) {
      const [, strongest = ''] = listed.sha512 === undefined ? [] : keysOf(at, listed)
      if (hasContent(await store.read(strongest), listed)) {
        known.set(listed.digest, listed.sha512)
      }
    }
    const unknown = used.filter(one => one.sha512 !== undefined && !known.get(one.digest))
    const hashed = await this.#hashed(at, unknown)
    return used.map(({ sha512, ...listed }) => {
      const right = known.get(listed.digest) ?? hashed.get(listed.digest)
      return sha512 !== undefined && sha512 === right ? { ...listed, sha512 } : listed
    })
  }

  /** The SHA-256 of files that a Release file names by their SHA-512 alone, by that, as far as the store has them. */
  async sha256s(
    at: string,
    files: readonly Strong[],
    adopted: Generation | undefined,
  ): Promise<ReadonlyMap<string, string> | 'unreadable'> {
    const known = new Map(adopted?.contents.map(one => [one.sha512, one.digest]))
    const sha256s = new Map<string, string>()
    const unknown: Content[] = []
    for (const { path, size, sha512 } of files) {
      const [plain = '', strongest = ''] = keysOf(at, { path, size, sha512, digest: '' })
      const entries = await Promise.all([plain, strongest].map(key => this.#parts.store.read(key)))
      if (entries.includes('unreadable')) return 'unreadable'
      const digest = known.get(sha512)
      if (digest !== undefined) sha256s.set(sha512, digest)
      else {
        for (const entry of entries) {
          if (entry !== undefined && entry !== 'unreadable' && entry.size === size) {
            unknown.push(entry)
          }
        }
      }
    }
    const contents = unknown.map(({ digest, size }) => ({ digest, size }))
    for (const [sha256, sha512] of await this.#hashed(at, contents)) sha256s.set(sha512, sha256)
    return sha256s
  }

  /** The files of a generation that clients have asked for since. */
  since(since: Milliseconds, at: string, { contents }: Generation): readonly Listed[] {
    return contents.filter(listed => this.#lastAsked(at, listed) > since)
  }

  /** Paths of files of which clients are only known to use a name by digest that another file has too. */
  async optional(at: string, used: readonly Listed[]): Promise<ReadonlySet<string>> {
    const { store, asked } = this.#parts
    const optional = new Set<string>()
    for (const listed of sameContents(used)) {
      const [plain = ''] = keysOf(at, listed)
      if ((asked.at(plain) ?? (await store.read(plain))) === undefined) optional.add(listed.path)
    }
    return optional
  }

  /**
   * Paths of all but Packages and Sources of an architecture that most clients use: one for which they ask at least half as often as
   * for any other beside it. Before clients have asked for any, all architectures count.
   */
  secondary(at: string, used: readonly Listed[]): ReadonlySet<string> {
    const { asked } = this.#parts
    const most = new Map<string, number>()
    const files = used.map(({ path, ...listed }) => {
      const [key = ''] = keysOf(at, { path, ...listed })
      const component = componentOf(key)
      const times = asked.times(key)
      most.set(component, Math.max(times, most.get(component) ?? 0))
      return { path, component, times }
    })
    const isMain = ({ path, component, times }: (typeof files)[number]): boolean =>
      packageIndexOf(path) !== undefined && 2 * times >= (most.get(component) ?? 0)
    return new Set(files.flatMap(one => (isMain(one) ? [] : [one.path])))
  }

  async #hashed(at: string, contents: readonly Content[]): Promise<ReadonlyMap<string, string>> {
    const { sha512, log } = this.#parts
    if (contents.length === 0) return new Map()
    return sha512(contents).catch((error: unknown) => {
      log.warn('files could not be hashed', { suite: at, because: explainError(error) })
      return new Map()
    })
  }

  #lastAsked(at: string, listed: Listed): Milliseconds {
    const asked = keysOf(at, listed).map(key => this.#parts.asked.at(key) ?? 0)
    return Math.max(listed.asked ?? 0, ...asked)
  }
}

function hasContent(stored: Reading, { digest }: Content): boolean {
  return stored !== undefined && stored !== 'unreadable' && stored.digest === digest
}
