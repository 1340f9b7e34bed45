/**
 * Asks origins for files. Clients that want the same key at the same time share one fetch. A fetch continues when its clients disconnect.
 * Its first result comes with the head of the response, so that all clients can read the content while it arrives.
 *
 * # Facts
 * - A fetch ends with the last byte. From then on the store has the file, and answers later requests.
 */
import type { Milliseconds } from '../../async/clock.ts'
import { Lifetime } from '../../async/lifetime.ts'
import { Rests } from '../../async/rests.ts'
import { Failure } from '../../errors.ts'
import { OriginFailure } from '../../http/client/errors.ts'
import { Fields } from '../../http/message/field.ts'
import { formatUri, type TargetUri } from '../../http/message/target.ts'
import { recentEntries } from '../../recent.ts'
import {
  confirmedEntry,
  draftEntry,
  type EntryDraft,
  unstorableReason,
} from '../rfc9111/stored-response.ts'
import type { Download } from '../store/content/download.ts'
import type { Store } from '../store/store.ts'
import { examinedContent } from './examined-content.ts'
import { fetchFailure, isUpstream, mostFetches } from './failures.ts'
import {
  type BegunContent,
  type ContentOutcome,
  type FetchEvents,
  type FetchOutcome,
  type FetchUnderWay,
  type IncomingFile,
  isOtherContent,
} from './fetch-outcome.ts'
import { type Answer, originName } from './mirrors.ts'
import {
  type NearContent,
  NearPatience,
  type NearSource,
  type StaleContent,
} from './near-source.ts'
import { GoneFiles, type GoneFilesParts, isGone, isOriginFailure } from './revalidation.ts'
import { keepEntry, transfer, watchAbandoned } from './transfer.ts'
import type { OriginTrouble, UnconfirmedOrigins } from './unconfirmed-origins.ts'
import {
  claimText,
  conditionalFields,
  expectedAtStart,
  expectedContent,
  isOldVersion,
  isSuperseded,
  proofOf,
  type WantedFile,
} from './wanted-file.ts'
import { WrongContent } from './wrong-content.ts'

export interface FetcherOptions extends FetchEvents, GoneFilesParts {
  readonly store: Store
  /** Whether the operator wants to store files that this archive marks as not to be stored. */
  readonly storesAll: (uri: TargetUri) => boolean
  /** The shared store, which is asked before an origin; undefined without one. */
  readonly nearer?: NearSource | undefined
  readonly unconfirmed: UnconfirmedOrigins
}

/**
 * The time from the origin's head on, for which no byte of a small package goes to clients. Nearly all of them are complete and compared
 * within it, so that wrong content gets a status that says so. After it, a client gets the first bytes as early as without a proxy. A
 * small index is held until it is compared, because it can be wrong while its archive is being published, and apt then shows the cause.
 */
const firstBytesHeld: Milliseconds = 25

/**
 * Content of a shared store up to this size is compared as a whole before clients get its first byte, unless that takes longer than the
 * fetch waits for the shared store. If it is wrong, the origin is asked, and clients do not notice.
 */
const comparedFirst = 8 * 1024 * 1024

/** The most files for which the reason is remembered why they were not stored. */
const mostNotStored = 4096

interface Running {
  /** The wanted file; it has the claim once that is known. */
  wanted: WantedFile
  /** Resolves when an awaited claim is known. Never rejects. */
  claimed?: Promise<void>
  readonly lifetime: Lifetime
  /** The moment when the fetch began, by the monotonic clock. */
  readonly since: Milliseconds
  /** The origins that sent another file, by `originName`. */
  readonly except: Set<string>
  /** The download, once content has begun to arrive. */
  begun?: Pick<BegunContent, 'download' | 'length'> | undefined
  /** The question to the shared store; undefined before it is asked. */
  near?: NearQuestions
  /** What the origins have said about it. */
  verdict?: OriginVerdict
}

interface NearQuestions {
  readonly patience: NearPatience
  /** What another node has stored, about which an origin has to be asked. */
  known?: StaleContent | undefined
}

/** The moments of the question and of the answer. */
interface AskedTimes {
  readonly requested: Milliseconds
  readonly received: Milliseconds
}

/** An answer that confirms nothing new, or the failure of the question. */
type OriginVerdict =
  | { readonly answer: Answer; readonly times: AskedTimes; readonly error?: undefined }
  | { readonly answer?: undefined; readonly times?: undefined; readonly error: unknown }

/** Looks for a file in one place. Resolves to undefined when the next place is to be asked. */
type FileSource = (running: Running) => Promise<FetchOutcome | undefined>

