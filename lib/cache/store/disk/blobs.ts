/**
 * Contents on disk under the SHA-256 of their bytes, and the small ones in demand in memory. Knows files and digests, not
 * targets.
 *
 * # Memory
 * Content of at most 256 KiB is read whole and answered as bytes. It is kept on the second reading from disk, not the first:
 * a mirror run or an installer that reads thousands of small packages once would otherwise push out the indexes every machine
 * asks for, and the price is one more read out of the kernel's page cache.
 *
 * # Turns
 * Committing and removing one content take turns. A removal looks again, in its turn, whether the blob is older than its
 * grace and unnamed; a commit of the same content either comes before and leaves the blob fresh, or comes after and finds it
 * gone and puts its own in place. So a blob somebody has just committed is never removed.
 */

import { mkdir, rename, rm, stat, utimes } from 'node:fs/promises'
import { dirname } from 'node:path'
import { LRUCache } from 'lru-cache'
import type { Clock, Milliseconds } from '../../../async/clock.ts'
import { KeyedMutex } from '../../../async/keyed-mutex.ts'
import { SingleFlight } from '../../../async/single-flight.ts'
import { syncDirectory } from '../../../atomic-file.ts'
import { sourceOf } from '../../../bytes/source.ts'
import { explainError, systemCode } from '../../../errors.ts'
import type { Content } from '../../../http/message/message.ts'
import type { Logger } from '../../../log/log.ts'
import { type BlockSource, iterate, ReadAhead, ShortFile } from '../content/blocks.ts'
import type { Tally } from '../upkeep/usage.ts'
import { Handles, type Lease } from './handles.ts'
import type { Layout } from './layout.ts'

/** Largest content that is read whole, and may be kept in memory. */
export const smallBytes = 256 * 1024

/** How many small contents read once are remembered by name, waiting for their second reading. */
const remembered = 16_384

/** What a blob is asked by, and what to do when it turns out broken in the middle of a stream. */
export interface BlobRequest {
  readonly digest: string
  readonly size: number
  /** First byte wanted. */
  readonly first: number
  /** Last byte wanted, inclusive; `first - 1` for nothing at all. */
  readonly last: number
  readonly onBroken: (error: Error) => void
}

export class Blobs {
  readonly #layout: Layout
  readonly #clock: Clock
  readonly #log: Logger
  readonly #tally: Tally
  readonly #turns = new KeyedMutex()
  readonly #handles: Handles
  readonly #hot: LRUCache<string, Buffer> | undefined
  readonly #seen = new LRUCache<string, true>({ max: remembered })
  readonly #reads = new SingleFlight<Buffer | undefined>()

