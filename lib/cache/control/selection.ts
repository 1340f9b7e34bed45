/**
 * Chooses stored files by a URL or a pattern over URLs, and removes them or marks them for a validation.
 */
import { countOf } from '../../figures.ts'
import { fitsPattern, wildcardPattern } from '../../wildcards.ts'
import type { Rules } from '../policy/policy.ts'
import { destinationOfUrl } from '../request/destination.ts'
import type { ListedEntry } from '../store/catalogue/catalogue.ts'
import { neverConfirmed } from '../store/entry.ts'
import { isKeepingKey } from '../store/key.ts'
import type { ReadableStore, Store, UnremovableContents } from '../store/store.ts'

/** Whether the stored file with a key is meant. */
type Selection = (key: string) => boolean

/**
 * The files that a URL or a pattern means, or a sentence when it means none. A URL means the file that answers a request for it, so it
 * is routed like a request. A pattern means all files whose whole URL it fits; `*` in it fits any text. A pattern never means the
 * contents that are kept for builds, because they are removed with their builds.
 */
export function selectionOf(text: string, rules: Rules): Selection | string {
  if (text.includes('*')) {
    const fits = patternSelection(text)
    return key => !isKeepingKey(key) && fits(key)
  }
  const urls = text.includes('://') ? [text] : [`http://${text}`, `https://${text}`]
  const keys = new Set(urls)
  for (const url of urls) {
    const destination = destinationOfUrl(url, rules)
    if (typeof destination === 'string') return destination
    keys.add(destination.key)
  }
  return key => keys.has(key)
}

/** The URLs that a pattern with `*` fits. One that names no scheme is compared from the host on. */
export function patternSelection(pattern: string): Selection {
  const parts = wildcardPattern(pattern)
  const withScheme = pattern.includes('://') || parts[0] === ''
  return key => fitsPattern(withScheme ? key : key.slice(key.indexOf('://') + 3), parts)
}

/**
 * A proposal for a text that means no stored file: a sentence with the pattern that fits the files with the text anywhere in their
 * URLs, and with their number. Undefined when there are no such files.
 */
export async function proposal(
  store: Pick<ReadableStore, 'list'>,
  text: string,
  act: 'remove' | 'refresh',
): Promise<string | undefined> {
  const within = text.replace(/^\*+|\*+$/g, '')
  const pattern = `*${within}*`
  if (within === '' || pattern === text) return undefined
  const { files } = await forEach(store, patternSelection(pattern), async ({ size }) => size)
  if (files === 0) return undefined
  const word = `'${pattern.replaceAll("'", "'\\''")}'`
  return `${countOf(files, 'file')} would be meant by ${pattern}: cachesvc ${act} ${word}`
}

/**
 * Removes the chosen files, and calls `onRemoved` with some keys at a time. It deletes contents that no other entry names at once, so
 * that no later request is answered from them. `left` has the contents that the disk could not delete.
 */
export async function remove(
  store: Pick<Store, 'list' | 'remove' | 'removeContents'>,
  chosen: Selection,
  onRemoved: (keys: readonly string[]) => Promise<void>,
): Promise<Amount & { readonly left: UnremovableContents }> {
  let keys: string[] = []
  const digests = new Set<string>()
  const tell = async (): Promise<void> => {
    const told = keys
    keys = []
    await onRemoved(told)
  }
  const amount = await forEach(store, chosen, async ({ key, size, digest }) => {
    store.remove(key)
    digests.add(digest)
    keys.push(key)
    if (keys.length >= atOnce) await tell()
    return size
  })
  await tell()
  return { ...amount, left: await store.removeContents(digests) }
}

const atOnce = 1000

/** Marks the chosen files, so that the next request for each asks the origin, even for files whose content never changes. */
export function refresh(
  store: Pick<Store, 'list' | 'get' | 'amend'>,
  chosen: Selection,
): Promise<Amount> {
  return forEach(store, chosen, async ({ key }) => {
    // The entry may have been replaced since it was listed, so it is read again. The list can contain an amended entry once more.
    const entry = await store.get(key)
    if (entry === undefined || entry.validated === neverConfirmed) return undefined
    return store.amend({ ...entry, validated: neverConfirmed }).stored ? entry.size : undefined
  })
}

interface Amount {
  readonly files: number
  readonly bytes: number
}

/** Calls `act` with each chosen file. `act` returns the size of a file that it has changed. */
async function forEach(
  store: Pick<ReadableStore, 'list'>,
  chosen: Selection,
  act: (file: ListedEntry) => Promise<number | undefined>,
): Promise<Amount> {
  let [files, bytes] = [0, 0]
  for await (const some of store.list()) {
    for (const file of some) {
      const size = chosen(file.key) ? await act(file) : undefined
      if (size === undefined) continue
      files += 1
      bytes += size
    }
  }
  return { files, bytes }
}
