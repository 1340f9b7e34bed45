/**
 * How much is stored, and what room the file system has left.
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

/** How old the figures of the file system may be. */
const spaceAge: Milliseconds = 5_000

/** Space on the file system of a directory, asked for at most once in some seconds however often it is needed. */
export class Space {
  readonly #around: Surroundings
  #known: FileSystemSpace | undefined
  #asked: Milliseconds = Number.NEGATIVE_INFINITY
  #asking: Promise<void> | undefined

  constructor(around: Surroundings) {
    this.#around = around
  }

  /** What was known some seconds ago, at once. */
  get latest(): FileSystemSpace | undefined {
    void this.get()
    return this.#known
  }

  /** What was known may be wrong by now. */
  forget(): void {
    this.#known = undefined
    this.#asked = Number.NEGATIVE_INFINITY
  }

  /** Undefined when the file system does not say. */
  async get(): Promise<FileSystemSpace | undefined> {
    if (this.#around.clock.elapsed() - this.#asked >= spaceAge) {
      this.#asking ??= this.#ask().finally(() => {
        this.#asking = undefined
      })
      await this.#asking
    }
    return this.#known
  }

  async #ask(): Promise<void> {
    const { disk, layout } = this.#around
    try {
      const { bsize, blocks, bfree, bavail } = await disk.space(layout.directory)
      this.#known = { total: blocks * bsize, used: (blocks - bfree) * bsize, free: bavail * bsize }
    } catch {
      this.#known = undefined
    }
    this.#asked = this.#around.clock.elapsed()
  }
}
