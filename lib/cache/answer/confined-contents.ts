/**
 * Knows which contents of the store may be given for a file of which an index names the digest, without asking an origin. With
 * `archives[].clients` the files of an archive are for some clients alone. The digest of such a file is no secret: an index that
 * names it can be published by anyone, and the store would give the content under that other name to every client.
 *
 * # Facts
 * - A content that came from a confined archive is given within that archive. It is given elsewhere once it has come from there.
 * - What the store has is read when the first such question is asked, and after a change of the confined archives. Until it is read
 *   nothing is shared: then origins are asked.
 * - An entry that keeps a content for builds says nothing of where that came from. While no other entry names the content, it is shared
 *   with no archive.
 * - Without confined archives there is nothing to know, and everything is shared.
 */

import { parseUri } from '../../http/message/target.ts'
import type { Logger } from '../../log/log.ts'
import type { Rules } from '../policy/policy.ts'
import { type Confinements, confinementOf } from '../policy/routing.ts'
import type { Entry } from '../store/entry.ts'
import { isFetchedKey, isKeepingKey } from '../store/key.ts'
import type { Store } from '../store/store.ts'

interface ConfinedContentsParts {
  readonly rules: () => Pick<Rules, 'confinements'>
  readonly store: Pick<Store, 'list' | 'names'>
  readonly log: Logger
}

/** The scope of what no archive confines, and of what is there for builds. No archive is called so. */
const open = ''
const ofBuilds = ' builds'

export class ConfinedContents {
  readonly #parts: ConfinedContentsParts
  /** The scopes a content has come from, of those that have come from a confined one. */
  readonly #scopes = new Map<string, Set<string>>()
  /** The rules that were followed last. */
  #followed: Confinements = []
  /** The confined archives that what is known holds for. */
  #confinements = '[]'
  /** Of a reading of the store: another one makes it end. */
  #reading: symbol | undefined
  #known = false

  constructor(parts: ConfinedContentsParts) {
    this.#parts = parts
  }

  /** Whether a content of the store may be given for a file in a scope, undefined for one that no archive confines. */
  shares(digest: string, scope: string = open): boolean {
    const { rules, store } = this.#parts
    const { confinements } = rules()
    this.#follow(confinements)
    if (confinements.length === 0) return true
    if (!this.#known) this.#begin(confinements)
    // A content that no entry names is on its way out, and of no archive that is known.
    if (!this.#known || !store.names(digest)) return false
    return this.#scopes.get(digest)?.has(scope) ?? true
  }

  /** The same for this key. */
  sharesUnder(digest: string, key: string): boolean {
    const { confinements } = this.#parts.rules()
    return confinements.length === 0 || this.shares(digest, scopeOf(key, confinements))
  }

  /** An entry was put into the store. */
  note({ key, digest }: Pick<Entry, 'key' | 'digest'>): void {
    const { confinements } = this.#parts.rules()
    this.#follow(confinements)
    // What is recorded has an entry of its own already, which counts.
    if (isKeepingKey(key) && !isFetchedKey(key)) return
    if (confinements.length > 0) this.#note(scopeOf(key, confinements), digest, true)
  }

  /** No entry that is stored names the content any more; one that is arriving may. */
  forget(digest: string): void {
    if (!this.#parts.store.names(digest)) this.#scopes.delete(digest)
  }

  /** Forgets what it knows when other archives are confined: what came meanwhile was noted by the rules of then. */
  #follow(confinements: Confinements): void {
    if (confinements === this.#followed) return
    this.#followed = confinements
    const now = JSON.stringify(confinements.map(({ scope, origins }) => [scope, origins]))
    if (now === this.#confinements) return
    this.#confinements = now
    this.#reading = undefined
    this.#known = false
    this.#scopes.clear()
  }

  #begin(confinements: Confinements): void {
    if (this.#reading !== undefined) return
    const reading = Symbol('reading')
    this.#reading = reading
    this.#read(confinements, reading).catch((error: unknown) => {
      this.#parts.log.warn('contents are not shared between names until the store can be read', {
        error,
      })
      if (this.#reading === reading) this.#reading = undefined
    })
  }

  /** First which contents are confined, then which of those have come from elsewhere as well. */
  async #read(confinements: Confinements, reading: symbol): Promise<void> {
    for (const adds of [true, false]) {
      for await (const some of this.#parts.store.list()) {
        if (this.#reading !== reading) return
        for (const { key, digest } of some) this.#note(scopeOf(key, confinements), digest, adds)
      }
    }
    if (this.#reading === reading) this.#known = true
  }

  #note(scope: string, digest: string, adds: boolean): void {
    const scopes = this.#scopes.get(digest)
    if (scopes !== undefined) scopes.add(scope)
    else if (adds && scope !== open) this.#scopes.set(digest, new Set([scope]))
  }
}

function scopeOf(key: string, confinements: Confinements): string {
  if (isKeepingKey(key)) return ofBuilds
  const uri = parseUri(key)
  return 'problem' in uri ? open : (confinementOf(uri, confinements)?.scope ?? open)
}
