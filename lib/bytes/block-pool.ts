/**
 * Memory for content that is transferred: blocks of one size, reused, bounded for the process.
 *
 * # Facts
 * - A socket or a file is read straight into a block. The hash, the disk and every client get the same bytes by reference
 *   (`Piece`), and the last one to let go gives the block back. Nothing is copied and nothing is left to the garbage collector.
 * - A block of 256 KiB stays in the processor's second-level cache between reading, hashing and sending. Larger blocks measured
 *   no faster, smaller ones cost a system call each.
 */

/** Bytes of a block. */
export const blockBytes = 256 * 1024

/** One block. The taker holds it; each further holder retains it, and each releases it once. */
export class Block {
  readonly memory: Buffer
  readonly #pool: BlockPool
  #holders = 1

  constructor(memory: Buffer, pool: BlockPool) {
    this.memory = memory
    this.#pool = pool
  }

  retain(): void {
    this.#holders += 1
  }

  /** Gives it back to its pool when the last holder lets go. Throws when it is not held: two would write into it then. */
  release(): void {
    if (this.#holders === 0) throw new Error('a block was released more often than it was held')
    this.#holders -= 1
    if (this.#holders === 0) this.#pool.giveBack(this)
  }
}

/**
 * Spare blocks kept for the next transfer, at most; the others go back to the system. As many as one reader of a file who leaves the
 * others gives back at once (`mostKept` of shared-blocks.ts) and as many again: with 32, hits of 100 MB were a tenth slower.
 */
const mostSpare = 128

export class BlockPool {
  readonly #most: number
  readonly #spare: Block[] = []
  #held = 0

  /** `limit` is the memory for blocks in bytes; there are always at least two blocks. */
  constructor({ limit }: { readonly limit: number }) {
    this.#most = Math.max(2, Math.floor(limit / blockBytes))
  }

  /** Bytes of blocks that are held. */
  get used(): number {
    return this.#held * blockBytes
  }

  /** Whether so few blocks are left that holders should let go of those they can spare. */
  get scarce(): boolean {
    return this.#held > this.#most - this.#most / 4
  }

  /** A block, held once by the caller; undefined when the limit is reached. */
  take(): Block | undefined {
    if (this.#held >= this.#most) return undefined
    this.#held += 1
    const spare = this.#spare.pop()
    if (spare === undefined) return new Block(Buffer.allocUnsafeSlow(blockBytes), this)
    spare.retain()
    return spare
  }

  /** For `Block.release` alone. */
  giveBack(block: Block): void {
    this.#held -= 1
    if (this.#spare.length < mostSpare) this.#spare.push(block)
  }
}
