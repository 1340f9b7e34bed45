/**
 * Entries on disk, a file each, and the recently used ones in memory. Knows keys and files, not contents.
 *
 * The file's modification time is the moment of last use: unlike the access time it does not move when a listing or a back-up
 * reads the file.
 */
import { constants } from 'node:fs'
import { mkdir, open, stat, unlink, utimes } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { LRUCache } from 'lru-cache'
import type { Clock, Milliseconds } from '../../../async/clock.ts'
import { KeyedMutex } from '../../../async/keyed-mutex.ts'
import { SingleFlight } from '../../../async/single-flight.ts'
import { syncDirectory, writeFileAtomically } from '../../../atomic-file.ts'
import { explainError, systemCode } from '../../../errors.ts'
import type { Logger } from '../../../log/log.ts'
import { type Decoded, decodeEntry, type Entry, encodeEntry, maxEntryBytes } from '../entry.ts'
import { listed, type Tally } from '../upkeep/usage.ts'
import { entryName, type Layout, nameOfEntryFile, shards } from './layout.ts'

/** An entry with the moment somebody last asked for it. */
export interface UsedEntry extends Entry {
  readonly lastUsed: Milliseconds
}

/** Memory for decoded entries, roughly in bytes. */
const memoryBytes = 32 * 1024 * 1024

/** A use is written down again only after so long: retention counts in days. */
const touchInterval: Milliseconds = 6 * 60 * 60 * 1000
/** How many keys' last written use is remembered. A forgotten one costs an extra utimes, nothing else. */
const rememberedUses = 65_536
/** Uses not yet written down: after so long, or so many. */
const flushInterval: Milliseconds = 60_000
const maxPending = 1_000

export class Entries {
  readonly #layout: Layout
  readonly #clock: Clock
  readonly #log: Logger
  readonly #tally: Tally
  readonly #writable: boolean
  readonly #turns = new KeyedMutex()
  readonly #loads = new SingleFlight<Entry | undefined>()
  readonly #memory = new LRUCache<string, Entry>({
    maxSize: memoryBytes,
    sizeCalculation: weigh,
  })
  readonly #used = new LRUCache<string, Milliseconds>({ max: rememberedUses })
  readonly #pending = new Map<string, Milliseconds>()
  #cancelFlush: (() => void) | undefined
  #flushing: Promise<void> = Promise.resolve()

  constructor(parts: {
    readonly layout: Layout
    readonly clock: Clock
    readonly log: Logger
    readonly tally: Tally
    /** False leaves every file as it is, broken ones too. */
    readonly writable: boolean
  }) {
    this.#layout = parts.layout
    this.#clock = parts.clock
    this.#log = parts.log
    this.#tally = parts.tally
    this.#writable = parts.writable
  }

  /** The entry, if it is in memory. */
  peek(key: string): Entry | undefined {
    return this.#memory.get(key)
  }

  /** The entry, from memory or disk. A file that is no entry of this key is removed and logged. Throws when the disk fails. */
  async get(key: string): Promise<Entry | undefined> {
    const known = this.#memory.get(key)
    if (known !== undefined) return known
    return this.#loads.run(key, () => this.#turns.run(key, () => this.#load(key)))
  }

  /**
   * Writes the entry, whole or not at all. A changed digest is flushed to the disk; a mere revalidation is not, for losing it
   * costs one more. Throws what the file system throws.
   */
  async put(entry: Entry): Promise<void> {
    await this.#turns.run(entry.key, async () => {
      const path = this.#layout.entry(entry.key)
      const known = this.#memory.get(entry.key)
      const durable = known?.digest !== entry.digest
      await this.#tally.change(entryName(entry.key), async () => {
        const before = (await exists(path)) ? 0 : undefined
        await writeInto(path, encodeEntry(entry), durable)
        return [before, 0]
      })
      this.#pending.delete(entry.key)
      this.#used.set(entry.key, this.#clock.now())
      this.#memory.set(entry.key, entry)
    })
  }

  /** Remembers an entry whose file could not be written, for as long as memory lasts. */
  remember(entry: Entry): void {
    this.#memory.set(entry.key, entry)
  }

  /** Notes that somebody asked for it now. Costs nothing but a look-up most of the time. */
  touch(key: string): void {
    if (!this.#writable) return
    const now = this.#clock.now()
    const written = this.#used.get(key)
    if (written !== undefined && now - written < touchInterval) return
    this.#used.set(key, now)
    this.#pending.set(key, now)
    if (this.#pending.size >= maxPending) this.flush()
    else this.#cancelFlush ??= this.#clock.after(flushInterval, () => this.flush())
  }

  /** Starts writing down the uses noted so far. */
  flush(): void {
    this.#cancelFlush?.()
    this.#cancelFlush = undefined
    const uses = [...this.#pending]
    this.#pending.clear()
    this.#flushing = this.#flushing.then(() => this.#writeUses(uses))
  }

  /** Removes the entry. With `only`, just as long as it still names that digest; with `unusedSince`, as long as nobody used
   * it since. Answers whether it is gone. */
  async remove(
    key: string,
    condition: { readonly only?: string; readonly unusedSince?: Milliseconds } = {},
  ): Promise<boolean> {
    return this.#turns.run(key, async () => {
      const path = this.#layout.entry(key)
      if (condition.only !== undefined) {
        const current = this.#memory.get(key) ?? (await this.#load(key))
        if (current !== undefined && current.digest !== condition.only) return false
      }
      if (condition.unusedSince !== undefined) {
        const used = Math.max(this.#pending.get(key) ?? 0, await modified(path))
        if (used >= condition.unusedSince) return false
      }
      this.#memory.delete(key)
      this.#pending.delete(key)
      this.#used.delete(key)
      await this.#unlink(path)
      return true
    })
  }

  /** Every entry on disk, one file open at a time. What comes or goes meanwhile may or may not be among them. */
  async *walk(): AsyncGenerator<UsedEntry> {
    for (const shard of shards) {
      const directory = join(this.#layout.entries, shard)
      for (const name of await listed(directory)) {
        if (nameOfEntryFile(name) === undefined) continue
        const read = await readEntry(join(directory, name)).catch(unreadable)
        if (read === undefined) continue
        const { entry, because } = checked(read.decoded, name)
        if (entry === undefined) {
          await this.#setAside(join(directory, name), because)
          continue
        }
        const lastUsed = Math.max(read.modified, this.#pending.get(entry.key) ?? 0)
        yield { ...entry, lastUsed }
      }
    }
  }

  /** Writes down what is pending and stops. */
  async close(): Promise<void> {
    this.flush()
    await this.#flushing
  }

  async #load(key: string): Promise<Entry | undefined> {
    const known = this.#memory.get(key)
    if (known !== undefined) return known
    const path = this.#layout.entry(key)
    const read = await readEntry(path)
    if (read === undefined) return undefined
    const { entry, because } = read.decoded
    if (entry?.key !== key) {
      await this.#setAside(path, because ?? 'its key is another')
      return undefined
    }
    if (!this.#used.has(key)) this.#used.set(key, read.modified)
    this.#memory.set(key, entry)
    return entry
  }

  /** A file that is no entry: removed, for whatever it held is fetched again. */
  async #setAside(path: string, because: string): Promise<void> {
    this.#log.warn('not an entry; treated as absent', { path, because })
    if (!this.#writable) return
    try {
      await this.#unlink(path)
    } catch (error) {
      this.#log.warn('cannot remove it', { path, because: explainError(error) })
    }
  }

  async #unlink(path: string): Promise<void> {
    await this.#tally.change(basename(path, '.json'), async () => [
      (await unlinked(path)) ? 0 : undefined,
      undefined,
    ])
  }

  async #writeUses(uses: ReadonlyArray<readonly [key: string, used: Milliseconds]>): Promise<void> {
    for (const [key, used] of uses) {
      const moment = new Date(used)
      await utimes(this.#layout.entry(key), moment, moment).catch(error => {
        if (systemCode(error) === 'ENOENT') return
        this.#log.warn('cannot note the last use', { key, because: explainError(error) })
      })
    }
  }
}

