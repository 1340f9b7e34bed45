/**
 * Answers a request as `lookup` decided: hits, revalidations, misses, and HEAD, which never downloads content. When something
 * fails, stored content is used before an error, and an error is one after which apt tries again.
 */
import type { Clock, Milliseconds } from '../../async/clock.ts'
import { inTime } from '../../async/deadline.ts'
import { whenReady } from '../../async/ready.ts'
import { Failure } from '../../errors.ts'
import { Fields } from '../../http/message/field.ts'
import type { Peer, Response } from '../../http/message/message.ts'
import type { ArchivePath } from '../archive/path.ts'
import {
  firstByteDeadline,
  passedBy,
  slowOrigin,
  superseded,
  unconfirmed,
} from '../fetch/failures.ts'
import type { Fetcher } from '../fetch/fetch.ts'
import {
  type Answered,
  type Fetching,
  type Filling,
  type Found,
  verifiedBy,
  type Wanted,
} from '../fetch/found.ts'
import type { Answer } from '../fetch/mirrors.ts'
import {
  isGone,
  isOriginFailure,
  type RevalidationResult,
  revalidate,
} from '../fetch/revalidation.ts'
import type { NegativeMemory } from '../rfc9111/negative.ts'
import type { MissReason, StaleReason } from '../rfc9111/outcome.ts'
import { draftEntry } from '../rfc9111/stored-response.ts'
import type { Entry } from '../store/entry.ts'
import type { Store } from '../store/store.ts'
import { originSaid, unavailable } from './errors.ts'
import { arrivingRepresentation, originHead } from './fetched.ts'
import { type Allowed, represent } from './representation.ts'
import { type StoredReason, storedRepresentation } from './stored.ts'
import type { Updates } from './suite-updates.ts'

