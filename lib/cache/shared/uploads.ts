/**
 * What is to go to the bucket: keys of stored entries, uploaded one after the other behind the answers, each content before the entry that
 * names it. The list survives a restart in a file of the cache directory.
 *
 * # Facts
 * - An upload that is lost costs another node a fetch, and nothing else. So the list is bounded, the oldest go first when it is full, and the
 *   file is written behind, some seconds late.
 * - An entry that another node has uploaded for the same content stays: all nodes give its Last-Modified. One for another content is replaced
 *   when ours is younger. One from the future is of a node whose clock is wrong, and is replaced as well.
 * - Whether a file is shared is asked when its turn comes: an archive may have got `clients` or `credentials` since it was offered.
 */

import { hash } from 'node:crypto'
import { join } from 'node:path'
import type { Clock, Milliseconds } from '../../async/clock.ts'
import { Lifetime } from '../../async/lifetime.ts'
import { systemCode } from '../../errors.ts'
import { writeFileAtomically } from '../../files/atomic-file.ts'
import { readBounded } from '../../files/bounded-file.ts'
import type { Content } from '../../http/message/message.ts'
import { parsedJson } from '../../json.ts'
import type { Logger } from '../../log/log.ts'
import type { Entry, Reading } from '../store/entry.ts'
import {
  blobName,
  entryBytes,
  entryObject,
  largestBlob,
  mostBytes,
  readEntry,
  types,
} from './objects.ts'
import type { Bucket, BucketRefusal, Put } from './s3/bucket.ts'

/** The local store, as far as uploads ask it. */
export interface UploadedStore {
  read(key: string): Reading | Promise<Reading>
  content(entry: Entry): Content | Promise<Content | undefined>
}

export interface UploadParts {
  readonly clock: Clock
  readonly log: Logger
  readonly bucket: Bucket
  readonly store: UploadedStore
  /** The cache directory. */
  readonly directory: string
  /** Whether the store takes what is written now. */
  readonly writable: () => boolean
  /** Whether it compares before it writes. */
  readonly conditional: () => boolean
  /** Whether the file of a key is shared. */
  readonly shares: (key: string) => boolean
}

/** The name of the list's file in the cache directory. */
export const uploadsFile = 'shared-uploads'

const mostWaiting = 10_000
const mostFileBytes = 8 * 1024 * 1024
const longestKey = 4096
const atATime = 2
/** How long the file may lack what has changed. */
const saveAfter: Milliseconds = 5000
/** How often an object is tried that the store refuses while it takes others. */
const mostTries = 3
/** How far the clock of the node that has stored an entry may be ahead. */
const slack: Milliseconds = 60_000

/** Who waits for the end of an upload. */
interface Settling {
  readonly promise: Promise<boolean>
  readonly settle: (uploaded: boolean) => void
}

export class Uploads {
  readonly #parts: UploadParts
  readonly #path: string
  /** Keys that wait, with how often they were tried. */
  readonly #waiting = new Map<string, number>()
  /** Those that come first and do not wait for the others under way, with what goes to the bucket: it may not stand under the key yet. */
  readonly #urgent = new Map<string, Entry>()
  readonly #running = new Map<string, Promise<void>>()
  readonly #settling = new Map<string, Settling>()
  #done = 0
  #dropped = 0
  #cancelSave: (() => void) | undefined
  /** Whether the list could be written last. */
  #saved = true
  #closed = false

  constructor(parts: UploadParts) {
    this.#parts = parts
    this.#path = join(parts.directory, uploadsFile)
  }

