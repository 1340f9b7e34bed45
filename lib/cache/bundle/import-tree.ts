/**
 * Takes over packages from a directory, such as the cache of apt-cacher-ng or of apt: those that an index names by their digest,
 * and those whose place tells their URL.
 *
 * # What is taken over
 * - A file whose SHA-256 and size stand in a Packages or Sources index, in the store or in the directory: under the URL the index
 *   gives it, whatever its own name is.
 * - A file whose place tells its URL (tree.ts), when its name promises that its content never changes, the head beside it gives
 *   its length, and no index says otherwise.
 * Both are routed as a request is, and only hosts that the configuration allows count. Files whose content changes are left to
 * the next request: what another cache has of them may be of different moments.
 */

import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { open } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { explainError } from '../../errors.ts'
import { formatDate } from '../../http/message/date.ts'
import { Fields } from '../../http/message/field.ts'
import { impostor, telling } from '../archive/impostor.ts'
import { decodedUrl } from '../archive/path.ts'
import type { Rules } from '../policy/policy.ts'
import { destinationOfUrl, type FileDestination } from '../request/destination.ts'
import { draftEntry } from '../rfc9111/stored-response.ts'
import type { Store } from '../store/store.ts'
import { type Imported, type LeftOutReason, storeContent } from './adopt.ts'
import { blocksOf } from './export.ts'
import { encodedUrl, type Index, indexAt, listedIn } from './indexed.ts'
import { type Found, filesBelow, type Head, headOf, urlByPlace } from './tree.ts'

interface TreeParts {
  readonly directory: string
  readonly store: Pick<Store, 'download' | 'get' | 'put' | 'list' | 'content'>
  readonly rules: Rules
  readonly now: number
  readonly dryRun: boolean
  /** Told of the bytes of all files, once, and then of those that were read. Each is read twice at most. */
  readonly onFound: (bytes: number) => void
  readonly onRead: (bytes: number) => void
}

/** A whole file that may be taken over. */
interface Candidate {
  readonly file: Found
  readonly sha256: string
  /** By its place; undefined when that tells none. */
  readonly place: FileDestination | undefined
  /** Why it is left out unless an index names it. */
  readonly otherwise: { readonly reason: LeftOutReason; readonly because?: string } | undefined
  /** What indexes say of it. */
  readonly named: Set<string>
  contradicted: boolean
}

/** Throws when the directory cannot be read. */
export async function importTree(parts: TreeParts): Promise<Imported> {
  const { directory, onFound } = parts
  const imported: Imported = { files: 0, bytes: 0, known: 0, leftOut: [] }
  const files: Found[] = []
  for await (const file of filesBelow(directory)) files.push(file)
  onFound(files.reduce((sum, { size }) => sum + size, 0))
  const tree = new Tree(parts, imported)
  for (const file of files) await tree.consider(file)
  await tree.readIndexes()
  await tree.adopt()
  return imported
}

class Tree {
  readonly #parts: TreeParts
  readonly #imported: Imported
  readonly #candidates: Candidate[] = []
  readonly #byDigest = new Map<string, Candidate[]>()
  /** By the decoded URL of their place. */
  readonly #byName = new Map<string, Candidate>()
  /** Indexes of the directory. */
  readonly #indexes: { readonly index: Index; readonly path: string }[] = []

  constructor(parts: TreeParts, imported: Imported) {
    this.#parts = parts
    this.#imported = imported
  }

  /** Looks at a file: whether it is whole, what it hashes to, what its place says. */
  async consider(file: Found): Promise<void> {
    const { directory, onRead } = this.#parts
    const path = join(directory, file.path)
    if (!file.isFile) return this.#leaveOut(file, 'not-a-file')
    const head = await headOf(path)
    if (file.partial || isPartial(file, head)) return this.#leaveOut(file, 'incomplete')
    const place = this.#placeOf(file, head)
    const index = place && indexAt(place.key)
    if (index !== undefined) this.#indexes.push({ index, path })
    try {
      const by = place?.archive.digest
      const { sha256, other } = await hashed(path, by?.algorithm, onRead)
      if (by !== undefined && by.hex !== other) return this.#leaveOut(file, 'other-content')
      const otherwise = await whyNot(file, { path, head, place })
      const candidate = { file, sha256, place, otherwise, named: new Set<string>() }
      this.#add({ ...candidate, contradicted: false })
    } catch (error) {
      this.#leaveOut(file, 'unreadable', explainError(error))
    }
  }

  /** Finds out what the indexes of the store and of the directory say about the candidates. */
  async readIndexes(): Promise<void> {
    const { store } = this.#parts
    for (const { index, path } of this.#indexes) {
      await this.#read(index, createReadStream(path)).catch(() => undefined)
    }
    for await (const some of store.list()) {
      for (const listed of some) {
        const index = indexAt(listed.key)
        const content = index && (await store.content(listed))
        // An index that cannot be read names nothing.
        if (index && content) await this.#read(index, blocksOf(content)).catch(() => undefined)
      }
    }
  }

  async adopt(): Promise<void> {
    for (const candidate of this.#candidates) await this.#adoptOne(candidate)
  }

  async #read(index: Index, content: AsyncIterable<Uint8Array>): Promise<void> {
    for await (const { url, size, digests } of listedIn(index, content)) {
      if (digests.sha256 === undefined) continue
      for (const candidate of this.#byDigest.get(digests.sha256) ?? []) {
        if (candidate.file.size === size) candidate.named.add(encodedUrl(url))
      }
      const there = this.#byName.get(url)
      if (there !== undefined && there.sha256 !== digests.sha256) there.contradicted = true
    }
  }

