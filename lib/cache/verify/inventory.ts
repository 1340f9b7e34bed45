/**
 * The inventory of a store: its files by content and by the name that archives give them. This file is pure.
 *
 * # Representation
 * Indexes name files in plain text, and a key is percent-encoded in one of several valid ways. So files are found by their decoded URL. Two
 * keys may decode to one name. Both files must then match the index.
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

/** The properties of a stored entry that the check needs. */
export type StoredFile = Pick<Entry, 'key' | 'digest' | 'size' | 'stored' | 'validated'>

/** A stored Release file, and the decoded URL of its directory. */
export interface StoredRelease {
  readonly file: StoredFile
  readonly base: string
}

/** A stored file, and the size and digests that a Release file lists for it. */
export interface ListedStoredFile {
  readonly file: StoredFile
  readonly listed: ListedFile
}

/** A stored index of packages, and the directory of its Release file, or its own directory when there is no Release file. */
export interface StoredIndex extends StoredRelease {
  readonly kind: PackageIndex
}

export class Inventory {
  readonly releases: StoredRelease[] = []
  /** Files whose name contains their digest. */
  readonly byHash: { file: StoredFile; expected: NonNullable<ArchivePath['digest']> }[] = []
  /** Files by their content. Each content is read once for all its files. */
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

  /** All stored files that a Release file lists, under their plain names and under their names by digest. */
  *listedBy({ base, release }: KnownRelease): Generator<ListedStoredFile> {
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

  /** The indexes of packages that are outside the directories of these Release files. */
  indexesOutside(releases: readonly StoredRelease[]): readonly StoredIndex[] {
    const bases = new Set(releases.map(({ base }) => base))
    return this.#indexes.filter(({ base }) => {
      return ![...directoriesOf(`${base}/`)].some(at => bases.has(at))
    })
  }
}

const none: readonly StoredFile[] = []

/** Adds a file under a name. Answers how many files the name has now. */
function append(map: Map<string, StoredFile[]>, name: string, file: StoredFile): number {
  const same = map.get(name)
  if (same !== undefined) return same.push(file)
  map.set(name, [file])
  return 1
}
