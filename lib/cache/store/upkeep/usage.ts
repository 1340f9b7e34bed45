/**
 * How much is stored: totals kept while things come and go, counted once in the background after the start.
 */
import { readdir, stat, statfs } from 'node:fs/promises'
import { join } from 'node:path'
import type { Clock, Milliseconds } from '../../../async/clock.ts'
import { systemCode } from '../../../errors.ts'
import { shardOf, shards } from '../disk/layout.ts'

/** Space of the file system the cache lies on, bytes. `free` is what this process may still use. */
export interface FileSystemSpace {
  readonly total: number
  readonly used: number
  readonly free: number
}

export interface Usage {
  /** Entries: cached targets. Several may share one content. */
  readonly objects: number
  /** Contents, each counted once. */
  readonly blobs: number
  /** Bytes of those contents. */
  readonly bytes: number
  /** The count after the start is still under way, the figures are what was found so far. */
  readonly counting: boolean
  /** Undefined when the file system does not say. */
  readonly filesystem: FileSystemSpace | undefined
}

/** Sizes of a file before and after it was changed, undefined where there is none. */
export type SizeChange = readonly [before: number | undefined, after: number | undefined]

/**
 * Count and sum of the files in a directory of 256 shards. What changes before its shard is counted is left to the count; what
 * changes afterwards is added or taken off; what changes while its shard is counted is applied at its end, or, when it takes
 * longer, passed over by the count and added when it is done.
 */
export class Tally {
  count = 0
  bytes = 0
  readonly #directory: string
  readonly #sized: boolean
  readonly #counted = new Set<string>()
  #current: string | undefined
  /** What became of names while their shard was being counted: their size, undefined for gone. */
  readonly #changes = new Map<string, number | undefined>()
  readonly #underWay = new Set<string>()
  readonly #passedOver = new Set<string>()

  /** `sized` asks for the size of each file; without it only names are counted. */
  constructor(directory: string, { sized }: { readonly sized: boolean }) {
    this.#directory = directory
    this.#sized = sized
  }

  get counting(): boolean {
    return this.#counted.size < shards.length
  }

  /**
   * Lets `act` make, replace or remove the file of this name, which begins with its shard, and counts what came of it. Nobody
   * else may be at this name meanwhile. Throws what `act` throws; the file then counts as before.
   */
  async change(name: string, act: () => Promise<SizeChange>): Promise<void> {
    this.#underWay.add(name)
    let came: SizeChange | undefined
    try {
      came = await act()
    } finally {
      this.#underWay.delete(name)
      const passedOver = this.#passedOver.delete(name)
      if (came !== undefined) this.#apply(name, came, passedOver)
    }
  }

  #apply(name: string, [before, after]: SizeChange, passedOver: boolean): void {
    const shard = shardOf(name)
    if (shard === this.#current) this.#changes.set(name, after)
    else if (this.#counted.has(shard)) {
      if (before !== undefined && !passedOver) this.#add(-1, -before)
      if (after !== undefined) this.#add(1, after)
    }
  }

  /**
   * Counts what is there, a file at a time, until done or `signal` fires. `named` answers the name a file counts under, and
   * undefined for files that do not.
   */
  async countAll(named: (file: string) => string | undefined, signal: AbortSignal): Promise<void> {
    for (const shard of shards) {
      this.#current = shard
      this.#changes.clear()
      const found = new Map<string, number>()
      const directory = join(this.#directory, shard)
      for (const file of await listed(directory)) {
        const name = named(file)
        if (name === undefined) continue
        if (signal.aborted) return
        const size = this.#sized ? await sizeOf(join(directory, file)) : 0
        if (size !== undefined) found.set(name, size)
      }
      for (const [name, size] of this.#changes) {
        if (size === undefined) found.delete(name)
        else found.set(name, size)
      }
      for (const name of this.#underWay) {
        if (shardOf(name) !== shard) continue
        found.delete(name)
        this.#passedOver.add(name)
      }
      for (const size of found.values()) this.#add(1, size)
      this.#current = undefined
      this.#counted.add(shard)
      if (signal.aborted) return
    }
  }

  #add(count: number, bytes: number): void {
    this.count += count
    if (this.#sized) this.bytes += bytes
  }
}

/** How old the figures of the file system may be. */
const spaceAge: Milliseconds = 5_000

/** Space on the file system of `path`, asked for at most once in some seconds however often one looks. */
export class Space {
  readonly #path: string
  readonly #clock: Clock
  #known: FileSystemSpace | undefined
  #asked: Milliseconds = Number.NEGATIVE_INFINITY
  #asking: Promise<void> | undefined

  constructor(path: string, clock: Clock) {
    this.#path = path
    this.#clock = clock
  }

  async get(): Promise<FileSystemSpace | undefined> {
    if (this.#clock.now() - this.#asked >= spaceAge) {
      this.#asking ??= this.#ask().finally(() => {
        this.#asking = undefined
      })
      await this.#asking
    }
    return this.#known
  }

  async #ask(): Promise<void> {
    try {
      const { bsize, blocks, bfree, bavail } = await statfs(this.#path)
      this.#known = { total: blocks * bsize, used: (blocks - bfree) * bsize, free: bavail * bsize }
    } catch {
      this.#known = undefined
    }
    this.#asked = this.#clock.now()
  }
}

/** Names in a directory; none when it is not there, or is none. */
export async function listed(directory: string): Promise<readonly string[]> {
  try {
    return await readdir(directory)
  } catch (error) {
    const code = systemCode(error)
    if (code === 'ENOENT' || code === 'ENOTDIR') return []
    throw error
  }
}

async function sizeOf(path: string): Promise<number | undefined> {
  return stat(path).then(
    found => found.size,
    () => undefined,
  )
}
