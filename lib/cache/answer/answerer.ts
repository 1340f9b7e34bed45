/**
 * Answers a request as `lookup` has decided: hits, revalidations and misses. HEAD is GET without content. When an origin
 * fails, stored content answers if possible, else an error after which apt tries again.
 */
import { randomBytes } from 'node:crypto'
import type { Clock } from '../../async/clock.ts'
import { resultInTime } from '../../async/deadline.ts'
import { continueWhenReady } from '../../async/ready.ts'
import { begunSource } from '../../bytes/source.ts'
import { Failure } from '../../errors.ts'
import { Fields } from '../../http/message/field.ts'
import type { Response } from '../../http/message/message.ts'
import { type ByteRange, parseContentRange } from '../../http/message/range.ts'
import type { TargetUri } from '../../http/message/target.ts'
import { sharedChain } from '../../http/message/via.ts'
import type { ArchivePath } from '../archive/path.ts'
import {
  decideFetch,
  type FetchDecision,
  isInsisting,
  provenEntry,
  type Revalidation,
} from '../decide/decide.ts'
import { clientPatience, fetchFailure, lateAdvice, slowOrigin } from '../fetch/failures.ts'
import type { Fetcher } from '../fetch/fetch.ts'
import type { FetchOutcome, IncomingContent, OriginAnswer } from '../fetch/fetch-outcome.ts'
import { type Ask, askForHead } from '../fetch/origin-question.ts'
import type { RangesAhead } from '../fetch/range-ahead.ts'
import { isGone, revalidate } from '../fetch/revalidation.ts'
import type { WantedFile } from '../fetch/wanted-file.ts'
import { WrongContent } from '../fetch/wrong-content.ts'
import type { Rules } from '../policy/policy.ts'
import { choosingFields, mayBeRefused, mayDiffer } from '../rfc9111/client-fields.ts'
import { allowsStale, type NegativeMemory } from '../rfc9111/lookup.ts'
import type { MissReason, StaleReason } from '../rfc9111/outcome.ts'
import type { Entry, Reading } from '../store/entry.ts'
import type { Store } from '../store/store.ts'
import type { Suites } from '../suites/suites.ts'
import type { GenerationChoice } from '../suites/updates/places.ts'
import type { Updates } from '../suites/updates/updates.ts'
import { BackgroundQuestions } from './background-questions.ts'
import { originStatusResponse, unavailableResponse, withoutFileResponse } from './errors.ts'
import { aheadResponse, arrivingRepresentation, originHead } from './from-origin.ts'
import {
  type AllowedRequest,
  represent,
  type StoredReason,
  storedRepresentation,
} from './representation.ts'

interface AnswererParts {
  readonly rules: () => Rules
  readonly store: Store
  readonly fetcher: Fetcher
  readonly suites: Pick<
    Suites,
    'denied' | 'given' | 'givenStored' | 'hasAnother' | 'mustBe' | 'usedBy'
  >
  readonly updates: Updates
  readonly delays: GenerationChoice
  readonly negative: NegativeMemory
  readonly clock: Clock
  /** Whether a stored content may answer for a key other than the one it was stored under. */
  readonly shares: (digest: string, key: string) => boolean
  /** Asks an origin within the policy, and follows redirects. */
  readonly ask: Ask
  readonly rangesAhead: RangesAhead
  /** The most connections to an origin by the settings. */
  readonly connectionsTo: (place: TargetUri) => number
  /** Passes a request through, with the fields of the client. */
  readonly passed: (allowed: AllowedRequest, because: MissReason) => Promise<Response>
}

export class Answerer {
  readonly #parts: AnswererParts
  readonly #background: BackgroundQuestions

  constructor(parts: AnswererParts) {
    this.#parts = parts
    this.#background = new BackgroundQuestions(parts)
  }

  /** Answers with the stored copy, synchronously when its content is in memory. A missing content is fetched. */
  fromStore(
    allowed: AllowedRequest,
    entry: Entry,
    because: StoredReason,
  ): Response | Promise<Response> {
    const { store } = this.#parts
    const representation = storedRepresentation(entry, because, allowed, store)
    return continueWhenReady(represent(allowed, representation), answer => {
      if (answer === undefined) return this.#instead(allowed, entry)
      this.#given(allowed, entry, answer, 'givenStored')
      store.touch(entry.key)
      return answer
    })
  }

