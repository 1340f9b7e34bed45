/**
 * A memory of recently used entries with a bound on their number. It takes memory as entries come, and is as fast as an LRUCache with `max`,
 * which takes the memory for all of them at the start: tens of milliseconds and some megabytes for a service. A memory with a bound on bytes
 * is an LRUCache.
 */
import { LRUCache } from 'lru-cache'

export type RecentEntries<V extends object> = LRUCache<string, V>

/** A memory that holds at most `most` entries. When it would hold more, it drops the entry that was unused for the longest time. */
export function recentEntries<K extends string, V extends object | string | number | boolean>(
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
