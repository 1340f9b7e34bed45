/**
 * What the parts of a store tell of: what has happened, never what to do about it.
 *
 * A part is made with the parts it asks, all made before it, and tells the others by events. What follows from each event
 * stands in one place, at the end of wiring.ts; who has opened the store may listen as well.
 */
import type { Entry } from './entry.ts'

/** Each event with its facts. It is told when it has happened, and every listener has acted before the teller goes on. */
export interface StoreEvent {
  /** The disk failed or does not answer, while it was `doing` that. */
  readonly failed: { readonly error: unknown; readonly doing: string }
  /** The disk takes writes again. */
  readonly recovered: undefined
  /** A download began that a checkpoint can make continuable after a crash. */
  readonly begun: undefined
  /** An entry names a content that is whole and not stored yet. `kept` settles after `named`, or when it cannot be stored. */
  readonly arriving: { readonly entry: Entry; readonly kept: Promise<unknown> }
  /** A content that an earlier stop left unproven was hashed and is right. The next checkpoint makes it durable. */
  readonly proven: string
  /** An entry names a content of the store. */
  readonly named: Entry
  /** No entry names the content any more. */
  readonly freed: { readonly digest: string; readonly size: number }
  /** The store has one more content that no entry names: a new one, or one that was freed. */
  readonly unused: string
  /** The digest stands for another file, or soon for none. */
  readonly changed: string
}

/** What a listener does about the events it hears. */
export type StoreListener = {
  readonly [E in keyof StoreEvent]?: (facts: StoreEvent[E]) => void
}

export class StoreEvents {
  readonly #listeners: StoreListener[] = []

  /** From now on it hears of every event, after those who listened before. */
  listen(listener: StoreListener): void {
    this.#listeners.push(listener)
  }

  tell<E extends keyof StoreEvent>(event: E, facts: StoreEvent[E]): void {
    for (const listener of this.#listeners) listener[event]?.(facts)
  }
}
