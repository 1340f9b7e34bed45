/**
 * Chooses stored files by a URL or a pattern over URLs, removes them or has them confirmed.
 */
import { countOf } from '../../figures.ts'
import type { Rules } from '../policy/policy.ts'
import { destinationOfUrl } from '../request/destination.ts'
import type { ListedEntry } from '../store/catalogue/catalogue.ts'
import { neverConfirmed } from '../store/entry.ts'
import { isKeepingKey } from '../store/key.ts'
import type { ReadableStore, Store, Unremovable } from '../store/store.ts'

/** Whether a stored file, named by its key, is one of those that are meant. */
type Chosen = (key: string) => boolean

/**
 * What a URL or pattern means; a sentence when it means nothing. A URL means the file that a request for it is answered with, so
 * it is routed as a request is. A pattern means all files whose whole URL it fits; `*` in it fits any text. Contents that are kept for
 * builds are never meant: they go with their builds.
 */
export function chosenBy(text: string, rules: Rules): Chosen | string {
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

/** Whether a URL fits a pattern: every part between asterisks in its order, the first at the beginning and the last at the end. Takes linear time. */
export function patternSelection(pattern: string): Chosen {
  const [first = '', ...others] = pattern.split('*')
  const last = others.pop() ?? ''
  const withScheme = pattern.includes('://') || first === ''
  return key => {
    const url = withScheme ? key : key.slice(key.indexOf('://') + 3)
    if (!url.startsWith(first)) return false
    let at = first.length
    for (const part of others) {
      const found = url.indexOf(part, at)
      if (found === -1) return false
      at = found + part.length
    }
    return url.length - last.length >= at && url.endsWith(last)
  }
}

/**
 * For a text that means no stored file: a sentence with the pattern that fits files which have the text anywhere in their URLs, and how
 * many these are; undefined when there are none.
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
 * Forgets them, and tells some keys at a time. Contents that no other entry names go from the disk at once, so that no later request
 * is answered from them; `left` are those that the disk did not let go.
 */
export async function remove(
  store: Pick<Store, 'list' | 'remove' | 'removeContents'>,
  chosen: Chosen,
  onRemoved: (keys: readonly string[]) => Promise<void>,
): Promise<Amount & { readonly left: Unremovable }> {
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

/** Keys that are told at once. */
const atOnce = 1000

/** Has the next request for each ask the origin, also for files whose content never changes. */
export function refresh(
  store: Pick<Store, 'list' | 'get' | 'amend'>,
  chosen: Chosen,
): Promise<Amount> {
  return forEach(store, chosen, async ({ key }) => {
    // The entry may have been replaced since it was listed, so it is read again. The walk meets what is written here once more.
    const entry = await store.get(key)
    if (entry === undefined || entry.validated === neverConfirmed) return undefined
    return store.amend({ ...entry, validated: neverConfirmed }).stored ? entry.size : undefined
  })
}

/** Files that were dealt with, and their bytes. */
interface Amount {
  readonly files: number
  readonly bytes: number
}

/** `act` answers the size of a file that it has dealt with. */
async function forEach(
  store: Pick<ReadableStore, 'list'>,
  chosen: Chosen,
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
