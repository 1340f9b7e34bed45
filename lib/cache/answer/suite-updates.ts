/**
 * Updates an adopted suite as a whole: a new Release file takes the place of the old one when all files clients use it names are in
 * the store. Until then clients get the old one, and what it names; but not for ever. Packages and Sources that most clients use hold
 * a Release file back for ten minutes at most, all other files for half of `suites.update`. Then it is given without them, and clients
 * get of them what the origin gives. Nothing holds it back when the origin has a file no more that the one before names and the store
 * lacks: then the one before is of no use to those who need that file.
 */
import type { Clock, Milliseconds } from '../../async/clock.ts'
import { resultInTime } from '../../async/deadline.ts'
import { parseUri } from '../../http/message/target.ts'
import type { Logger } from '../../log/log.ts'
import { classify, directoriesOf, parentOf, suiteOfRelease } from '../archive/path.ts'
import type { Fetcher } from '../fetch/fetch.ts'
import type { FetchOutcome, WantedFile } from '../fetch/found.ts'
import { isGone, type RevalidationResult, unchangedResult } from '../fetch/revalidation.ts'
import type { Rules } from '../policy/policy.ts'
import type { SuitePointer } from '../shared/shared-store.ts'
import type { Pointers } from '../shared/suites/pointers.ts'
import { sharedFile } from '../shared/suites/shared-file.ts'
import type { Entry } from '../store/entry.ts'
import type { Store } from '../store/store.ts'
import type { MissingFiles, ReleaseFacts } from '../suites/adopt.ts'
import {
  byHashPaths,
  keyIn,
  type ListedContent,
  releaseIn,
  releasesOf,
} from '../suites/generation.ts'
import type { Client } from '../suites/given-releases.ts'
import { suitePolicy } from '../suites/policy.ts'
import type { Claim, Suites } from '../suites/suites.ts'
import type { SuiteDelays } from './suite-delays.ts'
import {
  entryOf,
  incomingSuffix,
  type ListedFetch,
  SuiteFetches,
  SuiteSignatures,
  signatureKey,
} from './suite-fetches.ts'
import {
  firstPause,
  longestHold,
  type MissingFile,
  type ReleaseBehind,
  SuitesBehind,
} from './suites-behind.ts'
import { pathIn, pathOf, type Unavailable } from './unavailable-file.ts'

interface UpdatesParts {
  readonly rules: () => Rules
  readonly suites: Suites
  readonly delays: SuiteDelays
  readonly fetcher: Fetcher
  readonly store: Pick<Store, 'get' | 'put' | 'amend' | 'remove' | 'content'>
  readonly clock: Clock
  readonly log: Logger
  /** Which Release files the other nodes give; undefined where this machine shares nothing. */
  readonly pointers?: Pick<Pointers, 'announce' | 'noteUnfit'> | undefined
}

interface UnderWay {
  readonly done: Promise<RevalidationResult>
  /** By `elapsed`. */
  readonly begun: Milliseconds
  changed: boolean
  /** Has it wait for no file any more. */
  readonly hurry: AbortController
}

/** A new Release file, how long it has been held back, and how long a file may hold it back. */
interface Candidate {
  readonly at: string
  readonly release: Entry
  readonly begun: Milliseconds
  readonly heldFor: Milliseconds
  /** Fires when nothing is to be waited for any more. */
  readonly hurry: AbortSignal
}

/** A file that has not come, and for how long it may still hold its Release file back. */
interface Lacking extends MissingFile {
  readonly left: Milliseconds
}

interface UpdateOptions {
  readonly onChanged: () => void
  readonly hurry: AbortSignal
  /** What the other nodes give, when that is taken in place of what the origin has. */
  readonly pointer: SuitePointer | undefined
}

export class Updates {
  readonly #parts: UpdatesParts
  readonly #underWay = new Map<string, UnderWay>()
  /** Suites whose Release the origin did not confirm when it was last asked. */
  readonly #behind: SuitesBehind
  readonly #fetches: SuiteFetches
  readonly #signatures: SuiteSignatures

