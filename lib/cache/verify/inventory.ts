/**
 * The inventory of a store: its files by content and by the name archives give them. Pure: entries in, look-ups out.
 *
 * # Representation
 * Indexes name files in plain text, keys are percent-encoded in one of several right ways. So files are found by their
 * decoded URL. Two keys may decode to one name; then both must be what an index says about it.
 */
import { digests, type ListedFile, type PackageIndex } from '../archive/listed-file.ts'
import {
  type ArchivePath,
  classify,
  decodedUrl,
  directoriesOf,
  packageIndexOf,
  parentOf,
} from '../archive/path.ts'
import type { KnownRelease } from '../archive/suite-layout.ts'
import type { Entry } from '../store/entry.ts'

/** A stored file: the part of its entry that matters here. */
export type StoredFile = Pick<Entry, 'key' | 'digest' | 'size' | 'stored' | 'validated'>

/** A stored Release file, and the decoded URL of its directory. */
export interface StoredRelease {
  readonly file: StoredFile
  readonly base: string
}

/** A stored file and how a Release file lists it. */
export interface ListedStored {
  readonly file: StoredFile
  readonly listed: ListedFile
}

/** A stored index of packages, and the directory of its Release file, or its own when there is none. */
export interface StoredIndex {
  readonly file: StoredFile
  readonly kind: PackageIndex
  readonly base: string
}

export class Inventory {
  readonly releases: StoredRelease[] = []
  /** Files whose name says what they hash to. */
  readonly byHash: { file: StoredFile; expected: NonNullable<ArchivePath['digest']> }[] = []
  /** Files by content: each content is read once however many files have it. */
  readonly contents = new Map<string, StoredFile[]>()
  /** Packages and Sources under their plain names, packed or not. */
  readonly #indexes: StoredIndex[] = []
  readonly #names = new Map<string, StoredFile[]>()
  files = 0
  bytes = 0

  add({ key, digest, size, stored, validated }: StoredFile): void {
    const file = { key, digest, size, stored, validated }
    this.files += 1
    if (append(this.contents, digest, file) === 1) this.bytes += size
    const name = decodedUrl(key)
    if (name === undefined) return
    append(this.#names, name, file)
    const archive = classify(key.replace(/^[^/]*\/\/[^/]*/, ''))
    const kind = packageIndexOf(name)
    if (archive.digest !== undefined) this.byHash.push({ file, expected: archive.digest })
    else if (archive.kind === 'release' && !name.endsWith('.gpg')) {
      this.releases.push({ file, base: parentOf(name) })
    } else if (kind !== undefined) this.#indexes.push({ file, kind, base: parentOf(name) })
  }

  named(name: string): readonly StoredFile[] {
    return this.#names.get(name) ?? none
  }

  /** Everything stored that a Release file lists, by its plain name and by hash. */
  *listedBy({ base, release }: KnownRelease): Generator<ListedStored> {
    for (const listed of release.files.values()) {
      const name = `${base}/${listed.path}`
      for (const file of this.named(name)) yield { file, listed }
      for (const { algorithm, field } of digests) {
        const digest = listed.digests[algorithm]
        if (digest === undefined) continue
        const byHash = `${parentOf(name)}/by-hash/${field}/${digest}`
        for (const file of this.named(byHash)) yield { file, listed }
      }
    }
  }

  /** The indexes of packages that lie outside the directories of these Release files. */
  indexesOutside(releases: readonly StoredRelease[]): readonly StoredIndex[] {
    const bases = new Set(releases.map(({ base }) => base))
    return this.#indexes.filter(({ base }) => {
      return ![...directoriesOf(`${base}/`)].some(at => bases.has(at))
    })
  }
}

const none: readonly StoredFile[] = []

/** How many there are now. */
function append(map: Map<string, StoredFile[]>, name: string, file: StoredFile): number {
  const same = map.get(name)
  if (same !== undefined) return same.push(file)
  map.set(name, [file])
  return 1
}
