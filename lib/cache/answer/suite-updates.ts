/**
 * Updates an adopted suite as a whole: a new Release file takes the place of the old one only when all files clients use it
 * names are in the store. Until then clients get the old one, and what it names.
 */
import { LRUCache } from 'lru-cache'
import type { Clock, Milliseconds } from '../../async/clock.ts'
import { inTime } from '../../async/deadline.ts'
import { parseUri } from '../../http/message/target.ts'
import type { Logger } from '../../log/log.ts'
import { classify, directoriesOf, parentOf } from '../archive/path.ts'
import type { Fetcher } from '../fetch/fetch.ts'
import type { Found, Wanted } from '../fetch/found.ts'
import { isGone, type RevalidationResult, unchanged } from '../fetch/revalidation.ts'
import type { Rules } from '../policy/policy.ts'
import type { StaleReason } from '../rfc9111/outcome.ts'
import type { Entry } from '../store/entry.ts'
import type { Store } from '../store/store.ts'
import type { Missing } from '../suites/adopt.ts'
import {
  byHashPath,
  byHashPaths,
  keyIn,
  type Listed,
  suiteOfRelease,
} from '../suites/generation.ts'
import { suitePolicy } from '../suites/policy.ts'
import type { Suites } from '../suites/suites.ts'

interface UpdatesParts {
  readonly rules: () => Rules
  readonly suites: Suites
  readonly fetcher: Fetcher
  readonly store: Pick<Store, 'get' | 'put' | 'remove'>
  readonly clock: Clock
  readonly log: Logger
}

/** Files of a new generation that are fetched at the same time. */
const atOnce = 4

/** How long the origin is not asked again when it had not all files of its Release, or one that may not be adopted. */
const pauseAfterFailure: Milliseconds = 5000

const mostBehind = 1000

interface Behind {
  readonly because: StaleReason
  /** Until when the origin is not asked again, by `elapsed`. */
  readonly until: Milliseconds
}

interface UnderWay {
  readonly done: Promise<RevalidationResult>
  changed: boolean
}

export class Updates {
  readonly #parts: UpdatesParts
  readonly #underWay = new Map<string, UnderWay>()
  /** Suites whose Release the origin did not confirm when it was last asked, by the keys of their directories. */
  readonly #behind = new LRUCache<string, Behind>({ max: mostBehind })

  constructor(parts: UpdatesParts) {
    this.#parts = parts
  }

  /** Removes what a crash has left of updates. */
  removeLeftovers(): void {
    const { suites, store } = this.#parts
    for (const { at, generations } of suites.all) {
      const files = generations.flatMap(({ contents }) => contents.map(({ path }) => path))
      for (const path of new Set(['InRelease', 'Release', 'Release.gpg', ...files])) {
        const key = keyIn(at, path)
        if (key !== undefined) store.remove(`${key}${incoming}`)
      }
    }
  }

  /** Whether `check` answers for an entry: it is the Release file of an adopted suite. */
  governs(entry: Entry): boolean {
    return this.#parts.suites.governs(entry)
  }

  /** Why clients get the Release of before, in the suite with this key; undefined when they get the origin's. */
  behind(at: string): StaleReason | undefined {
    return this.#behind.peek(at)?.because
  }

  /** Why the Release file that the origin has now is not given to clients, in words; undefined when it is. */
  refusal(at: string): string | undefined {
    if (this.behind(at) !== 'stale-suite-refused') return undefined
    const because = this.#parts.suites.refusal(at) ?? 'the one of the origin may not be adopted'
    return `clients get the Release file of before: ${because}`
  }

  /** An operator has removed these files: what is known of their suites is forgotten. */
  async removed(keys: readonly string[]): Promise<void> {
    for (const key of keys) {
      const at = suiteOfRelease(key)
      if (at !== undefined) this.#behind.delete(at)
    }
    await this.#parts.suites.removed(keys)
  }

