/**
 * Lists the files that stored or imported indexes (Packages, Sources) name, with their URLs. By these lists it chooses the stored files
 * of some archives or suites.
 */
import { iterate } from '../../../bytes/source.ts'
import { explainError } from '../../../errors.ts'
import type { Content } from '../../../http/message/message.ts'
import { decompress } from '../../archive/decompress.ts'
import { indexedFiles, type ListedFile, type PackageIndex } from '../../archive/listed-file.ts'
import { decodedUrl, packageIndexOf, parentOf } from '../../archive/path.ts'
import { rootOf, rootsOf } from '../../archive/suite-layout.ts'
import type { ReadableStore } from '../../store/store.ts'
import { commonDirectory } from '../../suites/table.ts'

/** An index of packages with its kind and its place. */
export interface Index {
  readonly kind: PackageIndex
  /** The decoded URL of its directory. */
  readonly base: string
}

/** The index with this URL, by its plain name or by hash; undefined for other files. */
export function indexAt(key: string): Index | undefined {
  const name = decodedUrl(key)
  if (name === undefined) return undefined
  const directory = name.replace(/\/by-hash\/\w+\/\w+$/, '')
  const byHash = directory !== name
  const kind = byHash ? kindIn(directory) : packageIndexOf(name)
  return kind && { kind, base: byHash ? directory : parentOf(name) }
}

/** The kind of index in a directory of a suite. */
function kindIn(directory: string): PackageIndex | undefined {
  if (/\/binary-[\w-]+$/.test(directory)) return 'Packages'
  return directory.endsWith('/source') ? 'Sources' : undefined
}

/** The files that an index lists, with their decoded URLs. The index may be compressed. Throws when it cannot be decompressed or read. */
export async function* filesOfIndex(
  { kind, base }: Index,
  content: AsyncIterable<Uint8Array>,
): AsyncGenerator<ListedFile & { readonly url: string }> {
  const files = indexedFiles(kind, decompress(content))
  const [first, ...others] = rootsOf(base)
  if (first !== undefined && others.length === 0) {
    for await (const listed of files) yield { ...listed, url: `${first}/${listed.path}` }
    return
  }
  // In a flat repository only all paths together show their common root.
  const all: ListedFile[] = []
  let common: string | undefined
  for await (const listed of files) {
    all.push(listed)
    common = commonDirectory(common, listed.path)
  }
  const root = rootOf(base, common ?? '')
  for (const listed of all) yield { ...listed, url: `${root}/${listed.path}` }
}

/** The pieces of a content. Each is valid until the next one is requested. */
export async function* blocksOf(content: Content): AsyncGenerator<Buffer> {
  if (content.kind === 'bytes') yield content.bytes
  else if (content.kind === 'stream') yield* iterate(content.open())
}

export interface Choice {
  /** Hosts, or hosts with the beginning of a path; all archives when the list is empty. */
  readonly archives: readonly string[]
  /** Directories below `dists/`; all files, of a suite or not, when the list is empty. */
  readonly suites: readonly string[]
}

/** Chooses the files of some archives and suites. The packages that the stored indexes of a suite name belong to it. */
export async function chooseFiles(store: ReadableStore, { archives, suites }: Choice) {
  const ofArchive = (key: string) =>
    archives.length === 0 || archives.some(archive => isBelow(key, archive))
  /** The indexes that cannot be read. Packages that only they name are missing. */
  const unread: { key: string; because: string }[] = []
  if (suites.length === 0) return { chosen: ofArchive, unread }
  const names = new Map<string, string>()
  const wanted = new Set<string>()
  /** The indexes, with each content in each directory once. */
  const indexes = new Map<string, { index: Index; key: string; digest: string; size: number }>()
  for await (const some of store.list()) {
    for (const { key, digest, size } of some) {
      const name = ofArchive(key) ? decodedUrl(key) : undefined
      if (name === undefined) continue
      names.set(name, key)
      if (!suites.some(suite => name.includes(`/dists/${suite}/`))) continue
      wanted.add(key)
      const index = indexAt(key)
      if (index) indexes.set(`${index.base} ${digest}`, { index, key, digest, size })
    }
  }
  for (const { index, ...named } of indexes.values()) {
    try {
      const content = await store.content(named)
      if (content === undefined) continue
      for await (const { url } of filesOfIndex(index, blocksOf(content))) {
        const key = names.get(url)
        if (key !== undefined) wanted.add(key)
      }
    } catch (error) {
      unread.push({ key: named.key, because: explainError(error) })
    }
  }
  return { chosen: (key: string) => wanted.has(key), unread }
}

/** Whether a key is below a place. Whole segments count: `archive.example.org/debian-security` is not below `archive.example.org/debian`. */
function isBelow(key: string, place: string): boolean {
  const url = place.includes('://') ? key : key.slice(key.indexOf('://') + 3)
  const beginning = place.replace(/\/+$/, '')
  return url.startsWith(beginning) && ['', '/', ':'].includes(url.charAt(beginning.length))
}