  constructor(parts: UpdatesParts) {
    this.#parts = parts
    const { clock, suites } = parts
    this.#behind = new SuitesBehind({
      clock,
      heldSince: at => suites.heldSince(at),
      noteHeld: (at, since) => suites.noteHeld(at, since),
    })
    this.#fetches = new SuiteFetches({ ...parts, behind: this.#behind })
    this.#signatures = new SuiteSignatures(parts)
  }

  /** Removes what a crash has left of updates. */
  removeLeftovers(): void {
    const { suites, store } = this.#parts
    for (const { at, generations } of suites.all) {
      const files = generations.flatMap(({ contents }) => contents.map(({ path }) => path))
      for (const path of new Set(['InRelease', 'Release', 'Release.gpg', ...files])) {
        const key = keyIn(at, path)
        if (key !== undefined) store.remove(`${key}${incomingSuffix}`)
      }
    }
  }

  /** Whether `check` answers for an entry: it is the Release file of an adopted suite, or one that a delay keeps. */
  governs(entry: Entry): boolean {
    const { suites, delays } = this.#parts
    return suites.governs(entry) || delays.isKept(entry)
  }

  /** Why clients get the Release of before, in the suite with this key; undefined when they get the origin's. */
  behind(at: string): ReleaseBehind | undefined {
    return this.#behind.of(at)
  }

  /** Why the Release file that the origin has now is not given to clients, in words; undefined when it is. */
  refusal(at: string): string | undefined {
    if (this.behind(at)?.because !== 'stale-suite-refused') return undefined
    const because = this.#parts.suites.refusal(at) ?? 'the one of the origin may not be adopted'
    return `clients get the Release file of before: ${because}`
  }

  /** An operator has removed these files: what is known of their suites is forgotten. */
  async removed(keys: readonly string[]): Promise<void> {
    for (const key of keys) {
      const at = suiteOfRelease(key)
      if (at !== undefined) this.#behind.forget(at)
    }
    await this.#parts.suites.removed(keys)
  }

  /** An operator wants origins to be asked: also those that are left alone for a moment after a failure. */
  askAgain(): void {
    this.#behind.endPauses()
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
  async check(wanted: WantedFile, entry: Entry): Promise<RevalidationResult> {
    const { suites, clock, rules } = this.#parts
    const { timeouts, suites: settings } = rules().config
    const asking = timeouts.revalidation
    const at = parentOf(entry.key)
    const paused = this.#behind.paused(at)
    if (paused !== undefined) return { use: 'stale', because: paused }
    const running = this.#underWay.get(entry.key) ?? this.#begin(wanted, entry)
    const first = await resultInTime(running.done, clock, asking)
    if (first !== undefined) return first
    const left = running.begun + settings.update - clock.elapsed()
    const late = running.changed
      ? await resultInTime(running.done, clock, Math.max(0, left))
      : undefined
    if (late !== undefined) return late
    const slow = running.changed ? 'stale-suite-incomplete' : 'stale-origin-slow'
    if (suites.governs(entry)) this.#behind.note(at, slow, 0)
    return { use: 'stale', because: slow }
  }

  /**
   * Updates the suite of this Release file for no client, and waits for the end of that. One that is under way is joined; an origin that
   * is left alone for a moment is not asked. Never rejects.
   */
  async refresh(entry: Entry): Promise<RevalidationResult> {
    const uri = parseUri(entry.key)
    const paused = this.#behind.paused(parentOf(entry.key))
    if ('problem' in uri || paused !== undefined) {
      return { use: 'stale', because: paused ?? 'stale-origin-failed' }
    }
    const { key } = entry
    const wanted = { key, uri, archive: classify(uri.path), stored: entry, insist: true }
    return (this.#underWay.get(key) ?? this.#begin(wanted, entry)).done
  }

  /**
   * Asks the origin about the detached signature of an adopted Release file, together with that: either may have changed. Undefined
   * when the store has no such Release file.
   */
  async checkSignature(wanted: WantedFile): Promise<RevalidationResult | undefined> {
    const { uri } = wanted
    const key = wanted.key.replace(/\.gpg$/, '')
    const path = uri.path.replace(/\.gpg$/, '')
    const stored = await this.#parts.store.get(key)
    if (stored === undefined || !this.governs(stored)) return undefined
    const release = { key, uri: { ...uri, path }, archive: classify(path), stored, insist: true }
    return this.check(release, stored)
  }

  /**
   * Whether the detached signature that the origin has is kept from this client: the Release file that goes out is that of before, which
   * was adopted without a signature, and the origin's belongs to another.
   */
  withholdsSignature(client: Client, key: string): boolean {
    if (!key.endsWith('/Release.gpg')) return false
    const at = parentOf(key)
    return this.#behind.has(at) && this.#parts.suites.lacksSignature(client, at)
  }

  /**
   * A file of this generation of a suite cannot be had: the origin has other content, or none. Asks the origin at once
   * whether it has a newer Release file, and has nothing hold that back, unless the origin may never have had the file. Whether
   * clients get a newer one now; undefined when the generation names no such file. Never rejects.
   */
  async outdated(
    used: Pick<Claim, 'suite' | 'generation'>,
    file: Unavailable,
  ): Promise<boolean | undefined> {
    const { clock, rules, suites } = this.#parts
    const { suite, generation } = used
    const entry = await this.#stored(used)
    const uri = entry && parseUri(entry.key)
    if (entry === undefined || uri === undefined || 'problem' in uri) return false
    if (releaseIn(generation, entry.digest) === undefined) return true
    const path = await pathOf(file, entry, this.#parts)
    if (path === undefined) return undefined
    const drops = (): boolean | undefined => this.#behind.drops(suite, path)
    const plain = file.hex === undefined
    const ends = !file.gone || (plain && (suites.hadFile(suite, path) || drops() === true))
    // The origin's newer Release file is known: it names the file as well, or the plain name is to be asked for.
    if (!ends && drops() !== undefined) return false
    const asks = ends ? this.#behind.noteOutdated(suite) : this.#behind.noteDoubt(suite)
    const underWay = this.#underWay.get(entry.key)
    if (asks && ends) underWay?.hurry.abort()
    const ask = async (): Promise<boolean> => {
      // What was asked before the file was found to be gone says nothing of now.
      if (underWay?.changed === false) await underWay.done
      const wanted = { key: entry.key, uri, archive: classify(uri.path), stored: entry }
      const said = asks
        ? await this.check({ ...wanted, insist: true }, entry)
        : await this.#underWay.get(entry.key)?.done
      if (said?.use === 'answer' && isGone(said.status)) await this.#askForOther(entry.key)
      const now = await this.#stored(used)
      if (now !== undefined && releaseIn(generation, now.digest) === undefined) return true
      // It is held back, and known now.
      return !ends && plain && drops() === true && (await this.outdated(used, file)) === true
    }
    return (await resultInTime(ask(), clock, rules().config.suites.update)) ?? false
  }

  /** Asks for Release when a suite has no InRelease any more, and the reverse: that is its newer Release file. */
  async #askForOther(key: string): Promise<void> {
    const { fetcher, store, delays } = this.#parts
    if (delays.withholds(key) !== undefined) return
    const name = key.endsWith('/InRelease') ? 'Release' : 'InRelease'
    const other = `${parentOf(key)}/${name}`
    const uri = parseUri(other)
    if ('problem' in uri) return
    const stored = await store.get(other)
    const wanted = { key: other, uri, archive: classify(uri.path), stored, insist: true }
    if (stored !== undefined) await this.check(wanted, stored)
    else await entryOf(await fetcher.fetch(wanted).found)
  }

  /** The Release file that is stored in the place of that of a generation, under its name or the other. */
  async #stored({
    suite,
    generation,
  }: Pick<Claim, 'suite' | 'generation'>): Promise<Entry | undefined> {
    const own = releasesOf(generation).map(({ name }) => name)
    for (const name of new Set([...own, 'InRelease', 'Release'])) {
      const entry = await this.#parts.store.get(`${suite}/${name}`)
      if (entry !== undefined) return entry
    }
    return undefined
  }

  /**
   * Fetches a file that the origin has no more under its own name by its digests, where the archive offers that. Whether the store
   * has it now. Never rejects.
   */
  async fetchByDigest(key: string, { suite, generation, ...claim }: Claim): Promise<boolean> {
    const { clock, rules } = this.#parts
    const path = pathIn(suite, key)
    if (path === undefined || !generation.byHash || claim.by !== undefined) return false
    const [digest] = byHashPaths({ path, ...claim })
    if (digest === undefined) return false
    const come = this.#fetches.fetchOne(suite, { path, ...claim }, digest)
    return (
      (await resultInTime(
        come.then(why => why === undefined),
        clock,
        rules().config.suites.update,
      )) ?? false
    )
  }

  /**
   * Takes what the other nodes give in place of this Release file, in which no origin is asked for that itself; once an update that is under
   * way has ended. `again`: the bucket lacks it. Never rejects.
   */
  async take(pointer: SuitePointer, entry: Entry): Promise<RevalidationResult> {
    const file = sharedFile(pointer, entry.key)
    const running = this.#underWay.get(entry.key)
    if (running !== undefined || file === undefined) {
      await running?.done
      return { use: 'again' }
    }
    return this.#begin(file, entry, pointer).done
  }

  /** Asks the origin, or takes what a pointer names. */
  #begin(wanted: WantedFile, entry: Entry, pointer?: SuitePointer): UnderWay {
    const hurry = new AbortController()
    const underWay: UnderWay = {
      changed: false,
      hurry,
      begun: this.#parts.clock.elapsed(),
      done: this.#update(wanted, entry, {
        hurry: hurry.signal,
        pointer,
        onChanged: () => {
          underWay.changed = true
        },
      })
        .catch((error: unknown): RevalidationResult => {
          this.#parts.log.warn('a suite could not be updated', { key: entry.key, error })
          return { use: 'stale', because: 'stale-suite-incomplete' }
        })
        .then(updated => {
          // That the bucket lacks something says nothing of the origin.
          const ofBucket = pointer !== undefined && updated.use !== 'store'
          return ofBucket ? updated : this.#noted(entry, updated)
        })
        .finally(() => this.#underWay.delete(entry.key)),
    }
    this.#underWay.set(entry.key, underWay)
    return underWay
  }

  #noted({ key }: Entry, updated: RevalidationResult): RevalidationResult {
    const at = parentOf(key)
    if (updated.use === 'store') {
      this.#behind.caughtUp(at, updated.because === 'changed' ? 'updated' : 'confirmed')
    } else if (updated.use !== 'stale') this.#behind.caughtUp(at, 'updated')
    else if (this.#behind.paused(at) === undefined) {
      const { because } = updated
      this.#behind.note(at, because, because.startsWith('stale-suite') ? firstPause : 0)
    }
    return updated
  }

  async #update(
    wanted: WantedFile,
    entry: Entry,
    { onChanged, hurry, pointer }: UpdateOptions,
  ): Promise<RevalidationResult> {
    const { fetcher, store, clock, delays, pointers } = this.#parts
    const at = parentOf(entry.key)
    const key = `${entry.key}${incomingSuffix}`
    const delayed = delays.restraint(at) !== undefined
    const newest = delayed ? await delays.newest(at, entry) : entry
    const asked = pointer ? wanted : { ...wanted, stored: newest }
    let found = await fetcher.fetch({ ...asked, key }).found
    if (pointer !== undefined && found.kind !== 'filling') return { use: 'again' }
    if (newest !== entry || (delayed && found.kind === 'answered')) {
      if (found.kind !== 'filling') return this.#asBefore(entry, found)
    } else if (found.kind === 'validated') {
      if (await this.#signatures.fits(wanted, found.entry)) return unchangedResult(found)
      // The file may have been replaced by one with an older date, of which an origin without ETag says 304 for ever.
      found = await fetcher.fetch({ ...wanted, key, stored: undefined, insist: true }).found
    }
    if (found.kind !== 'filling') return unchangedResult(found)
    const settled = await found.filling.settled
    if (settled.kind === 'failed') {
      return pointer ? { use: 'again' } : { use: 'stale', because: 'stale-origin-failed' }
    }
    const same = settled.entry.digest === entry.digest
    if (newest !== entry && settled.entry.digest === newest.digest) {
      store.remove(key)
      return this.#asBefore(entry, { kind: 'validated', entry: newest })
    }
    if (settled.kind === 'passed' || !(await settled.kept)) {
      return same ? { use: 'store', because: 'validated', entry } : this.#unstorable(entry)
    }
    try {
      const come = { ...settled.entry, key: entry.key }
      if (same) {
        await this.#signatures.fits(wanted, come)
        return this.#place(come, 'validated')
      }
      onChanged()
      const { digest } = settled.entry
      const heldFor = this.#behind.heldFor(at, digest)
      const candidate = { at, release: settled.entry, begun: clock.elapsed(), heldFor, hurry }
      const detached = entry.key.endsWith('/Release')
      const pair = detached ? await this.#signatures.now(at, wanted, pointer) : {}
      const signature = pair?.signature
      const kept =
        pair === undefined && heldFor < longestHold
          ? this.#heldBack(candidate, [{ ...unknownSignature, left: longestHold - heldFor }])
          : await this.#prepared(candidate, entry, signature)
      if (delayed) {
        if ('use' in kept) return kept
        return await this.#waits(entry, { release: come, signature }, kept.facts)
      }
      const facts = 'use' in kept ? undefined : kept.facts
      if (pointer !== undefined) {
        if ('use' in kept && !isRefused(kept)) return kept
        if (facts?.date !== pointer.date) pointers?.noteUnfit(at, pointer)
        if (facts === undefined) return { use: 'stale', because: 'stale-suite-refused' }
      }
      // Where the one before was not adopted, what it names is not kept with it either: clients could not use it.
      if ('use' in kept && this.#isKept(entry)) return kept
      const signed = signature && { ...signature, key: signatureKey(at) }
      if (facts !== undefined && pointer === undefined) {
        await pointers?.announce(at, signed === undefined ? [come] : [come, signed], facts.date)
      }
      if (signed !== undefined) store.put(signed)
      return this.#place(come, 'changed')
    } finally {
      store.remove(key)
      store.remove(`${signatureKey(at)}${incomingSuffix}`)
    }
  }

  /** The origin has no newer Release file than the one that waits: clients get what is theirs. An archive that is gone is gone. */
  async #asBefore(
    entry: Entry,
    found: Exclude<FetchOutcome, { kind: 'filling' }>,
  ): Promise<RevalidationResult> {
    const result = unchangedResult(found)
    if (result.use === 'store') return this.#delayed(entry)
    if (result.use === 'answer' && isGone(result.status)) {
      this.#parts.store.remove(entry.key)
      await this.removed([entry.key])
    }
    return result
  }

  /** A new generation waits until its time has come, which may be now. */
  async #waits(
    entry: Entry,
    arrived: { readonly release: Entry; readonly signature: Entry | undefined },
    facts: ReleaseFacts | undefined,
  ): Promise<RevalidationResult> {
    // One that may not be adopted is not given before its time, even if the one before has expired.
    if (facts === undefined) return { use: 'stale', because: 'stale-suite-refused' }
    await this.#parts.delays.wait(parentOf(entry.key), arrived, facts)
    return this.#delayed(entry)
  }

  /** The Release file that clients get now. The origin was asked, so it need not be asked again at once. */
  async #delayed(entry: Entry): Promise<RevalidationResult> {
    const { delays, store, clock } = this.#parts
    await delays.settle(entry.key)
    const now = await store.get(entry.key)
    if (now === undefined) return { use: 'again' }
    const confirmed = { ...now, validated: clock.now(), initialAge: 0 }
    store.amend(confirmed)
    const newer = now.digest === entry.digest ? 'validated' : 'changed'
    const because = delays.reason(entry.key) ?? newer
    return { use: 'store', because, entry: confirmed }
  }

  /**
   * What clients get when the new Release file cannot be stored, so that it cannot be checked nor its indexes be kept with it: the
   * new one and its indexes as they come, as without this mechanism. Where a signature is required they get the one before.
   */
  #unstorable(entry: Entry): RevalidationResult {
    const { rules, log } = this.#parts
    const at = parentOf(entry.key)
    const policy = suitePolicy(at, rules().config)
    const needed = policy?.verify === 'require' || this.#parts.delays.restraint(at) !== undefined
    if (!needed || !this.#isKept(entry)) return { use: 'again' }
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

  #place(entry: Entry, because: 'validated' | 'changed'): RevalidationResult {
    this.#parts.store.put(entry)
    return { use: 'store', because, entry }
  }

  /** Fetches what the new Release names. What clients get instead of it, or what it says when it may take the old one's place. */
  async #prepared(
    candidate: Candidate,
    entry: Entry,
    signedBy: Entry | undefined,
  ): Promise<RevalidationResult | Pick<MissingFiles, 'facts'>> {
    const { suites, log } = this.#parts
    const { at } = candidate
    const { digest, size } = candidate.release
    const name = entry.key.endsWith('/InRelease') ? 'InRelease' : 'Release'
    const missing = await suites.prepare(at, {
      name,
      digest,
      size,
      signedBy: signedBy && { digest: signedBy.digest, size: signedBy.size },
    })
    if (missing === undefined) return { use: 'stale', because: 'stale-suite-refused' }
    if (missing.dropped !== undefined) this.#behind.noteDropped(at, missing.dropped)
    const lacking = await this.#fetchAll(candidate, missing)
    if (lacking.length === 0) return missing
    const expired = this.#expired(entry)
    if (!expired && lacking.some(({ left }) => left > 0)) return this.#heldBack(candidate, lacking)
    log.warn('a new Release file names files that cannot be had; clients get it without them', {
      key: entry.key,
      missing: lacking.map(({ path, because }) => `${path}: ${because}`),
      ...(expired && { because: 'the one before has expired' }),
    })
    return missing
  }

  /** Clients get the Release file of before, for the sake of these files. */
  #heldBack({ at }: Candidate, lacking: readonly Lacking[]): RevalidationResult {
    const holding = lacking.filter(({ left }) => left > 0)
    this.#behind.holdBack(at, holding, Math.max(...holding.map(({ left }) => left)))
    this.#parts.log.warn(
      'a new Release file names files that cannot be had; clients get the one before',
      { suite: at, missing: holding.map(({ path, because }) => `${path}: ${because}`) },
    )
    return { use: 'stale', because: 'stale-suite-incomplete' }
  }

  /** Fetches files of a new generation. Those that have not come in time, without those that no client may use. */
  async #fetchAll(candidate: Candidate, missing: MissingFiles): Promise<readonly Lacking[]> {
    const { at, begun, heldFor, hurry } = candidate
    const { clock, rules } = this.#parts
    const { update } = rules().config.suites
    const { files, byHash, optional, secondary } = missing
    const holdOf = ({ path }: ListedContent): Milliseconds =>
      secondary?.has(path) || optional?.has(path) ? update / 2 : longestHold
    const waiting = [...files].sort((a, b) => holdOf(b) - holdOf(a))
    const main = waiting.filter(one => holdOf(one) === longestHold)
    this.#behind.waitFor(
      at,
      main.map(({ path }) => ({ path, because: 'it has not come yet' })),
    )
    const fetches = this.#fetches.begin(at, waiting, byHash)
    const lacking: Lacking[] = []
    const hurried = new Promise<string>(resolve => {
      hurry.addEventListener('abort', () => resolve(late), { once: true })
    })
    const judge = async ({ listed, come }: ListedFetch): Promise<void> => {
      const hold = holdOf(listed)
      // Those that most clients use get some time in any case: the hold may have begun long before this question. A client waits for
      // `update` at most, and should get the new one then.
      const least = hold === longestHold ? update / 2 : 0
      const wait = Math.max(0, begun + Math.max(least, hold - heldFor) - clock.elapsed())
      const because = hurry.aborted
        ? late
        : await resultInTime(Promise.race([come, hurried]), clock, wait)
      if (because === '' || optional?.has(listed.path)) return
      const left = hurry.aborted ? 0 : hold - heldFor - (clock.elapsed() - begun)
      lacking.push({ path: listed.path, because: because ?? late, left })
    }
    await Promise.all(fetches.map(judge))
    return lacking
  }
}

function isRefused(result: RevalidationResult): boolean {
  return result.use === 'stale' && result.because === 'stale-suite-refused'
}

const late = 'it has not come in time'
const unknownSignature = {
  path: 'Release.gpg',
  because: 'the origin does not say whether there is one',
}
