/**
 * Finds files as of a day: which file of a suite clients got then, by its digest.
 */

import type { Clock, Milliseconds } from '../../async/clock.ts'
import { whenReady } from '../../async/ready.ts'
import { type ArchivePath, decodedUrl, directoriesOf } from '../archive/path.ts'
import type { Content, Generation, Suite } from './generation.ts'
import { byHashPath, generationAt, keyIn } from './generation.ts'
import type { KnownSuites } from './known-suites.ts'
import { ahead } from './policy.ts'
import { pathName } from './table.ts'
import type { Tables } from './tables.ts'

interface PastParts {
  readonly known: KnownSuites
  readonly tables: Tables
  readonly clock: Clock
}

/** The key of a file, or why there is none, in words for the client. */
type AsOf = { readonly key: string } | { readonly sentence: string }

/** Files that change with each generation. All others are what they were. */
const changing: ReadonlySet<ArchivePath['kind']> = new Set(['release', 'index', 'pdiff'])

export class Past {
  readonly #parts: PastParts

  constructor(parts: PastParts) {
    this.#parts = parts
  }

  /** The file that a key stood for at a moment. */
  find(key: string, { kind }: ArchivePath, moment: Milliseconds): AsOf | Promise<AsOf> {
    const { known, clock } = this.#parts
    if (moment > clock.now() + ahead) return { sentence: 'This date lies in the future.' }
    const name = kind === 'by-hash' || kind === 'pool' ? undefined : decodedUrl(key)
    for (const base of name === undefined ? [] : directoriesOf(name)) {
      const suite = known.based(base)
      if (suite === undefined || name === undefined) continue
      return this.#inSuite(suite, name.slice(base.length + 1), { key, kind, moment })
    }
    return changing.has(kind) ? { sentence: 'No generation of this suite is kept.' } : { key }
  }

  #inSuite(
    suite: Suite,
    path: string,
    asked: { readonly key: string; readonly kind: ArchivePath['kind']; readonly moment: number },
  ): AsOf | Promise<AsOf> {
    const { key, kind, moment } = asked
    const generation = generationAt(suite, moment)
    if (generation === undefined) {
      const oldest = new Date(suite.generations.at(-1)?.adopted ?? 0).toISOString()
      const sentence = `The oldest generation of this suite that is kept is that of ${oldest.slice(0, 10)}.`
      return changing.has(kind) ? { sentence } : { key }
    }
    return whenReady(this.#content(generation, path), content => {
      const found = content && keyIn(suite.at, byHashPath({ path, ...content }))
      if (found !== undefined) return { key: found }
      return changing.has(kind)
        ? { sentence: 'The Release file of that day does not name this file.' }
        : { key }
    })
  }

  /** What a generation says of a path. */
  #content(
    { release, contents }: Generation,
    path: string,
  ): Content | undefined | Promise<Content | undefined> {
    if (path === release.name) return release
    if (path === 'Release.gpg') return release.signedBy
    const stored = contents.find(one => one.path === path)
    if (stored !== undefined) return stored
    const { tables } = this.#parts
    const table = tables.hot(release.digest) ?? tables.load(release.digest)
    return whenReady(table, one => one?.find(pathName(path)))
  }
}
