/**
 * Answers a request as `lookup` decided: hits, revalidations, misses, and HEAD, which never downloads content. When something
 * fails, stored content is used before an error, and an error is one after which apt tries again.
 */
import type { Clock, Milliseconds } from '../../async/clock.ts'
import { whenReady } from '../../async/ready.ts'
import { Failure } from '../../errors.ts'
import type { Response } from '../../http/message/message.ts'
import type { Fetcher } from '../fetch/fetch.ts'
import { firstByteDeadline, slowOrigin } from '../fetch/first-byte-deadline.ts'
import type { Answered, Fetching, Filling, Found, Wanted } from '../fetch/found.ts'
import type { Answer } from '../fetch/mirrors.ts'
import { isGone, isIllness, revalidate } from '../fetch/revalidation.ts'
import type { Allowed } from '../request/allowed.ts'
import type { NegativeMemory } from '../rfc9111/negative.ts'
import type { MissReason, StaleReason } from '../rfc9111/outcome.ts'
import type { Entry } from '../store/entry.ts'
import type { Store } from '../store/store.ts'
import { originSaid, unavailable } from './errors.ts'
import { arrivingRepresentation, originHead } from './fetched.ts'
import { represent } from './representation.ts'
import { type StoredReason, storedRepresentation } from './stored.ts'

export interface AnswererParts {
  readonly store: Store
  readonly fetcher: Fetcher
  readonly negative: NegativeMemory
  readonly clock: Clock
  /** Asks for the head alone, within policy, redirects followed. */
  readonly askHead: (wanted: Wanted, signal: AbortSignal) => Promise<Answer>
  /** Whether an entry may answer when the origin has failed to confirm it. */
  readonly mayBeStale: (entry: Entry) => boolean
  /** How long a client waits for the origin before it gets the stored copy. */
  readonly revalidationBudget: () => Milliseconds
}

export class Answerer {
  readonly #parts: AnswererParts

  constructor(parts: AnswererParts) {
    this.#parts = parts
  }

  /** The stored entry. The disk is not asked when the key is being fetched because it was absent. */
  stored(key: string): Entry | undefined | Promise<Entry | undefined> {
    const { fetcher, store } = this.#parts
    return fetcher.isFetchedAnew(key) ? undefined : store.get(key)
  }

  /** Answers with the stored copy, at once when its content is in memory. If the content is missing, it is fetched. */
  fromStore(allowed: Allowed, entry: Entry, because: StoredReason): Response | Promise<Response> {
    const { request, about, tools } = allowed
    const { store } = this.#parts
    const representation = storedRepresentation(entry, because, about, tools, (first, last) => {
      return store.content(entry, first, last ?? entry.size - 1)
    })
    return whenReady(represent(request, representation, tools), answer => {
      if (answer === undefined) return this.#fetchedAnew(allowed)
      store.touch(entry.key)
      return answer
    })
  }

