/**
 * Asks origins for files, once for each key however many clients want it at the same time. A fetch goes on when its clients
 * leave. Its first result comes with the head of the response, so that all can read the content while it grows.
 *
 * # Facts
 * - A fetch ends with the last byte: from then on the store has the file, and later requests are answered from it.
 * - A large file of which a crash left the beginning is asked for from there on.
 */
import { LRUCache } from 'lru-cache'
import type { Clock, Milliseconds } from '../../async/clock.ts'
import { resultInTime } from '../../async/deadline.ts'
import { Lifetime } from '../../async/lifetime.ts'
import { Failure } from '../../errors.ts'
import { OriginFailure } from '../../http/client/errors.ts'
import { Fields } from '../../http/message/field.ts'
import type { TargetUri } from '../../http/message/target.ts'
import {
  confirmedEntry,
  draftEntry,
  type EntryDraft,
  unstorable,
} from '../rfc9111/stored-response.ts'
import type { Download } from '../store/content/download.ts'
import type { Store } from '../store/store.ts'
import { type BegunContent, resumedContent } from './continuation.ts'
import { asFailure, fetchFailure, isUpstream, mostFetches } from './failures.ts'
import {
  type ContentOutcome,
  conditionalFields,
  differs,
  examinedContent,
  expectedFirst,
  expectedOf,
  type FetchEvents,
  type FetchOutcome,
  type FetchUnderWay,
  type IncomingFile,
  isOldVersion,
  isSuperseded,
  type NearContent,
  type Nearer,
  type Nearest,
  verifiedBy,
  type WantedFile,
  WrongContent,
} from './found.ts'
import { type Answer, type Ask, originName } from './origin-question.ts'
import { GoneFiles, type GoneFilesParts, isGone, isOriginFailure } from './revalidation.ts'
import { keep, transfer, watchAbandoned } from './transfer.ts'

export interface FetcherOptions extends FetchEvents, GoneFilesParts {
  readonly store: Store
  /** Whether an operator wants what this archive marks as not to be stored. */
  readonly storesAll: (uri: TargetUri) => boolean
  /** What is asked before an origin; undefined where this machine shares nothing. */
  readonly nearer?: Nearer | undefined
}

/**
 * How long all of a small package is kept from clients, from the origin's fields on. Within that time nearly all of them are whole and
 * compared, and wrong content gets a status that says so. After that a client has as much use of the first bytes as without a proxy. A
 * small index is kept until it is compared: it may be wrong while its archive is being published, and apt then shows the cause.
 */
const firstBytesHeld: Milliseconds = 25

/**
 * Of content that comes from a shared store, what is no larger is compared as a whole before clients see its first byte, unless it
 * takes longer: when it is wrong, the origin is asked, and clients do not notice.
 */
const comparedFirst = 8 * 1024 * 1024
const longestComparison: Milliseconds = 2000

/** Files of which it is remembered why they were not stored. */
const mostNotStored = 4096

interface Running {
  /** With the claim, once it is made. */
  wanted: WantedFile
  /** Settles when the claim that is awaited has been made. Never rejects. */
  claimed?: Promise<void>
  readonly lifetime: Lifetime
  /** A moment of the monotonic clock. */
  readonly since: Milliseconds
  /** Origins that sent something else, by `originName`. */
  readonly except: Set<string>
  /** What has come of it, once it has begun to come. */
  begun?: Pick<BegunContent, 'download' | 'length'> | undefined
  /** What was found nearer than an origin, once that was asked for. */
  near?: Nearest
}

type Filling = Extract<FetchOutcome, { readonly kind: 'filling' }>

interface UnderWay extends Running {
  readonly found: Promise<FetchOutcome>
}

export class Fetcher {
  readonly #options: FetcherOptions
  readonly slow: SlowOrigins
  readonly #wrong: WrongContent
  readonly #gone: GoneFiles
  readonly #underWay = new Map<string, UnderWay>()
  /** Why the last response to each of these keys was not stored: a `NotStoredReason`, or a sentence about the disk. */
  readonly #notStored = new LRUCache<string, string>({ max: mostNotStored })
  /** When origins gave a file last, by `originName`; moments of the monotonic clock. */
  readonly #given = new LRUCache<string, Milliseconds>({ max: capacity })
  /** Who waits until nothing is being fetched. */
  readonly #awaitIdle: Array<() => void> = []
  #closing = false

