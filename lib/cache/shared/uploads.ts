/**
 * What is to go to the bucket: keys of stored entries, uploaded one after the other behind the answers, each content before the entry that
 * names it. The list survives a restart in a file of the cache directory.
 *
 * # Facts
 * - An upload that is lost costs another node a fetch, and nothing else. So the list is bounded, the oldest go first when it is full, and the
 *   file is written behind, some seconds late.
 * - An entry that another node has uploaded for the same content stays: all nodes give its Last-Modified. One for another content is replaced
 *   when ours is younger.
 */
import { hash } from 'node:crypto'
import { join } from 'node:path'
import type { Clock, Milliseconds } from '../../async/clock.ts'
import { Lifetime } from '../../async/lifetime.ts'
import { systemCode } from '../../errors.ts'
import { writeFileAtomically } from '../../files/atomic-file.ts'
import { readBounded } from '../../files/bounded-file.ts'
import type { Content } from '../../http/message/message.ts'
import type { Logger } from '../../log/log.ts'
import type { Entry, Reading } from '../store/entry.ts'
import type { Bucket, Put, Refused } from './bucket.ts'
import {
  blobName,
  entryBytes,
  entryObject,
  largestBlob,
  mostBytes,
  readEntry,
  types,
} from './objects.ts'

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

export class Uploads {
  readonly #parts: UploadParts
  readonly #path: string
  /** Keys that wait, with how often they were tried. Those of `#urgent` come first, and do not wait for the others under way. */
  readonly #waiting = new Map<string, number>()
  readonly #urgent = new Set<string>()
  readonly #running = new Map<string, Promise<void>>()
  /** Who waits for the end of a key. */
  readonly #listeners = new Map<string, Array<() => void>>()
  #done = 0
  #dropped = 0
  #cancelSave: (() => void) | undefined
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

  /** `size`: bytes of its content, where they are known. */
  add(
    key: string,
    { size = 0, first = false }: { readonly size?: number; readonly first?: boolean } = {},
  ): void {
    if (this.#closed || size > largestBlob || key.length > longestKey) return
    if (first) this.#urgent.add(key)
    if (this.#waiting.has(key)) return this.go()
    const [oldest] = this.#waiting.keys()
    if (this.#waiting.size >= mostWaiting && oldest !== undefined) this.#drop(oldest)
    this.#waiting.set(key, 0)
    this.#saveSoon()
    this.go()
  }

  /** Settles when the key is uploaded, or given up; at once when it does not wait. */
  async settled(key: string): Promise<void> {
    if (!this.#waiting.has(key) && !this.#running.has(key)) return
    await new Promise<void>(resolve => {
      this.#listeners.set(key, [...(this.#listeners.get(key) ?? []), resolve])
    })
  }

  /** Goes on: something waits, or the store takes what is written again. */
  go(): void {
    while (!this.#closed && this.#parts.writable()) {
      const key = this.#next()
      if (key === undefined) return
      const tries = this.#waiting.get(key) ?? 0
      this.#forget(key)
      this.#running.set(key, this.#run(key, tries))
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
    if (running < atATime + atATime) for (const key of this.#urgent) if (idle(key)) return key
    if (running < atATime) for (const key of this.#waiting.keys()) if (idle(key)) return key
    return undefined
  }

  #forget(key: string): void {
    this.#waiting.delete(key)
    this.#urgent.delete(key)
  }

  async #run(key: string, tries: number): Promise<void> {
    // It is in the map before it begins.
    await Promise.resolve()
    let refused: Refused | undefined
    try {
      refused = await this.#upload(key)
    } catch (error) {
      this.#parts.log.warn('a file could not be uploaded', { key, error })
    }
    this.#running.delete(key)
    const again = refused !== undefined && this.#tryAgain(key, tries, refused)
    if (!again && refused === undefined) this.#done += 1
    if (!this.#waiting.has(key)) this.#tell(key)
    this.#saveSoon()
    this.go()
  }

  /** Whether it waits for another try. */
  #tryAgain(key: string, tries: number, refused: Refused): boolean {
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
    if (!this.#running.has(key)) this.#tell(key)
  }

  #tell(key: string): void {
    for (const tell of this.#listeners.get(key) ?? []) tell()
    this.#listeners.delete(key)
  }

  /** Undefined when it is in the bucket, or is stored here no longer. */
  async #upload(key: string): Promise<Refused | undefined> {
    const { store, bucket } = this.#parts
    const entry = await store.read(key)
    if (entry === undefined || entry === 'unreadable') return undefined
    const there = await bucket.read(entryObject(key), { most: mostBytes.entry })
    if (there === 'unchanged') return undefined
    const known = there.outcome === 'done' ? readEntry(there.bytes, key) : undefined
    if (known !== undefined && known.digest !== entry.digest && known.stored > entry.stored)
      return undefined
    const blob = await this.#uploadContent(entry)
    if (blob !== undefined) return blob === 'gone' ? undefined : blob
    if (known?.digest === entry.digest) return undefined
    return this.#putEntry(entry, there.outcome === 'done' ? there.etag : undefined)
  }

  /** Undefined when the content is in the bucket, 'gone' when it is stored here no longer. */
  async #uploadContent(entry: Entry): Promise<Refused | 'gone' | undefined> {
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

  async #putEntry(entry: Entry, etag: string | undefined): Promise<Refused | undefined> {
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
    const lines = [...this.#running.keys(), ...this.#waiting.keys()].map(
      key => `${JSON.stringify(key)}\n`,
    )
    try {
      await writeFileAtomically(this.#path, lines, { durable: false, mode: 0o640 })
    } catch (error) {
      this.#parts.log.warn('the list of uploads cannot be written', { error })
    }
  }
}

/** Nothing when it is there now, be it by another node. */
function refusal(written: { readonly outcome: 'done' } | Refused): Refused | undefined {
  return written.outcome === 'done' || written.outcome === 'precondition' ? undefined : written
}

/** The key on a line; undefined for a line that was cut off. */
function keyOf(line: string): string | undefined {
  try {
    const key: unknown = JSON.parse(line)
    return typeof key === 'string' && key !== '' ? key : undefined
  } catch {
    return undefined
  }
}