  async #adoptOne(candidate: Candidate): Promise<void> {
    const { file, place, otherwise, named, contradicted } = candidate
    const { rules } = this.#parts
    const places = new Map<string, FileDestination>()
    let refused = false
    for (const url of named) {
      const destination = destinationOfUrl(url, rules)
      if (typeof destination === 'string') continue
      if (isAllowed(destination)) places.set(destination.key, destination)
      else refused = true
    }
    if (places.size === 0) {
      if (refused) return this.#leaveOut(file, 'refused')
      if (contradicted) return this.#leaveOut(file, 'other-content', 'an index names another')
      if (otherwise !== undefined || place === undefined) {
        return this.#leaveOut(file, otherwise?.reason ?? 'not-named', otherwise?.because)
      }
      places.set(place.key, place)
    }
    for (const key of places.keys()) await this.#put(key, candidate)
  }

  async #put(key: string, { file, sha256: digest }: Candidate): Promise<void> {
    const { directory, store, now, dryRun, onRead } = this.#parts
    const imported = this.#imported
    const { size, modified } = file
    if ((await store.get(key)) !== undefined) {
      imported.known += 1
      return
    }
    // The moment apt and apt-cacher-ng give a file is that of the origin.
    const fields = Fields.of(['Last-Modified', formatDate(modified)])
    const draft = draftEntry(key, fields, { requested: now, received: now, previous: undefined })
    const entry = { ...draft, digest, size }
    let first = false
    if (!dryRun && !store.put(entry).stored) {
      first = true
      const content = read(join(directory, file.path), onRead)
      const kept = await storeContent(store, { digest, size }, content)
      const put = kept.stored ? store.put(entry) : kept
      if (!put.stored) return this.#leaveOut(file, 'not-stored', put.because)
    }
    imported.files += 1
    if (first || dryRun) imported.bytes += size
  }

  #add(candidate: Candidate): void {
    this.#candidates.push(candidate)
    const same = this.#byDigest.get(candidate.sha256)
    if (same === undefined) this.#byDigest.set(candidate.sha256, [candidate])
    else same.push(candidate)
    const name = candidate.place && decodedUrl(candidate.place.key)
    if (name !== undefined) this.#byName.set(name, candidate)
  }

  #placeOf({ path }: Found, head: Head | undefined): FileDestination | undefined {
    const source = head && fieldOf(head, 'x-original-source')
    const url = urlByPlace(path, source)
    const destination = url && destinationOfUrl(encodedUrl(url), this.#parts.rules)
    return typeof destination === 'object' ? destination : undefined
  }

  #leaveOut({ path }: Found, reason: LeftOutReason, because?: string): void {
    this.#imported.leftOut.push({ name: path, reason, ...(because && { because }) })
  }
}

/** Why a file is not taken over by its place alone; undefined when it is. */
async function whyNot(
  file: Found,
  of: { path: string; head: Head | undefined; place: FileDestination | undefined },
): Promise<Candidate['otherwise']> {
  const { path, head, place } = of
  if (place === undefined) return { reason: 'not-named' }
  if (!isAllowed(place)) return { reason: 'refused' }
  if (!place.archive.immutable) return { reason: 'changing' }
  if (place.archive.digest !== undefined) return undefined
  if (head === undefined || fieldOf(head, 'content-length') === undefined) {
    return { reason: 'incomplete' }
  }
  const name = basename(file.path)
  const found = impostor({ ...place.archive, name }, Fields.of(...head.fields), await begin(path))
  return found && { reason: 'other-content', because: `it is a ${found}` }
}

/** Whether a head says that the file should be longer, or is of another response than the file itself. */
function isPartial({ size }: Found, head: Head | undefined): boolean {
  if (head === undefined) return false
  const length = fieldOf(head, 'content-length')
  return head.status !== 200 || (length !== undefined && length !== String(size))
}

function fieldOf({ fields }: Head, name: string): string | undefined {
  return fields.find(([found]) => found.toLowerCase() === name)?.[1]
}

function isAllowed({ admission }: FileDestination): boolean {
  return 'allow' in admission && admission.allow !== 'passthrough'
}

async function hashed(
  path: string,
  algorithm: string | undefined,
  onRead: (bytes: number) => void,
): Promise<{ readonly sha256: string; readonly other: string }> {
  const sha256 = createHash('sha256')
  const other = createHash(algorithm ?? 'sha256')
  for await (const chunk of read(path, onRead)) {
    sha256.update(chunk)
    if (algorithm !== undefined) other.update(chunk)
  }
  return { sha256: sha256.digest('hex'), other: other.digest('hex') }
}

async function* read(path: string, onRead: (bytes: number) => void): AsyncGenerator<Buffer> {
  const chunks: AsyncIterable<Buffer> = createReadStream(path, { highWaterMark: 256 * 1024 })
  for await (const chunk of chunks) {
    onRead(chunk.length)
    yield chunk
  }
}

async function begin(path: string): Promise<Buffer> {
  const file = await open(path, 'r')
  try {
    const { buffer, bytesRead } = await file.read(Buffer.alloc(telling), 0, telling, 0)
    return buffer.subarray(0, bytesRead)
  } finally {
    await file.close()
  }
}