  constructor(options: FetcherOptions) {
    this.#options = options
    this.slow = new SlowOrigins(options.clock)
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
    const since = this.#options.clock.elapsed()
    const begins: Running = { wanted, lifetime: new Lifetime(), since, except: new Set() }
    const found = this.#find(begins).catch((error: unknown): FetchOutcome => {
      this.#over(begins)
      return { kind: 'failed', failure: this.#noteFailure(wanted, error) }
    })
    this.#underWay.set(wanted.key, Object.assign(begins, { found }))
    return { found, joined: false }
  }

  /** A fetch that verifies nothing, or something else, is no answer to a request that knows what the content must be. */
  async #join(running: UnderWay, joining: WantedFile): Promise<FetchOutcome> {
    const { key, claim } = joining
    const first = await running.found
    if (claim === undefined) return first
    await running.claimed
    if (running.wanted.claim?.digest === claim.digest) return first
    if (first.kind === 'filling') await first.filling.settled
    const entry = this.#options.store.peek(key)
    if (entry?.digest === claim.digest) return { kind: 'validated', entry }
    return this.fetch(joining).found
  }

  /** Why what the origins sent of this just now was not the file, in words for clients. */
  wrong(wanted: WantedFile): Failure | undefined {
    return this.#wrong.recent(wanted)
  }

  /**
   * Why the last response for a key was not stored, as far as that is remembered: a `NotStoredReason`, or a sentence about the disk, which
   * may have failed after the head was sent.
   */
  notStored(key: string): string | undefined {
    return this.#notStored.get(key)
  }

  /** Whether the origin of a target has given a file just now: then it refuses neither our agent nor our Via. */
  hasGiven(uri: TargetUri): boolean {
    const last = this.#given.get(originName(uri))
    return last !== undefined && this.#options.clock.elapsed() - last < justNow
  }

  isFetching(key: string): boolean {
    return this.#underWay.has(key)
  }

  /** Whether what the store does not have is being fetched: then there is no need to look. */
  isFetchedAnew(key: string): boolean {
    const running = this.#underWay.get(key)
    return running !== undefined && running.wanted.stored === undefined
  }

  /** Files that are arriving, in the order in which they began. */
  get arriving(): readonly IncomingFile[] {
    return [...this.#underWay].flatMap(([key, { begun }]) => {
      return begun ? { key, received: begun.download.size, length: begun.length } : []
    })
  }

  get count(): number {
    return this.#underWay.size
  }

  /** Settles once nothing is being fetched. */
  async idle(): Promise<void> {
    if (this.#underWay.size === 0) return
    await new Promise<void>(resolve => this.#awaitIdle.push(resolve))
  }

  /** When each fetch under way has begun, by the monotonic clock. */
  *underWay(): Generator<{ readonly begun: Milliseconds }> {
    for (const { since } of this.#underWay.values()) yield { begun: since }
  }

  /** The service stops: what no client waits for need not be begun. */
  get closing(): boolean {
    return this.#closing
  }

  /** Waits for what is under way; when `deadline` fires the rest is given up and its parts are thrown away. */
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

  #over({ wanted: { key }, near }: Running, kept?: Promise<unknown>): void {
    this.#underWay.delete(key)
    if (this.#underWay.size === 0) for (const resolve of this.#awaitIdle.splice(0)) resolve()
    if (near?.kind !== 'origin' || near.lease === undefined) return
    // What was stored has been offered to the other nodes by then.
    const { lease } = near
    if (kept === undefined) lease.release()
    else void kept.then(() => lease.release())
  }

  async #find(running: Running): Promise<FetchOutcome> {
    const { clock, store } = this.#options
    const { except, lifetime } = running
    const { key, uri, stored, insist } = running.wanted
    const near = await this.#nearest(running)
    if (near?.kind === 'content') {
      const filled = await this.#fillNear(running, near)
      if (filled !== undefined) return filled
    }
    if (running.wanted.onlyNear === true) throw fetchFailure('NOT_SHARED', {})
    const known = near?.kind === 'stale' ? near : undefined
    const requested = clock.now()
    const left = stored === undefined && !insist ? store.resumable(key) : undefined
    if (left !== undefined) await this.#claim(running)
    const { wanted } = running
    const continued = left && (await resumedContent(wanted, left, { ...this.#options, lifetime }))
    if (continued !== undefined) return this.#fill(running, continued)
    const asked = known === undefined ? wanted : { ...wanted, stored: known.entry }
    const more = () => conditionalFields(asked, requested)
    const question = { uri, stored, except, lifetime, more, via: wanted.via }
    const answer = await this.#gone.ask(wanted, question).catch(async (error: unknown) => {
      const filled = known?.givenStale && isUpstream(error) && (await this.#fillStale(running))
      if (!filled) throw error
      return filled
    })
    if ('kind' in answer) return answer
    this.slow.forget(uri)
    const times = { requested, received: clock.now() }
    const { response, certain } = answer
    const { status, fields } = response
    if (status === 200) {
      this.#given.set(originName(uri), clock.elapsed())
      return this.#begin(running, answer, times)
    }
    response.content.close()
    if (
      known !== undefined &&
      (status === 304 || (known.givenStale && isOriginFailure(response)))
    ) {
      const confirmed = status === 304 ? confirmedEntry(known.entry, fields, times) : undefined
      const filled = await this.#fillStale(running, confirmed)
      if (filled !== undefined) return filled
      // Its content is gone: the origin has to send it, without a condition.
      if (status === 304) return this.#find(running)
    }
    if (isGone(status)) await this.#gone.believe(wanted, lifetime)
    this.#over(running)
    const holds = status === 304 || (isGone(status) && isOldVersion(wanted))
    if (holds && stored !== undefined && !isSuperseded(wanted)) {
      const given = status === 304 ? fields : Fields.empty
      const entry = confirmedEntry(stored, given, times)
      store.put(entry)
      return { kind: 'validated', entry }
    }
    // What the origin declares gone stays gone when the origin fails later. It was asked about this entry and no other.
    if (isGone(status) && stored !== undefined) store.remove(stored.key)
    return { kind: 'answered', status, fields, certain, parent: response.parent }
  }

  /** Asks once for what is nearer than an origin. Undefined when nothing can be. */
  async #nearest(running: Running): Promise<Nearest | undefined> {
    const { nearer } = this.#options
    if (nearer === undefined || running.near !== undefined || !nearer.serves(running.wanted)) {
      return undefined
    }
    await this.#claim(running)
    running.near = await this.#askNearer(running, nearer, 0)
    return running.near
  }

  #askNearer({ wanted, lifetime }: Running, nearer: Nearer, first: number): Promise<Nearest> {
    const previous = this.#wrong.before(wanted.key) ?? wanted.stored
    return nearer.find(wanted, { first, previous, lifetime })
  }

  /** The content of another node's entry that the origin has confirmed, or cannot judge now. */
  async #fillStale(running: Running, confirmed?: EntryDraft): Promise<FetchOutcome | undefined> {
    const { near } = running
    if (near?.kind !== 'stale') return undefined
    const content = await near.open(confirmed ?? near.entry)
    return content && this.#fillNear(running, content)
  }

  /** What comes from near. Undefined when it broke off, or was wrong, before clients saw any of it: then the origin is asked. */
  async #fillNear(running: Running, near: NearContent): Promise<FetchOutcome | undefined> {
    const { store, clock } = this.#options
    const { draft, expected, answer, size: length, digest } = near
    const { key } = running.wanted
    const { content } = answer.response
    try {
      const { fields } = draft
      const download = store.download({ key, length, expected, passing: undefined, fields })
      this.#noteStored(key, download)
      const begun = { draft, download, length, content, from: answer, digest }
      const filled = this.#fill(running, begun, 'near')
      const small = length !== undefined && length <= comparedFirst
      const { settled } = filled.filling
      const judged = small ? await resultInTime(settled, clock, longestComparison) : undefined
      if (judged?.kind !== 'failed') {
        void settled.then(end => this.#over(running, end.kind === 'stored' ? end.kept : undefined))
        return filled
      }
    } catch (error) {
      content.close()
      if (!isUpstream(error)) throw error
      if (digest !== undefined) this.#options.nearer?.wrong(digest)
    }
    running.begun = undefined
    return undefined
  }

  /** A 200: its content begins to be stored, unless it is plainly not the file or not what is expected. */
  async #begin(
    running: Running,
    answer: Answer,
    times: { readonly requested: Milliseconds; readonly received: Milliseconds },
  ): Promise<FetchOutcome> {
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
    const passing = unstorable(fields, this.#options.storesAll(wanted.uri)) ?? found
    if (passing !== undefined) onNotStored(passing)
    try {
      const previous = this.#wrong.before(key) ?? stored
      const draft = draftEntry(key, fields, times, previous)
      const download = store.download({
        key,
        length,
        expected: expectedFirst(wanted),
        passing,
        fields: draft.fields,
      })
      this.#noteStored(key, download)
      return this.#fill(running, { draft, download, length, content, from: answer })
    } catch (error) {
      content.close()
      if (!answer.others || !WrongContent.is(error)) throw error
      return this.#elsewhere(running, answer, error)
    }
  }

  /** Asks the other origins. When none has the file, what is wrong with that of this one is the failure. */
  async #elsewhere(running: Running, { place }: Answer, wrong: unknown): Promise<FetchOutcome> {
    this.#options.onBroken(place)
    running.except.add(originName(place))
    try {
      return await this.#find(running)
    } catch (error) {
      throw error instanceof Failure && error.code === 'ORIGIN_BEHIND' ? wrong : error
    }
  }

  /** Content of an origin is the end of the fetch, whatever becomes of it. */
  #fill(running: Running, begun: BegunContent, from: 'origin' | 'near' = 'origin'): Filling {
    const { wanted } = running
    const { draft, download, length } = begun
    running.begun = begun
    if (wanted.awaited !== undefined) {
      running.claimed = this.#claim(running).then(() =>
        download.promise(expectedOf(running.wanted) ?? {}),
      )
    }
    const settled = this.#run(running, begun)
    if (from === 'origin') {
      void settled.then(end => this.#over(running, end.kind === 'stored' ? end.kept : undefined))
    }
    const changed = wanted.stored !== undefined && differs(draft, length, wanted.stored)
    const { near, response } = begun.from
    const { parent } = response
    const verified = verifiedBy(wanted)
    return {
      kind: 'filling',
      filling: { draft, length, verified, download, parent, near, changed, settled },
    }
  }

  /** Waits for the claim that is being made. */
  async #claim(running: Running): Promise<void> {
    const { awaited, ...wanted } = running.wanted
    if (awaited !== undefined) running.wanted = { ...wanted, claim: await awaited }
  }

  /** The content, to its last byte. Its end waits for what an index says of it. */
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
        promised: expectedOf(wanted) !== undefined,
        again: question => this.#again(running, begun, question),
        onBroken,
        onReceived: (bytes, near) => {
          if (near === undefined) fetched += bytes
        },
        onResume: (received, error) => {
          log.warn('fetch broke off, resuming', { key, received, error })
        },
      })
      await running.claimed
      const settled = keep(running.wanted, { draft, download }, this.#options)
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

  /** Asks for the rest. Of what another node was fetching, a node may have it, or be fetching it now in that one's place. */
  async #again(
    running: Running,
    { from, download }: BegunContent,
    question: Pick<Parameters<Ask>[0], 'except' | 'more'>,
  ): Promise<Answer> {
    const { ask, nearer } = this.#options
    const { lifetime, wanted } = running
    if (from.near === 'peer' && nearer !== undefined && running.near?.kind !== 'origin') {
      const near = await this.#askNearer(running, nearer, download.size)
      if (near.kind === 'content') return near.answer
      running.near = near
    }
    const { uri, via } = wanted
    return ask({ uri, stored: undefined, lifetime, via, ...question })
  }

  #noteStored(key: string, { because }: Pick<Download, 'because'>): void {
    if (because === undefined) this.#notStored.delete(key)
    else this.#notStored.set(key, because)
  }

  #noteFailure(wanted: WantedFile, error: unknown, begun?: BegunContent): Failure {
    const failure = asFailure(wanted.uri, error)
    const { near } = begun?.from ?? {}
    if (WrongContent.is(failure)) {
      this.#wrong.note(wanted, failure, { draft: begun?.draft, near: near !== undefined })
      if (near === undefined) this.#options.onWrong(failure)
      else if (begun?.digest !== undefined) this.#options.nearer?.wrong(begun.digest)
    }
    if (near !== undefined) return failure
    const late = failure instanceof OriginFailure && failure.timedOut
    if (late && failure.phase !== 'queue') this.slow.note(wanted.uri)
    return failure
  }
}

