/**
 * Updates an adopted suite as a whole. A new Release file replaces the old one when the store has all of its files that clients use.
 * Until then clients get the old one and its files, for a limited time. Packages and Sources that most clients use hold a Release file
 * back for ten minutes at most, all other files for half of `suites.update`. Then clients get the new one without them, and the missing
 * files from the origin. A new Release file is not held back when the origin has lost a file of the old one that the store lacks,
 * because the old one is useless to clients that need this file.
 *
 * A suite has one update at a time. Some clients ask for InRelease and others for Release, so an update has both forms: the origin is
 * asked for one after the other, and a failure with one counts for both.
 */
import type { Clock, Milliseconds } from '../../../async/clock.ts'
import { resultInTime } from '../../../async/deadline.ts'
import type { Logger } from '../../../log/log.ts'
import { directoriesOf, parentOf, suiteOfRelease } from '../../archive/path.ts'
import type { Fetcher } from '../../fetch/fetch.ts'
import type { FetchOutcome } from '../../fetch/fetch-outcome.ts'
import { isGone, type RevalidationResult, unchangedResult } from '../../fetch/revalidation.ts'
import { fileUnder, type WantedFile } from '../../fetch/wanted-file.ts'
import type { Rules } from '../../policy/policy.ts'
import type { StaleReason } from '../../rfc9111/outcome.ts'
import type { Entry } from '../../store/entry.ts'
import type { Store } from '../../store/store.ts'
import type { MissingFiles } from '../adopt.ts'
import {
  byHashPaths,
  type Claim,
  keyIn,
  type ListedContent,
  releaseFile,
  releaseIn,
  releasesOf,
} from '../generation.ts'
import type { Client } from '../given-releases.ts'
import { suitePolicy } from '../policy.ts'
import { longestHold, type MissingFile, type Suite } from '../suite.ts'
import type { Suites } from '../suites.ts'
import {
  entryOf,
  incomingSuffix,
  type ListedFetch,
  pathInSuite,
  pathOf,
  SuiteFetches,
  signatureKey,
  type UnavailableFile,
} from './listed-fetches.ts'
import type { GenerationChoice, OfferedRelease, OtherNodes } from './places.ts'
import { noteResult, staleReasons } from './update-result.ts'

interface UpdatesParts {
  readonly rules: () => Rules
  readonly suites: Suites
  readonly choice: GenerationChoice
  readonly fetcher: Fetcher
  readonly store: Pick<Store, 'get' | 'put' | 'amend' | 'remove' | 'content'>
  readonly clock: Clock
  readonly log: Logger
  /** The nodes that give the same Release files; undefined when there are none. */
  readonly others: OtherNodes | undefined
}

/** The state of a suite whose clients get another Release file than the origin has. */
export interface ReleaseBehind {
  readonly because: StaleReason
  /** The time for which that has been so. */
  readonly lasts: Milliseconds
  readonly missing: readonly MissingFile[]
}

/** One form of a Release file in an update: InRelease, or Release with its signature. */
interface FormUpdate {
  /** The moment at which a client or the schedule wanted it, by `elapsed`. */
  readonly begun: Milliseconds
  /** Whether the origin has turned out to have another Release file. */
  changed: boolean
  /** Makes the update wait for no further files. */
  readonly hurry: AbortController
  /** The Release file of the other nodes, when the update takes that one; undefined when it asks the origin. */
  readonly offered: OfferedRelease | undefined
  /** Settles when the origin has answered or failed, whatever becomes of the answer. */
  readonly answered: Promise<unknown>
  readonly done: Promise<RevalidationResult>
}

/** A new Release file that is to replace the old one. */
interface Candidate {
  readonly suite: Suite
  readonly release: Entry
  readonly begun: Milliseconds
  readonly hurry: AbortSignal
}

/** A file that has not arrived, and the time for which it may still hold its Release file back. */
interface LackingFile extends MissingFile {
  readonly left: Milliseconds
}

export class Updates {
  readonly #parts: UpdatesParts
  /** The forms of the Release file that the update of each suite has, by their keys. The last one is the one that was wanted last. */
  readonly #underWay = new Map<string, Map<string, FormUpdate>>()
  readonly #fetches: SuiteFetches

