/**
 * Lists the files that stored or imported indexes (Packages, Sources) name, with their URLs.
 */

import { decompress } from '../archive/decompress.ts'
import type { ListedFile } from '../archive/listed-file.ts'
import { indexedFiles } from '../archive/package-index.ts'
import { decodedUrl, packageIndexOf, parentOf } from '../archive/path.ts'
import { rootsOf } from '../archive/suite-layout.ts'

/** An index of packages, where its files lie, and which of the two kinds it is. */
export interface Index {
  readonly kind: 'Packages' | 'Sources'
  /** The decoded URL that paths in the index begin below. */
  readonly root: string
}

/** The index that is kept under this URL, by its plain name or by hash; undefined for other files. */
export function indexAt(key: string): Index | undefined {
  const name = decodedUrl(key)
  if (name === undefined) return undefined
  const parent = parentOf(name)
  const directory = name.replace(/\/by-hash\/\w+\/\w+$/, '')
  const kind = directory === name ? packageIndexOf(name) : kindIn(directory)
  const [root] = rootsOf(directory === name ? parent : directory)
  return kind === undefined || root === undefined ? undefined : { kind, root }
}

/** Which index a directory of a suite has. */
function kindIn(directory: string): Index['kind'] | undefined {
  if (/\/binary-[\w-]+$/.test(directory)) return 'Packages'
  return directory.endsWith('/source') ? 'Sources' : undefined
}

/** A file an index lists. */
interface Listed extends ListedFile {
  /** Its decoded URL. */
  readonly url: string
}

/** The files an index lists, packed or not. Throws when it cannot be unpacked or read. */
export async function* listedIn(
  { kind, root }: Index,
  content: AsyncIterable<Uint8Array>,
): AsyncGenerator<Listed> {
  for await (const listed of indexedFiles(kind, decompress(content))) {
    yield { ...listed, url: `${root}/${listed.path}` }
  }
}

/** A decoded URL as it is written in a request. */
export function encodedUrl(url: string): string {
  const [, begin = '', path = ''] = /^([a-z]+:\/\/[^/]*)(.*)$/s.exec(url) ?? []
  return begin + path.split('/').map(encodeURIComponent).join('/')
}
