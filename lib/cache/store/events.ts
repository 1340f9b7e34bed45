/**
 * The events by which the parts of a store reach each other. An event says what has happened, never what to do about it.
 *
 * A part calls only parts that were made before it, and reaches the others by events. The end of wiring.ts says what the store does after
 * each event. The caller that opened the store may listen as well.
 */
import type { Entry } from './entry.ts'

/** The facts of each event. Listeners are called synchronously, after the event has happened. */
export interface StoreEvent {
  /** The disk failed or does not answer. `doing` says what the store did with it. */
  readonly failed: { readonly error: unknown; readonly doing: string }
  /** The disk takes writes again. */
  readonly recovered: undefined
  /** An entry names a content that is whole and not stored yet. `kept` settles after `named`, or when the content cannot be stored. */
  readonly arriving: { readonly entry: Entry; readonly kept: Promise<unknown> }
  /** A content that an earlier stop left unproven was hashed and is right. The next checkpoint makes it durable. */
  readonly proven: string
  /** An entry names a content of the store. */
  readonly named: Entry
  /** Entries no longer name the content. */
  readonly freed: { readonly digest: string; readonly size: number }
  /** No entry names this content: it is new, it was freed, or it was found wrong. */
  readonly unused: string
  /** The file of this digest was replaced or is about to be removed. */
  readonly changed: string
}

/** The functions that a listener has for the events that concern it. */
export type StoreListener = {
  readonly [E in keyof StoreEvent]?: (facts: StoreEvent[E]) => void
}

export class StoreEvents {
  readonly #listeners: StoreListener[] = []

  /** From now on the listener gets every event, after the earlier listeners. */
  listen(listener: StoreListener): void {
    this.#listeners.push(listener)
  }

  tell<E extends keyof StoreEvent>(event: E, facts: StoreEvent[E]): void {
    for (const listener of this.#listeners) listener[event]?.(facts)
  }
}