  constructor(parts: UpdatesParts) {
    this.#parts = parts
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
    const { suites, choice } = this.#parts
    const at = entry.key.endsWith('.gpg') ? undefined : suiteOfRelease(entry.key)
    return at !== undefined && (suites.governs(entry) || choice.restrains(at))
  }

  /** The reason why clients get the stored Release file, during a pause in which the origin is not asked; else undefined. */
  paused({ key }: Entry): StaleReason | undefined {
    const suite = this.#parts.suites.live.peek(parentOf(key))
    return suite?.isPaused === true ? staleReasons[suite.standing] : undefined
  }

  /** The reason why clients of a suite get an earlier Release file; undefined when they get the origin's. */
  behind(at: string): ReleaseBehind | undefined {
    const suite = this.#parts.suites.live.of(at)
    const because = staleReasons[suite.standing]
    return because && { because, lasts: suite.behindFor, missing: suite.missing }
  }

  /** A sentence that says why the Release file of the origin was refused, or that the origin gives none; undefined when neither is so. */
  refusal(at: string): string | undefined {
    return this.#parts.suites.live.of(at).remark
  }

  /** Ends the pauses after failures, because an operator wants origins to be asked. */
  askAgain(): void {
    for (const suite of this.#parts.suites.live.all) suite.endPause()
  }

  /**
   * Whether a file belongs to a suite whose clients get another Release file than the origin has. Then a 404 of the origin for the file
   * is no answer.
   */
  isBehind(key: string): boolean {
    return [...directoriesOf(key)].some(at => this.#isBehind(at))
  }

  #isBehind(at: string): boolean {
    return this.#parts.suites.live.peek(at)?.answers.unnamed === 'may-come'
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
    const suite = suites.live.of(parentOf(entry.key))
    const form = this.#joined(wanted, entry)
    if ('use' in form) return form
    const first = await resultInTime(form.done, clock, asking)
    if (first !== undefined) return first
    const left = form.begun + settings.update - clock.elapsed()
    const changed = [...(this.#underWay.get(suite.at)?.values() ?? [])].some(one => one.changed)
    const late = changed ? await resultInTime(form.done, clock, Math.max(0, left)) : undefined
    if (late !== undefined) return late
    if (suites.governs(entry)) suite.fellBehind('origin-slow', 0)
    return { use: 'stale', because: changed ? 'stale-suite-incomplete' : 'stale-origin-slow' }
  }

  /** Begins or joins the same in the background. Resolves when the origin has answered or failed. Never rejects. */
  async ask(wanted: WantedFile, entry: Entry): Promise<void> {
    void this.check(wanted, entry)
    await this.#underWay.get(parentOf(entry.key))?.get(entry.key)?.answered
  }

  /**
   * Updates the suite of this Release file in the background, and waits for the end. It joins an update that is under way. It does not ask
   * an origin during a pause. Never rejects.
   */
  async refresh(entry: Entry): Promise<RevalidationResult> {
    const wanted = questionAbout(entry)
    if (wanted === undefined) return { use: 'stale', because: 'stale-origin-failed' }
    const form = this.#joined(wanted, entry)
    return 'use' in form ? form : form.done
  }

  /** The update of a Release file, which is begun when none is under way; the result for clients during a pause. */
  #joined(wanted: WantedFile, entry: Entry): FormUpdate | RevalidationResult {
    const at = parentOf(entry.key)
    return (
      this.#pausedResult(entry) ??
      this.#underWay.get(at)?.get(entry.key) ??
      this.#begin(wanted, entry)
    )
  }

  /** The result for clients while the origin is not asked; undefined when it may be asked. */
  #pausedResult(entry: Entry): RevalidationResult | undefined {
    const because = this.paused(entry)
    return because && { use: 'stale', because }
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
    const { live } = this.#parts.suites
    const withholds = live.peek(at)?.answers.signature === 'withheld'
    return withholds && this.#parts.suites.lacksSignature(client, at)
  }

  /**
   * Handles a file of a generation that the origin no longer has, or has with other content. It asks the origin at once for a
   * newer Release file, which is then not held back, unless the origin may never have had the file. Resolves to whether clients get a
   * newer Release file now; undefined when the generation names no such file. Never rejects.
   */
  async outdated(
    used: Pick<Claim, 'suite' | 'generation'>,
    file: UnavailableFile,
  ): Promise<boolean | undefined> {
    const { clock, rules, suites } = this.#parts
    const { generation } = used
    const suite = suites.live.of(used.suite)
    const entry = await this.#stored(used)
    const wanted = entry && questionAbout(entry)
    if (entry === undefined || wanted === undefined) return false
    if (releaseIn(generation, entry.digest) === undefined) return true
    const path = await pathOf(file, entry, this.#parts)
    if (path === undefined) return undefined
    const drops = (): boolean | undefined => suite.drops(path)
    const plain = file.hex === undefined
    const ends = !file.gone || (plain && (suites.hadFile(suite.at, path) || drops() === true))
    // The origin's newer Release file is known already: it names the file too, or the client has to ask for the plain name.
    if (!ends && drops() !== undefined) return false
    const asks = ends ? suite.noteOutdated() : suite.noteDoubt()
    const forms = () => this.#underWay.get(suite.at)
    const underWay = forms()?.get(entry.key)
    if (asks && ends) for (const { hurry } of forms()?.values() ?? []) hurry.abort()
    const ask = async (): Promise<boolean> => {
      // An update that began before the file was found to be gone may not have seen the newer Release file.
      if (underWay?.changed === false) await underWay.done
      const said = asks ? await this.check(wanted, entry) : await forms()?.get(entry.key)?.done
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
    const { fetcher, store, choice } = this.#parts
    if (choice.withholds(key) !== undefined) return
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
   * Fetches a file by its digest that the origin no longer has under its own name, where the archive offers that. Resolves to
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
   * Replaces this Release file by one that comes from elsewhere than the origin. While another update is under way, it waits for the end of
   * that and resolves to `again`. It also resolves to `again` when the file is not there. Never rejects.
   */
  async take(offered: OfferedRelease, entry: Entry): Promise<RevalidationResult> {
    const file = offered.file(entry.key)
    const forms = [...(this.#underWay.get(parentOf(entry.key))?.values() ?? [])]
    if (forms.length > 0 || file === undefined) {
      await forms.at(-1)?.done
      return { use: 'again' }
    }
    return this.#begin(file, entry, offered).done
  }

  /**
   * Begins an update, or adds the other form of the Release file to the one that is under way. The second form has its turn when the first
   * has ended, unless a pause has begun with that.
   */
  #begin(wanted: WantedFile, entry: Entry, offered?: OfferedRelease): FormUpdate {
    const { clock, choice, log, rules, suites } = this.#parts
    const at = parentOf(entry.key)
    const suite = suites.live.of(at)
    const forms = this.#underWay.get(at) ?? new Map<string, FormUpdate>()
    const before = [...forms.values()].at(-1)
    const form = { begun: clock.elapsed(), changed: false, hurry: new AbortController(), offered }
    const update = async (): Promise<RevalidationResult> => {
      await before?.done
      const paused = before && this.#pausedResult(entry)
      if (paused !== undefined) return paused
      const updated = await this.#update(wanted, entry, { ...form, suite, onChanged }).catch(
        (error: unknown): RevalidationResult => {
          log.warn('a suite could not be updated', { key: entry.key, error })
          return { use: 'stale', because: 'stale-suite-incomplete' }
        },
      )
      // A file that other nodes lack says nothing about the origin.
      const saysNothing = offered !== undefined && updated.use !== 'store'
      const terms = { keep: rules().config.suites.goneAfter, restrained: choice.restrains(at) }
      const result = { key: entry.key, updated, ...terms }
      const denial = saysNothing ? undefined : noteResult(suite, result)
      if (denial) log.warn('the origin gives no Release file of a suite', denial)
      return updated
    }
    let onAnswer = (): void => {}
    const answer = new Promise<void>(resolve => (onAnswer = resolve))
    const onChanged = (): void => {
      underWay.changed = true
      suite.note('another-came')
      onAnswer()
    }
    const done = update().finally(() => {
      forms.delete(entry.key)
      if (forms.size === 0) this.#underWay.delete(at)
    })
    const answered = Promise.race([answer, done])
    const underWay: FormUpdate = Object.assign(form, { answered, done })
    forms.set(entry.key, underWay)
    this.#underWay.set(at, forms)
    return underWay
  }

  async #update(
    wanted: WantedFile,
    entry: Entry,
    update: Pick<FormUpdate, 'hurry' | 'offered'> & {
      readonly suite: Suite
      /** Called when the origin has turned out to have another Release file. */
      readonly onChanged: () => void
    },
  ): Promise<RevalidationResult> {
    const { fetcher, store, clock, choice, others } = this.#parts
    const { offered, suite } = update
    const { at } = suite
    const key = `${entry.key}${incomingSuffix}`
    const restrained = choice.restrains(at)
    const newest = restrained ? await choice.newest(at, entry) : entry
    const asked = offered ? wanted : { ...wanted, stored: newest }
    let found = await fetcher.fetch({ ...asked, key }).found
    if (offered !== undefined && found.kind !== 'filling') return { use: 'again' }
    if (newest !== entry || (restrained && found.kind === 'answered')) {
      if (found.kind !== 'filling') return this.#asBefore(entry, found)
    } else if (found.kind === 'validated') {
      if (await this.#fetches.signatureFits(found.entry)) return unchangedResult(found)
      // The file may have been replaced by one with an older date, for which an origin without ETag always answers 304.
      found = await fetcher.fetch({ ...wanted, key, stored: undefined, insist: true }).found
    }
    if (found.kind !== 'filling') return unchangedResult(found)
    const settled = await found.filling.settled
    if (settled.kind === 'failed') {
      return offered ? { use: 'again' } : { use: 'stale', because: 'stale-origin-failed' }
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
        return await this.#place(entry, come, 'validated')
      }
      update.onChanged()
      const hurry = update.hurry.signal
      const begun = clock.elapsed()
      const candidate = { suite, release: come, begun, hurry }
      const detached = entry.key.endsWith('/Release')
      const pair = detached ? await this.#fetches.signatureNow(at, offered) : {}
      const signature = pair?.signature
      const left = pair === undefined ? longestHold - suite.heldFor(come.digest, begun) : 0
      const kept =
        left > 0
          ? this.#heldBack(candidate, [{ ...unknownSignature, left }])
          : await this.#prepared(candidate, entry, signature)
      // The first Release file of the suite may have been adopted meanwhile.
      if (choice.restrains(at)) {
        if ('use' in kept) return kept
        // A Release file that may not be adopted cannot wait, so clients keep the earlier one, even if that has expired.
        if (kept.facts === undefined) return { use: 'stale', because: 'stale-suite-refused' }
        if (suite.isRemoved) return { use: 'again' }
        await choice.wait(at, { release: come, signature }, kept.facts)
        return await this.#chosen(entry)
      }
      const facts = 'use' in kept ? undefined : kept.facts
      if (offered !== undefined) {
        if ('use' in kept && !isRefused(kept)) return kept
        if (facts?.date !== offered.date) offered.noteUnfit()
        if (facts === undefined) return { use: 'stale', because: 'stale-suite-refused' }
      }
      // If the earlier Release file was not adopted, its files are not kept, so clients could not use it.
      if ('use' in kept && this.#isKept(entry)) return kept
      const signed = signature && { ...signature, key: signatureKey(at) }
      if (facts !== undefined && offered === undefined) {
        await others?.announce(at, signed === undefined ? [come] : [come, signed], facts.date)
      }
      return await this.#place(entry, come, 'changed', signed)
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
    if (result.use === 'store') return this.#chosen(entry)
    if (result.use === 'answer' && isGone(result.status)) {
      this.#parts.store.remove(entry.key)
      await this.#parts.suites.removed([entry.key])
    }
    return result
  }

  /** The result with the Release file that clients get now. It counts as confirmed, because the origin was asked. */
  async #chosen(entry: Entry): Promise<RevalidationResult> {
    const { choice, store, clock } = this.#parts
    await choice.settle(entry.key)
    const now = await store.get(entry.key)
    if (now === undefined) return { use: 'again' }
    const confirmed = { ...now, validated: clock.now(), initialAge: 0 }
    store.amend(confirmed)
    const newer = now.digest === entry.digest ? 'validated' : 'changed'
    const because = choice.reason(entry.key) ?? newer
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
    const needed = policy?.verify === 'require' || this.#parts.choice.restrains(at)
    if (!needed || !this.#isKept(entry)) return { use: 'again' }
    log.warn('a new Release file cannot be stored; clients get the earlier one', { key: entry.key })
    return { use: 'stale', because: 'stale-suite-incomplete' }
  }

  /** Whether a Release file belongs to a generation, whose files are kept for clients. */
  #isKept(entry: Entry): boolean {
    return this.#parts.suites.generationOf(entry) !== undefined
  }

  /**
   * Replaces the Release file with which its update began, and its signature. Another one may have taken that place: an
   * operator may have removed the suite, and while it is not adopted, its Release file is fetched like any file.
   */
  async #place(
    before: Entry,
    entry: Entry,
    because: 'validated' | 'changed',
    signature?: Entry,
  ): Promise<RevalidationResult> {
    const { store } = this.#parts
    if ((await store.get(entry.key))?.digest !== before.digest) return { use: 'again' }
    if (signature !== undefined) store.put(signature)
    store.put(entry)
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
      candidate.suite.at,
      releaseFile(candidate.release, signedBy),
    )
    if (missing === undefined) return { use: 'stale', because: 'stale-suite-refused' }
    // The time counts from the first Release file that may be adopted. A refused one takes none of it.
    const heldFor = candidate.suite.heldFor(candidate.release.digest, candidate.begun)
    const lacking = await this.#fetchAll(candidate, missing, heldFor)
    if (lacking.length === 0) return missing
    const { validUntil = Number.POSITIVE_INFINITY } = suites.generationOf(entry) ?? {}
    const expired = validUntil < clock.now()
    if (!expired && lacking.some(({ left }) => left > 0)) return this.#heldBack(candidate, lacking)
    log.warn('a new Release file names files that cannot be fetched; clients get it without them', {
      key: entry.key,
      missing: lacking.map(({ path, because }) => `${path}: ${because}`),
      ...(expired && { because: 'the earlier one has expired' }),
    })
    return missing
  }

  /** The result when these files hold a new Release file back. */
  #heldBack({ suite }: Candidate, lacking: readonly LackingFile[]): RevalidationResult {
    const holding = lacking.filter(({ left }) => left > 0)
    suite.holdBack(holding, Math.max(...holding.map(({ left }) => left)))
    this.#parts.log.warn(
      'a new Release file names files that cannot be fetched; clients get the earlier one',
      { suite: suite.at, missing: holding.map(({ path, because }) => `${path}: ${because}`) },
    )
    return { use: 'stale', because: 'stale-suite-incomplete' }
  }

  /** Fetches files of a new generation. Resolves to those that have not arrived in time, except optional ones. */
  async #fetchAll(
    candidate: Candidate,
    missing: MissingFiles,
    heldFor: Milliseconds,
  ): Promise<readonly LackingFile[]> {
    const { suite, begun, hurry } = candidate
    const { clock, rules } = this.#parts
    const { update } = rules().config.suites
    const { files, byHash, optional, secondary, dropped } = missing
    const holdOf = ({ path }: ListedContent): Milliseconds =>
      secondary?.has(path) || optional?.has(path) ? update / 2 : longestHold
    const waiting = [...files].sort((a, b) => holdOf(b) - holdOf(a))
    const main = waiting.filter(one => holdOf(one) === longestHold)
    suite.waitFor(
      main.map(({ path }) => ({ path, because: 'it has not come yet' })),
      dropped,
    )
    const fetches = this.#fetches.begin(suite.at, waiting, byHash)
    const lacking: LackingFile[] = []
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
