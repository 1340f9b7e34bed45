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

/** What is known under one list of confined archives. */
interface Known {
  /** The list of the last call, and what scopes depend on in it, as JSON. */
  confinements: Confinements
  readonly text: string
  /** The scopes from which each content has come. Contents that came from no confined archive are not in it. */
  readonly scopes: Map<string, Set<string>>
  /** Whether the entries of the store are in it. */
  store: 'unread' | 'being read' | 'read'
}

export class ConfinedContents {
  readonly #parts: ConfinedContentsParts
  #last: Known = { confinements: [], text: '[]', scopes: new Map(), store: 'unread' }

  constructor(parts: ConfinedContentsParts) {
    this.#parts = parts
  }

  /** Whether a stored content may answer for the file with this key. */
  shares(digest: string, key: string): boolean {
    const known = this.#known()
    if (known.confinements.length === 0) return true
    if (known.store === 'unread') void this.#read(known)
    // A content that no entry names is about to be removed, and its archive is unknown.
    if (known.store !== 'read' || !this.#parts.store.names(digest)) return false
    return known.scopes.get(digest)?.has(scopeOf(key, known.confinements)) ?? true
  }

  /** Notes an entry that was put into the store. */
  note({ key, digest }: Pick<Entry, 'key' | 'digest'>): void {
    const known = this.#known()
    // A recorded content also has the entry of its request, which counts.
    if (known.confinements.length === 0 || (isKeepingKey(key) && !isFetchedKey(key))) return
    noteScope(known, { key, digest }, true)
  }

  /** Forgets a content that stored entries no longer name, unless an arriving entry names it. */
  forget(digest: string): void {
    if (!this.#parts.store.names(digest)) this.#last.scopes.delete(digest)
  }

  /** What is known under the confinements in force. All is forgotten when other archives are confined than at the last call. */
  #known(): Known {
    const { confinements } = this.#parts.rules()
    if (confinements === this.#last.confinements) return this.#last
    const text = JSON.stringify(confinements.map(({ scope, origins }) => [scope, origins]))
    if (text === this.#last.text) this.#last.confinements = confinements
    else this.#last = { confinements, text, scopes: new Map(), store: 'unread' }
    return this.#last
  }

  /** Reads the entries twice: first to find confined contents, then to find the other scopes from which those have come. Never rejects. */
  async #read(known: Known): Promise<void> {
    const { store, log } = this.#parts
    known.store = 'being read'
    try {
      for (const adds of [true, false]) {
        for await (const some of store.list()) {
          if (this.#last !== known) return
          for (const entry of some) noteScope(known, entry, adds)
        }
      }
      known.store = 'read'
    } catch (error) {
      log.warn('contents are not shared between names until the store can be read', { error })
      known.store = 'unread'
    }
  }
}

function noteScope(
  { confinements, scopes: all }: Known,
  { key, digest }: Pick<Entry, 'key' | 'digest'>,
  adds: boolean,
): void {
  const scope = scopeOf(key, confinements)
  const scopes = all.get(digest)
  if (scopes !== undefined) scopes.add(scope)
  else if (adds && scope !== open) all.set(digest, new Set([scope]))
}

function scopeOf(key: string, confinements: Confinements): string {
  if (isKeepingKey(key)) return ofBuilds
  const uri = parseUri(key)
  return 'problem' in uri ? open : (confinementOf(uri, confinements)?.scope ?? open)
}