  /** Asks the origin about the stored copy. Answers with the copy when the origin confirms it, is slow or fails. */
  async revalidated(allowed: Allowed, entry: Entry): Promise<Response> {
    const { request, uri } = allowed
    const { fetcher, clock } = this.#parts
    if (fetcher.slow.has(uri)) {
      if (request.method !== 'HEAD') fetcher.probe(this.#wanted(allowed, entry))
      return this.#stale(allowed, entry, 'stale-origin-failed')
    }
    if (request.method === 'HEAD') return this.#head(allowed, entry)
    const fetching = this.#fetch(allowed, entry)
    const wait = this.#parts.revalidationBudget()
    const outcome = await revalidate(entry, fetching, { clock, wait })
    switch (outcome.use) {
      case 'store':
        return this.fromStore(allowed, outcome.entry, outcome.because)
      case 'stale':
        if (outcome.because === 'stale-origin-slow') fetcher.slow.note(uri)
        return this.#stale(allowed, entry, outcome.because)
      case 'changed':
        return this.fromStore(allowed, outcome.entry, 'changed')
      case 'filling':
        return (
          (await this.#fromFilling(allowed, outcome.filling, 'changed')) ??
          this.#stale(allowed, entry, 'stale-origin-slow')
        )
      case 'again':
        return this.#fetchedAnew(allowed)
      case 'answer':
        return this.#originSaid(allowed, outcome)
    }
  }

  /** Answers a miss. */
  async fetched(allowed: Allowed): Promise<Response> {
    const { fetcher, store } = this.#parts
    // A fetch may have ended between our look-up and here: a request that would start one looks again.
    const arrived = fetcher.isFetching(allowed.key) ? undefined : store.peek(allowed.key)
    if (arrived !== undefined) return this.fromStore(allowed, arrived, 'validated-just-now')
    return this.#fetchedAnew(allowed)
  }

  /** Fetches from the origin without looking into the store. */
  async #fetchedAnew(allowed: Allowed): Promise<Response> {
    const { request, about, key } = allowed
    const { fetcher } = this.#parts
    if (request.method === 'HEAD' && !fetcher.isFetching(key)) return this.#head(allowed, undefined)
    const fetching = this.#fetch(allowed, undefined)
    const found = await this.#withinDeadline(fetching.found)
    if (found === undefined)
      return unavailable(request, slowOrigin(about.origin, 'the fetch goes on, try again'), about)
    return this.#fromFound(allowed, found, fetching)
  }

  async #fromFound(allowed: Allowed, found: Found, fetching: Fetching): Promise<Response> {
    switch (found.kind) {
      case 'validated':
        return this.fromStore(allowed, found.entry, 'validated')
      case 'filling':
        // After a 503 apt tries again.
        return (
          (await this.#fromFilling(
            allowed,
            found.filling,
            fetching.joined ? 'joined' : 'absent',
          )) ?? unavailable(allowed.request, passedBy(allowed.about.origin), allowed.about)
        )
      case 'answered':
        return this.#originSaid(allowed, found)
      case 'failed':
        return unavailable(allowed.request, found.failure, allowed.about)
    }
  }

  /** Undefined when the download passes through without being stored, and its beginning is gone. */
  #fromFilling(
    { key, request, about, tools }: Allowed,
    filling: Filling,
    because: MissReason,
  ): Response | undefined | Promise<Response | undefined> {
    this.#parts.negative.forget(key)
    return represent(request, arrivingRepresentation(filling, because, about, tools), tools)
  }

  /** HEAD asks with HEAD. A stored copy answers when the origin is late or fails. */
  async #head(allowed: Allowed, entry: Entry | undefined): Promise<Response> {
    const { request, about, tools } = allowed
    const { askHead, revalidationBudget } = this.#parts
    try {
      const asked = askHead(this.#wanted(allowed, entry), request.signal)
      const answer = await this.#withinDeadline(asked, entry && revalidationBudget())
      answer?.response.content.close()
      if (entry !== undefined && answer === undefined) {
        return this.#stale(allowed, entry, 'stale-origin-slow')
      }
      if (answer === undefined) throw slowOrigin(about.origin)
      const { response, certain } = answer
      if (response.status === 200) return originHead(request, response, about, tools)
      if (isGone(response.status)) this.#parts.store.remove(allowed.key)
      return entry !== undefined && isIllness(response.status)
        ? this.#stale(allowed, entry, 'stale-origin-failed')
        : this.#originSaid(allowed, { ...response, certain })
    } catch (error) {
      if (entry !== undefined) return this.#stale(allowed, entry, 'stale-origin-failed')
      if (error instanceof Failure) return unavailable(request, error, about)
      throw error
    }
  }

  /** The stored copy that the origin did not confirm, where that may be (RFC 9111 section 4.2.4). */
  #stale(allowed: Allowed, entry: Entry, because: StaleReason): Response | Promise<Response> {
    if (this.#parts.mayBeStale(entry)) return this.fromStore(allowed, entry, because)
    return unavailable(allowed.request, unconfirmed(allowed.about.origin), allowed.about)
  }

  #originSaid(allowed: Allowed, said: Omit<Answered, 'kind'>): Response {
    if (isGone(said.status) && said.certain) this.#parts.negative.remember(allowed.key)
    return originSaid(allowed.request, { ...said, because: 'absent' }, allowed.about)
  }

  #fetch(allowed: Allowed, stored: Entry | undefined): Fetching {
    return this.#parts.fetcher.fetch(this.#wanted(allowed, stored))
  }

  #wanted({ key, uri, archive, directives }: Allowed, stored: Entry | undefined): Wanted {
    const insist = directives.noCache || directives.maxAge === 0
    return { key, uri, archive, stored, insist }
  }

  async #withinDeadline<Result>(
    promise: Promise<Result>,
    deadline = firstByteDeadline,
  ): Promise<Result | undefined> {
    let cancel: () => void = () => undefined
    const late = new Promise<undefined>(resolve => {
      cancel = this.#parts.clock.after(deadline, () => resolve(undefined))
    })
    try {
      return await Promise.race([promise, late])
    } finally {
      cancel()
    }
  }
}

function unconfirmed(origin: string): Failure {
  return new Failure(`${origin} has not confirmed what is stored and forbids to serve it stale`, {
    code: 'STALE_FORBIDDEN',
    fault: 'upstream',
    publicText: 'The origin has not confirmed the stored file, and forbids to serve it stale.',
  })
}

function passedBy(origin: string): Failure {
  return new Failure(`a fetch from ${origin} is under way that cannot be joined`, {
    code: 'NOT_JOINABLE',
    fault: 'internal',
    publicText: 'The file is being fetched for another client and cannot be stored; try again.',
  })
}
