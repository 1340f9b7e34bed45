/**
 * Imports packages from a directory, such as the cache of apt-cacher-ng or of apt.
 *
 * # Imported files
 * - A file whose SHA-256 and size are in a Packages or Sources index of the store or the directory is imported under the URL that the
 *   index gives it, whatever its own name is.
 * - A file whose place tells its URL (`urlByPlace`) is imported when its name promises that its content never changes, the head beside
 *   it gives its length, and no index names other content.
 * Both are routed like a request, and only hosts that the configuration allows count. Files whose content changes are left to the next
 * request, because another cache may have them from different moments.
 */
import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { lstat, opendir } from 'node:fs/promises'
import { basename, join, relative, sep } from 'node:path'
import { explainError, systemCode } from '../../../errors.ts'
import { readBounded } from '../../../files/bounded-file.ts'
import { formatDate } from '../../../http/message/date.ts'
import { Fields } from '../../../http/message/field.ts'
import { decodedUrl, impostor, tellingBytes } from '../../archive/path.ts'
import type { Rules } from '../../policy/policy.ts'
import { destinationOfUrl, type FileDestination } from '../../request/destination.ts'
import { draftEntry } from '../../rfc9111/stored-response.ts'
import type { Store } from '../../store/store.ts'
import { entryUnreadable, type ImportCounts, type LeftOutReason, storeContent } from './adopt.ts'
import { blocksOf, filesOfIndex, type Index, indexAt } from './indexed.ts'

interface TreeParts {
  readonly directory: string
  readonly store: Pick<Store, 'download' | 'read' | 'put' | 'list' | 'content'>
  readonly rules: Rules
  readonly now: number
  readonly dryRun: boolean
  /** Called once with the bytes of all files. `onRead` is called with the bytes that were read; each file is read twice at most. */
  readonly onFound: (bytes: number) => void
  readonly onRead: (bytes: number) => void
}

/** A complete file that may be imported. */
interface Candidate {
  readonly file: FoundFile
  readonly sha256: string
  /** The destination by its place; undefined when the place has none. */
  readonly place: FileDestination | undefined
  /** The reason why it is left out unless an index names it. */
  readonly otherwise: { readonly reason: LeftOutReason; readonly because?: string } | undefined
  readonly named: Set<string>
  /** Whether an index names other content for its place. */
  contradicted: boolean
}

/** Imports the packages of a directory. Throws when the directory cannot be read. */
export async function importTree(parts: TreeParts): Promise<ImportCounts> {
  const { directory, onFound } = parts
  const files: FoundFile[] = []
  for await (const file of filesBelow(directory)) files.push(file)
  onFound(files.reduce((sum, { size }) => sum + size, 0))
  const tree = new Tree(parts)
  for (const file of files) await tree.consider(file)
  await tree.readIndexes()
  await tree.adopt()
  return tree.imported
}

class Tree {
  readonly imported: ImportCounts = { files: 0, bytes: 0, known: 0, leftOut: [], records: [] }
  readonly #parts: TreeParts
  readonly #candidates: Candidate[] = []
  readonly #byDigest = new Map<string, Candidate[]>()
  /** The files by the decoded URL of their place. */
  readonly #byName = new Map<string, Candidate>()
  readonly #indexes: { readonly index: Index; readonly path: string }[] = []

  constructor(parts: TreeParts) {
    this.#parts = parts
  }

  /** Reads a file, and makes it a candidate if it is complete. */
  async consider(file: FoundFile): Promise<void> {
    const { directory, rules, onRead } = this.#parts
    const path = join(directory, file.path)
    if (!file.isFile) return this.#leaveOut(file, 'not-a-file')
    const head = await headOf(path)
    if (file.partial || isPartial(file, head)) return this.#leaveOut(file, 'incomplete')
    const url = urlByPlace(file.path, head?.fields.get('X-Original-Source'))
    const found = url && destinationOfUrl(encodedUrl(url), rules)
    const place = typeof found === 'object' ? found : undefined
    const index = place && indexAt(place.key)
    if (index !== undefined) this.#indexes.push({ index, path })
    try {
      const named = place?.archive.digest
      const { sha256, other, first } = await hashed(path, named?.algorithm, onRead)
      if (named?.hex !== other) return this.#leaveOut(file, 'other-content')
      const otherwise = whyNot(file, { place, head, first })
      this.#add({ file, sha256, place, otherwise, named: new Set(), contradicted: false })
    } catch (error) {
      this.#leaveOut(file, 'unreadable', explainError(error))
    }
  }

