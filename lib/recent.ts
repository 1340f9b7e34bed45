/**
 * A memory of recently used entries, with a limit that few services reach. It takes memory as entries come. An LRUCache with `max` takes
 * the memory for all of them at the start, which costs a service tens of milliseconds and some megabytes.
 */
import { LRUCache } from 'lru-cache'

/** A memory that holds at most `most` entries. When it would hold more, it drops the entry that was unused for the longest time. */
export function recentEntries<K extends string, V extends object | string | number | true>(
  most: number,
): LRUCache<K, V> {
  return new LRUCache<K, V>({ maxSize: most, sizeCalculation: () => 1 })
}

/**
 * The same text in memory of its own, for texts that are kept. In V8 a part of a text keeps the whole text in memory, such as the whole
 * head of a request.
 */
export function ownText(text: string): string {
  const own = Buffer.from(text, 'latin1').toString('latin1')
  return own === text ? own : text
}
