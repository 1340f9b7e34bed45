/**
 * Chooses the stored files of some archives or suites.
 */

import { explainError } from '../../errors.ts'
import { decodedUrl } from '../archive/path.ts'
import type { ReadableStore } from '../store/reading.ts'
import { blocksOf } from './export.ts'
import { indexAt, listedIn } from './indexed.ts'

export interface Choice {
  /** Hosts, or hosts with the beginning of a path; all when there are none. */
  readonly archives: readonly string[]
  /** Directories below `dists/`; all files, of a suite or not, when there are none. */
  readonly suites: readonly string[]
}

interface Chosen {
  readonly chosen: (key: string) => boolean
  /** Indexes that cannot be read: packages that only they name are missing. */
  readonly unread: readonly { readonly key: string; readonly because: string }[]
}

/** With suites, reads their stored indexes: the packages they name belong to them. */
export async function chosenFrom(
  store: ReadableStore,
  { archives, suites }: Choice,
): Promise<Chosen> {
  const ofArchive = (key: string) =>
    archives.length === 0 || archives.some(archive => isBelow(key, archive))
  if (suites.length === 0) return { chosen: ofArchive, unread: [] }
  const names = new Map<string, string>()
  const wanted = new Set<string>()
  const indexes: { key: string; digest: string; size: number }[] = []
  for await (const some of store.list()) {
    for (const { key, digest, size } of some) {
      if (!ofArchive(key)) continue
      const name = decodedUrl(key)
      if (name === undefined) continue
      names.set(name, key)
      if (!suites.some(suite => name.includes(`/dists/${suite}/`))) continue
      wanted.add(key)
      if (indexAt(key) !== undefined) indexes.push({ key, digest, size })
    }
  }
  const unread: { key: string; because: string }[] = []
  const read = new Set<string>()
  for (const named of indexes) {
    const index = indexAt(named.key)
    if (index === undefined || read.has(`${index.root} ${named.digest}`)) continue
    read.add(`${index.root} ${named.digest}`)
    try {
      const content = await store.content(named)
      if (content === undefined) continue
      for await (const { url } of listedIn(index, blocksOf(content))) {
        const key = names.get(url)
        if (key !== undefined) wanted.add(key)
      }
    } catch (error) {
      unread.push({ key: named.key, because: explainError(error) })
    }
  }
  return { chosen: key => wanted.has(key), unread }
}

/** Whole segments: `archive.example.org/debian` is not the beginning of `archive.example.org/debian-security`. */
function isBelow(key: string, place: string): boolean {
  const url = place.includes('://') ? key : key.slice(key.indexOf('://') + 3)
  const beginning = place.replace(/\/+$/, '')
  return url.startsWith(beginning) && ['', '/', ':'].includes(url.charAt(beginning.length))
}
