/**
 * Updates an adopted suite as a whole: a new Release file takes the place of the old one only when all files clients use it
 * names are in the store. Until then clients get the old one, and what it names.
 */
import type { Clock, Milliseconds } from '../../async/clock.ts'
import type { Fields } from '../../http/message/field.ts'
import { parseUri } from '../../http/message/target.ts'
import type { Logger } from '../../log/log.ts'
import { classify } from '../archive/path.ts'
import type { Fetcher } from '../fetch/fetch.ts'
import type { Found, Wanted } from '../fetch/found.ts'
import { isIllness } from '../fetch/revalidation.ts'
import type { StaleReason } from '../rfc9111/outcome.ts'
import type { Entry } from '../store/entry.ts'
import type { Store } from '../store/store.ts'
import { parentOf } from '../verify/inventory.ts'
import type { Missing } from './adopt.ts'
import { byHashPath, keyIn, type Listed } from './generation.ts'
import type { Suites } from './suites.ts'

/** What a client gets that asks for the Release file of an adopted suite. */
export type Updated =
  | { readonly use: 'store'; readonly because: 'validated' | 'changed'; readonly entry: Entry }
  | { readonly use: 'stale'; readonly because: StaleReason }
  /** It came and cannot be stored. */
  | { readonly use: 'again' }
  | { readonly use: 'answer'; readonly status: number; readonly fields: Fields }

export interface UpdatesParts {
  readonly suites: Suites
  readonly fetcher: Fetcher
  readonly store: Pick<Store, 'put' | 'remove' | 'peek'>
  readonly clock: Clock
  readonly log: Logger
  /** How long a client waits for the origin's word, and how long for the files of a new generation. */
  readonly patience: () => { readonly asking: Milliseconds; readonly updating: Milliseconds }
}

/** Files of a new generation that are fetched at the same time. */
const atOnce = 4

interface UnderWay {
  readonly done: Promise<Updated>
  /** The origin has sent another Release file. */
  changed: boolean
}

export class Updates {
  readonly #parts: UpdatesParts
  readonly #underWay = new Map<string, UnderWay>()

  constructor(parts: UpdatesParts) {
    this.#parts = parts
  }

  /** Whether an entry is the Release file of an adopted suite, so that `check` answers for it. */
  governs(entry: Entry): boolean {
    return this.#parts.suites.adoptedAs(entry) !== undefined
  }

  /**
   * Asks the origin whether the stored Release file still holds, and updates the suite when it does not: once for all clients
   * that ask at the same time. The update goes on when a client has waited long enough. Never rejects.
   */
  async check(wanted: Wanted, entry: Entry): Promise<Updated> {
    const { asking, updating } = this.#parts.patience()
    const running = this.#underWay.get(entry.key) ?? this.#begin(wanted, entry)
    const first = await this.#within(running.done, asking)
    if (first !== undefined) return first
    if (!running.changed) return { use: 'stale', because: 'stale-origin-slow' }
    const second = await this.#within(running.done, Math.max(0, updating - asking))
    return second ?? { use: 'stale', because: 'stale-suite-incomplete' }
  }