  /** An operator wants origins to be asked: also those that are left alone for a moment after a failure. */
  askAgain(): void {
    for (const [at, behind] of this.#behind.entries()) this.#behind.set(at, { ...behind, until: 0 })
  }

  /**
   * Whether a file goes with a Release that the origin did not confirm when it was last asked. Then that the origin has no such
   * file is no answer.
   */
  isBehind(key: string): boolean {
    if (this.#behind.size === 0) return false
    return [...directoriesOf(key)].some(at => this.#behind.has(at))
  }

  /**
   * Asks the origin whether the stored Release file still holds, and updates the suite when it does not: once for all clients
   * that ask at the same time, and not again at once when it failed. The update goes on when a client has waited long enough.
   * Never rejects.
   */
  async check(wanted: Wanted, entry: Entry): Promise<RevalidationResult> {
    const { suites, clock, rules } = this.#parts
    const { timeouts, suites: settings } = rules().config
    const asking = timeouts.revalidation
    const at = parentOf(entry.key)
    const { because, until = 0 } = this.#behind.get(at) ?? {}
    if (because !== undefined && clock.elapsed() < until) return { use: 'stale', because }
    const running = this.#underWay.get(entry.key) ?? this.#begin(wanted, entry)
    const first = await inTime(running.done, clock, asking)
    if (first !== undefined) return first
    const late = running.changed
      ? await inTime(running.done, clock, Math.max(0, settings.update - asking))
      : undefined
    if (late !== undefined) return late
    const slow = running.changed ? 'stale-suite-incomplete' : 'stale-origin-slow'
    if (suites.governs(entry)) this.#behind.set(at, { because: slow, until: 0 })
    return { use: 'stale', because: slow }
  }

  /**
   * Asks the origin about the detached signature of an adopted Release file, together with that: either may have changed. Undefined
   * when the store has no such Release file.
   */
  async checkSignature(wanted: Wanted): Promise<RevalidationResult | undefined> {
    const { uri } = wanted
    const key = wanted.key.replace(/\.gpg$/, '')
    const path = uri.path.replace(/\.gpg$/, '')
    const stored = await this.#parts.store.get(key)
    if (stored === undefined || !this.governs(stored)) return undefined
    const release = { key, uri: { ...uri, path }, archive: classify(path), stored, insist: true }
    return this.check(release, stored)
  }

  #begin(wanted: Wanted, entry: Entry): UnderWay {
    const underWay: UnderWay = {
      changed: false,
      done: this.#update(wanted, entry, () => {
        underWay.changed = true
      })
        .catch((error: unknown): RevalidationResult => {
          this.#parts.log.warn('a suite could not be updated', { key: entry.key, error })
          return { use: 'stale', because: 'stale-suite-incomplete' }
        })
        .then(updated => this.#noted(entry, updated))
        .finally(() => this.#underWay.delete(entry.key)),
    }
    this.#underWay.set(entry.key, underWay)
    return underWay
  }

  #noted({ key }: Entry, updated: RevalidationResult): RevalidationResult {
    const at = parentOf(key)
    if (updated.use !== 'stale') this.#behind.delete(at)
    else {
      const pause = updated.because.startsWith('stale-suite') ? pauseAfterFailure : 0
      const until = this.#parts.clock.elapsed() + pause
      this.#behind.set(at, { because: updated.because, until })
    }
    return updated
  }

  async #update(wanted: Wanted, entry: Entry, onChanged: () => void): Promise<RevalidationResult> {
    const { fetcher, store } = this.#parts
    const at = parentOf(entry.key)
    const key = `${entry.key}${incoming}`
    const found = await fetcher.fetch({ ...wanted, key, stored: entry }).found
    if (found.kind !== 'filling') return this.#withSignature(wanted, unchanged(found))
    const settled = await found.filling.settled
    if (settled.kind === 'failed') return { use: 'stale', because: 'stale-origin-failed' }
    const same = settled.entry.digest === entry.digest
    if (settled.kind === 'passed' || !(await settled.kept)) {
      return same ? { use: 'store', because: 'validated', entry } : this.#unstorable(entry)
    }
    try {
      const come = { ...settled.entry, key: entry.key }
      if (same) return await this.#withSignature(wanted, this.#place(come, 'validated'))
      onChanged()
      const pair = entry.key.endsWith('/Release') ? await this.#signature(at, wanted) : {}
      const kept =
        pair === undefined
          ? 'stale-suite-incomplete'
          : await this.#prepared(settled.entry, entry, pair.signature)
      // Where the one before was not adopted, what it names is not kept with it either: clients could not use it.
      if (kept !== undefined && this.#isKept(entry)) return { use: 'stale', because: kept }
      if (pair?.signature !== undefined) store.put({ ...pair.signature, key: signatureKey(at) })
      return this.#place(come, 'changed')
    } finally {
      store.remove(key)
      store.remove(`${signatureKey(at)}${incoming}`)
    }
  }

  /**
   * What clients get when the new Release file cannot be stored, so that it cannot be checked nor its indexes be kept with it: the
   * new one and its indexes as they come, as without this mechanism. Where a signature is required they get the one before.
   */
  #unstorable(entry: Entry): RevalidationResult {
    const { rules, log } = this.#parts
    const policy = suitePolicy(parentOf(entry.key), rules().config)
    if (policy?.verify !== 'require' || !this.#isKept(entry)) return { use: 'again' }
    log.warn('a new Release file cannot be stored; clients get the one before', { key: entry.key })
    return { use: 'stale', because: 'stale-suite-incomplete' }
  }

  /** Whether a Release file is that of a generation: then what it names is kept for clients that get it. */
  #isKept(entry: Entry): boolean {
    return this.#parts.suites.generationOf(entry) !== undefined
  }

