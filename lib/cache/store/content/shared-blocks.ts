/**
 * Keeps blocks of files that the next reader may want, a bounded number for all files together.
 *
 * Copying a block out of the page cache is two fifths of what it costs to send it, so readers of one file who are near each
 * other get the same block by reference. When blocks are scarce none is kept.
 */
import { type Block, type BlockPool, fileBlock } from '../../../bytes/block-pool.ts'

/** A block that was read, as its file keeps it. */
export interface KeptBlock {
  drop(): void
}

/** 32 MiB. */
const mostKept = 64

export class SharedBlocks {
  readonly #pool: BlockPool
  readonly #kept = new Set<KeptBlock>()

  constructor(pool: BlockPool) {
    this.#pool = pool
  }

  /** Few blocks are left: nothing is read ahead and nothing kept. */
  get scarce(): boolean {
    return this.#pool.scarce
  }

  /** A block to read into; undefined when there is none, even for what is kept. */
  take(): Block | undefined {
    for (;;) {
      const block = this.#pool.take(fileBlock)
      const [oldest] = this.#kept
      if (block !== undefined || oldest === undefined) return block
      this.#evict(oldest)
    }
  }

  keep(kept: KeptBlock): void {
    this.#kept.add(kept)
    const [oldest] = this.#kept
    if (this.#kept.size > mostKept && oldest !== undefined) this.#evict(oldest)
  }

  forget(kept: KeptBlock): void {
    this.#kept.delete(kept)
  }

  #evict(kept: KeptBlock): void {
    this.#kept.delete(kept)
    kept.drop()
  }
}