  get counts(): { readonly waiting: number; readonly done: number; readonly dropped: number } {
    const waiting = this.#waiting.size + this.#running.size
    return { waiting, done: this.#done, dropped: this.#dropped }
  }

  /** Reads what an earlier run left. A file that cannot be read counts as empty. */
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

  /** `size`: bytes of its content, where they are known; `urgent`: what is to go to the bucket first. Whether it waits for its turn now. */
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

  /** Settles with true when the key is uploaded, or does not wait, and with false when it is given up. */
  settled(key: string): Promise<boolean> {
    if (!this.#waiting.has(key) && !this.#running.has(key)) return Promise.resolve(true)
    const known = this.#settling.get(key)
    if (known !== undefined) return known.promise
    let settle: Settling['settle'] = () => {}
    const promise = new Promise<boolean>(resolve => {
      settle = resolve
    })
    this.#settling.set(key, { promise, settle })
    return promise
  }

  /** Goes on: something waits, or the store takes what is written again. */
  go(): void {
    while (!this.#closed && this.#parts.writable()) {
      const key = this.#next()
      if (key === undefined) return
      const tries = this.#waiting.get(key) ?? 0
      const urgent = this.#urgent.get(key)
      this.#forget(key)
      this.#running.set(key, this.#run(key, { tries, urgent }))
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

  /** The key whose turn it is; undefined when as many are under way as may be. */
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

  async #run(key: string, { tries, urgent }: Turn): Promise<void> {
    // It is in the map before it begins.
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

  /** Whether it waits for another try. */
  #tryAgain(key: string, tries: number, refused: BucketRefusal): boolean {
    // While the store takes nothing no file has failed.
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
    this.#settling.get(key)?.settle(uploaded)
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
    if (there === 'unchanged') return 'gone'
    const known = there.outcome === 'done' ? readEntry(there.bytes, key) : undefined
    const stays = known !== undefined && this.#stays(known, entry)
    // A pointer names what is urgent, whatever stands under its key.
    if (stays && urgent === undefined && known.digest !== entry.digest) return 'there'
    const blob = await this.#uploadContent(entry)
    if (blob !== undefined) return blob
    if (stays) return 'there'
    return (
      (await this.#putEntry(entry, there.outcome === 'done' ? there.etag : undefined)) ?? 'there'
    )
  }

  /** Whether an entry of the bucket is not replaced by ours: it is of the same content, or of a younger one. */
  #stays(known: Entry, ours: Entry): boolean {
    if (known.digest === ours.digest) return true
    return known.stored > ours.stored && known.stored <= this.#parts.bucket.now() + slack
  }

  /** Undefined when the content is in the bucket, 'gone' when it is stored here no longer. */
  async #uploadContent(entry: Entry): Promise<BucketRefusal | 'gone' | undefined> {
    const { bucket, store } = this.#parts
    const { digest, size } = entry
    const name = blobName(digest)
    const there = await bucket.head(name)
    if (there.outcome === 'done' && there.size === size) return undefined
    const content = await store.content(entry)
    if (content === undefined) return 'gone'
    const only: Put['only'] = there.outcome === 'done' ? undefined : 'new'
    const put = { name, digest, content, type: types.blob }
    return refusal(await bucket.put({ ...put, ...this.#condition(only) }))
  }

  async #putEntry(entry: Entry, etag: string | undefined): Promise<BucketRefusal | undefined> {
    const bytes = entryBytes(entry)
    const only: Put['only'] = etag === undefined ? 'new' : etag === '' ? undefined : { etag }
    const written = await this.#parts.bucket.put({
      name: entryObject(entry.key),
      digest: hash('sha256', bytes),
      content: { kind: 'bytes', bytes },
      type: types.json,
      ...this.#condition(only),
    })
    return refusal(written)
  }

  #condition(only: Put['only']): Pick<Put, 'only'> {
    return only !== undefined && this.#parts.conditional() ? { only } : {}
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
      // It is tried again whenever the list changes, which may be every few seconds.
      if (this.#saved) this.#parts.log.warn('the list of uploads cannot be written', { error })
      this.#saved = false
    }
  }
}

/** A turn of a key. */
interface Turn {
  readonly tries: number
  readonly urgent: Entry | undefined
}

/** What came of it; `gone`: it is stored here no longer, or not shared. */
type Uploaded = 'there' | 'gone' | BucketRefusal

/** The lines of these keys, as far as they fit what is read at the next start: the oldest are left out. */
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

/** Nothing when it is there now, be it by another node. */
function refusal(written: { readonly outcome: 'done' } | BucketRefusal): BucketRefusal | undefined {
  return written.outcome === 'done' || written.outcome === 'precondition' ? undefined : written
}

/** The key on a line; undefined for a line that was cut off. */
function keyOf(line: string): string | undefined {
  const key = parsedJson(line)
  return typeof key === 'string' && key !== '' ? key : undefined
}
