/**
 * Updates an adopted suite as a whole. A new Release file replaces the old one when the store has all of its files that clients use.
 * Until then clients get the old one and its files, for a limited time. Packages and Sources that most clients use hold a Release file
 * back for ten minutes at most, all other files for half of `suites.update`. Then clients get the new one without them, and the missing
 * files from the origin. A new Release file is not held back when the origin has lost a file of the old one that the store lacks,
 * because the old one is useless to clients that need this file.
 */
import type { Clock, Milliseconds } from '../../async/clock.ts'
import { resultInTime } from '../../async/deadline.ts'
import type { Logger } from '../../log/log.ts'
import { directoriesOf, parentOf, suiteOfRelease } from '../archive/path.ts'
import type { SuitePointer } from '../features/shared/shared-store.ts'
import type { Pointers } from '../features/shared/suites/pointers.ts'
import { sharedFile } from '../features/shared/suites/shared-file.ts'
import type { Fetcher } from '../fetch/fetch.ts'
import type { FetchOutcome } from '../fetch/fetch-outcome.ts'
import { isGone, type RevalidationResult, unchangedResult } from '../fetch/revalidation.ts'
import { fileUnder, type WantedFile } from '../fetch/wanted-file.ts'
import type { Rules } from '../policy/policy.ts'
import type { StaleReason } from '../rfc9111/outcome.ts'
import type { Entry } from '../store/entry.ts'
import type { Store } from '../store/store.ts'
import type { MissingFiles } from '../suites/adopt.ts'
import type { Claim } from '../suites/generation.ts'
import {
  byHashPaths,
  keyIn,
  type ListedContent,
  releaseIn,
  releasesOf,
} from '../suites/generation.ts'
import type { Client } from '../suites/given-releases.ts'
import { suitePolicy } from '../suites/policy.ts'
import type { Suites } from '../suites/suites.ts'
import type { SuiteDelays } from './suite-delays.ts'
import {
  entryOf,
  incomingSuffix,
  type ListedFetch,
  pathInSuite,
  pathOf,
  releaseFile,
  SuiteFetches,
  signatureKey,
  type UnavailableFile,
} from './suite-fetches.ts'
import {
  firstPause,
  longestHold,
  type MissingFile,
  type ReleaseBehind,
  SuitesBehind,
} from './suites-behind.ts'

interface UpdatesParts {
  readonly rules: () => Rules
  readonly suites: Suites
  readonly delays: SuiteDelays
  readonly fetcher: Fetcher
  readonly store: Pick<Store, 'get' | 'put' | 'amend' | 'remove' | 'content'>
  readonly clock: Clock
  readonly log: Logger
  /** The pointers to the Release files that the nodes of a shared store give; undefined without a shared store. */
  readonly pointers?: Pick<Pointers, 'announce' | 'noteUnfit'> | undefined
}

/** An update that is under way. */
interface Update {
  /** The moment at which it began, by `elapsed`. */
  readonly begun: Milliseconds
  /** Whether the origin has turned out to have another Release file. */
  changed: boolean
  /** Makes the update wait for no more files. */
  readonly hurry: AbortController
  /** The Release file of the other nodes, when the update takes that one; undefined when it asks the origin. */
  readonly pointer: SuitePointer | undefined
  readonly done: Promise<RevalidationResult>
}

/** A new Release file that is to replace the old one, and the time for which it has been held back. */
interface Candidate {
  readonly at: string
  readonly release: Entry
  readonly begun: Milliseconds
  readonly heldFor: Milliseconds
  readonly hurry: AbortSignal
}

/** A file that has not arrived, and the time for which it may still hold its Release file back. */
interface Lacking extends MissingFile {
  readonly left: Milliseconds
}

export class Updates {
  readonly #parts: UpdatesParts
  readonly #underWay = new Map<string, Update>()
  readonly #behind: SuitesBehind
  readonly #fetches: SuiteFetches

  constructor(parts: UpdatesParts) {
    this.#parts = parts
    this.#behind = new SuitesBehind(parts)
    this.#fetches = new SuiteFetches(parts)
  }

  /** Removes the incoming files that a crash has left. */
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

  /** Whether `check` is for an entry: the Release file of an adopted suite, or of a suite with a delay. */
  governs(entry: Entry): boolean {
    const { suites, delays } = this.#parts
    return suites.governs(entry) || delays.isKept(entry)
  }

  /** The reason why clients get the stored Release file, during a pause in which the origin is not asked; else undefined. */
  paused({ key }: Entry): StaleReason | undefined {
    return this.#behind.paused(parentOf(key))
  }

  /** The reason why clients of a suite get an earlier Release file; undefined when they get the origin's. */
  behind(at: string): ReleaseBehind | undefined {
    return this.#behind.of(at)
  }

