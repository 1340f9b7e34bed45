/**
 * Finds a file that the other nodes of a bucket have. First it asks the bucket: for the content by the digest that a signed index or the name
 * gives, else for the entry of the key. Then it asks for the lease of the key. When another node is fetching the file, this node reads the growing
 * content from it; else this node fetches the file.
 *
 * # Trust
 * - A content with a digest from an index or from its name is compared with that digest, from any source.
 * - Without such a digest the entry in the bucket counts like one in the local store, because only the operator's nodes may write to the bucket.
 *   The content is compared with the digest in the entry. The entry keeps only fields that an origin's answer may leave in an entry, its moments
 *   are not in the future, and its `verified` is dropped.
 * - This node reads from another node only when a digest is known.
 */
import type { Clock, Milliseconds } from '../../../async/clock.ts'
import { pause, resultInTime } from '../../../async/deadline.ts'
import type { OriginResponse } from '../../../http/client/client.ts'
import { Fields } from '../../../http/message/field.ts'
import type { TargetUri } from '../../../http/message/target.ts'
import type { Logger } from '../../../log/log.ts'
import { suiteOfRelease } from '../../archive/path.ts'
import {
  expectedContent,
  isSuperseded,
  type NearAnswer,
  type NearContent,
  type NearQuestion,
  type NearSources,
  type StaleContent,
  type WantedFile,
} from '../../fetch/found.ts'
import type { Answer } from '../../fetch/origin-question.ts'
import type { Rules } from '../../policy/policy.ts'
import { allowsStale, freshnessOf } from '../../rfc9111/lookup.ts'
import type { NearPlace } from '../../rfc9111/outcome.ts'
import {
  draftEntry,
  type EntryDraft,
  keptFields,
  nothingSaid,
  unstorableReason,
} from '../../rfc9111/stored-response.ts'
import type { Entry } from '../../store/entry.ts'
import { isShareable, type SharingRules } from '../shareable.ts'
import {
  type Lease,
  type SharedContent,
  type SharedStore,
  sharedPatience,
} from '../shared-store.ts'
import type { Pointers } from '../suites/pointers.ts'
import type { Peers } from './peers.ts'

interface SharedNearerParts extends SharingRules {
  readonly shared: SharedStore
  readonly peers: Pick<Peers, 'ask'>
  readonly pointers: Pick<Pointers, 'of'>
  readonly rules: () => Rules
  /** Called with the entry of a content that was taken from the bucket and need not be offered again. */
  readonly onTaken: (entry: Pick<Entry, 'key' | 'digest'>) => void
  /** Called with the digest of a content that was taken and has another digest, so that the right one must be offered. */
  readonly onWrong: (digest: string) => void
  readonly clock: Clock
  readonly log: Logger
}

/**
 * A client waits at most `longestWait` for a file that another node fetches and does not give. The bucket is asked again after each
 * `betweenQuestions`. apt gives up after 30 seconds without a byte.
 */
const longestWait: Milliseconds = 12_000
const betweenQuestions: Milliseconds = 1000

/** A wanted file with the facts that are known before the bucket is asked. */
interface Sought {
  readonly wanted: WantedFile
  readonly key: string
  /** The SHA-256 that an index or the name promises. */
  readonly promised: string | undefined
  readonly question: NearQuestion
}

export class SharedNearer implements NearSources {
  readonly #parts: SharedNearerParts

  constructor(parts: SharedNearerParts) {
    this.#parts = parts
  }

