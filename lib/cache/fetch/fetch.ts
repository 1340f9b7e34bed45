/**
 * The miss and the revalidation: one flight to the origin per key, however many clients want it. A flight outlives its
 * clients: who leaves stops nothing. Its first result is known with the origin's head, so everybody can stream from the
 * growing content; its last with the final byte, when the entry is committed.
 */
import { LRUCache } from 'lru-cache'
import type { Clock, Milliseconds } from '../../async/clock.ts'
import { Failure } from '../../errors.ts'
import type { OriginResponse } from '../../http/client/client.ts'
import { OriginFailure } from '../../http/client/errors.ts'
import { Fields } from '../../http/message/field.ts'
import { formatAuthority, formatUri, type TargetUri } from '../../http/message/target.ts'
import { validatorsOf } from '../../http/message/validator.ts'
import type { Logger } from '../../log/log.ts'
import type { ArchivePath } from '../archive/path.ts'
import {
  confirmedEntry,
  draftEntry,
  type EntryDraft,
  finishedEntry,
  unstorable,
} from '../rfc9111/stored-response.ts'
import type { Download } from '../store/content/download.ts'
import type { Entry } from '../store/entry.ts'
import type { Store } from '../store/store.ts'
import { watchOrphan } from './abandoned.ts'
import { fill } from './transfer.ts'

/** What is to be fetched. */
export interface Wanted {
  readonly key: string
  readonly uri: TargetUri
  readonly archive: ArchivePath
  /** What the store has; the origin is then asked whether it still holds. */
  readonly stored: Entry | undefined
  /** The client insists on the origin's own word, so caches on the way must not answer. */
  readonly insist: boolean
}

/** Content on its way: its head is known, its bytes are arriving. */
export interface Filling {
  readonly draft: EntryDraft
  readonly length: number | undefined
  readonly download: Download
  /** Never rejects. */
  readonly settled: Promise<Settled>
}

/** What came of a filling: stored, whole but not stored, or never whole. */
export type Settled =
  | { readonly kind: 'stored'; readonly entry: Entry }
  | { readonly kind: 'passed' }
  | { readonly kind: 'failed' }

/** What the origin's head amounts to. */
export type Found =
  | { readonly kind: 'validated'; readonly entry: Entry }
  | { readonly kind: 'filling'; readonly filling: Filling }
  | { readonly kind: 'answered'; readonly status: number; readonly fields: Fields }
  | { readonly kind: 'failed'; readonly failure: Failure }

export interface Flight {
  /** Never rejects. */
  readonly found: Promise<Found>
  /** Whether somebody else had asked before. */
  readonly joined: boolean
}

export interface FetcherOptions {
  readonly store: Store
  readonly clock: Clock
  readonly log: Logger
  /** Asks the outside within policy, redirects followed. */
  readonly ask: (uri: TargetUri, fields: Fields, signal: AbortSignal) => Promise<OriginResponse>
  /** Told of the bytes of every fetch when it ends, whole or not. */
  readonly onFetched: (bytes: number) => void
  /**
   * How long clients do not wait for an origin that has just let a deadline pass, about things the store has. One that says no
   * at once costs nobody any time and is asked every time.
   */
  readonly failureMemory: Milliseconds
}

interface Airborne {
  /** Nothing was stored when it began. */
  readonly anew: boolean
  readonly stop: AbortController
  readonly found: Promise<Found>
  readonly landed: Promise<void>
}

/** Fetches under way at once. Clients may ask for any number of files, and leave. */
const mostFlights = 4096
/** Origins remembered as failing: names are for the asking. */
const mostFailing = 1000

export class Fetcher {
  readonly #options: FetcherOptions
  readonly #flights = new Map<string, Airborne>()
  readonly #failing = new LRUCache<string, Milliseconds>({ max: mostFailing })
  readonly #probed = new Set<string>()

  constructor(options: FetcherOptions) {
    this.#options = options
  }