/** Origins remembered: a client can ask for any name. */
const capacity = 1000

/** A refusal that comes so soon after a file is about one file. */
const justNow: Milliseconds = 600_000

/** Time in which requests with a stored copy do not wait for such an origin. */
const memory: Milliseconds = 10_000

/**
 * Remembers origins that have just let a deadline pass. For a while requests for stored files do not wait for them again.
 * An origin that says no at once costs no time and is asked every time.
 */
class SlowOrigins {
  readonly #clock: Clock
  readonly #until = new LRUCache<string, Milliseconds>({ max: capacity })
  readonly #probed = new Set<string>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Whether stored answers should not wait for this origin. */
  has(uri: TargetUri): boolean {
    const origin = originName(uri)
    const until = this.#until.get(origin)
    if (until === undefined) return false
    if (until > this.#clock.elapsed()) return true
    this.#until.delete(origin)
    return false
  }

  note(uri: TargetUri): void {
    this.#until.set(originName(uri), this.#clock.elapsed() + memory)
  }

  forget(uri: TargetUri): void {
    this.#until.delete(originName(uri))
  }

  /** Undefined while a probe of this origin is under way; else what to call when the one that begins now is over. */
  beginProbe(uri: TargetUri): (() => void) | undefined {
    const origin = originName(uri)
    if (this.#probed.has(origin)) return undefined
    this.#probed.add(origin)
    return () => this.#probed.delete(origin)
  }
}
