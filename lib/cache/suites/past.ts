/**
 * Finds files of a past generation: the file of a suite that clients got on a day, or that a Release file names, by its digest.
 */

import type { Clock } from '../../async/clock.ts'
import { continueWhenReady } from '../../async/ready.ts'
import { type ArchivePath, decodedUrl } from '../archive/path.ts'
import type { WantedGeneration } from '../request/request-target.ts'
import {
  byHashPath,
  type Content,
  type Generation,
  generationAt,
  generationOf,
  keyIn,
  releasesOf,
} from './generation.ts'
import type { AdoptedSuites } from './known-suites.ts'
import { clockTolerance } from './policy.ts'
import { pathName } from './table.ts'
import type { Tables } from './tables.ts'

interface PastParts extends AdoptedSuites {
  readonly clock: Clock
  /** Whether the store has a content. */
  readonly has: (digest: string) => boolean
}

/** The key of a file, or a sentence for the client that says why there is none. */
type AsOf = { readonly key: string } | { readonly sentence: string }

/** The content that a Release file names for a file; undefined when it names none. */
type OfDay = Content | 'unreadable' | undefined

/** The kinds of files that change with each generation. Files of all other kinds never change. */
const changing: ReadonlySet<ArchivePath['kind']> = new Set(['release', 'index', 'pdiff'])

/** Makes a function that answers the key under which the store has the file that a key named in a generation. */
export function pastFiles({ known, tables, clock, has }: PastParts) {
  return (key: string, { kind }: ArchivePath, asOf: WantedGeneration): AsOf | Promise<AsOf> => {
    const pinned = typeof asOf === 'string'
    if (!pinned && asOf > clock.now() + clockTolerance)
      return { sentence: 'This date is in the future.' }
    const name = decodedUrl(key) ?? ''
    const isKept = !pinned || known.all.some(one => generationOf(one, asOf) !== undefined)
    if (kind === 'by-hash' || (kind === 'pool' && isKept)) return { key }
    const without = (sentence: string): AsOf =>
      pinned || changing.has(kind) ? { sentence } : { key }
    const { suite, path = '' } = known.above(name) ?? {}
    const generation = suite && (pinned ? generationOf(suite, asOf) : generationAt(suite, asOf))
    if (pinned && generation === undefined) return { sentence: notPinned }
    if (suite === undefined)
      return without(
        'Nothing is kept of this suite: set suites.snapshot_days, and let a client update through this cache first. Earlier days are not available.',
      )
    if (generation === undefined) {
      const oldest = new Date(suite.generations.at(-1)?.adopted ?? 0).toISOString().slice(0, 10)
      return without(`The oldest generation of this suite that is kept is that of ${oldest}.`)
    }
    return continueWhenReady(contentOf(generation, path, tables), content => {
      if (content === 'unreadable') return without('The disk fails; try again later.')
      // A Release file further down is a file like any other.
      const isOfSuite = kind === 'release' && !path.includes('/')
      // The other form of the pinned Release file is another content.
      const isOther = isOfSuite && pinned && !/gpg$/.test(path) && content?.digest !== asOf
      const found = content && keyIn(suite.at, byHashPath({ path, ...content }))
      if (found === undefined || isOther)
        return without('The Release file of that generation does not name this file.')
      if (isOfSuite && !has(content?.digest ?? ''))
        return without('This Release file is no longer stored: see suites.snapshot_days.')
      return { key: found }
    })
  }
}

const notPinned =
  'No Release file with this SHA-256 is kept here: set suites.snapshot_days, and let a client update through this cache while the archive has it.'

function contentOf(generation: Generation, path: string, tables: Tables): OfDay | Promise<OfDay> {
  const { release, contents } = generation
  for (const one of releasesOf(generation)) {
    if (path === one.name) return one
    if (path === 'Release.gpg' && one.signedBy !== undefined) return one.signedBy
  }
  const stored = contents.find(one => one.path === path)
  if (stored !== undefined) return stored
  const table = tables.hot(release.digest) ?? tables.load(release.digest)
  return continueWhenReady(table, one => {
    if (one === 'unreadable') return one
    // A file that is named by its SHA-512 alone can only be found in `contents`.
    const named = one?.find(pathName(path))
    return named?.by === undefined ? named : undefined
  })
}
