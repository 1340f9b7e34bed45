/**
 * The list of uploads to the bucket: it has the keys of stored entries, which are uploaded in the background, each content before the entry that
 * names it.
 *
 * # Facts
 * - A lost upload only costs another node a fetch, and the round of renewal.ts offers what the bucket lacks. So the list is in memory alone,
 *   and a full list drops its oldest key.
 * - An entry that another node has uploaded for the same content stays, so that all nodes give its Last-Modified. An entry for another content is
 *   replaced when ours is newer. An entry from the future was made by a node with a wrong clock, and is replaced as well.
 * - Whether a file is shared is decided when its turn comes, because its archive may have got `clients` or `credentials` since it was offered.
 */

import type { Milliseconds } from '../../../async/clock.ts'
import { Lifetime } from '../../../async/lifetime.ts'
import type { Logger } from '../../../log/log.ts'
import type { Entry } from '../../store/entry.ts'
import type { Store } from '../../store/store.ts'
import {
  blobName,
  entryBytes,
  entryObject,
  largestBlob,
  mostBytes,
  readEntry,
  types,
} from './objects.ts'
import type { Bucket, BucketRefusal, ObjectWrite } from './s3/bucket.ts'
import type { SharedState } from './shared-store.ts'

interface UploadParts {
  readonly log: Logger
  readonly bucket: Bucket
  readonly store: Pick<Store, 'read' | 'content'>
  readonly writable: () => boolean
  readonly conditional: () => boolean
  readonly shares: (key: string) => boolean
}

const mostWaiting = 10_000
const longestKey = 4096
const atATime = 2
/** A key is given up after this many refusals while the store takes others. */
const mostTries = 3
/** The clock of the node that has stored an entry may be this far ahead. */
const slack: Milliseconds = 60_000

export class Uploads {
  readonly #parts: UploadParts
  /** The waiting keys, with the number of their tries. */
  readonly #waiting = new Map<string, number>()
  /** The waiting keys that come first and have lanes of their own, with the entry to upload, which the store may not have under the key yet. */
  readonly #urgent = new Map<string, Entry>()
  readonly #running = new Map<string, Promise<void>>()
  readonly #settling = new Map<string, ReadonlyArray<(uploaded: boolean) => void>>()
  #done = 0
  #dropped = 0
  #closed = false

  constructor(parts: UploadParts) {
    this.#parts = parts
  }