  serves(wanted: WantedFile): boolean {
    if (wanted.stored !== undefined && !isSuperseded(wanted)) return false
    // Of several right contents the origin has to say which one it has.
    if (wanted.claim?.others !== undefined) return false
    const isPromised = expectedContent(wanted) !== undefined || wanted.awaited !== undefined
    // The key of a new Release file, before it replaces the old one, has a `#`. Such a file is fetched from the origin.
    if (!isPromised && wanted.key.includes('#')) return false
    return isShareable(wanted.uri, this.#parts)
  }

  async find(wanted: WantedFile, question: NearQuestion): Promise<NearAnswer> {
    const [key = ''] = wanted.key.split('#', 1)
    const sought: Sought = { wanted, key, promised: sha256Of(wanted), question }
    const stored = await this.#inBucket(sought)
    if (stored === 'late') return { kind: 'origin' }
    if (stored !== undefined) return stored
    if (wanted.onlyNear === true || expectedContent(wanted) === undefined) return { kind: 'origin' }
    return this.#byLease(sought)
  }

  wrong(digest: string): void {
    this.#parts.onWrong(digest)
    this.#parts.shared.wrong(digest)
  }

  /** The content in the bucket, or `late` when the bucket does not answer in time. */
  async #inBucket(sought: Sought): Promise<NearContent | StaleContent | 'late' | undefined> {
    const asked = this.#askBucket(sought)
    const found = asked.then(content => ({ content }))
    const inTime = await resultInTime(found, this.#parts.clock, sharedPatience)
    if (inTime !== undefined) return inTime.content
    const close = (late: NearContent | StaleContent | undefined): void => {
      if (late?.kind === 'content') late.answer.response.content.close()
    }
    asked.then(close, () => undefined)
    return 'late'
  }

  async #askBucket(sought: Sought): Promise<NearContent | StaleContent | undefined> {
    const { promised, wanted, question } = sought
    if (promised === undefined) return this.#byEntry(sought)
    // From the entry all nodes take the same date and the fields that the origin sent.
    const begins = question.first === 0
    const [content, entry] = await Promise.all([
      this.#blob(sought, promised, wanted.claim?.size),
      begins ? this.#entry(sought) : undefined,
    ])
    const known = entry?.digest === promised ? entry : undefined
    if (content !== undefined && known !== undefined) this.#parts.onTaken(known)
    const draft = known && this.#draft(sought, known)
    return content && this.#content(sought, content, { digest: promised, draft })
  }