  /** A sentence that says why the Release file of the origin was refused; undefined when it was not. */
  refusal(at: string): string | undefined {
    if (this.behind(at)?.because !== 'stale-suite-refused') return undefined
    const because =
      this.#parts.suites.adoptions.refusal(at) ?? 'the one of the origin may not be adopted'
    return `clients get the earlier Release file: ${because}`
  }

  /** Forgets the state of the suites whose files an operator has removed. */
  async removed(keys: readonly string[]): Promise<void> {
    for (const key of keys) {
      const at = suiteOfRelease(key)
      if (at !== undefined) this.#behind.forget(at)
    }
    await this.#parts.suites.removed(keys)
  }

  /** Ends the pauses after failures, because an operator wants origins to be asked. */
  askAgain(): void {
    this.#behind.endPauses()
  }

  /**
   * Whether a file belongs to a suite whose clients get another Release file than the origin has. Then a 404 of the origin for the file
   * is no answer.
   */
  isBehind(key: string): boolean {
    return [...directoriesOf(key)].some(at => this.#behind.has(at))
  }

  /**
   * Asks the origin whether the stored Release file is still the newest, and updates the suite when it is not. Clients that ask at the
   * same time share one update. After a failure there is a pause before the next. An update continues after its client has stopped
   * waiting. Never rejects.
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
    const { begun, changed } = running
    const left = begun + settings.update - clock.elapsed()
    const late = changed ? await resultInTime(running.done, clock, Math.max(0, left)) : undefined
    if (late !== undefined) return late
    const slow = changed ? 'stale-suite-incomplete' : 'stale-origin-slow'
    if (suites.governs(entry)) this.#behind.note(at, slow, 0)
    return { use: 'stale', because: slow }
  }

  /**
   * Updates the suite of this Release file in the background, and waits for the end. It joins an update that is under way. It does not ask
   * an origin during a pause. Never rejects.
   */
  async refresh(entry: Entry): Promise<RevalidationResult> {
    const wanted = questionAbout(entry)
    const paused = this.#behind.paused(parentOf(entry.key))
    if (wanted === undefined || paused !== undefined) {
      return { use: 'stale', because: paused ?? 'stale-origin-failed' }
    }
    return (this.#underWay.get(entry.key) ?? this.#begin(wanted, entry)).done
  }

  /**
   * Asks the origin about the detached signature of an adopted Release file and about the Release file, because either may have changed.
   * Undefined when the store has no such Release file.
   */
  async checkSignature(key: string): Promise<RevalidationResult | undefined> {
    const stored = await this.#parts.store.get(key.replace(/\.gpg$/, ''))
    const wanted = stored && this.governs(stored) ? questionAbout(stored) : undefined
    return stored && wanted && this.check(wanted, stored)
  }

  /**
   * Whether this client must not get the origin's detached signature. That is so when clients get an earlier Release file, which was
   * adopted without a signature, and the origin's signature belongs to another one.
   */
  withholdsSignature(client: Client, key: string): boolean {
    if (!key.endsWith('/Release.gpg')) return false
    const at = parentOf(key)
    return this.#behind.has(at) && this.#parts.suites.lacksSignature(client, at)
  }

  /**
   * Handles a file of a generation that the origin does not have any more, or has with other content. It asks the origin at once for a
   * newer Release file, which is then not held back, unless the origin may never have had the file. Resolves to whether clients get a
   * newer Release file now; undefined when the generation names no such file. Never rejects.
   */
  async outdated(
    used: Pick<Claim, 'suite' | 'generation'>,
    file: UnavailableFile,
  ): Promise<boolean | undefined> {
    const { clock, rules, suites } = this.#parts
    const { suite, generation } = used
    const entry = await this.#stored(used)
    const wanted = entry && questionAbout(entry)
    if (entry === undefined || wanted === undefined) return false
    if (releaseIn(generation, entry.digest) === undefined) return true
    const path = await pathOf(file, entry, this.#parts)
    if (path === undefined) return undefined
    const drops = (): boolean | undefined => this.#behind.drops(suite, path)
    const plain = file.hex === undefined
    const ends = !file.gone || (plain && (suites.hadFile(suite, path) || drops() === true))
    // The origin's newer Release file is known already: it names the file too, or the client has to ask for the plain name.
    if (!ends && drops() !== undefined) return false
    const asks = ends ? this.#behind.noteOutdated(suite) : this.#behind.noteDoubt(suite)
    const underWay = this.#underWay.get(entry.key)
    if (asks && ends) underWay?.hurry.abort()
    const ask = async (): Promise<boolean> => {
      // An update that began before the file was found to be gone may not have seen the newer Release file.
      if (underWay?.changed === false) await underWay.done
      const said = asks
        ? await this.check(wanted, entry)
        : await this.#underWay.get(entry.key)?.done
      if (said?.use === 'answer' && isGone(said.status)) await this.#askForOther(entry.key)
      const now = await this.#stored(used)
      if (now !== undefined && releaseIn(generation, now.digest) === undefined) return true
      // The newer Release file is known now, and is held back.
      return !ends && plain && drops() === true && (await this.outdated(used, file)) === true
    }
    return (await resultInTime(ask(), clock, rules().config.suites.update)) ?? false
  }

  /** Asks for Release when a suite has lost its InRelease, and the reverse. The other form is then its newer Release file. */
  async #askForOther(key: string): Promise<void> {
    const { fetcher, store, delays } = this.#parts
    if (delays.withholds(key) !== undefined) return
    const name = key.endsWith('/InRelease') ? 'Release' : 'InRelease'
    const file = fileUnder(`${parentOf(key)}/${name}`)
    if (file === undefined) return
    const stored = await store.get(file.key)
    const wanted = { ...file, stored, insist: true }
    if (stored !== undefined) await this.check(wanted, stored)
    else await entryOf(await fetcher.fetch(wanted).found)
  }

  /** The Release file that the store has now for the suite of a generation, under the same name or the other. */
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
   * Fetches a file by its digest that the origin does not have under its own name any more, where the archive offers that. Resolves to
   * whether the file has arrived. Never rejects.
   */
  async fetchByDigest(key: string, { suite, generation, ...claim }: Claim): Promise<boolean> {
    const { clock, rules } = this.#parts
    const path = pathInSuite(suite, key)
    if (path === undefined || !generation.byHash || claim.by !== undefined) return false
    const [digest] = byHashPaths({ path, ...claim })
    if (digest === undefined) return false
    const come = this.#fetches.fetchOne(suite, { path, ...claim }, digest)
    return (await resultInTime(come, clock, rules().config.suites.update)) === ''
  }

  /**
   * Replaces this Release file by the one that the other nodes give, from the bucket and not from an origin. While another update is under
   * way, it waits for the end of that and resolves to `again`. It also resolves to `again` when the bucket lacks the file. Never rejects.
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

  /** Begins an update: from the origin, or from the files that a pointer names. */
  #begin(wanted: WantedFile, entry: Entry, pointer?: SuitePointer): Update {
    const begun = this.#parts.clock.elapsed()
    const update = { begun, changed: false, hurry: new AbortController(), pointer }
    const underWay = Object.assign(update, {
      done: this.#update(wanted, entry, update)
        .catch((error: unknown): RevalidationResult => {
          this.#parts.log.warn('a suite could not be updated', { key: entry.key, error })
          return { use: 'stale', because: 'stale-suite-incomplete' }
        })
        .then(updated => {
          // A file that the bucket lacks says nothing about the origin.
          const ofBucket = pointer !== undefined && updated.use !== 'store'
          return ofBucket ? updated : this.#noted(entry, updated)
        })
        .finally(() => this.#underWay.delete(entry.key)),
    })
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
    update: Omit<Update, 'done'>,
  ): Promise<RevalidationResult> {
    const { fetcher, store, clock, delays, pointers } = this.#parts
    const { pointer } = update
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
      if (await this.#fetches.signatureFits(found.entry)) return unchangedResult(found)
      // The file may have been replaced by one with an older date, for which an origin without ETag always answers 304.
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
        await this.#fetches.signatureFits(come)
        return this.#place(come, 'validated')
      }
      update.changed = true
      const heldFor = this.#behind.heldFor(at, come.digest)
      const hurry = update.hurry.signal
      const candidate = { at, release: come, begun: clock.elapsed(), heldFor, hurry }
      const detached = entry.key.endsWith('/Release')
      const pair = detached ? await this.#fetches.signatureNow(at, pointer) : {}
      const signature = pair?.signature
      const kept =
        pair === undefined && heldFor < longestHold
          ? this.#heldBack(candidate, [{ ...unknownSignature, left: longestHold - heldFor }])
          : await this.#prepared(candidate, entry, signature)
      if (delayed) {
        if ('use' in kept) return kept
        // A Release file that may not be adopted cannot wait, so clients keep the earlier one, even if that has expired.
        if (kept.facts === undefined) return { use: 'stale', because: 'stale-suite-refused' }
        await delays.wait(at, { release: come, signature }, kept.facts)
        return await this.#delayed(entry)
      }
      const facts = 'use' in kept ? undefined : kept.facts
      if (pointer !== undefined) {
        if ('use' in kept && !isRefused(kept)) return kept
        if (facts?.date !== pointer.date) pointers?.noteUnfit(at, pointer)
        if (facts === undefined) return { use: 'stale', because: 'stale-suite-refused' }
      }
      // If the earlier Release file was not adopted, its files are not kept, so clients could not use it.
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

  /** The result when the origin has no newer Release file than the waiting one. A suite that the origin has removed is removed here too. */
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

  /** The result with the Release file that clients get now. It counts as confirmed, because the origin was asked. */
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
   * The result when a new Release file cannot be stored, so that it can neither be checked nor be updated as a whole. Clients get the new
   * one and its indexes as the origin sends them. If a signature is required or the suite has a delay, they get the earlier one.
   */
  #unstorable(entry: Entry): RevalidationResult {
    const { rules, log } = this.#parts
    const at = parentOf(entry.key)
    const policy = suitePolicy(at, rules().config)
    const needed = policy?.verify === 'require' || this.#parts.delays.restraint(at) !== undefined
    if (!needed || !this.#isKept(entry)) return { use: 'again' }
    log.warn('a new Release file cannot be stored; clients get the earlier one', { key: entry.key })
    return { use: 'stale', because: 'stale-suite-incomplete' }
  }

  /** Whether a Release file belongs to a generation, whose files are kept for clients. */
  #isKept(entry: Entry): boolean {
    return this.#parts.suites.generationOf(entry) !== undefined
  }

  #place(entry: Entry, because: 'validated' | 'changed'): RevalidationResult {
    this.#parts.store.put(entry)
    return { use: 'store', because, entry }
  }

  /** Fetches the files of a new Release file. Resolves to its facts when it may replace the old one, else to the result for clients. */
  async #prepared(
    candidate: Candidate,
    entry: Entry,
    signedBy: Entry | undefined,
  ): Promise<RevalidationResult | Pick<MissingFiles, 'facts'>> {
    const { suites, clock, log } = this.#parts
    const missing = await suites.adoptions.prepare(
      candidate.at,
      releaseFile(candidate.release, signedBy),
    )
    if (missing === undefined) return { use: 'stale', because: 'stale-suite-refused' }
    const lacking = await this.#fetchAll(candidate, missing)
    if (lacking.length === 0) return missing
    const { validUntil = Number.POSITIVE_INFINITY } = suites.generationOf(entry) ?? {}
    const expired = validUntil < clock.now()
    if (!expired && lacking.some(({ left }) => left > 0)) return this.#heldBack(candidate, lacking)
    log.warn('a new Release file names files that cannot be had; clients get it without them', {
      key: entry.key,
      missing: lacking.map(({ path, because }) => `${path}: ${because}`),
      ...(expired && { because: 'the earlier one has expired' }),
    })
    return missing
  }

