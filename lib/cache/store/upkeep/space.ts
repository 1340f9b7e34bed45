/**
 * Asks the file system how much room is left, at most once in some seconds.
 */
import type { Milliseconds } from '../../../async/clock.ts'
import type { Surroundings } from '../disk/disk.ts'

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
}

const spaceAge: Milliseconds = 5_000

/** Space on the file system of a directory, asked for at most once in some seconds however often it is needed. */
export class Space {
  readonly #around: Surroundings
  readonly #stored: () => number
  #known: FileSystemSpace | undefined
  #storedThen = 0
  #asked: Milliseconds = Number.NEGATIVE_INFINITY
  #asking: Promise<void> | undefined

  /** `stored` says how many bytes the store takes of it. */
  constructor(around: Surroundings, stored: () => number) {
    this.#around = around
    this.#stored = stored
  }

  /**
   * Free bytes, now that the store takes so many: what the file system said last, less what was stored since. Infinite when it
   * does not say.
   */
  free(stored: number): number {
    const { latest } = this
    if (latest === undefined) return Number.POSITIVE_INFINITY
    return latest.free - (stored - this.#storedThen)
  }

  /** What was known some seconds ago, at once. */
  get latest(): FileSystemSpace | undefined {
    if (this.#old) void this.get()
    return this.#known
  }

  /** What was known may be wrong by now. */
  forget(): void {
    this.#known = undefined
    this.#asked = Number.NEGATIVE_INFINITY
  }

  fresh(): Promise<FileSystemSpace | undefined> {
    this.#asked = Number.NEGATIVE_INFINITY
    return this.get()
  }

  /** Undefined when the file system does not say. */
  async get(): Promise<FileSystemSpace | undefined> {
    if (this.#old) {
      this.#asking ??= this.#ask().finally(() => {
        this.#asking = undefined
      })
      await this.#asking
    }
    return this.#known
  }

  get #old(): boolean {
    return this.#around.clock.elapsed() - this.#asked >= spaceAge
  }

  async #ask(): Promise<void> {
    const { disk, layout } = this.#around
    const stored = this.#stored()
    try {
      const { bsize, blocks, bfree, bavail } = await disk.space(layout.directory)
      this.#known = { total: blocks * bsize, used: (blocks - bfree) * bsize, free: bavail * bsize }
      this.#storedThen = stored
    } catch {
      this.#known = undefined
    }
    this.#asked = this.#around.clock.elapsed()
  }
}
