/**
 * The inventory of a store: its files by content and by the name archives give them. Pure: entries in, look-ups out.
 *
 * # Representation
 * Indexes name files in plain text, keys are percent-encoded in one of several right ways. So files are found by their
 * decoded URL. Two keys may decode to one name; then both must be what an index says about it.
 */
import { classify, decodedUrl, packageIndexOf, parentOf } from '../archive/path.ts'
import type { StoredFile, StoredRelease } from '../archive/suite-layout.ts'

/** A stored file whose name says what it hashes to. */
interface StoredByHash {
  readonly file: StoredFile
  readonly expected: NonNullable<ReturnType<typeof classify>['digest']>
}

export class Inventory {
  readonly releases: StoredRelease[] = []
  readonly byHash: StoredByHash[] = []
  /** Packages and Sources under their plain names, packed or not. */
  readonly packageIndexes: StoredFile[] = []
  /** Files by content: each content is read once however many files have it. */
  readonly contents = new Map<string, StoredFile[]>()
  readonly #names = new Map<string, StoredFile[]>()
  files = 0
  /** Bytes of all contents. */
  bytes = 0

  add({ key, digest, size, stored, validated }: StoredFile): void {
    const file = { key, digest, size, stored, validated }
    this.files += 1
    if (append(this.contents, digest, file) === 1) this.bytes += size
    const name = decodedUrl(key)
    if (name === undefined) return
    append(this.#names, name, file)
    this.#sort(file, name)
  }

  /** The files that have this decoded URL. */
  named(name: string): readonly StoredFile[] {
    return this.#names.get(name) ?? none
  }

  #sort(file: StoredFile, name: string): void {
    const path = pathOf(file.key)
    const { kind, digest } = classify(path)
    if (digest !== undefined) this.byHash.push({ file, expected: digest })
    else if (kind === 'release' && !name.endsWith('.gpg'))
      this.releases.push({ file, base: parentOf(name) })
    else if (packageIndexOf(name) !== undefined) this.packageIndexes.push(file)
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

function pathOf(key: string): string {
  const authority = key.indexOf('://') + 3
  const slash = key.indexOf('/', authority)
  return slash < 0 ? '/' : key.slice(slash)
}