  /** The result when these files hold a new Release file back. */
  #heldBack({ at }: Candidate, lacking: readonly Lacking[]): RevalidationResult {
    const holding = lacking.filter(({ left }) => left > 0)
    this.#behind.holdBack(at, holding, Math.max(...holding.map(({ left }) => left)))
    this.#parts.log.warn(
      'a new Release file names files that cannot be had; clients get the earlier one',
      { suite: at, missing: holding.map(({ path, because }) => `${path}: ${because}`) },
    )
    return { use: 'stale', because: 'stale-suite-incomplete' }
  }

  /** Fetches files of a new generation. Resolves to those that have not arrived in time, except optional ones. */
  async #fetchAll(candidate: Candidate, missing: MissingFiles): Promise<readonly Lacking[]> {
    const { at, release, begun, heldFor, hurry } = candidate
    const { clock, rules } = this.#parts
    const { update } = rules().config.suites
    const { files, byHash, optional, secondary, dropped } = missing
    const holdOf = ({ path }: ListedContent): Milliseconds =>
      secondary?.has(path) || optional?.has(path) ? update / 2 : longestHold
    const waiting = [...files].sort((a, b) => holdOf(b) - holdOf(a))
    const main = waiting.filter(one => holdOf(one) === longestHold)
    this.#behind.waitFor(
      at,
      main.map(({ path }) => ({ path, because: 'it has not come yet' })),
      dropped,
    )
    const fetches = this.#fetches.begin(release.key, waiting, byHash)
    const lacking: Lacking[] = []
    const hurried = new Promise<string>(resolve => {
      hurry.addEventListener('abort', () => resolve(late), { once: true })
    })
    const judge = async ({ listed, come }: ListedFetch): Promise<void> => {
      const hold = holdOf(listed)
      // Files that most clients use get some time even when the hold began long ago. A client waits for `update` at most, and should get the
      // new Release file within that time.
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

/** The question about a stored Release file; undefined when its key is no URL. */
function questionAbout(entry: Entry): WantedFile | undefined {
  const file = fileUnder(entry.key)
  return file && { ...file, stored: entry, insist: true }
}

function isRefused(result: RevalidationResult): boolean {
  return result.use === 'stale' && result.because === 'stale-suite-refused'
}

const late = 'it has not come in time'
const unknownSignature = {
  path: 'Release.gpg',
  because: 'the origin does not say whether there is one',
}