  /** Joins the flight for this key or starts one. */
  fetch(wanted: Wanted): Flight {
    const flying = this.#flights.get(wanted.key)
    if (flying !== undefined) return { found: flying.found, joined: true }
    if (this.#flights.size >= mostFlights) return { found: Promise.resolve(full), joined: false }
    const flight = this.#start(wanted)
    this.#flights.set(wanted.key, flight)
    void flight.landed.then(() => this.#flights.delete(wanted.key))
    return { found: flight.found, joined: false }
  }

  /** Whether a fetch of this key is under way. */
  isFlying(key: string): boolean {
    return this.#flights.has(key)
  }

  /** Whether what the store does not have is being fetched: then there is no need to look. */
  isFetchedAnew(key: string): boolean {
    return this.#flights.get(key)?.anew === true
  }

  /** Sees in the background whether a failing origin is back: one question at a time each. */
  probe(wanted: Wanted): void {
    const authority = formatAuthority(wanted.uri, wanted.uri.scheme)
    if (this.#probed.has(authority)) return
    this.#probed.add(authority)
    void this.fetch(wanted).found.then(() => this.#probed.delete(authority))
  }

  /** Whether this origin kept somebody waiting so recently that stored answers should not wait for it again. */
  isFailing(uri: TargetUri): boolean {
    const authority = formatAuthority(uri, uri.scheme)
    const until = this.#failing.get(authority)
    if (until === undefined) return false
    if (until > this.#options.clock.now()) return true
    this.#failing.delete(authority)
    return false
  }

  /** Notes that the origin kept a client waiting for longer than anybody should have to. */
  noteSlow(uri: TargetUri): void {
    const until = this.#options.clock.now() + this.#options.failureMemory
    this.#failing.set(formatAuthority(uri, uri.scheme), until)
  }

  /** Fetches under way. */
  get count(): number {
    return this.#flights.size
  }

  /** Waits for what is under way; when `deadline` fires the rest is abandoned and its parts are thrown away. */
  async close(deadline: AbortSignal): Promise<void> {
    const abandon = () => {
      for (const { stop } of this.#flights.values()) stop.abort()
    }
    if (deadline.aborted) abandon()
    else deadline.addEventListener('abort', abandon, { once: true })
    await Promise.all([...this.#flights.values()].map(flight => flight.landed))
    deadline.removeEventListener('abort', abandon)
  }

  #start(wanted: Wanted): Airborne {
    let land: () => void = () => undefined
    const landed = new Promise<void>(resolve => {
      land = resolve
    })
    const stop = new AbortController()
    const found = this.#find(wanted, stop, land).catch((error: unknown): Found => {
      land()
      return { kind: 'failed', failure: this.#noteFailure(wanted.uri, error) }
    })
    return { anew: wanted.stored === undefined, stop, found, landed }
  }

  async #find(wanted: Wanted, stop: AbortController, land: () => void): Promise<Found> {
    const { clock, store } = this.#options
    const requested = clock.now()
    const response = await this.#options.ask(wanted.uri, conditionalFields(wanted), stop.signal)
    this.#failing.delete(formatAuthority(wanted.uri, wanted.uri.scheme))
    const received = clock.now()

    if (response.status === 304 && wanted.stored !== undefined) {
      response.content.close()
      const entry = confirmedEntry(wanted.stored, response.fields, { requested, received })
      await store.put(entry)
      land()
      return { kind: 'validated', entry }
    }
    if (response.status !== 200) {
      response.content.close()
      land()
      return { kind: 'answered', status: response.status, fields: response.fields }
    }
    const draft = draftEntry(wanted.key, response.fields, {
      requested,
      received,
      previous: wanted.stored,
    })
    const download = await store.download({
      ...(response.length === undefined ? {} : { length: response.length }),
      ...(wanted.archive.digest === undefined
        ? {}
        : { expected: { digest: wanted.archive.digest } }),
      passing: unstorable(response.fields),
    })
    const settled = this.#run(wanted, response, { draft, download, stop }).finally(land)
    return { kind: 'filling', filling: { draft, length: response.length, download, settled } }
  }

  /** The content, to its last byte. */
  async #run(
    wanted: Wanted,
    response: OriginResponse,
    into: { draft: EntryDraft; download: Download; stop: AbortController },
  ): Promise<Settled> {
    const { clock, store, log, onFetched } = this.#options
    const { draft, download, stop } = into
    const { signal } = stop
    let whole = false
    const unwatch = watchOrphan(download, clock, reason => {
      log.info('fetch given up, for nobody waits for it', {
        key: wanted.key,
        received: download.size,
      })
      stop.abort(reason)
    })
    try {
      await fill(response, download, {
        clock,
        validators: validatorsOf(response.fields, clock.now()),
        signal,
        again: more => this.#options.ask(wanted.uri, more, signal),
        onResume: (received, error) => {
          log.warn('fetch broke off, resuming', { key: wanted.key, received, error })
        },
      })
      const content = await download.complete()
      whole = true
      if (!content.stored) return { kind: 'passed' }
      const entry = finishedEntry(draft, content, wanted.stored)
      const kept = await store.put(entry)
      if (!kept.stored) log.warn('not stored', { key: wanted.key, because: kept.because })
      return { kind: 'stored', entry }
    } catch (error) {
      response.content.close()
      await download.discard(this.#noteFailure(wanted.uri, error))
      log.warn('fetch failed', { key: wanted.key, received: download.size, error })
      return { kind: whole ? 'passed' : 'failed' }
    } finally {
      unwatch()
      onFetched(download.size)
    }
  }

  #noteFailure(uri: TargetUri, error: unknown): Failure {
    const failure = asFailure(uri, error)
    const late = failure instanceof OriginFailure && failure.timedOut
    if (late && failure.phase !== 'queue') this.noteSlow(uri)
    return failure
  }
}

/** RFC 9111 section 4.3.1: ask with every validator the origin itself gave. */
function conditionalFields(wanted: Wanted): Fields {
  const insist = wanted.insist ? 'max-age=0' : undefined
  if (wanted.stored === undefined) return Fields.of(['Cache-Control', insist])
  const stored = Fields.of(...wanted.stored.fields)
  return Fields.of(
    ['Cache-Control', insist],
    ['If-None-Match', stored.get('ETag')],
    ['If-Modified-Since', stored.get('Last-Modified')],
  )
}

const full: Found = {
  kind: 'failed',
  failure: new Failure(`${mostFlights} fetches are under way`, {
    code: 'TOO_MANY_FETCHES',
    fault: 'upstream',
    publicText: 'This proxy is fetching as much as it can; try again.',
  }),
}

function asFailure(uri: TargetUri, error: unknown): Failure {
  if (error instanceof Failure) return error
  return new Failure(`fetching ${formatUri(uri)} failed`, {
    code: 'FETCH_FAILED',
    fault: 'internal',
    publicText: 'This proxy could not fetch the file.',
    cause: error,
  })
}
