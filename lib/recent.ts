/**
 * A memory of what was used last, with a bound that few services come near. It takes room as entries come: an LRUCache with `max` takes
 * the room of all of them at the start, which costs a service tens of milliseconds and some megabytes.
 */
import { LRUCache } from 'lru-cache'

/** A memory that forgets the entry that was not used for the longest time when it would hold more than `most`. */
export function recent<K extends string, V extends object | string | number | true>(
  most: number,
): LRUCache<K, V> {
  return new LRUCache<K, V>({ maxSize: most, sizeCalculation: () => 1 })
}

/** The same text in memory of its own, to be remembered: V8 makes a part of a text a view of all of it, such as the whole head of a request. */
export function ownText(text: string): string {
  const own = Buffer.from(text, 'latin1').toString('latin1')
  return own === text ? own : text
}