  #begin(wanted: Wanted, entry: Entry): UnderWay {
    const underWay: UnderWay = {
      changed: false,
      done: this.#update(wanted, entry, () => {
        underWay.changed = true
      })
        .catch((error: unknown): Updated => {
          this.#parts.log.warn('a suite could not be updated', { key: entry.key, error })
          return { use: 'stale', because: 'stale-suite-incomplete' }
        })
        .finally(() => this.#underWay.delete(entry.key)),
    }
    this.#underWay.set(entry.key, underWay)
    return underWay
  }

  async #update(wanted: Wanted, entry: Entry, onChanged: () => void): Promise<Updated> {
    const { fetcher, store } = this.#parts
    const key = `${entry.key}${incoming}`
    const found = await fetcher.fetch({ ...wanted, key, stored: entry }).found
    if (found.kind !== 'filling') return unchanged(found)
    if (!found.filling.download.stored) return { use: 'again' }
    const settled = await found.filling.settled
    if (settled.kind === 'passed') return { use: 'again' }
    if (settled.kind === 'failed') return { use: 'stale', because: 'stale-origin-failed' }
    if (!(await settled.kept)) return { use: 'again' }
    try {
      const come = { ...settled.entry, key: entry.key }
      if (come.digest === entry.digest) return this.#place(come, 'validated')
      onChanged()
      const kept = await this.#prepared(settled.entry, entry)
      return kept === undefined ? this.#place(come, 'changed') : { use: 'stale', because: kept }
    } finally {
      store.remove(key)
    }
  }

  #place(entry: Entry, because: 'validated' | 'changed'): Updated {
    this.#parts.store.put(entry)
    return { use: 'store', because, entry }
  }

  /** Fetches what the new Release names. Why it must not take the old one's place; undefined when it may. */
  async #prepared(come: Entry, entry: Entry): Promise<StaleReason | undefined> {
    const { suites, clock, log } = this.#parts
    const missing = await suites.prepare(entry.key, come)
    if (missing === undefined) return 'stale-suite-refused'
    const failed = await this.#fetchAll(parentOf(entry.key), missing)
    if (failed.length === 0) return undefined
    const generation = suites.adoptedAs(entry)
    const expired = (generation?.validUntil ?? Number.POSITIVE_INFINITY) < clock.now()
    log.warn('a new Release file names files that cannot be had; clients get the one before', {
      key: entry.key,
      missing: failed.map(({ path }) => path),
      ...(expired && { but: 'the one before has expired, so they get the new one' }),
    })
    return expired ? undefined : 'stale-suite-incomplete'
  }

  /** The files that could not be fetched. */
  async #fetchAll(at: string, { files, byHash }: Missing): Promise<readonly Listed[]> {
    const waiting = [...files]
    const failed: Listed[] = []
    const work = async (): Promise<void> => {
      for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
        const come =
          (byHash && (await this.#fetchOne(at, next, byHashPath(next)))) ||
          (await this.#fetchOne(at, next, next.path))
        if (!come) failed.push(next)
      }
    }
    await Promise.all(Array.from({ length: atOnce }, work))
    return failed
  }

  /** Whether the file has come and is kept under the name that its digest gives it. */
  async #fetchOne(at: string, listed: Listed, path: string): Promise<boolean> {
    const { fetcher, store } = this.#parts
    const [key, kept] = [keyIn(at, path), keyIn(at, byHashPath(listed))]
    const uri = key === undefined ? undefined : parseUri(key)
    if (key === undefined || kept === undefined || uri === undefined || 'problem' in uri)
      return false
    const { size, digest } = listed
    const claim = { size, digest, suite: at }
    const staged = key === kept ? key : `${key}${incoming}`
    const archive = classify(uri.path)
    const wanted = { key: staged, uri, archive, claim, stored: undefined, insist: true }
    const found = await fetcher.fetch(wanted).found
    const settled = found.kind === 'filling' ? await found.filling.settled : found
    if (settled.kind !== 'stored' && settled.kind !== 'validated') return false
    if (settled.entry.digest !== listed.digest) return false
    if (staged === kept) return true
    const { stored } = store.put({ ...settled.entry, key: kept, verified: { by: 'name' } })
    store.remove(staged)
    return stored
  }

  async #within<Result>(promise: Promise<Result>, wait: Milliseconds): Promise<Result | undefined> {
    let cancel = (): void => undefined
    const late = new Promise<undefined>(resolve => {
      cancel = this.#parts.clock.after(wait, () => resolve(undefined))
    })
    try {
      return await Promise.race([promise, late])
    } finally {
      cancel()
    }
  }
}

/** Ends the keys of files that wait to take the place of others; no target has such a key. */
const incoming = '#incoming'

/** What a client gets when no other Release file came. */
function unchanged(found: Exclude<Found, { kind: 'filling' }>): Updated {
  if (found.kind === 'validated') {
    return { use: 'store', because: 'validated', entry: found.entry }
  }
  if (found.kind === 'answered' && !isIllness(found.status)) {
    return { use: 'answer', status: found.status, fields: found.fields }
  }
  return { use: 'stale', because: 'stale-origin-failed' }
}