  /** Fetches a file whose stored content cannot be read now. If the origin fails too and the entry still exists, the answer is 503. */
  async #instead(allowed: AllowedRequest, entry: Entry): Promise<Response> {
    const response = await this.#fetchedAnew(allowed)
    if (!isGone(response.status) && response.status < 500) return response
    const kept = await this.#parts.store.get(entry.key)
    return kept?.digest === entry.digest
      ? unavailableResponse(allowed, fetchFailure('CONTENT_UNPROVEN', {}))
      : response
  }

  /** Stores an entry that `provenEntry` has made from the stored one. Answers the entry that the store has then. */
  keepProven(proven: Entry | undefined, stored: Reading): Reading {
    if (proven === undefined || proven === stored) return stored
    return this.#parts.store.put(proven).stored ? proven : stored
  }

  /** The stored entry of a file once the store has what an index proves of it. */
  async #settled(allowed: AllowedRequest): Promise<Entry | undefined> {
    const stored = await this.#parts.store.get(allowed.file.key)
    const kept = this.keepProven(provenEntry(allowed, stored, this.#parts), stored)
    return kept === 'unreadable' ? undefined : kept
  }

  /** Asks the origin about the stored copy. Answers with the copy when the origin confirms it, is slow or fails. */
  async revalidated(asking: AllowedRequest, decision: Revalidation): Promise<Response> {
    const { entry, because, pair, atOnce, asks } = decision
    const allowed = { ...asking, revalidation: because }
    const { file } = allowed
    const { fetcher, clock, updates, rules } = this.#parts
    const wanted = wantedOf(allowed, entry)
    const withheld = pair === 'withheld' ? await this.#ofPair(allowed, wanted) : undefined
    if (withheld !== undefined) return withheld
    if (atOnce !== undefined) {
      this.#askLater(wanted, decision)
      return this.#stale(allowed, entry, atOnce)
    }
    const signature = pair === 'adopted' ? await this.#signature(allowed, wanted) : undefined
    if (signature !== undefined) return signature
    // A new Release file of an adopted suite is given only when its whole suite is up to date.
    const wait = rules().config.timeouts.revalidation
    const outcome =
      asks === 'suite'
        ? await updates.check(wanted, entry)
        : await revalidate(entry, fetcher.fetch(wanted), { clock, wait })
    switch (outcome.use) {
      case 'store':
        return this.fromStore(allowed, outcome.entry, outcome.because)
      case 'stale':
        if (outcome.because === 'stale-origin-slow') {
          fetcher.noteSlow(file.uri)
          // The question goes on, and the files that are asked for next wait for their turn.
          this.#askLater(wanted, decision)
        }
        return this.#stale(allowed, entry, outcome.because)
      case 'again':
        return this.#fetchedAnew(allowed)
      case 'answer':
        return this.#originSaid(allowed, outcome)
      case 'filling': {
        const answer = await this.#fromFilling(allowed, outcome.filling, 'changed')
        if (answer === undefined) return this.#stale(allowed, entry, 'stale-origin-slow')
        if (!(answer instanceof Failure)) return answer
        if (WrongContent.is(answer)) void this.#otherwise(allowed, { gone: false })
        return this.#stale(allowed, entry, 'stale-origin-failed')
      }
    }
  }

  /** Answers with the detached signature that belongs to the client's Release file, after asking the origin about both. */
  async #signature(allowed: AllowedRequest, wanted: WantedFile): Promise<Response | undefined> {
    const { updates, suites } = this.#parts
    const outcome = await updates.checkSignature(wanted.key)
    if (outcome === undefined) return undefined
    const { key, archive } = allowed.file
    const { client } = allowed.request
    const { claim } = await suites.mustBe({ key, archive, client, stored: wanted.stored })
    const entry = await this.#settled({ ...allowed, claim })
    if (entry === undefined) return undefined
    return outcome.use === 'stale'
      ? this.#stale(allowed, entry, outcome.because)
      : this.fromStore(allowed, entry, 'validated')
  }

  /** The answer to a request for a withheld signature: the signature if it and its Release file turn out to be a pair, else 404. */
  async #ofPair(allowed: AllowedRequest, wanted: WantedFile): Promise<Response | undefined> {
    const answer = await this.#signature(allowed, wanted)
    return this.#parts.updates.withholdsSignature(allowed.request.client, wanted.key)
      ? withoutFileResponse(allowed, 'signature-withheld')
      : answer
  }

  /** Asks a slow origin about a stored file in the background. A Release file changes only together with its suite. */
  #askLater(wanted: WantedFile, { asks, entry }: Revalidation): void {
    const { updates, fetcher } = this.#parts
    const ask = () => (asks === 'suite' ? updates.ask(wanted, entry) : fetcher.fetch(wanted).found)
    this.#background.add(wanted.uri, { entry, ask })
  }

  /** Fetches a file that the store lacks, or says why it may not be fetched. */
  async fetched(allowed: AllowedRequest, decision: FetchDecision): Promise<Response> {
    const { fetcher, store } = this.#parts
    const { key } = allowed.file
    // A fetch may have ended since the look-up, so a request that would start another one looks again.
    const looksAgain = decision.because === 'absent' || decision.because === 'unreadable'
    const arrived = looksAgain && !fetcher.isFetching(key) ? store.peek(key) : undefined
    if (arrived !== undefined) return this.fromStore(allowed, arrived, 'validated-just-now')
    return this.#fetchedAnew(allowed, decision)
  }

  async #fetchedAnew(
    allowed: AllowedRequest,
    decision: FetchDecision = decideFetch(allowed, this.#parts, { because: 'absent' }),
  ): Promise<Response> {
    if (decision.use === 'withhold') {
      return decision.because === 'suite-withheld'
        ? withoutFileResponse(allowed, decision.because)
        : unavailableResponse(allowed, fetchFailure(decision.because, {}))
    }
    const { file } = allowed
    const { fetcher, clock, rules } = this.#parts
    const { superseded, headAlone, because: missing, from } = decision
    const wanted = wantedOf(allowed, superseded)
    const signature = decision.pair === undefined ? undefined : await this.#ofPair(allowed, wanted)
    if (signature !== undefined) return signature
    // HEAD is GET without content, and begins no download.
    const head = headAlone
      ? await this.#askForHead(allowed, { hasCopy: missing !== 'absent' })
      : undefined
    // Another node can have what no origin gives.
    const mayBeNear = head?.kind === 'failed' && from.includes('bucket')
    const fetching = headAlone && !mayBeNear ? undefined : fetcher.fetch(wanted)
    const found =
      fetching === undefined
        ? head
        : await resultInTime(fetching.found, clock, clientPatience(rules().config.timeouts))
    const because = fetching?.joined === true ? 'joined' : missing
    const { origin } = file.about
    switch (found?.kind) {
      case undefined:
        return unavailableResponse(
          allowed,
          slowOrigin(origin, `${headAlone ? '' : 'the fetch goes on, '}try again. ${lateAdvice}`),
        )
      case 'validated':
        return this.fromStore(allowed, found.entry, 'validated')
      case 'filling': {
        const answer = await this.#fromFilling(allowed, found.filling, because)
        if (answer !== undefined && !(answer instanceof Failure)) return answer
        // The failure becomes a 503, after which apt tries again.
        const failure = answer ?? fetcher.wrong(wanted) ?? fetchFailure('NOT_JOINABLE', { origin })
        return this.#failed(allowed, failure)
      }
      case 'answered': {
        if (differs(allowed, found.fields, found.status)) {
          return this.#parts.passed(allowed, 'own-fields')
        }
        if (headAlone && found.status === 200) return originHead(allowed, found)
        const gone = superseded === undefined
        const otherwise = isGone(found.status)
          ? await this.#otherwise(allowed, { gone })
          : undefined
        if (typeof otherwise === 'object') return otherwise
        return this.#originSaid(allowed, found, otherwise)
      }
      case 'failed':
        return this.#failed(allowed, found.failure)
    }
  }

  async #failed(allowed: AllowedRequest, failure: Failure): Promise<Response> {
    const otherwise = WrongContent.is(failure)
      ? await this.#otherwise(allowed, { gone: false })
      : undefined
    return typeof otherwise === 'object' ? otherwise : unavailableResponse(allowed, failure)
  }

  /**
   * The answer when the origin no longer has a file as an index names it. It is the content by its digest, where the origin still
   * has that, or an error that says that a newer Release file exists or that the origin's may not be adopted. `named` means that the
   * client's Release file names the index, and that there is no newer one. Undefined when nothing of that is known. `gone` says that the
   * origin has no such file, so that it may never have had one.
   */
  async #otherwise(
    allowed: AllowedRequest,
    { gone }: { readonly gone: boolean },
  ): Promise<Response | 'named' | undefined> {
    const { updates, suites } = this.#parts
    const { key, archive, about } = allowed.file
    const claim = allowed.claim ?? (await allowed.awaited)
    if (claim && withReleases.has(archive.kind) && (await updates.fetchByDigest(key, claim))) {
      const entry = await this.#settled({ ...allowed, claim })
      if (entry?.digest === claim.digest) return this.fromStore(allowed, entry, 'changed')
    }
    const byHash = archive.kind === 'by-hash'
    const used = byHash ? suites.usedBy(allowed.request.client, key) : claim
    if (used === undefined) return undefined
    const index = withReleases.has(archive.kind)
    const { digest } = archive
    // Only indexes name packages, so a package that is gone is a reason to look for newer indexes.
    const outdated = updates.outdated(used, { key, hex: digest?.hex, gone: gone && index })
    // For a missing package, the message of apt already names the remedy.
    if (!index) return undefined
    const is = await outdated
    if (is === undefined) return undefined
    if (is)
      return unavailableResponse(
        allowed,
        fetchFailure('RELEASE_OUTDATED', { origin: about.origin }),
      )
    return updates.behind(used.suite)?.because === 'stale-suite-refused'
      ? unavailableResponse(allowed, fetchFailure('RELEASE_REFUSED', { origin: about.origin }))
      : 'named'
  }

  /**
   * The response once its first bytes have arrived, so that an earlier failure gets a status. Undefined when the download is not stored
   * and its first bytes are no longer in memory.
   */
  async #fromFilling(
    allowed: AllowedRequest,
    filling: IncomingContent,
    because: MissReason,
  ): Promise<Response | Failure | undefined> {
    const { request, file } = allowed
    this.#parts.negative.delete(file.key)
    if (differs(allowed, Fields.of(...filling.draft.fields))) {
      return this.#parts.passed(allowed, 'own-fields')
    }
    const answer = await represent(allowed, arrivingRepresentation(filling, because, allowed))
    if (answer === undefined) return undefined
    let begun = false
    void filling.settled.then(settled => {
      if (settled.kind !== 'failed') {
        this.#given(allowed, settled.entry, answer, 'given')
        return
      }
      allowed.notes?.failed(`its content did not come whole (${settled.failure.code})`)
      // The caller handles earlier failures.
      if (begun && WrongContent.is(settled.failure)) void this.#otherwise(allowed, { gone: false })
    })
    const { content } = answer
    if (content.kind !== 'stream') return answer
    try {
      const { lifetime } = request
      const range = partOf(answer)
      const { source, ahead } =
        range === undefined
          ? { source: await begunSource(content.open(), lifetime), ahead: false }
          : await this.#parts.rangesAhead.source(content.open(), {
              wanted: wantedOf(allowed, undefined),
              incoming: filling,
              range,
              lifetime,
            })
      begun = true
      const given = { ...answer, content: { ...content, open: () => source } }
      return ahead ? aheadResponse(given) : given
    } catch (error) {
      if (error instanceof Failure) return error
      throw error
    }
  }

  /** Notes which Release file the client has now: the given one, or after a 304 the client's own, which may be newer. */
  #given(
    { request: { client, fields }, file, notes }: AllowedRequest,
    entry: Entry,
    { status }: Response,
    how: 'given' | 'givenStored',
  ): void {
    notes?.given(entry)
    if (file.archive.kind !== 'release') return
    const { suites } = this.#parts
    if (status === 304 && !isOwn(entry, fields)) suites.hasAnother(client, entry)
    else if (status === 200 || status === 206 || status === 304) suites[how](client, entry)
  }

  /**
   * The origin's answer about a file that the store lacks, to a client that wants no content. Undefined when the origin is late. A copy that
   * cannot be used now may be right all the same, so nothing is remembered of it.
   */
  async #askForHead(
    { request, file }: AllowedRequest,
    { hasCopy }: { readonly hasCopy: boolean },
  ): Promise<Exclude<FetchOutcome, { kind: 'validated' | 'filling' }> | undefined> {
    const { ask, clock, rules } = this.#parts
    const { uri } = file
    const via = sharedChain(request.fields, pseudonyms)
    const { lifetime } = request
    try {
      const asked = askForHead(ask, { uri, stored: undefined, lifetime, via })
      const answer = await resultInTime(asked, clock, clientPatience(rules().config.timeouts))
      if (answer === undefined) return undefined
      const { response, certain } = answer
      response.content.close()
      return { ...response, kind: 'answered', certain: certain && !hasCopy }
    } catch (error) {
      if (error instanceof Failure) return { kind: 'failed', failure: error }
      throw error
    }
  }

  /** Answers with a stored copy that the origin did not confirm, where that is allowed (RFC 9111 section 4.2.4). */
  #stale(
    allowed: AllowedRequest,
    entry: Entry,
    because: StaleReason,
  ): Response | Promise<Response> {
    const { rules, fetcher } = this.#parts
    const { serveStale } = rules().config.freshness
    const { about, uri } = allowed.file
    const { origin } = about
    const ofSuite = because.startsWith('stale-suite')
    const failure = ofSuite ? undefined : fetcher.trouble(uri)?.because
    return ofSuite || serveStale === 'always' || allowsStale(entry)
      ? this.fromStore({ ...allowed, failure }, entry, because)
      : unavailableResponse(allowed, fetchFailure('STALE_FORBIDDEN', { origin }))
  }

  #originSaid(
    allowed: AllowedRequest,
    said: Omit<OriginAnswer, 'kind'>,
    named?: 'named',
  ): Response {
    const { negative, updates, suites, rules, clock, fetcher } = this.#parts
    const { about, key, archive, uri } = allowed.file
    if (archive.kind === 'release' && said.status >= 400) suites.denied(allowed.request.client, key)
    const gone = isGone(said.status)
    // SUITE_BEHIND is only for files that the client's own Release file does not name, because they may come with the next one.
    const unnamed =
      allowed.claim === undefined && named === undefined && withReleases.has(archive.kind)
    if (gone && unnamed && updates.isBehind(key)) {
      return unavailableResponse(allowed, fetchFailure('SUITE_BEHIND', { origin: about.origin }))
    }
    // A 404 for a Release file is not remembered: an archive can replace InRelease by Release, and clients would find neither for a time.
    if (gone && said.certain && archive.kind !== 'release') {
      negative.set(key, clock.now() + rules().config.freshness.negative)
    }
    return originStatusResponse(allowed, {
      ...said,
      because: 'absent',
      gives: fetcher.hasGiven(uri),
    })
  }
}