  async readIndexes(): Promise<void> {
    const { store } = this.#parts
    // An index that cannot be read counts as empty.
    for (const { index, path } of this.#indexes) {
      await this.#read(index, createReadStream(path)).catch(() => undefined)
    }
    for await (const some of store.list()) {
      for (const listed of some) {
        const index = indexAt(listed.key)
        const content = index && (await store.content(listed))
        if (index && content) await this.#read(index, blocksOf(content)).catch(() => undefined)
      }
    }
  }

  async adopt(): Promise<void> {
    for (const candidate of this.#candidates) {
      for (const key of this.#keysOf(candidate)) await this.#put(key, candidate)
    }
  }

  async #read(index: Index, content: AsyncIterable<Uint8Array>): Promise<void> {
    for await (const { url, size, digests } of filesOfIndex(index, content)) {
      if (digests.sha256 === undefined) continue
      for (const candidate of this.#byDigest.get(digests.sha256) ?? []) {
        if (candidate.file.size === size) candidate.named.add(encodedUrl(url))
      }
      const there = this.#byName.get(url)
      if (there !== undefined && there.sha256 !== digests.sha256) there.contradicted = true
    }
  }

  /** The keys under which a file is stored; none for a file that is left out. */
  #keysOf({ file, place, otherwise, named, contradicted }: Candidate): ReadonlySet<string> {
    const keys = new Set<string>()
    let refused = false
    for (const url of named) {
      const destination = destinationOfUrl(url, this.#parts.rules)
      if (typeof destination === 'string') continue
      if (isAllowed(destination)) keys.add(destination.key)
      else refused = true
    }
    if (keys.size > 0) return keys
    if (refused) this.#leaveOut(file, 'refused')
    else if (contradicted) this.#leaveOut(file, 'other-content', 'an index names another')
    else if (otherwise !== undefined) this.#leaveOut(file, otherwise.reason, otherwise.because)
    else if (place !== undefined) keys.add(place.key)
    return keys
  }

  async #put(key: string, { file, sha256: digest }: Candidate): Promise<void> {
    const { directory, store, now, dryRun, onRead } = this.#parts
    const { imported } = this
    const { size, modified } = file
    const before = await store.read(key)
    if (before === 'unreadable') return this.#leaveOut(file, 'not-stored', entryUnreadable)
    if (before !== undefined) {
      imported.known += 1
      return
    }
    // apt and apt-cacher-ng give a file the modification time of the origin.
    const fields = Fields.of(['Last-Modified', formatDate(modified)])
    const draft = draftEntry(key, fields, { requested: now, received: now })
    const entry = { ...draft, digest, size }
    const known = !dryRun && store.put(entry).stored
    if (!dryRun && !known) {
      const content = contentOf(join(directory, file.path))
      const kept = await storeContent(store, { digest, size, onRead }, content)
      const put = kept.stored ? store.put(entry) : kept
      if (!put.stored) return this.#leaveOut(file, 'not-stored', put.because)
    }
    imported.files += 1
    if (!known) imported.bytes += size
  }

  #add(candidate: Candidate): void {
    this.#candidates.push(candidate)
    const same = this.#byDigest.get(candidate.sha256)
    if (same === undefined) this.#byDigest.set(candidate.sha256, [candidate])
    else same.push(candidate)
    const name = candidate.place && decodedUrl(candidate.place.key)
    if (name !== undefined) this.#byName.set(name, candidate)
  }

  #leaveOut({ path }: FoundFile, reason: LeftOutReason, because?: string): void {
    this.imported.leftOut.push({ name: path, reason, ...(because && { because }) })
  }
}

/** The reason why the place of a file alone does not suffice to import it; undefined when it does. */
function whyNot(
  { path }: FoundFile,
  of: { place: FileDestination | undefined; head: Head | undefined; first: Buffer },
): Candidate['otherwise'] {
  const { place, head, first } = of
  if (place === undefined) return { reason: 'not-named' }
  if (!isAllowed(place)) return { reason: 'refused' }
  if (!place.archive.immutable) return { reason: 'changing' }
  if (place.archive.digest !== undefined) return undefined
  if (!head?.fields.has('Content-Length')) return { reason: 'incomplete' }
  const found = impostor(place.archive, basename(path), head.fields, first)
  return found && { reason: 'other-content', because: `it is a ${found}` }
}

/** Whether a head has another length than the file, or another status than 200. */
function isPartial({ size }: FoundFile, head: Head | undefined): boolean {
  if (head === undefined) return false
  const length = head.fields.get('Content-Length') ?? String(size)
  return head.status !== 200 || length !== String(size)
}