interface AnswererParts {
  readonly store: Store
  readonly fetcher: Fetcher
  readonly updates: Updates
  readonly negative: NegativeMemory
  readonly clock: Clock
  /** Asks for the head alone, within policy, redirects followed. */
  readonly askHead: (wanted: Wanted, signal: AbortSignal) => Promise<Answer>
  /** Whether an entry may answer when the origin has failed to confirm it. */
  readonly mayBeStale: (entry: Entry) => boolean
  /** How long a client waits for the origin before it gets the stored copy. */
  readonly revalidationBudget: () => Milliseconds
  /** Told which stored Release file a client gets. */
  readonly onReleaseGiven: (client: Peer, entry: Entry) => void
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
    const { request, about, tools, archive } = allowed
    const { store, onReleaseGiven } = this.#parts
    if (archive.kind === 'release') onReleaseGiven(request.client, entry)
    const representation = storedRepresentation(entry, because, about, tools, (first, last) => {
      return store.content(entry, first, last ?? entry.size - 1)
    })
    return whenReady(represent(request, representation, tools), answer => {
      if (answer === undefined) return this.#fetchedAnew(allowed)
      store.touch(entry.key)
      return answer
    })
  }

  /** Fetches the file in place of the stored copy, of which an index says that it is not the file. */
  replaced(allowed: Allowed, entry: Entry): Promise<Response> {
    return this.#fetchedAnew(allowed, entry)
  }

  /** An entry for content that the store has under another name, when an index says that the file has this content. */
  elsewhere({ key, claim, archive, tools }: Allowed, before: Entry | undefined): Entry | undefined {
    if (claim === undefined || before?.digest === claim.digest) return undefined
    const { digest, size } = claim
    const received = { requested: tools.now, received: tools.now }
    const draft = draftEntry(key, nothingSaid, { ...received, previous: before })
    const verified = verifiedBy({ archive, claim })
    const entry = { ...draft, digest, size, ...(verified && { verified }) }
    return this.#parts.store.put(entry).stored ? entry : undefined
  }

  /** Notes in an entry what an index says of its content. */
  confirmed({ claim, archive }: Allowed, entry: Entry): Entry {
    if (claim?.digest !== entry.digest || entry.verified !== undefined) return entry
    const verified = verifiedBy({ archive, claim })
    const confirmed = verified === undefined ? entry : { ...entry, verified }
    return this.#parts.store.put(confirmed).stored ? confirmed : entry
  }

  /** Asks the origin about the stored copy. Answers with the copy when the origin confirms it, is slow or fails. */
  async revalidated(allowed: Allowed, entry: Entry): Promise<Response> {
    const { request, uri } = allowed
    const { fetcher, clock, updates } = this.#parts
    if (fetcher.slow.has(uri)) {
      if (request.method !== 'HEAD') this.#probe(this.#wanted(allowed, entry), entry)
      return this.#stale(allowed, entry, 'stale-origin-failed')
    }
    if (request.method === 'HEAD') return this.#head(allowed, entry)
    // A Release file of an adopted suite: the new one only when the whole suite is up to date.
    if (updates.governs(entry)) {
      return this.#afterAsking(
        allowed,
        entry,
        await updates.check(this.#wanted(allowed, entry), entry),
      )
    }
    const fetching = this.#fetch(allowed, entry)
    const wait = this.#parts.revalidationBudget()
    const outcome = await revalidate(entry, fetching, { clock, wait })
    if (outcome.use !== 'filling') return this.#afterAsking(allowed, entry, outcome)
    return (
      (await this.#fromFilling(allowed, outcome.filling, 'changed')) ??
      this.#stale(allowed, entry, 'stale-origin-slow')
    )
  }

  /** Answers as the question to the origin has ended. */
  #afterAsking(
    allowed: Allowed,
    entry: Entry,
    outcome: RevalidationResult,
  ): Response | Promise<Response> {
    switch (outcome.use) {
      case 'store':
        return this.fromStore(allowed, outcome.entry, outcome.because)
      case 'stale':
        if (outcome.because === 'stale-origin-slow') this.#parts.fetcher.slow.note(allowed.uri)
        return this.#stale(allowed, entry, outcome.because)
      case 'again':
        return this.#fetchedAnew(allowed)
      case 'answer':
        return this.#originSaid(allowed, outcome)
    }
  }

  /**
   * Finds out in the background whether a slow origin is back: one question at a time for each. A Release file changes only
   * together with its suite.
   */
  #probe(wanted: Wanted, entry: Entry): void {
    const { updates, fetcher } = this.#parts
    const done = fetcher.slow.beginProbe(wanted.uri)
    if (done === undefined) return
    const asking = updates.governs(entry)
      ? updates.check(wanted, entry)
      : fetcher.fetch(wanted).found
    void asking.then(done)
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
  async #fetchedAnew(allowed: Allowed, superseded?: Entry): Promise<Response> {
    const { request, about, key } = allowed
    const { fetcher } = this.#parts
    if (request.method === 'HEAD' && !fetcher.isFetching(key)) return this.#head(allowed, undefined)
    const fetching = this.#fetch(allowed, superseded)
    const found = await inTime(fetching.found, this.#parts.clock, firstByteDeadline)
    if (found === undefined)
      return unavailable(request, slowOrigin(about.origin, 'the fetch goes on, try again'), about)
    const because = superseded === undefined ? 'absent' : 'superseded'
    return this.#fromFound(allowed, found, fetching.joined ? 'joined' : because)
  }

  async #fromFound(allowed: Allowed, found: Found, because: MissReason): Promise<Response> {
    switch (found.kind) {
      case 'validated':
        return this.fromStore(allowed, found.entry, 'validated')
      case 'filling':
        // After a 503 apt tries again.
        return (
          (await this.#fromFilling(allowed, found.filling, because)) ??
          unavailable(allowed.request, passedBy(allowed.about.origin), allowed.about)
        )
      case 'answered':
        return this.#originSaid(allowed, found)
      case 'failed':
        return unavailable(allowed.request, found.failure, allowed.about)
    }
  }

  /** Undefined when the download passes through without being stored, and its beginning is gone. */
  #fromFilling(
    { key, request, about, archive, tools }: Allowed,
    filling: Filling,
    because: MissReason,
  ): Response | undefined | Promise<Response | undefined> {
    this.#parts.negative.forget(key)
    if (archive.kind === 'release') {
      void filling.settled.then(settled => {
        const given = settled.kind === 'stored' ? settled.entry : undefined
        if (given !== undefined) this.#parts.onReleaseGiven(request.client, given)
      })
    }
    return represent(request, arrivingRepresentation(filling, because, about, tools), tools)
  }

  /** HEAD asks with HEAD. A stored copy answers when the origin is late or fails. */
  async #head(allowed: Allowed, entry: Entry | undefined): Promise<Response> {
    const { request, about, tools } = allowed
    const { askHead, clock, revalidationBudget } = this.#parts
    try {
      const asked = askHead(this.#wanted(allowed, entry), request.signal)
      const answer = await inTime(asked, clock, entry ? revalidationBudget() : firstByteDeadline)
      answer?.response.content.close()
      if (entry !== undefined && answer === undefined) {
        return this.#stale(allowed, entry, 'stale-origin-slow')
      }
      if (answer === undefined) throw slowOrigin(about.origin)
      const { response, certain } = answer
      if (response.status === 200) return originHead(request, response, about, tools)
      if (isGone(response.status)) this.#parts.store.remove(allowed.key)
      return entry !== undefined && isOriginFailure(response)
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
    if (because.startsWith('stale-suite') || this.#parts.mayBeStale(entry))
      return this.fromStore(allowed, entry, because)
    return unavailable(allowed.request, unconfirmed(allowed.about.origin), allowed.about)
  }

  #originSaid(allowed: Allowed, said: Omit<Answered, 'kind'>): Response {
    const { negative, updates } = this.#parts
    const { request, about, key, archive } = allowed
    const gone = isGone(said.status)
    if (gone && withReleases.has(archive.kind) && updates.isBehind(key)) {
      return unavailable(request, superseded(about.origin), about)
    }
    if (gone && said.certain) negative.remember(key)
    return originSaid(allowed.request, { ...said, because: 'absent' }, allowed.about)
  }

  #fetch(allowed: Allowed, stored: Entry | undefined): Fetching {
    return this.#parts.fetcher.fetch(this.#wanted(allowed, stored))
  }

  #wanted({ key, uri, archive, claim, directives }: Allowed, stored: Entry | undefined): Wanted {
    const insist = directives.noCache || directives.maxAge === 0
    return { key, uri, archive, claim, stored, insist }
  }
}

/** Kinds of files that a Release names: whether there is one depends on which Release. */
const withReleases: ReadonlySet<ArchivePath['kind']> = new Set(['index', 'by-hash'])

/** The fields of a response that never came. */
const nothingSaid = Fields.of(['Content-Type', 'application/octet-stream'])