function checked(decoded: Decoded, file: string): Decoded {
  if (decoded.entry === undefined || file === `${entryName(decoded.entry.key)}.json`) return decoded
  return { because: 'its key belongs to another file name' }
}

/** Roughly what an entry costs in memory, bytes. */
function weigh(entry: Entry): number {
  let weight = 600 + entry.key.length
  for (const [name, value] of entry.fields) weight += 80 + name.length + value.length
  return weight
}

interface ReadEntry {
  readonly decoded: Decoded
  readonly modified: Milliseconds
}

async function readEntry(path: string): Promise<ReadEntry | undefined> {
  const flags = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK
  let file: Awaited<ReturnType<typeof open>>
  try {
    file = await open(path, flags)
  } catch (error) {
    const code = systemCode(error)
    if (code === 'ENOENT') return undefined
    if (code === 'ELOOP') return { decoded: { because: 'it is a link' }, modified: 0 }
    throw error
  }
  try {
    const found = await file.stat()
    const modified = Math.round(found.mtimeMs)
    if (!found.isFile()) return { decoded: { because: 'it is not a plain file' }, modified }
    if (found.size > maxEntryBytes) return { decoded: { because: 'it is too long' }, modified }
    const bytes = Buffer.allocUnsafe(found.size)
    const { bytesRead } = await file.read(bytes, 0, found.size, 0)
    return { decoded: decodeEntry(bytes.toString('utf8', 0, bytesRead)), modified }
  } finally {
    await file.close()
  }
}

/** A file that cannot be read must not stop every sweep from now on: it is no entry. Want of handles or memory passes. */
function unreadable(error: unknown): ReadEntry {
  if (['EMFILE', 'ENFILE', 'ENOMEM'].includes(systemCode(error) ?? '')) throw error
  return { decoded: { because: explainError(error) }, modified: 0 }
}

async function writeInto(path: string, text: string, durable: boolean): Promise<void> {
  try {
    await writeFileAtomically(path, text, { durable })
  } catch (error) {
    if (systemCode(error) !== 'ENOENT') throw error
    const directory = dirname(path)
    await mkdir(directory, { recursive: true })
    await writeFileAtomically(path, text, { durable })
    if (durable) await syncDirectory(dirname(directory))
  }
}

async function exists(path: string): Promise<boolean> {
  return stat(path).then(
    () => true,
    () => false,
  )
}

async function modified(path: string): Promise<Milliseconds> {
  return stat(path).then(
    found => Math.round(found.mtimeMs),
    () => 0,
  )
}

async function unlinked(path: string): Promise<boolean> {
  try {
    await unlink(path)
    return true
  } catch (error) {
    if (systemCode(error) === 'ENOENT') return false
    throw error
  }
}