  get counts(): SharedState['uploads'] {
    const waiting = this.#waiting.size + this.#running.size
    return { waiting, done: this.#done, dropped: this.#dropped }
  }

  /** Adds a key, with the bytes of its content if they are known. `urgent` is an entry to upload before the others. Answers whether the key waits. */
  add(
    key: string,
    { size = 0, urgent }: { readonly size?: number; readonly urgent?: Entry } = {},
  ): boolean {
    if (this.#closed || key.length > longestKey || this.#isTooLarge(key, size)) return false
    if (urgent !== undefined) this.#urgent.set(key, urgent)
    if (!this.#waiting.has(key)) {
      const [oldest] = this.#waiting.keys()
      if (this.#waiting.size >= mostWaiting && oldest !== undefined) this.#drop(oldest)
      this.#waiting.set(key, 0)
    }
    this.go()
    return true
  }

  /** Settles with true when the key is uploaded or does not wait, and with false when it was given up. */
  settled(key: string): Promise<boolean> {
    if (!this.#waiting.has(key) && !this.#running.has(key)) return Promise.resolve(true)
    return new Promise(resolve => {
      this.#settling.set(key, [...(this.#settling.get(key) ?? []), resolve])
    })
  }

  /** Begins uploads of waiting keys while the shared store takes writes. */
  go(): void {
    while (!this.#closed && this.#parts.writable()) {
      const key = this.#next()
      if (key === undefined) return
      const tries = this.#waiting.get(key) ?? 0
      const urgent = this.#urgent.get(key)
      this.#forget(key)
      this.#running.set(key, this.#run(key, tries, urgent))
    }
  }

  /** Lets uploads under way end until the signal fires. */
  async close(signal: AbortSignal): Promise<void> {
    this.#closed = true
    const ended = Promise.all(this.#running.values())
    const over = new Promise<void>(resolve => Lifetime.until(signal).onceOver(() => resolve()))
    await Promise.race([ended, over])
  }

  /** The next key; undefined when no key may begin now. */
  #next(): string | undefined {
    const idle = (key: string): boolean => !this.#running.has(key)
    const running = this.#running.size
    if (running < atATime + atATime)
      for (const key of this.#urgent.keys()) if (idle(key)) return key
    if (running < atATime) for (const key of this.#waiting.keys()) if (idle(key)) return key
    return undefined
  }

  #forget(key: string): void {
    this.#waiting.delete(key)
    this.#urgent.delete(key)
  }

  async #run(key: string, tries: number, urgent: Entry | undefined): Promise<void> {
    // The promise must be in `#running` before the upload begins.
    await Promise.resolve()
    let came: Uploaded = 'gone'
    try {
      came = await this.#upload(key, urgent)
    } catch (error) {
      this.#parts.log.warn('a file could not be uploaded', { key, error })
    }
    this.#running.delete(key)
    if (came === 'there') this.#done += 1
    else if (came !== 'gone' && this.#tryAgain(key, tries, came) && urgent !== undefined) {
      if (!this.#urgent.has(key)) this.#urgent.set(key, urgent)
    }
    if (!this.#waiting.has(key)) this.#tell(key, came === 'there')
    this.go()
  }

  /** Has a refused key tried again, unless it was tried too often. Answers whether it waits. */
  #tryAgain(key: string, tries: number, refused: BucketRefusal): boolean {
    // A try does not count while the store takes no writes.
    const counted = this.#parts.writable() ? tries + 1 : tries
    if (counted < mostTries) {
      if (!this.#waiting.has(key)) this.#waiting.set(key, counted)
      return true
    }
    this.#parts.log.warn('a file is not uploaded', { key, because: refused.because })
    this.#dropped += 1
    return false
  }

  #drop(key: string): void {
    this.#forget(key)
    this.#dropped += 1
    if (!this.#running.has(key)) this.#tell(key, false)
  }

  #tell(key: string, uploaded: boolean): void {
    for (const settle of this.#settling.get(key) ?? []) settle(uploaded)
    this.#settling.delete(key)
  }

  #isTooLarge(key: string, size: number): boolean {
    if (size <= largestBlob) return false
    this.#parts.log.info('a file above 5 GiB is not shared', { key, size })
    return true
  }

  async #upload(key: string, urgent: Entry | undefined): Promise<Uploaded> {
    const { store, bucket, shares } = this.#parts
    const entry = urgent ?? (await store.read(key))
    if (entry === undefined || entry === 'unreadable' || !shares(key)) return 'gone'
    if (this.#isTooLarge(key, entry.size)) return 'gone'
    const there = await bucket.read(entryObject(key), { most: mostBytes.entry })
    const known = there.outcome === 'done' ? readEntry(there.bytes, key) : undefined
    const stays = known !== undefined && this.#stays(known, entry)
    // An urgent content is uploaded in any case, because a pointer will name it.
    if (stays && urgent === undefined && known.digest !== entry.digest) return 'there'
    const blob = await this.#uploadContent(entry)
    if (blob !== undefined) return blob
    if (stays) return 'there'
    const etag = there.outcome === 'done' ? there.etag : undefined
    return (await this.#putEntry(entry, etag)) ?? 'there'
  }

  /** Whether an entry of the bucket stays, because it has the same content or a newer one. */
  #stays(known: Entry, ours: Entry): boolean {
    if (known.digest === ours.digest) return true
    return known.stored > ours.stored && known.stored <= this.#parts.bucket.now() + slack
  }

  /** Uploads a content. Undefined when it is in the bucket, 'gone' when this node no longer has it. */
  async #uploadContent(entry: Entry): Promise<BucketRefusal | 'gone' | undefined> {
    const { bucket, store } = this.#parts
    const { digest, size } = entry
    const name = blobName(digest)
    const there = await bucket.head(name)
    if (there.outcome === 'done' && there.size === size) return undefined
    const content = await store.content(entry)
    if (content === undefined) return 'gone'
    return refusal(await bucket.put({ name, digest, content, type: types.blob }))
  }

  async #putEntry(entry: Entry, etag: string | undefined): Promise<BucketRefusal | undefined> {
    const { bucket, conditional } = this.#parts
    let only: ObjectWrite['only']
    if (conditional() && etag !== '') only = etag === undefined ? 'new' : { etag }
    return refusal(await bucket.putJson(entryObject(entry.key), entryBytes(entry), only))
  }
}

/** The result of an upload. `gone` means that this node no longer has the file, or does not share it. */
type Uploaded = 'there' | 'gone' | BucketRefusal

/** The refusal of a write; undefined when this or another node has written the object. */
function refusal(written: { readonly outcome: 'done' } | BucketRefusal): BucketRefusal | undefined {
  return written.outcome === 'done' || written.outcome === 'precondition' ? undefined : written
}