  async #byEntry(sought: Sought): Promise<NearContent | StaleContent | undefined> {
    const { wanted } = sought
    const entry = await this.#entry(sought)
    if (entry === undefined) return undefined
    const draft = this.#draft(sought, entry)
    const open = (of: EntryDraft) => this.#opened(sought, entry, of)
    // A content with a digest other than SHA-256 from an index is compared with that digest later.
    if (expectedContent(wanted) !== undefined || wanted.archive.kind === 'release')
      return open(draft)
    const { freshness } = this.#parts.rules().config
    const now = this.#parts.clock.now()
    const circumstances = { settings: freshness, now }
    if (!wanted.insist && freshnessOf(draft, wanted.archive, circumstances) > 0) return open(draft)
    const known = { ...draft, digest: entry.digest, size: entry.size }
    const givenStale = freshness.serveStale === 'always' || allowsStale(known)
    return { kind: 'stale', entry: known, givenStale, open }
  }

  /** The entry of another node. For a Release file it is the entry in the pointer of the suite. */
  async #entry({ wanted, key }: Sought): Promise<Entry | undefined> {
    const { shared, pointers } = this.#parts
    if (wanted.archive.kind !== 'release') return shared.entry(key)
    const release = await pointers.of(suiteOfRelease(key) ?? '')
    return release?.release.find(entry => entry.key === key)
  }

  async #opened(
    sought: Sought,
    { digest, size }: Entry,
    draft: EntryDraft,
  ): Promise<NearContent | undefined> {
    const content = await this.#blob(sought, digest, size)
    if (content !== undefined) this.#parts.onTaken({ key: sought.key, digest })
    return content && this.#content(sought, content, { digest, draft })
  }

  #blob(
    { question: { first, lifetime } }: Sought,
    digest: string,
    size: number | undefined,
  ): Promise<SharedContent | undefined> {
    return this.#parts.shared.blob(digest, { first, size, lifetime })
  }

  #content(
    { wanted, question }: Sought,
    { size, source }: SharedContent,
    { digest, draft }: { readonly digest: string; readonly draft: EntryDraft | undefined },
  ): NearContent {
    const { first } = question
    const now = this.#parts.clock.now()
    const times = { requested: now, received: now }
    const expected = expectedContent(wanted) ?? {
      size,
      digest: { algorithm: 'sha256', hex: digest },
    }
    const range = first === 0 ? undefined : `bytes ${first}-${size - 1}/${size}`
    const response: OriginResponse = {
      version: '1.1',
      status: first === 0 ? 200 : 206,
      reason: '',
      fields: Fields.of(['Content-Range', range]),
      length: size - first,
      content: source,
      trailers: undefined,
      address: '',
      parent: undefined,
      reused: false,
    }
    return {
      kind: 'content',
      draft: draft ?? draftEntry(wanted.key, nothingSaid, times, question.previous),
      expected,
      digest,
      size,
      answer: answerOf(wanted, response, 'shared-store'),
    }
  }

  /** The entry that this node makes from an entry of another node. */
  #draft({ wanted, question }: Sought, entry: Entry): EntryDraft {
    const now = this.#parts.clock.now()
    const fields = keptFields(Fields.of(...entry.fields))
    if (question.previous !== undefined) {
      return draftEntry(wanted.key, fields, { requested: now, received: now }, question.previous)
    }
    const { lastModified, stored, validated, initialAge } = entry
    return {
      key: wanted.key,
      fields: [...fields],
      lastModified,
      stored: Math.min(stored, now),
      validated: Math.min(validated, now),
      initialAge,
    }
  }

  /** Asks for the lease and waits for the node that fetches the file, or answers that this node must fetch it. */
  async #byLease(sought: Sought): Promise<NearAnswer> {
    const { clock } = this.#parts
    const { lifetime } = sought.question
    const until = clock.elapsed() + longestWait
    const silent = new Set<TargetUri['host']>()
    for (;;) {
      const lease = await this.#lease(sought.key)
      if (lease.kind === 'none') return this.#withoutLease(sought)
      if (lease.kind === 'held') return this.#held(sought, lease)
      const along = await this.#along(sought, lease, silent)
      if (along !== undefined) return along
      if (clock.elapsed() >= until || lifetime.over) return { kind: 'origin' }
      await pause(clock, betweenQuestions, lifetime.signal)
      const stored = await this.#inBucket(sought)
      if (stored === 'late') return { kind: 'origin' }
      if (stored !== undefined) return stored
    }
  }

  async #lease(key: string): Promise<Lease> {
    const asked = this.#parts.shared.lease(key)
    const lease = await resultInTime(asked, this.#parts.clock, sharedPatience)
    if (lease !== undefined) return lease
    const release = (late: Lease): void => {
      if (late.kind === 'held') late.release()
    }
    asked.then(release, () => undefined)
    return { kind: 'none' }
  }

  /** Called when no lease is given. While leases work, the holder has probably just stored the file and released the lease, so the bucket is asked. */
  async #withoutLease(sought: Sought): Promise<NearAnswer> {
    const { leases, resting } = this.#parts.shared.state
    const stored = leases === 'on' && resting === undefined && (await this.#inBucket(sought))
    return typeof stored === 'object' ? stored : { kind: 'origin' }
  }

  /** Has this node fetch the file, unless another node has stored it since the bucket was asked. */
  async #held(sought: Sought, lease: Extract<Lease, { kind: 'held' }>): Promise<NearAnswer> {
    const stored = await this.#inBucket(sought)
    if (stored === undefined || stored === 'late') return { kind: 'origin', lease }
    lease.release()
    return stored
  }

  /** Reads the growing content from the node that fetches it; undefined when that node does not give it. */
  async #along(
    { wanted, question }: Sought,
    { peer }: Extract<Lease, { kind: 'taken' }>,
    silent: Set<string>,
  ): Promise<NearContent | undefined> {
    const name = `${peer?.host}:${peer?.port}`
    if (peer === undefined || silent.has(name)) return undefined
    const { clock, peers, log } = this.#parts
    const { first, lifetime, previous } = question
    const requested = clock.now()
    try {
      const response = await peers.ask(peer, { uri: wanted.uri, first, lifetime })
      const { status, fields, length, content } = response
      const expected = expectedContent(wanted) ?? {}
      const left = expected.size === undefined ? length : expected.size - first
      const fits = status === (first === 0 ? 200 : 206) && (length ?? left) === left
      if (fits && unstorableReason(first === 0 ? fields : Fields.empty) === undefined) {
        const times = { requested, received: clock.now() }
        return {
          kind: 'content',
          draft: draftEntry(wanted.key, fields, times, previous),
          expected,
          size: left === undefined ? undefined : left + first,
          answer: answerOf(wanted, response, 'peer'),
        }
      }
      content.close()
      log.debug('another node does not give what it fetches', { peer: name, status })
    } catch (error) {
      if (!lifetime.over) log.info('another node cannot be read along', { peer: name, error })
    }
    silent.add(name)
    return undefined
  }
}

/** The SHA-256 that a file must have; undefined when none is known. */
function sha256Of(wanted: WantedFile): string | undefined {
  const { digest } = expectedContent(wanted) ?? {}
  return digest?.algorithm === 'sha256' ? digest.hex : undefined
}

function answerOf({ uri }: WantedFile, response: OriginResponse, near: NearPlace): Answer {
  return { response, place: uri, source: uri, others: false, certain: true, near }
}