  #expired(entry: Entry): boolean {
    const { suites, clock } = this.#parts
    const { validUntil = Number.POSITIVE_INFINITY } = suites.generationOf(entry) ?? {}
    return validUntil < clock.now()
  }

  /**
   * An archive may sign a Release file anew without changing it: when the old signature expires, or with another key. The new
   * signature is taken when it may be adopted with this Release file, and not when it belongs to the next.
   */
  async #withSignature(wanted: Wanted, result: RevalidationResult): Promise<RevalidationResult> {
    if (result.use !== 'store' || !result.entry.key.endsWith('/Release')) return result
    const { suites, store } = this.#parts
    const { key, digest, size } = result.entry
    const at = parentOf(key)
    const before = suites.signatureOf(result.entry)
    if (before === undefined) return result
    try {
      const { signature } = (await this.#signature(at, wanted)) ?? {}
      if (signature === undefined) return result
      const signedBy = { digest: signature.digest, size: signature.size }
      const fits =
        signature.digest === before.digest ||
        (await suites.prepare(at, { name: 'Release', digest, size, signedBy })) !== undefined
      if (fits) store.put({ ...signature, key: signatureKey(at) })
      return result
    } finally {
      store.remove(`${signatureKey(at)}${incoming}`)
    }
  }

  /** The detached signature that the origin has now, if it has one; undefined when it does not say. */
  async #signature(
    at: string,
    { uri }: Wanted,
  ): Promise<{ readonly signature?: Entry } | undefined> {
    const { fetcher, store } = this.#parts
    const key = signatureKey(at)
    const [path, stored] = [`${uri.path}.gpg`, await store.get(key)]
    const wanted = { key: `${key}${incoming}`, uri: { ...uri, path }, stored, insist: true }
    const found = await fetcher.fetch({ ...wanted, archive: classify(path) }).found
    if (found.kind === 'answered') return isGone(found.status) ? {} : undefined
    const signature = await entryOf(found)
    return signature && { signature }
  }

  #place(entry: Entry, because: 'validated' | 'changed'): RevalidationResult {
    this.#parts.store.put(entry)
    return { use: 'store', because, entry }
  }

  /** Fetches what the new Release names. Why it must not take the old one's place; undefined when it may. */
  async #prepared(
    { digest, size }: Entry,
    entry: Entry,
    signedBy: Entry | undefined,
  ): Promise<StaleReason | undefined> {
    const { suites, log } = this.#parts
    const at = parentOf(entry.key)
    const name = entry.key.endsWith('/InRelease') ? 'InRelease' : 'Release'
    const missing = await suites.prepare(at, {
      ...{ name, digest, size },
      signedBy: signedBy && { digest: signedBy.digest, size: signedBy.size },
    })
    if (missing === undefined) return 'stale-suite-refused'
    const failed = await this.#fetchAll(at, missing)
    if (failed.length === 0) return undefined
    const expired = this.#expired(entry)
    log.warn('a new Release file names files that cannot be had; clients get the one before', {
      key: entry.key,
      missing: failed.map(({ path }) => path),
      ...(expired && { but: 'the one before has expired, so they get the new one' }),
    })
    return expired ? undefined : 'stale-suite-incomplete'
  }

  async #fetchAll(at: string, { files, byHash, optional }: Missing): Promise<readonly Listed[]> {
    const waiting = [...files]
    const failed: Listed[] = []
    const work = async (): Promise<void> => {
      for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
        let come = false
        for (const path of [...(byHash ? byHashPaths(next) : []), next.path]) {
          come ||= await this.#fetchOne(at, next, path)
        }
        if (!come && optional?.has(next.path) !== true) failed.push(next)
      }
    }
    await Promise.all(Array.from({ length: atOnce }, work))
    return failed
  }

  /** Whether the file has come and is kept under the name that its SHA-256 gives it. */
  async #fetchOne(at: string, listed: Listed, path: string): Promise<boolean> {
    const { fetcher, store } = this.#parts
    const { size, digest } = listed
    const [key, own] = [keyIn(at, path), keyIn(at, byHashPath(listed))]
    if (key === undefined || own === undefined) return false
    const uri = parseUri(key)
    if ('problem' in uri) return false
    const archive = classify(uri.path)
    const name = archive.digest?.hex ?? digest
    // The content must have the digest in its name. With a claim only its SHA-256 would be checked.
    const claim = name === digest ? { size, digest, suite: at } : undefined
    const staged = path === listed.path ? `${key}${incoming}` : key
    const wanted = { key: staged, uri, archive, claim, stored: undefined, insist: true }
    const entry = await entryOf(await fetcher.fetch(wanted).found)
    if (entry?.digest !== digest || entry.size !== size) return false
    const named = { ...entry, key: own, verified: { by: 'name' } } as const
    const kept = staged === own || store.put(named).stored
    if (staged !== key) store.remove(staged)
    return kept
  }
}

/** What a fetch has put into the store; undefined when it has not. */
async function entryOf(found: Found): Promise<Entry | undefined> {
  if (found.kind === 'validated') return found.entry
  const settled = found.kind === 'filling' ? await found.filling.settled : found
  return settled.kind === 'stored' && (await settled.kept) ? settled.entry : undefined
}

/** Ends the keys of files that wait to take the place of others; no target has such a key. */
const incoming = '#incoming'

/** The key of the detached signature of a suite. */
function signatureKey(at: string): string {
  return `${at}/Release.gpg`
}
