/**
 * What the other nodes of a bucket have of a file: first the bucket is asked, for the content by the digest that a signed index or the name
 * gives, else for what a node has noted under the key. Then it is found out whether another node is fetching the file, whose growing copy is
 * read along; or whether this node is the one to fetch it.
 *
 * # What is believed
 * - A content that an index or its name promises is held to that digest, wherever it comes from.
 * - Where nothing promises a digest, the entry in the bucket is the word of a node, and counts as one in our own store does: only the operator's
 *   nodes may write to the bucket. Its content is held to the digest in the entry. Its fields are those that an origin's answer may leave in an
 *   entry, its moments do not lie in the future, and what it says was verified is not believed.
 * - Another node is read along only for what a digest promises.
 */
import type { Clock, Milliseconds } from '../../../async/clock.ts'
import { pause, resultInTime } from '../../../async/deadline.ts'
import type { OriginResponse } from '../../../http/client/client.ts'
import { Fields } from '../../../http/message/field.ts'
import type { TargetUri } from '../../../http/message/target.ts'
import type { Logger } from '../../../log/log.ts'
import { suiteOfRelease } from '../../archive/path.ts'
import {
  expectedOf,
  isSuperseded,
  type NearContent,
  type Nearer,
  type Nearest,
  type NearQuestion,
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
  unstorable,
} from '../../rfc9111/stored-response.ts'
import type { Entry } from '../../store/entry.ts'
import { isShareable, type SharingRules } from '../shareable.ts'
import { type Lease, patience, type SharedContent, type SharedStore } from '../shared-store.ts'
import type { Peers } from './peers.ts'

interface SharedNearerParts extends SharingRules {
  readonly shared: SharedStore
  readonly peers: Pick<Peers, 'ask'>
  /** The pointer of a suite, as far as this node has not found that it cannot be used. */
  readonly pointer: (at: string) => ReturnType<SharedStore['suite']>
  readonly rules: () => Rules
  /** Called with what is taken as the bucket has it: it need not be offered again. */
  readonly onTaken: (entry: Pick<Entry, 'key' | 'digest'>) => void
  /** Called with the digest of a content that was taken and turns out to be another: the right one has to be offered. */
  readonly onWrong: (digest: string) => void
  readonly clock: Clock
  readonly log: Logger
}

/**
 * How long a file is waited for that another node fetches and does not let us read, and how often is asked. apt gives up after 30 seconds
 * without a byte.
 */
const longestWait: Milliseconds = 12_000
const betweenQuestions: Milliseconds = 1000

/** A file that is wanted, and what is known of it before anything was asked. */
interface Sought {
  readonly wanted: WantedFile
  readonly key: string
  /** The SHA-256 that an index or the name promises. */
  readonly promised: string | undefined
  readonly question: NearQuestion
}

export class SharedNearer implements Nearer {
  readonly #parts: SharedNearerParts

  constructor(parts: SharedNearerParts) {
    this.#parts = parts
  }