type Filling = Extract<FetchOutcome, { readonly kind: 'filling' }>

interface UnderWay extends Running {
  readonly found: Promise<FetchOutcome>
}

export class Fetcher {
  readonly #options: FetcherOptions
  readonly #wrong: WrongContent
  readonly #gone: GoneFiles
  readonly #underWay = new Map<string, UnderWay>()
  /** The reason why the last response for each key was not stored: a `NotStoredReason`, or a sentence about the disk. */
  readonly #notStored = recentEntries<string, string>(mostNotStored)
  /** The moments when origins last gave a file, by `originName` and by the monotonic clock. */
  readonly #given = recentEntries<string, Milliseconds>(capacity)
  /** The origins that have missed a deadline, by `originName`. */
  readonly #slow: Rests
  /** The calls of `idle` that wait. */
  readonly #awaitIdle: Array<() => void> = []
  #closing = false

  constructor(options: FetcherOptions) {
    this.#options = options
    this.#slow = new Rests(options.clock, { first: slowRest, longest: slowRest })
    this.#wrong = new WrongContent(options.clock)
    this.#gone = new GoneFiles(options)
  }

  fetch(wanted: WantedFile): FetchUnderWay {
    const running = this.#underWay.get(wanted.key)
    if (running !== undefined) return { found: this.#join(running, wanted), joined: true }
    const failure = this.wrong(wanted)
    if (failure !== undefined || this.#underWay.size >= mostFetches) {
      const failed: FetchOutcome = {
        kind: 'failed',
        failure: failure ?? fetchFailure('TOO_MANY_FETCHES', {}),
      }
      return { found: Promise.resolve(failed), joined: false }
    }
    const { clock } = this.#options
    const begins: Running = {
      wanted,
      lifetime: new Lifetime(),
      since: clock.elapsed(),
      except: new Set(),
    }
    const found = this.#find(begins).catch((error: unknown): FetchOutcome => {
      this.#over(begins)
      return { kind: 'failed', failure: this.#noteFailure(wanted, error) }
    })
    this.#underWay.set(wanted.key, Object.assign(begins, { found }))
    return { found, joined: false }
  }