/** Whether the client's own fields may choose another response than the one that this cache got. */
function differs(allowed: AllowedRequest, response: Fields, status = 200): boolean {
  const fields = choosingFields(allowed)
  if (fields === undefined) return false
  const { archive } = allowed.file
  return status === 200
    ? mayDiffer(archive, fields, response)
    : mayBeRefused(archive, fields, status)
}

/** The range of a response with one range; undefined for other responses. */
function partOf({ status, fields }: Response): ByteRange | undefined {
  return status === 206 ? parseContentRange(fields.get('Content-Range') ?? '') : undefined
}

/** Whether a client that got a 304 has this entry: its request named the tag or the exact date, not "*" or a later date. */
function isOwn({ lastModified }: Entry, fields: Fields): boolean {
  const tags = fields.get('If-None-Match')
  return tags === undefined ? fields.get('If-Modified-Since') === lastModified : tags !== '*'
}

/** A name for one cachesvc in Via. It differs from instance to instance, so that each finds requests that come back to it. */
export function newPseudonym(): string {
  return `cachesvc-${randomBytes(4).toString('hex')}`
}

/** The form of these names. */
const pseudonyms = /^cachesvc-[0-9a-f]{8}$/

function wantedOf(
  { request, file, claim, awaited, directives }: AllowedRequest,
  stored: Entry | undefined,
): WantedFile {
  const { key, uri, archive } = file
  return {
    key,
    uri,
    archive,
    claim,
    awaited,
    stored,
    via: sharedChain(request.fields, pseudonyms),
    insist: isInsisting(directives),
  }
}

/** The kinds of files that a Release file names. Whether such a file exists depends on the Release file. */
const withReleases: ReadonlySet<ArchivePath['kind']> = new Set(['index', 'by-hash'])
