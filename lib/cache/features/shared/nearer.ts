/**
 * Finds a file that another node of a bucket has stored: the content by the digest that a signed index or the name gives, else the entry of the
 * key and its content.
 *
 * # Trust
 * - A content with a digest from an index or from its name is compared with that digest.
 * - Without such a digest the entry in the bucket counts like one in the local store, because only the operator's nodes may write to the bucket.
 *   The content is compared with the digest in the entry. The entry keeps only fields that an origin's answer may leave in an entry, its moments
 *   are not in the future, and its `verified` is dropped.
 */
import type { Clock } from '../../../async/clock.ts'
import type { OriginResponse } from '../../../http/client/client.ts'
import { Fields } from '../../../http/message/field.ts'
import { suiteOfRelease } from '../../archive/path.ts'
import type {
  NearAnswer,
  NearContent,
  NearQuestion,
  NearSource,
  StaleContent,
} from '../../fetch/near-source.ts'
import { expectedContent, isSuperseded, type WantedFile } from '../../fetch/wanted-file.ts'
import type { Rules } from '../../policy/policy.ts'
import { allowsStale, freshnessOf } from '../../rfc9111/lookup.ts'
import {
  draftEntry,
  type EntryDraft,
  keptFields,
  nothingSaid,
} from '../../rfc9111/stored-response.ts'
import type { Entry } from '../../store/entry.ts'
import { isShareable, type SharingRules } from './shareable.ts'
import type { SharedContent, SharedStore } from './shared-store.ts'
import type { Pointers } from './suites/pointers.ts'

interface SharedNearerParts extends SharingRules {
  readonly shared: SharedStore
  readonly pointers: Pick<Pointers, 'of'>
  readonly rules: () => Rules
  /** Called with the entry of a content that was taken from the bucket and need not be offered again. */
  readonly onTaken: (entry: Pick<Entry, 'key' | 'digest'>) => void
  /** Called with the digest of a content that was taken and has another digest, so that the right one must be offered. */
  readonly onWrong: (digest: string) => void
  readonly clock: Clock
}

/** A wanted file with the facts that are known before the bucket is asked. */
interface Sought {
  readonly wanted: WantedFile
  readonly key: string
  /** The SHA-256 that an index or the name promises. */
  readonly promised: string | undefined
  readonly question: NearQuestion
}

export class SharedNearer implements NearSource {
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
    const found = await question.patience.result(this.#inBucket(sought), closeLate)
    return found ?? { kind: 'origin' }
  }

  wrong(digest: string): void {
    this.#parts.onWrong(digest)
    this.#parts.shared.wrong(digest)
  }

  async #inBucket(sought: Sought): Promise<NearContent | StaleContent | undefined> {
    const { promised, wanted } = sought
    if (promised === undefined) return this.#byEntry(sought)
    // From the entry all nodes take the same date and the fields that the origin sent.
    const [content, entry] = await Promise.all([
      this.#blob(sought, promised, wanted.claim?.size),
      this.#entry(sought),
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
    const expected = expectedContent(wanted)
    // The entry of another node can be that of the content before or after the one that the index names.
    if (expected?.size !== undefined && expected.size !== entry.size) return undefined
    const draft = this.#draft(sought, entry)
    const open = (of: EntryDraft) => this.#opened(sought, entry, of)
    // A content with a digest other than SHA-256 from an index is compared with that digest later.
    if (expected !== undefined || wanted.archive.kind === 'release') return open(draft)
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
    { question: { lifetime } }: Sought,
    digest: string,
    size: number | undefined,
  ): Promise<SharedContent | undefined> {
    return this.#parts.shared.blob(digest, { size, lifetime })
  }

  #content(
    { wanted, question }: Sought,
    { size, source }: SharedContent,
    { digest, draft }: { readonly digest: string; readonly draft: EntryDraft | undefined },
  ): NearContent {
    const now = this.#parts.clock.now()
    const times = { requested: now, received: now }
    const expected = expectedContent(wanted) ?? {
      size,
      digest: { algorithm: 'sha256', hex: digest },
    }
    const response: OriginResponse = {
      version: '1.1',
      status: 200,
      reason: '',
      fields: Fields.empty,
      length: size,
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
      answer: {
        ...{ response, place: wanted.uri, source: wanted.uri, others: false, certain: true },
        near: 'shared-store',
      },
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
}

/** The SHA-256 that a file must have; undefined when none is known. */
function sha256Of(wanted: WantedFile): string | undefined {
  const { digest } = expectedContent(wanted) ?? {}
  return digest?.algorithm === 'sha256' ? digest.hex : undefined
}

function closeLate(late: NearContent | StaleContent | undefined): void {
  if (late?.kind === 'content') late.answer.response.content.close()
}
