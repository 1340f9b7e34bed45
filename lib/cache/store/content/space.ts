/**
 * The space on the file system of the cache, asked for at most once in some seconds.
 */
import type { Milliseconds } from '../../../async/clock.ts'
import type { Surroundings } from '../disk/disk.ts'

/** Space of the file system of the cache, bytes. `free` is the space that this process may use. */
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

/** Knows the space on the file system of a directory, and asks for it at most once in some seconds. */
export class Space {
  readonly #around: Surroundings
  readonly #stored: () => number
  #known: FileSystemSpace | undefined
  #storedThen = 0
  #asked: Milliseconds = Number.NEGATIVE_INFINITY
  #asking: Promise<void> | undefined

  /** `stored` answers how many bytes the store takes. */
  constructor(around: Surroundings, stored: () => number) {
    this.#around = around
    this.#stored = stored
  }

  /**
   * Free bytes now that the store takes `stored`: the last answer of the file system less the bytes that were stored since. Infinite
   * when the file system does not answer.
   */
  free(stored: number): number {
    const { latest } = this
    if (latest === undefined) return Number.POSITIVE_INFINITY
    return latest.free - (stored - this.#storedThen)
  }

  /** The last answer, at once. An old one is renewed in the background. */
  get latest(): FileSystemSpace | undefined {
    if (this.#old) void this.get()
    return this.#known
  }

  /** Forgets the last answer, because it may be wrong by now. */
  forget(): void {
    this.#known = undefined
    this.#asked = Number.NEGATIVE_INFINITY
  }

  /** Asks the file system again. Undefined when it does not answer. */
  fresh(): Promise<FileSystemSpace | undefined> {
    this.#asked = Number.NEGATIVE_INFINITY
    return this.get()
  }

  /** The last answer, renewed when it is old. Undefined when the file system does not answer. */
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
