/**
 * The list of uploads to the bucket: it has the keys of stored entries, which are uploaded in the background, each content before the entry that
 * names it. The list survives a restart in a file of the cache directory.
 *
 * # Facts
 * - A lost upload only costs another node a fetch. So the list is bounded, a full list drops its oldest key, and the file is written some
 *   seconds later.
 * - An entry that another node has uploaded for the same content stays, so that all nodes give its Last-Modified. An entry for another content is
 *   replaced when ours is newer. An entry from the future was made by a node with a wrong clock, and is replaced as well.
 * - Whether a file is shared is decided when its turn comes, because its archive may have got `clients` or `credentials` since it was offered.
 */

import { join } from 'node:path'
import type { Clock, Milliseconds } from '../../async/clock.ts'
import { Lifetime } from '../../async/lifetime.ts'
import { systemCode } from '../../errors.ts'
import { writeFileAtomically } from '../../files/atomic-file.ts'
import { readBounded } from '../../files/bounded-file.ts'
import { parsedJson } from '../../json.ts'
import type { Logger } from '../../log/log.ts'
import type { Entry } from '../store/entry.ts'
import type { Store } from '../store/store.ts'
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
  readonly clock: Clock
  readonly log: Logger
  readonly bucket: Bucket
  readonly store: Pick<Store, 'read' | 'content'>
  readonly directory: string
  readonly writable: () => boolean
  readonly conditional: () => boolean
  readonly shares: (key: string) => boolean
}

const uploadsFile = 'shared-uploads'

const mostWaiting = 10_000
const mostFileBytes = 8 * 1024 * 1024
const longestKey = 4096
const atATime = 2
/** A change of the list is written to the file after this time. */
const saveAfter: Milliseconds = 5000
/** A key is given up after this many refusals while the store takes others. */
const mostTries = 3
/** The clock of the node that has stored an entry may be this far ahead. */
const slack: Milliseconds = 60_000

export class Uploads {
  readonly #parts: UploadParts
  readonly #path: string
  /** The waiting keys, with the number of their tries. */
  readonly #waiting = new Map<string, number>()
  /** The waiting keys that come first and have lanes of their own, with the entry to upload, which the store may not have under the key yet. */
  readonly #urgent = new Map<string, Entry>()
  readonly #running = new Map<string, Promise<void>>()
  readonly #settling = new Map<string, ReadonlyArray<(uploaded: boolean) => void>>()
  #done = 0
  #dropped = 0
  #cancelSave: (() => void) | undefined
  #saved = true
  #closed = false

  constructor(parts: UploadParts) {
    this.#parts = parts
    this.#path = join(parts.directory, uploadsFile)
  }

  get counts(): SharedState['uploads'] {
    const waiting = this.#waiting.size + this.#running.size
    return { waiting, done: this.#done, dropped: this.#dropped }
  }

  /** Reads the list of an earlier run. A file that cannot be read counts as empty. */
  async open(): Promise<void> {
    const { log } = this.#parts
    try {
      const { bytes } = await readBounded(this.#path, mostFileBytes)
      for (const line of bytes.toString('utf8').split('\n')) {
        const key = keyOf(line)
        if (key !== undefined && this.#waiting.size < mostWaiting) this.#waiting.set(key, 0)
      }
    } catch (error) {
      if (systemCode(error) !== 'ENOENT') log.warn('the list of uploads cannot be read', { error })
    }
    if (this.#waiting.size > 0)
      log.info('uploads of an earlier run wait', { files: this.#waiting.size })
    this.go()
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
      this.#saveSoon()
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

  /** Lets uploads under way end until the signal fires, and writes the list. */
  async close(signal: AbortSignal): Promise<void> {
    this.#closed = true
    this.#cancelSave?.()
    const left = new Set(this.#running.keys())
    const ended = Promise.all(this.#running.values())
    const over = new Promise<void>(resolve => Lifetime.until(signal).onceOver(() => resolve()))
    await Promise.race([ended, over])
    for (const key of left) if (this.#running.has(key)) this.#waiting.set(key, 0)
    await this.#save()
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
    this.#saveSoon()
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

  /** Uploads a content. Undefined when it is in the bucket, 'gone' when this node does not have it any more. */
  async #uploadContent(entry: Entry): Promise<BucketRefusal | 'gone' | undefined> {
    const { bucket, store } = this.#parts
    const { digest, size } = entry
    const name = blobName(digest)
    const there = await bucket.head(name)
    if (there.outcome === 'done' && there.size === size) return undefined
    const content = await store.content(entry)
    if (content === undefined) return 'gone'
    const only = this.#condition(there.outcome === 'done' ? undefined : 'new')
    return refusal(await bucket.put({ name, digest, content, type: types.blob, only }))
  }

  async #putEntry(entry: Entry, etag: string | undefined): Promise<BucketRefusal | undefined> {
    const only = etag === undefined ? 'new' : etag === '' ? undefined : { etag }
    const name = entryObject(entry.key)
    return refusal(await this.#parts.bucket.putJson(name, entryBytes(entry), this.#condition(only)))
  }

  #condition(only: ObjectWrite['only']): ObjectWrite['only'] {
    return this.#parts.conditional() ? only : undefined
  }

  #saveSoon(): void {
    if (this.#closed) return
    this.#cancelSave ??= this.#parts.clock.after(saveAfter, () => {
      this.#cancelSave = undefined
      void this.#save()
    })
  }

  async #save(): Promise<void> {
    const lines = youngest([...this.#running.keys(), ...this.#waiting.keys()])
    try {
      await writeFileAtomically(this.#path, lines, { durable: false, mode: 0o640 })
      this.#saved = true
    } catch (error) {
      // Every change of the list tries it again, so only the first failure is logged.
      if (this.#saved) this.#parts.log.warn('the list of uploads cannot be written', { error })
      this.#saved = false
    }
  }
}

/** The result of an upload. `gone` means that this node does not have the file any more, or does not share it. */
type Uploaded = 'there' | 'gone' | BucketRefusal

/** The lines of these keys. The oldest keys are left out when the file would be longer than the next start reads. */
function youngest(keys: readonly string[]): readonly string[] {
  const lines: string[] = []
  let size = 0
  for (const key of [...keys].reverse()) {
    const line = `${JSON.stringify(key)}\n`
    size += Buffer.byteLength(line)
    if (size > mostFileBytes) break
    lines.push(line)
  }
  return lines.reverse()
}

/** The refusal of a write; undefined when this or another node has written the object. */
function refusal(written: { readonly outcome: 'done' } | BucketRefusal): BucketRefusal | undefined {
  return written.outcome === 'done' || written.outcome === 'precondition' ? undefined : written
}

/** The key on a line; undefined for a line that was cut off. */
function keyOf(line: string): string | undefined {
  const key = parsedJson(line)
  return typeof key === 'string' && key !== '' ? key : undefined
}
