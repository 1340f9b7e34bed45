/**
 * Memory for content that is transferred: blocks of three sizes, reused, bounded for the process.
 *
 * # Facts
 * - A socket or a file is read straight into a block. The hash, the disk and every client get the same bytes by reference
 *   (`Piece`), and the last one to let go gives the block back. Nothing is copied and nothing is left to the garbage collector.
 * - Each read of a socket wakes the sender, and each write the receiver: through blocks of 1 MiB a tunnel passed a quarter more
 *   than through 256 KiB. A file has no one to wake, and smaller blocks stay in the processor's cache until they are sent: 512 KiB was
 *   a tenth faster than 256 KiB and than 1 MiB.
 */

/** Bytes of a block for what is no larger, or for a part of it when blocks are scarce. */
export const smallBlock = 128 * 1024
/** Bytes of a block that a file is read into. */
export const fileBlock = 512 * 1024
/** Bytes of a block that a socket is read into. */
export const socketBlock = 1024 * 1024

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
 * Bytes of spare blocks kept for the next transfer, at most; the others go back to the system. As many as one reader of a file
 * who leaves the others gives back at once (`mostKept` of the store's open-content.ts) and as many again.
 */
const mostSpare = 64 * 1024 * 1024

export class BlockPool {
  readonly #limit: number
  /** The blocks that are not in use, by their size. */
  readonly #spare: Record<number, Block[]> = {
    [smallBlock]: [],
    [fileBlock]: [],
    [socketBlock]: [],
  }
  #spareBytes = 0
  #used = 0

  /** `limit` is the memory for blocks in bytes; one block for a socket fits in any case. */
  constructor({ limit }: { readonly limit: number }) {
    this.#limit = Math.max(socketBlock, limit)
  }

  /** Bytes of blocks that are held. */
  get used(): number {
    return this.#used
  }

  /** Whether so little is left that holders should let go of blocks they can spare. */
  get scarce(): boolean {
    return this.#used > this.#limit - Math.max(socketBlock, this.#limit / 4)
  }

  /** A block, held once by the caller; undefined when the limit is reached. */
  take(bytes: typeof smallBlock | typeof fileBlock | typeof socketBlock): Block | undefined {
    if (this.#used + bytes > this.#limit) return undefined
    this.#used += bytes
    const spare = this.#spare[bytes]?.pop()
    if (spare === undefined) {
      this.#keepSpare(this.#limit - this.#used, bytes)
      return new Block(Buffer.allocUnsafeSlow(bytes), this)
    }
    this.#spareBytes -= bytes
    spare.retain()
    return spare
  }

  /** Gives spare blocks back to the system until no more than `most` bytes are left, those of the given size last. */
  #keepSpare(most: number, last: number): void {
    const others = Object.keys(this.#spare).map(Number)
    for (const size of [...others.filter(other => other !== last), last]) {
      const spare = this.#spare[size] ?? []
      while (this.#spareBytes > most && spare.pop() !== undefined) this.#spareBytes -= size
    }
  }

  /** Takes a block back. `Block.release` alone calls this. */
  giveBack(block: Block): void {
    const { length } = block.memory
    this.#used -= length
    this.#spareBytes += length
    this.#spare[length]?.push(block)
    if (this.#spareBytes > mostSpare) this.#keepSpare(mostSpare, length)
  }
}
