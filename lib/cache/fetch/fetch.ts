/**
 * Asks origins for files, once for each key however many clients want it at the same time. A fetch goes on when its clients
 * leave. Its first result comes with the head of the response, so that all can read the content while it grows.
 *
 * # Facts
 * - A fetch ends with the last byte: from then on the store has the file, and who asks later asks the store.
 * - A large file of which a crash left the beginning is asked for from there on.
 */
import type { Clock, Milliseconds } from '../../async/clock.ts'
import { Failure } from '../../errors.ts'
import { OriginFailure } from '../../http/client/errors.ts'
import { Fields } from '../../http/message/field.ts'
import { formatUri, type TargetUri } from '../../http/message/target.ts'
import type { Logger } from '../../log/log.ts'
import { type Impostor, impostor, promisesNothing, telling } from '../archive/impostor.ts'
import {
  confirmedEntry,
  draftEntry,
  finishedEntry,
  unstorable,
} from '../rfc9111/stored-response.ts'
import type { Store } from '../store/store.ts'
import { watchAbandoned } from './abandoned.ts'
import type { Ask } from './ask.ts'
import {
  conditionalFields,
  differs,
  type Fetching,
  type Found,
  full,
  mostFetches,
  type Settled,
  type Wanted,
} from './found.ts'
import { type Answer, originName } from './mirrors.ts'
import { opening } from './opening.ts'
import { type Begun, resumed } from './resumption.ts'
import { isGone } from './revalidation.ts'
import { SlowOrigins } from './slow-origins.ts'
import { isUpstream, transfer } from './transfer.ts'

export interface FetcherOptions {
  readonly store: Store
  readonly clock: Clock
  readonly log: Logger
  /** Asks the outside within policy, redirects followed. */
  readonly ask: Ask
  /** Told of the origin whose content broke off or was wrong. */
  readonly onBroken: (place: TargetUri) => void
  /** Told of the bytes of every fetch when it ends, whole or not. */
  readonly onFetched: (bytes: number) => void
  /** Told of every response that was plainly not the file it was asked for. */
  readonly onImpostor: () => void
  /**
   * How long clients do not wait for an origin that has just let a deadline pass, about things the store has. One that says no
   * at once costs no time and is asked every time.
   */
  readonly failureMemory: Milliseconds
}

interface UnderWay {
  readonly wanted: Wanted
  readonly stop: AbortController
  readonly found: Promise<Found>
  /** What has come of it, once it has begun to come. */
  begun?: Pick<Begun, 'download' | 'length'>
}

/** A file on its way from its origin. */
export interface Arriving {
  readonly key: string
  readonly received: number
  /** All of it, when the origin named it. */
  readonly length: number | undefined
}

export class Fetcher {
  readonly #options: FetcherOptions
  /** Origins that have just let a deadline pass. */
  readonly slow: SlowOrigins
  readonly #underWay = new Map<string, UnderWay>()
  #onIdle: (() => void) | undefined

  constructor(options: FetcherOptions) {
    this.#options = options
    this.slow = new SlowOrigins(options.clock, options.failureMemory)
  }

  /** Joins the fetch of this key or starts one. */
  fetch(wanted: Wanted): Fetching {
    const running = this.#underWay.get(wanted.key)
    if (running !== undefined) return { found: running.found, joined: true }
    if (this.#underWay.size >= mostFetches) return { found: Promise.resolve(full), joined: false }
    const stop = new AbortController()
    const found = this.#find(wanted, stop).catch((error: unknown): Found => {
      this.#over(wanted)
      return { kind: 'failed', failure: this.#noteFailure(wanted.uri, error) }
    })
    this.#underWay.set(wanted.key, { wanted, stop, found })
    return { found, joined: false }
  }

  /** Whether a fetch of this key is under way. */
  isFetching(key: string): boolean {
    return this.#underWay.has(key)
  }

  /** Whether what the store does not have is being fetched: then there is no need to look. */
  isFetchedAnew(key: string): boolean {
    const running = this.#underWay.get(key)
    return running !== undefined && running.wanted.stored === undefined
  }

  /** Finds out in the background whether a slow origin is back: one question at a time for each. */
  probe(wanted: Wanted): void {
    const done = this.slow.beginProbe(wanted.uri)
    if (done !== undefined) void this.fetch(wanted).found.then(done)
  }

  /** Files that are arriving, in the order in which they began. */
  get arriving(): readonly Arriving[] {
    const found: Arriving[] = []
    for (const [key, { begun }] of this.#underWay) {
      if (begun !== undefined) {
        found.push({ key, received: begun.download.size, length: begun.length })
      }
    }
    return found
  }

  /** Fetches under way. */
  get count(): number {
    return this.#underWay.size
  }