  serves(wanted: WantedFile): boolean {
    if (wanted.stored !== undefined && !isSuperseded(wanted)) return false
    const isPromised = expectedOf(wanted) !== undefined || wanted.awaited !== undefined
    // What waits to take the place of a Release file was asked of the origin.
    if (!isPromised && wanted.key.includes('#')) return false
    return isShareable(wanted.uri, this.#parts)
  }

  async find(wanted: WantedFile, question: NearQuestion): Promise<Nearest> {
    const [key = ''] = wanted.key.split('#', 1)
    const sought: Sought = { wanted, key, promised: sha256Of(wanted), question }
    const stored = await this.#inBucket(sought)
    if (stored === 'late') return { kind: 'origin' }
    if (stored !== undefined) return stored
    if (wanted.onlyNear === true || expectedOf(wanted) === undefined) return { kind: 'origin' }
    return this.#byLease(sought)
  }

  wrong(digest: string): void {
    this.#parts.onWrong(digest)
    this.#parts.shared.wrong(digest)
  }

  /** What the bucket has, if it says so in time. */
  async #inBucket(sought: Sought): Promise<NearContent | StaleContent | 'late' | undefined> {
    let late = false
    const asked = this.#askBucket(sought).then(found => {
      if (late && found?.kind === 'content') found.answer.response.content.close()
      return found ?? 'nothing'
    })
    const found = await resultInTime(asked, this.#parts.clock, patience)
    late = found === undefined
    return found === 'nothing' ? undefined : (found ?? 'late')
  }

  async #askBucket(sought: Sought): Promise<NearContent | StaleContent | undefined> {
    const { promised, wanted, question } = sought
    if (promised === undefined) return this.#byEntry(sought)
    // The entry gives all nodes the same date and the fields that the origin sent.
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
    // What an index promises by another digest than SHA-256 is held to that.
    if (expectedOf(wanted) !== undefined || wanted.archive.kind === 'release') return open(draft)
    const { freshness } = this.#parts.rules().config
    const now = this.#parts.clock.now()
    const circumstances = { settings: freshness, now }
    if (!wanted.insist && freshnessOf(draft, wanted.archive, circumstances) > 0) return open(draft)
    const known = { ...draft, digest: entry.digest, size: entry.size }
    const givenStale = freshness.serveStale === 'always' || allowsStale(known)
    return { kind: 'stale', entry: known, givenStale, open }
  }

  /** The entry of another node; of a Release file, that of the generation which the nodes give to clients. */
  async #entry({ wanted, key }: Sought): Promise<Entry | undefined> {
    const { shared, pointer } = this.#parts
    if (wanted.archive.kind !== 'release') return shared.entry(key)
    const release = await pointer(suiteOfRelease(key) ?? '')
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

  #blob({ question }: Sought, digest: string, size?: number): Promise<SharedContent | undefined> {
    const { first, lifetime } = question
    return this.#parts.shared.blob(digest, {
      first,
      lifetime,
      ...(size !== undefined && { size }),
    })
  }

  #content(
    { wanted, question }: Sought,
    { size, first, source }: SharedContent,
    { digest, draft }: { readonly digest: string; readonly draft: EntryDraft | undefined },
  ): NearContent {
    const now = this.#parts.clock.now()
    const times = { requested: now, received: now }
    const expected = expectedOf(wanted) ?? {
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

  /** What an entry of another node leaves in ours. */
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

  /** Finds out which node fetches the file. */
  async #byLease(sought: Sought): Promise<Nearest> {
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
    let late = false
    const asked = this.#parts.shared.lease(key).then(lease => {
      if (late && lease.kind === 'held') lease.release()
      return lease
    })
    const lease = await resultInTime(asked, this.#parts.clock, patience)
    late = lease === undefined
    return lease ?? { kind: 'none' }
  }

  /** There is no lease to be had. While leases work, that is so when its holder has just let go of it, having stored the file. */
  async #withoutLease(sought: Sought): Promise<Nearest> {
    const { leases, resting } = this.#parts.shared.state
    const stored = leases === 'on' && resting === undefined && (await this.#inBucket(sought))
    return typeof stored === 'object' ? stored : { kind: 'origin' }
  }

  /** This node fetches, unless another has stored the file since the bucket was asked. */
  async #held(sought: Sought, lease: Extract<Lease, { kind: 'held' }>): Promise<Nearest> {
    const stored = await this.#inBucket(sought)
    if (stored === undefined || stored === 'late') return { kind: 'origin', lease }
    lease.release()
    return stored
  }

  /** The content as it comes to the node that fetches it; undefined when that node does not give it. */
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
      const expected = expectedOf(wanted) ?? {}
      const left = expected.size === undefined ? length : expected.size - first
      const fits = status === (first === 0 ? 200 : 206) && (length ?? left) === left
      if (fits && unstorable(first === 0 ? fields : Fields.empty) === undefined) {
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

/** The SHA-256 that a file must have. */
function sha256Of(wanted: WantedFile): string | undefined {
  const { digest } = expectedOf(wanted) ?? {}
  return digest?.algorithm === 'sha256' ? digest.hex : undefined
}

function answerOf({ uri }: WantedFile, response: OriginResponse, near: NearPlace): Answer {
  return { response, place: uri, source: uri, others: false, certain: true, near }
}

/** The fields of a content of which no node has said more. */
const nothingSaid = Fields.of(['Content-Type', 'application/octet-stream'])
