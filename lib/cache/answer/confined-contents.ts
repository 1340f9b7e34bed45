/**
 * Decides which stored contents may answer for another name with the same digest, without asking an origin. With `archives[].clients`
 * the files of an archive are for some clients only. The digest of such a file is no secret: anyone can publish an index that names
 * it, and the store would give the content under that other name to every client.
 *
 * # Facts
 * - A content from a confined archive is given within that archive. It is given in another archive once that archive has sent it too.
 * - The entries of the store are read after the first question, and again when the confined archives change. Until they are read, no
 *   content is shared, and origins are asked.
 * - An entry that keeps a content for builds does not say from which archive the content came. While no other entry names the content,
 *   it is shared with no archive.
 * - Without confined archives every content is shared.
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

/** The scope of files outside of all confined archives, and the scope of contents that are kept for builds. No archive has such a name. */
const open = ''
const ofBuilds = ' builds'

export class ConfinedContents {
  readonly #parts: ConfinedContentsParts
  /** The scopes from which each content has come. Contents that came from no confined archive are not in it. */
  readonly #scopes = new Map<string, Set<string>>()
  /** The confinements of the last call. */
  #followed: Confinements = []
  /** The confined archives for which `#scopes` holds, as JSON. */
  #confinements = '[]'
  /** Identifies the current reading of the store. A reading ends when it is not the current one any more. */
  #reading: symbol | undefined
  #known = false

  constructor(parts: ConfinedContentsParts) {
    this.#parts = parts
  }

  /** Whether a stored content may answer for a file in a scope. `scope` is undefined for a file that no archive confines. */
  shares(digest: string, scope: string = open): boolean {
    const { rules, store } = this.#parts
    const { confinements } = rules()
    this.#follow(confinements)
    if (confinements.length === 0) return true
    if (!this.#known) this.#begin(confinements)
    // A content that no entry names is about to be removed, and its archive is unknown.
    if (!this.#known || !store.names(digest)) return false
    return this.#scopes.get(digest)?.has(scope) ?? true
  }

  /** Whether a stored content may answer for the file with this key. */
  sharesUnder(digest: string, key: string): boolean {
    const { confinements } = this.#parts.rules()
    return confinements.length === 0 || this.shares(digest, scopeOf(key, confinements))
  }

  /** Notes an entry that was put into the store. */
  note({ key, digest }: Pick<Entry, 'key' | 'digest'>): void {
    const { confinements } = this.#parts.rules()
    this.#follow(confinements)
    // A recorded content also has the entry of its request, which counts.
    if (isKeepingKey(key) && !isFetchedKey(key)) return
    if (confinements.length > 0) this.#note(scopeOf(key, confinements), digest, true)
  }

  /** Forgets a content that no stored entry names any more, unless an arriving entry names it. */
  forget(digest: string): void {
    if (!this.#parts.store.names(digest)) this.#scopes.delete(digest)
  }

  /** Forgets all scopes when other archives are confined, because they were noted under the former confinements. */
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

  /** Reads the entries twice: first to find confined contents, then to find the other scopes from which those have come. */
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