function isAllowed({ admission }: FileDestination): boolean {
  return 'allow' in admission && admission.allow !== 'passthrough'
}

/** The digests of a file by SHA-256 and by another algorithm, and its first bytes. */
async function hashed(
  path: string,
  algorithm: string | undefined,
  onRead: (bytes: number) => void,
) {
  const sha256 = createHash('sha256')
  const other = algorithm === undefined ? undefined : createHash(algorithm)
  let first = Buffer.alloc(0)
  for await (const chunk of contentOf(path)) {
    if (first.length < tellingBytes) first = Buffer.concat([first, chunk]).subarray(0, tellingBytes)
    sha256.update(chunk)
    other?.update(chunk)
    onRead(chunk.length)
  }
  return { sha256: sha256.digest('hex'), other: other?.digest('hex'), first }
}

function contentOf(path: string): AsyncIterable<Buffer> {
  return createReadStream(path, { highWaterMark: 256 * 1024 })
}

/*
 * Finds the files below a directory, with the heads that apt-cacher-ng keeps of them. It reads no content.
 *
 * # Facts
 * - apt-cacher-ng keeps a file at `HOST/path`, or at `MIRROR/path` for mirrors that it has merged under a name (`debrep`, `uburep`),
 *   with the path decoded. The port is not part of the name.
 * - The file `path.head` has the head of the response: the status, Content-Length, and X-Original-Source, which is the URL of the file
 *   with its path decoded.
 * - A file that is arriving already has its name, and is shorter than its Content-Length. apt keeps such files in `partial/`.
 * - Names at the top that begin with `_` are for apt-cacher-ng itself.
 */

interface FoundFile {
  /** The path from the directory on. */
  readonly path: string
  readonly size: number
  readonly modified: number
  readonly isFile: boolean
  /** Whether its path says that it is incomplete. */
  readonly partial: boolean
}

/** The head beside a file. */
export interface Head {
  readonly status: number
  readonly fields: Fields
}

/** Every file below a directory except the heads. Throws when the directory itself cannot be read. */
export async function* filesBelow(directory: string): AsyncGenerator<FoundFile> {
  for await (const entry of await opendir(directory, { recursive: true })) {
    if (entry.isDirectory()) continue
    const absolute = join(entry.parentPath, entry.name)
    const path = relative(directory, absolute)
    const segments = path.split(sep)
    if (segments[0]?.startsWith('_') || entry.name.endsWith('.head')) continue
    const stats = await lstat(absolute).catch((error: unknown) => {
      if (systemCode(error) !== 'ENOENT') throw error
    })
    if (!stats) continue
    const { size, mtimeMs: modified } = stats
    yield { path, size, modified, isFile: stats.isFile(), partial: segments.includes('partial') }
  }
}

const mostHeadBytes = 64 * 1024

/** The head beside a file; undefined when there is none that can be read. */
export async function headOf(path: string): Promise<Head | undefined> {
  const found = await readBounded(`${path}.head`, mostHeadBytes).catch(() => undefined)
  const [first = '', ...lines] = found?.bytes.toString('latin1').split(/\r?\n/) ?? []
  const [, status] = /^HTTP\/1\.[01] (\d{3})(?: |$)/.exec(first) ?? []
  if (status === undefined) return undefined
  const fields: [string, string][] = []
  for (const line of lines) {
    if (line === '') break
    const [, name = '', value = ''] = /^([^:]+):[ \t]*(.*?)[ \t]*$/.exec(line) ?? []
    if (name !== '') fields.push([name, value])
  }
  return { status: Number(status), fields: Fields.of(...fields) }
}

/**
 * The decoded URL of a file by its place; undefined when the place tells none. When the head names a source, the path must agree with
 * it, and the name of the top directory does not matter.
 */
function urlByPlace(path: string, source: string | undefined): string | undefined {
  const [top = '', ...rest] = path.split(sep)
  if (rest.length === 0) return undefined
  const below = rest.join('/')
  if (source !== undefined) {
    return /^https?:\/\//.test(source) && source.endsWith(`/${below}`) ? source : undefined
  }
  return /^[a-z0-9-]+(\.[a-z0-9-]+)+(:\d{1,5})?$/.test(top) ? `http://${top}/${below}` : undefined
}

function encodedUrl(url: string): string {
  const [, begin = '', path = ''] = /^([a-z]+:\/\/[^/]*)(.*)$/s.exec(url) ?? []
  return begin + path.split('/').map(encodeURIComponent).join('/')
}