  /** Joins a fetch under way. A request with a claim needs a fetch that verifies this claim, or fetches again after it. */
  async #join(running: UnderWay, joining: WantedFile): Promise<FetchOutcome> {
    const { key, claim } = joining
    const first = await running.found
    if (claim === undefined) return first
    await running.claimed
    if (claimText(running.wanted.claim) === claimText(claim)) return first
    if (first.kind === 'filling') await first.filling.settled
    const entry = this.#options.store.peek(key)
    const right = [claim, ...(claim.others ?? [])].some(({ digest }) => digest === entry?.digest)
    if (entry !== undefined && right) return { kind: 'validated', entry }
    return this.fetch(joining).found
  }

  /** The failure of the last fetch, if the origins have just sent wrong content for this file; else undefined. */
  wrong(wanted: WantedFile): Failure | undefined {
    return this.#wrong.recent(wanted)
  }

  /**
   * The reason why the last response for a key was not stored, if it is remembered: a `NotStoredReason`, or a sentence about the disk,
   * which can fail after the head was sent.
   */
  notStored(key: string): string | undefined {
    return this.#notStored.get(key)
  }

  /** Whether the origin of a target has lately given a file. Then it refuses neither the agent nor the Via of this proxy. */
  hasGiven(uri: TargetUri): boolean {
    const last = this.#given.get(originName(uri))
    return last !== undefined && this.#options.clock.elapsed() - last < justNow
  }

  /**
   * Whether an origin has just missed a deadline. Then requests with a stored copy do not wait for it for a time. An origin that refuses at
   * once costs no time, so it is asked every time.
   */
  isSlow(uri: TargetUri): boolean {
    return this.#slow.left(originName(uri)) > 0
  }

  /** Notes that a client with a stored file did not wait for this origin any longer. */
  noteSlow(uri: TargetUri): void {
    this.#options.unconfirmed.slow(uri)
    this.#rest(uri)
  }

  /** The last reason for which an origin confirmed nothing; undefined when it has confirmed something since. */
  trouble(uri: TargetUri): OriginTrouble | undefined {
    return this.#options.unconfirmed.trouble(uri)
  }

  #rest(uri: TargetUri): void {
    this.#slow.note(originName(uri))
  }

  isFetching(key: string): boolean {
    return this.#underWay.has(key)
  }

  /** Whether a shared store is asked for such a file. */
  mayBeNear(wanted: WantedFile): boolean {
    return this.#options.nearer?.serves(wanted) === true
  }

  /** Whether a file is being fetched that the store did not have. Then a look-up in the store is useless. */
  isFetchedAnew(key: string): boolean {
    const running = this.#underWay.get(key)
    return running !== undefined && running.wanted.stored === undefined
  }

  /** The files that are arriving, in the order in which their fetches began. */
  get arriving(): readonly IncomingFile[] {
    return [...this.#underWay].flatMap(([key, { begun }]) => {
      return begun ? { key, received: begun.download.size, length: begun.length } : []
    })
  }

  get count(): number {
    return this.#underWay.size
  }

  /** Resolves once no fetch is under way. */
  async idle(): Promise<void> {
    if (this.#underWay.size === 0) return
    await new Promise<void>(resolve => this.#awaitIdle.push(resolve))
  }

  /** The moments when the fetches under way began, by the monotonic clock. */
  *underWay(): Generator<{ readonly begun: Milliseconds }> {
    for (const { since } of this.#underWay.values()) yield { begun: since }
  }

  /** Whether the service stops, so that no fetch without a waiting client should begin. */
  get closing(): boolean {
    return this.#closing
  }

  /** Waits for the fetches under way. When `deadline` fires, it breaks the remaining ones off. */
  async close(deadline: AbortSignal): Promise<void> {
    this.#closing = true
    if (this.#underWay.size === 0) return
    const giveUp = () => {
      const reason = new Error('the service stops')
      for (const { lifetime } of this.#underWay.values()) lifetime.end(reason)
    }
    if (deadline.aborted) giveUp()
    else deadline.addEventListener('abort', giveUp, { once: true })
    await this.idle()
    deadline.removeEventListener('abort', giveUp)
  }

  #over({ wanted: { key } }: Running): void {
    this.#underWay.delete(key)
    if (this.#underWay.size === 0) for (const resolve of this.#awaitIdle.splice(0)) resolve()
  }

  async #find(running: Running): Promise<FetchOutcome> {
    const sources = running.wanted.onlyNear === true ? [this.#near] : this.#sources
    for (const source of sources) {
      const outcome = await source(running)
      if (outcome !== undefined) return outcome
    }
    throw fetchFailure('NOT_SHARED', {})
  }

  /** What another node has stored. It is asked once for each fetch, and has two seconds in all. */
  readonly #near: FileSource = async running => {
    const { nearer, clock } = this.#options
    if (nearer === undefined || running.near !== undefined || !nearer.serves(running.wanted)) {
      return undefined
    }
    const patience = new NearPatience(clock)
    running.near = { patience }
    await this.#claim(running)
    const { wanted, lifetime } = running
    const previous = this.#wrong.before(wanted.key) ?? wanted.stored
    const found = await nearer.find(wanted, { patience, previous, lifetime })
    if (found.kind === 'content') return this.#fillNear(running, found, patience)
    if (found.kind === 'stale') running.near.known = found
    return undefined
  }

  /** The origins. They get the validators of what is stored, here or on another node. */
  readonly #origins: FileSource = async running => {
    const { clock, unconfirmed } = this.#options
    const { wanted, except, lifetime, near: { known } = {} } = running
    const { uri, stored, via } = wanted
    const requested = clock.now()
    const asked = known === undefined ? wanted : { ...wanted, stored: known.entry }
    const more = () => conditionalFields(asked, requested)
    let answer: Answer
    try {
      answer = await this.#gone.ask(wanted, { uri, stored, except, lifetime, more, via })
    } catch (error) {
      if (known === undefined || !isUpstream(error)) throw error
      running.verdict = { error }
      return undefined
    }
    this.#slow.forget(originName(uri))
    const times = { requested, received: clock.now() }
    const { response } = answer
    if (response.status === 200) {
      this.#given.set(originName(uri), clock.elapsed())
      return this.#begin(running, answer, times)
    }
    response.content.close()
    const confirms = response.status === 304
    const fails = !confirms && isOriginFailure(response)
    if (fails) unconfirmed.answered(uri, response, stored !== undefined)
    else unconfirmed.confirmed(uri)
    if (known === undefined || !(confirms || fails)) return this.#answered(running, answer, times)
    running.verdict = { answer, times }
    return undefined
  }

  /** What another node has stored and an origin has confirmed, or cannot judge now. */
  readonly #stale: FileSource = async running => {
    const { near, verdict } = running
    const known = near?.known
    if (near === undefined || known === undefined || verdict === undefined) return undefined
    near.known = undefined
    const confirmed = confirmationOf(known, verdict)
    if (confirmed !== undefined || known.givenStale) {
      const opening = known.open(confirmed ?? known.entry)
      // An origin that has confirmed the entry can also send the content. One that has failed cannot.
      const content =
        confirmed === undefined
          ? await opening
          : await near.patience.result(opening, late => late?.answer.response.content.close())
      const filled = content && (await this.#fillNear(running, content, near.patience))
      if (filled !== undefined) return filled
    }
    if (verdict.answer === undefined) throw verdict.error
    // The content of the confirmed entry is gone, so the origin is asked again, without a condition.
    return confirmed ? undefined : this.#answered(running, verdict.answer, verdict.times)
  }

  /**
   * The sources of a file. Each one is asked when those before it do not have the file. The origins come once more when they have confirmed
   * a content that is gone.
   */
  readonly #sources: readonly FileSource[] = [this.#near, this.#origins, this.#stale, this.#origins]

  /** The outcome after an answer without content for the file. */
  async #answered(
    running: Running,
    { response, certain }: Answer,
    times: AskedTimes,
  ): Promise<FetchOutcome> {
    const { store } = this.#options
    const { wanted, lifetime } = running
    const { stored } = wanted
    const { status, fields, parent } = response
    if (isGone(status)) await this.#gone.believe(wanted, lifetime)
    this.#over(running)
    const holds = status === 304 || (isGone(status) && isOldVersion(wanted))
    if (holds && stored !== undefined && !isSuperseded(wanted)) {
      const given = status === 304 ? fields : Fields.empty
      const entry = confirmedEntry(stored, given, times)
      store.put(entry)
      return { kind: 'validated', entry }
    }
    // A file that the origin declares gone is removed, so that it does not answer when the origin fails later.
    if (isGone(status) && stored !== undefined) store.remove(stored.key)
    return { kind: 'answered', status, fields, certain, parent }
  }

  /** Fills from the shared store. Undefined when that failed before clients got a byte, so that the origin is asked. */
  async #fillNear(
    running: Running,
    near: NearContent,
    patience: NearPatience,
  ): Promise<FetchOutcome | undefined> {
    const { store } = this.#options
    const { draft, expected, answer, size: length, digest } = near
    const { key } = running.wanted
    const { content } = answer.response
    try {
      const download = store.download({ length, expected })
      this.#noteStored(key, download)
      const begun = { draft, download, length, content, from: answer, digest }
      const filled = this.#fill(running, begun)
      const small = length !== undefined && length <= comparedFirst
      const { settled } = filled.filling
      const judged = small ? await patience.result(settled, () => {}) : undefined
      if (judged?.kind !== 'failed') {
        void settled.then(() => this.#over(running))
        return filled
      }
    } catch (error) {
      content.close()
      if (!isUpstream(error)) throw error
    }
    running.begun = undefined
    return undefined
  }

  /** Begins to store the content of a 200, unless it is plainly not the file or not the expected content. */
  async #begin(running: Running, answer: Answer, times: AskedTimes): Promise<FetchOutcome> {
    const { store, log, onImpostor, onNotStored } = this.#options
    const { wanted } = running
    const { key, stored } = wanted
    const { fields, length } = answer.response
    const { content, found } = await examinedContent(answer, wanted)
    if (found !== undefined) {
      onImpostor()
      log.warn('the origin answered with something else', { key, because: found })
      if (answer.others || stored !== undefined) content.close()
      const failure = fetchFailure('ORIGIN_IMPOSTOR', { found })
      if (answer.others) return this.#elsewhere(running, answer, failure)
      if (stored !== undefined) throw failure
    }
    const passing = unstorableReason(fields, this.#options.storesAll(wanted.uri)) ?? found
    if (passing !== undefined) onNotStored(passing)
    try {
      const previous = this.#wrong.before(key) ?? stored
      const draft = draftEntry(key, fields, times, previous)
      const download = store.download({ length, expected: expectedAtStart(wanted), passing })
      this.#noteStored(key, download)
      return this.#fill(running, { draft, download, length, content, from: answer })
    } catch (error) {
      content.close()
      if (!answer.others || !WrongContent.is(error)) throw error
      return this.#elsewhere(running, answer, error)
    }
  }

  /** Asks the other origins. When none has the file, it throws the failure of this one. */
  async #elsewhere(running: Running, { place }: Answer, wrong: unknown): Promise<FetchOutcome> {
    this.#options.onBroken(place)
    running.except.add(originName(place))
    try {
      return await this.#find(running)
    } catch (error) {
      throw error instanceof Failure && error.code === 'ORIGIN_BEHIND' ? wrong : error
    }
  }

  /** Begins to fill a download. With content of an origin, the fetch ends with this content, even if it fails. */
  #fill(running: Running, begun: BegunContent): Filling {
    const { wanted } = running
    const { draft, download, length } = begun
    running.begun = begun
    if (wanted.awaited !== undefined) {
      running.claimed = this.#claim(running).then(() =>
        download.promise(expectedContent(running.wanted) ?? {}),
      )
    }
    const settled = this.#run(running, begun)
    if (begun.from.near === undefined) void settled.then(() => this.#over(running))
    const changed = wanted.stored !== undefined && isOtherContent(draft, length, wanted.stored)
    return { kind: 'filling', filling: { ...begun, verified: proofOf(wanted), changed, settled } }
  }

  async #claim(running: Running): Promise<void> {
    const { awaited, ...wanted } = running.wanted
    if (awaited !== undefined) running.wanted = { ...wanted, claim: await awaited }
  }

  /** Transfers the content to its last byte, and stores the file. The end waits for an awaited claim. */
  async #run(running: Running, begun: BegunContent): Promise<ContentOutcome> {
    const { wanted, lifetime } = running
    const { clock, log, onBroken, onFetched } = this.#options
    const { draft, download } = begun
    const { key } = wanted
    let fetched = 0
    let last: TargetUri | undefined
    const unheld =
      wanted.archive.kind === 'pool'
        ? clock.after(firstBytesHeld, () => download.show())
        : undefined
    const unwatch = watchAbandoned(download, clock, reason => {
      log.info('fetch given up, no client waits for it', { key, received: download.size })
      lifetime.end(reason)
    })
    try {
      last = await transfer(begun, {
        clock,
        lifetime,
        promised: expectedContent(wanted) !== undefined,
        again: question => {
          const { uri, via } = wanted
          return this.#options.ask({ uri, stored: undefined, lifetime, via, ...question })
        },
        onBroken,
        onReceived: (bytes, near) => {
          if (near === undefined) fetched += bytes
        },
        onResume: (received, error) => {
          log.warn('fetch broke off, resuming', { key, received, error })
        },
      })
      await running.claimed
      if (begun.from.near === undefined) this.#options.unconfirmed.confirmed(wanted.uri)
      const settled = keepEntry(running.wanted, { draft, download }, this.#options)
      if (settled.kind === 'stored') {
        this.#wrong.forget(wanted)
        void settled.kept.then(() => this.#noteStored(key, download))
      } else this.#noteStored(key, download)
      return settled
    } catch (error) {
      begun.content.close()
      const { near } = begun.from
      if (last !== undefined && near === undefined && isUpstream(error)) onBroken(last)
      const failure = this.#noteFailure(running.wanted, error, begun)
      download.discard(failure)
      log.warn('fetch failed', { key, received: download.size, error })
      return { kind: 'failed', failure }
    } finally {
      unheld?.()
      unwatch()
      onFetched(fetched)
    }
  }

  #noteStored(key: string, { because }: Pick<Download, 'because'>): void {
    if (because === undefined) this.#notStored.delete(key)
    else this.#notStored.set(key, because)
  }

  #noteFailure(wanted: WantedFile, error: unknown, begun?: BegunContent): Failure {
    const target = formatUri(wanted.uri)
    const failure =
      error instanceof Failure ? error : fetchFailure('FETCH_FAILED', { target }, error)
    const { near } = begun?.from ?? {}
    if (WrongContent.is(failure)) {
      this.#wrong.note(wanted, failure, { draft: begun?.draft, near: near !== undefined })
      if (near === undefined) this.#options.onWrong(failure)
      else if (begun?.digest !== undefined && WrongContent.lacks(failure, begun.digest)) {
        this.#options.nearer?.wrong(begun.digest)
      }
    }
    if (near !== undefined) return failure
    this.#options.unconfirmed.failed(wanted.uri, failure, wanted.stored !== undefined)
    const late = failure instanceof OriginFailure && failure.timedOut
    if (late && failure.phase !== 'queue') this.#rest(wanted.uri)
    return failure
  }
}

/** The entry of another node with what an origin has confirmed of it; undefined when none has. */
function confirmationOf({ entry }: StaleContent, verdict: OriginVerdict): EntryDraft | undefined {
  if (verdict.answer === undefined) return undefined
  const { status, fields } = verdict.answer.response
  return status === 304 ? confirmedEntry(entry, fields, verdict.times) : undefined
}

/** The most origins that are remembered. A client can ask for any name. */
const capacity = 1000

/** A refusal that comes this soon after a file is taken to be about one file only. */
const justNow: Milliseconds = 600_000

/** The time for which requests with a stored copy do not wait for a slow origin. */
const slowRest: Milliseconds = 10_000