  constructor(parts: {
    readonly layout: Layout
    readonly clock: Clock
    readonly log: Logger
    readonly tally: Tally
    /** Bytes for hot content; 0 keeps none. */
    readonly memory: number
  }) {
    this.#layout = parts.layout
    this.#clock = parts.clock
    this.#log = parts.log
    this.#tally = parts.tally
    this.#handles = new Handles(parts.clock)
    if (parts.memory >= 1) {
      this.#hot = new LRUCache<string, Buffer>({
        maxSize: Math.floor(parts.memory),
        maxEntrySize: smallBytes + perEntry,
        sizeCalculation: bytes => bytes.length + perEntry,
      })
    }
  }

  /** Content from memory, when it is there. */
  peek({ digest, size, first, last }: Omit<BlobRequest, 'onBroken'>): Content | undefined {
    const bytes = this.#hot?.get(digest)
    if (bytes === undefined || bytes.length !== size) return undefined
    const whole = first === 0 && last === size - 1
    return { kind: 'bytes', bytes: whole ? bytes : bytes.subarray(first, last + 1) }
  }

  /** The content, undefined when the blob is not there or not of that size. Throws when the disk fails otherwise. */
  async content(request: BlobRequest): Promise<Content | undefined> {
    const hot = this.peek(request)
    if (hot !== undefined) return hot
    const { digest, size, first, last } = request
    if (size <= smallBytes) {
      const bytes = await this.#reads.run(digest, () => this.#readSmall(digest, size))
      return bytes?.length === size
        ? { kind: 'bytes', bytes: bytes.subarray(first, last + 1) }
        : undefined
    }
    // Opened now so that a missing blob is noticed before a response has begun; kept open by the handles for a while.
    const lease = await this.#acquire(digest, size)
    if (lease === undefined) return undefined
    lease.release()
    return {
      kind: 'stream',
      length: last + 1 - first,
      open: () => sourceOf(signal => this.stream(request, signal)),
    }
  }

  /** Blocks of a blob from disk. */
  stream(request: BlobRequest, signal: AbortSignal): AsyncIterable<Buffer> {
    const path = this.#layout.blob(request.digest)
    return iterate(
      new BlobSource(request, {
        acquire: () => this.#acquire(request.digest, request.size),
        forget: () => this.#handles.forget(path),
      }),
      signal,
    )
  }

  /** Whether a blob of that name and size is there. */
  async has(digest: string, size: number): Promise<boolean> {
    const found = await lookAt(this.#layout.blob(digest))
    return found?.size === size
  }

  /**
   * Gives a finished and flushed temporary file its name. When that content is there already, the temporary file goes and the
   * blob counts as new. Throws what the file system throws; the temporary file is then still there.
   */
  async commit(temporary: string, digest: string, size: number): Promise<void> {
    await this.#turns.run(digest, async () => {
      const path = this.#layout.blob(digest)
      const there = await lookAt(path)
      if (there?.size === size) {
        const now = new Date(this.#clock.now())
        await utimes(path, now, now)
        await rm(temporary, { force: true })
      } else {
        await this.#tally.change(digest, async () => {
          await renameInto(temporary, path)
          return [there?.size, size]
        })
        this.#handles.forget(path)
      }
      await syncDirectory(dirname(path))
    })
  }

  /**
   * Removes a blob nobody names, unless it is being read, was made or touched after `before`, or `named` says otherwise by
   * then. Returns the bytes that were freed, undefined when it stays.
   */
  async removeOrphan(
    digest: string,
    { before, named }: { readonly before: Milliseconds; readonly named: () => boolean },
  ): Promise<number | undefined> {
    return this.#turns.run(digest, async () => {
      const path = this.#layout.blob(digest)
      const there = await lookAt(path)
      if (there === undefined || there.size < 0 || there.modified >= before) return undefined
      if (named() || this.#handles.inUse(path)) return undefined
      this.#handles.forget(path)
      this.#hot?.delete(digest)
      await this.#tally.change(digest, async () => {
        await rm(path, { force: true })
        return [there.size, undefined]
      })
      return there.size
    })
  }

  /** Removes a blob that is not what it says, whoever names it. Those who read it go on; the next one finds it gone. */
  async discard(digest: string): Promise<void> {
    await this.#turns.run(digest, async () => {
      const path = this.#layout.blob(digest)
      const there = await lookAt(path)
      this.#handles.forget(path)
      this.#hot?.delete(digest)
      if (there === undefined) return
      await this.#tally.change(digest, async () => {
        await rm(path, { force: true, recursive: true })
        return [Math.max(0, there.size), undefined]
      })
    })
  }

  async close(): Promise<void> {
    this.#hot?.clear()
    await this.#handles.close()
  }

  async #acquire(digest: string, size: number): Promise<Lease | undefined> {
    const path = this.#layout.blob(digest)
    let lease: Lease
    try {
      lease = await this.#handles.acquire(path)
    } catch (error) {
      if (systemCode(error) === 'ENOENT') return undefined
      throw error
    }
    if (lease.size === size) return lease
    this.#handles.forget(path)
    lease.release()
    this.#log.warn('a blob has the wrong size', { digest, size, found: lease.size })
    return undefined
  }

  async #readSmall(digest: string, size: number): Promise<Buffer | undefined> {
    const lease = await this.#acquire(digest, size)
    if (lease === undefined) return undefined
    const bytes = Buffer.allocUnsafeSlow(size)
    try {
      for (let at = 0; at < size; ) {
        const { bytesRead } = await lease.file.read(bytes, at, size - at, at)
        if (bytesRead === 0) throw new ShortFile(at, size)
        at += bytesRead
      }
    } catch (error) {
      this.#handles.forget(this.#layout.blob(digest))
      if (!(error instanceof ShortFile)) throw error
      this.#log.warn('a blob is too short', { digest, size, because: explainError(error) })
      return undefined
    } finally {
      lease.release()
    }
    if (this.#seen.has(digest)) this.#hot?.set(digest, bytes)
    else this.#seen.set(digest, true)
    return bytes
  }
}

/** What an entry of the memory costs beyond its bytes, roughly. */
const perEntry = 256

/** A range of a blob; the file is opened with the first block and held until the last. */
class BlobSource implements BlockSource {
  readonly #request: BlobRequest
  readonly #files: {
    readonly acquire: () => Promise<Lease | undefined>
    readonly forget: () => void
  }
  #lease: Lease | undefined
  #blocks: ReadAhead | undefined
  #closed = false

  constructor(
    request: BlobRequest,
    files: { readonly acquire: () => Promise<Lease | undefined>; readonly forget: () => void },
  ) {
    this.#request = request
    this.#files = files
  }

  async next(): Promise<Buffer | undefined> {
    try {
      this.#blocks ??= await this.#open()
      return await this.#blocks.next()
    } catch (error) {
      if (this.#closed) throw error
      this.#files.forget()
      const broken = error instanceof Error ? error : new Error(String(error))
      if (broken instanceof ShortFile) this.#request.onBroken(broken)
      throw broken
    }
  }

  async close(finished: boolean): Promise<void> {
    this.#closed = true
    await this.#blocks?.close(finished)
    this.#lease?.release()
  }

  async #open(): Promise<ReadAhead> {
    const { size, first, last } = this.#request
    const lease = await this.#files.acquire()
    if (lease === undefined) throw new ShortFile(0, size)
    if (this.#closed) {
      lease.release()
      throw new Error('closed while the file was being opened')
    }
    this.#lease = lease
    return new ReadAhead(lease.file, first, last + 1)
  }
}

async function lookAt(
  path: string,
): Promise<{ readonly size: number; readonly modified: Milliseconds } | undefined> {
  try {
    const found = await stat(path)
    // A directory or a device of that name is no content of any size.
    return { size: found.isFile() ? found.size : -1, modified: found.mtimeMs }
  } catch (error) {
    if (systemCode(error) === 'ENOENT') return undefined
    throw error
  }
}

async function renameInto(from: string, to: string): Promise<void> {
  try {
    await rename(from, to)
  } catch (error) {
    if (systemCode(error) !== 'ENOENT') throw error
    const directory = dirname(to)
    await mkdir(directory, { recursive: true })
    await rename(from, to)
    await syncDirectory(dirname(directory))
  }
}