  /** Waits for what is under way; when `deadline` fires the rest is given up and its parts are thrown away. */
  async close(deadline: AbortSignal): Promise<void> {
    if (this.#underWay.size === 0) return
    const idle = new Promise<void>(resolve => {
      this.#onIdle = resolve
    })
    const giveUp = () => {
      for (const { stop } of this.#underWay.values()) stop.abort()
    }
    if (deadline.aborted) giveUp()
    else deadline.addEventListener('abort', giveUp, { once: true })
    await idle
    deadline.removeEventListener('abort', giveUp)
  }

  #over({ key }: Wanted): void {
    this.#underWay.delete(key)
    if (this.#underWay.size === 0) this.#onIdle?.()
  }

  async #find(
    wanted: Wanted,
    stop: AbortController,
    except: ReadonlySet<string> = new Set(),
  ): Promise<Found> {
    const { clock, store, ask } = this.#options
    const { key, uri, stored } = wanted
    const requested = clock.now()
    const left = stored === undefined && !wanted.insist ? store.resumable(key) : undefined
    const continued =
      left && (await resumed(wanted, left, { ...this.#options, signal: stop.signal }))
    if (continued !== undefined) return this.#fill(wanted, continued, stop)
    const answer = await ask({
      uri,
      stored,
      except,
      signal: stop.signal,
      more: () => conditionalFields(wanted),
    })
    this.slow.forget(uri)
    const times = { requested, received: clock.now() }
    const { response, certain } = answer
    const { status, fields } = response
    if (status === 200) return this.#begin(wanted, answer, { times, stop, except })
    response.content.close()
    this.#over(wanted)
    if (status === 304 && stored !== undefined) {
      const entry = confirmedEntry(stored, fields, times)
      store.put(entry)
      return { kind: 'validated', entry }
    }
    // What the origin declares gone stays gone when the origin fails later.
    if (isGone(status)) store.remove(key)
    return { kind: 'answered', status, fields, certain }
  }

  /** A 200: its content begins to be stored, unless something speaks against it. */
  async #begin(
    wanted: Wanted,
    answer: Answer,
    given: {
      readonly times: { requested: number; received: number }
      readonly stop: AbortController
      readonly except: ReadonlySet<string>
    },
  ): Promise<Found> {
    const { store, log, onImpostor, onBroken } = this.#options
    const { key, uri, archive, stored } = wanted
    const { place, response } = answer
    const { fields, length } = response
    let { content } = response
    let found: Impostor | undefined
    if (!promisesNothing(archive)) {
      const opened = await opening(content, telling)
      content = opened.content
      if (!opened.broken)
        found = impostor({ ...archive, name: fileName(uri) }, fields, opened.first)
    }
    if (found !== undefined) {
      onImpostor()
      log.warn('the origin answered with something else', { key, because: found })
    }
    if (found !== undefined && answer.others) {
      content.close()
      onBroken(place)
      return this.#find(wanted, given.stop, new Set([...given.except, originName(place)]))
    }
    if (found !== undefined && stored !== undefined) {
      content.close()
      throw new Failure(`the origin answered with something else (${found})`, {
        code: 'ORIGIN_IMPOSTOR',
        fault: 'upstream',
        publicText: 'The origin answered with something that is not this file.',
      })
    }
    const draft = draftEntry(key, fields, { ...given.times, previous: stored })
    try {
      const download = store.download({
        key,
        length,
        expected: archive.digest && { digest: archive.digest },
        passing: unstorable(fields) ?? found,
        fields: Object.fromEntries(draft.fields),
      })
      return this.#fill(wanted, { draft, download, length, content, from: answer }, given.stop)
    } catch (error) {
      content.close()
      throw error
    }
  }

  #fill(wanted: Wanted, begun: Begun, stop: AbortController): Found {
    const { draft, download, length } = begun
    const running = this.#underWay.get(wanted.key)
    if (running !== undefined) running.begun = begun
    const settled = this.#run(wanted, begun, stop)
    const changed = wanted.stored !== undefined && differs(draft, length, wanted.stored)
    return { kind: 'filling', filling: { draft, length, download, changed, settled } }
  }

  /** The content, to its last byte. */
  async #run(
    wanted: Wanted,
    { draft, download, length, content, from }: Begun,
    stop: AbortController,
  ): Promise<Settled> {
    const { clock, store, log, ask, onBroken, onFetched } = this.#options
    const { key, uri, archive, stored } = wanted
    const before = download.size
    let last: TargetUri | undefined
    const unwatch = watchAbandoned(download, clock, reason => {
      log.info('fetch given up, no client waits for it', { key, received: download.size })
      stop.abort(reason)
    })
    try {
      last = await transfer(content, download, {
        clock,
        signal: stop.signal,
        file: {
          length,
          fields: Fields.of(...draft.fields),
          promised: archive.digest !== undefined,
          received: draft.stored,
        },
        from,
        again: question => ask({ uri, stored: undefined, signal: stop.signal, ...question }),
        onBroken,
        onResume: (received, error) => {
          log.warn('fetch broke off, resuming', { key, received, error })
        },
      })
      const { stored: storing } = download
      const completed = download.complete()
      const entry = finishedEntry(draft, completed, stored)
      const put = storing && store.put(entry).stored
      void completed.kept.then(kept => {
        if (!kept.stored && storing) log.warn('not stored', { key, because: kept.because })
      })
      return put ? { kind: 'stored', entry } : { kind: 'passed' }
    } catch (error) {
      content.close()
      if (last !== undefined && isUpstream(error)) onBroken(last)
      download.discard(this.#noteFailure(uri, error))
      log.warn('fetch failed', { key, received: download.size, error })
      return { kind: 'failed' }
    } finally {
      unwatch()
      this.#over(wanted)
      onFetched(download.size - before)
    }
  }

  #noteFailure(uri: TargetUri, error: unknown): Failure {
    const failure = asFailure(uri, error)
    const late = failure instanceof OriginFailure && failure.timedOut
    if (late && failure.phase !== 'queue') this.slow.note(uri)
    return failure
  }
}

function fileName({ path }: TargetUri): string {
  return path.slice(path.lastIndexOf('/') + 1)
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
