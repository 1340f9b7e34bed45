/**
 * Says what a file must be: its content by digest and size with the index that says so, or the reason why nothing says so.
 */
import type { ArchivePath } from '../archive/path.ts'
import type { Claim } from './generation.ts'
import type { Source } from './known-suites.ts'

export type MustBe = (NamedFile | AwaitedFile | NamedByItself | UnnamedFile) & {
  /** The indexes whose tables were missing. They have no say. */
  readonly lost?: readonly Source[]
}

/** Adopted indexes name the file. */
interface NamedFile {
  readonly is: 'named'
  readonly claim: Claim
  readonly awaited?: undefined
}

/** An index that may name the file is still being read. */
interface AwaitedFile {
  readonly is: 'awaited'
  readonly claim?: undefined
  /** Resolves to the claim, or to undefined when there is none. Never rejects. */
  readonly awaited: Promise<Claim | undefined>
}

/** The name of the file has its digest. */
interface NamedByItself {
  readonly is: 'by-name'
  readonly digest: ArchivePath['digest']
  readonly claim?: undefined
  readonly awaited?: undefined
}

interface UnnamedFile {
  readonly is: 'unnamed'
  readonly because: UnnamedReason
  readonly claim?: undefined
  readonly awaited?: undefined
}

/**
 * - no-suite: no adopted suite may name it
 * - release: a Release file is what its signature says
 * - unnamed: the suites that may name it do not
 * - unreadable: an index that may name it cannot be read now
 * - late: an index that may name it was not read in time
 */
export type UnnamedReason = 'no-suite' | 'release' | 'unnamed' | 'unreadable' | 'late'

/** One value for each reason, because most files of a hit have one. */
export const unnamedFile: Readonly<Record<UnnamedReason, UnnamedFile>> = {
  'no-suite': { is: 'unnamed', because: 'no-suite' },
  release: { is: 'unnamed', because: 'release' },
  unnamed: { is: 'unnamed', because: 'unnamed' },
  unreadable: { is: 'unnamed', because: 'unreadable' },
  late: { is: 'unnamed', because: 'late' },
}
