/**
 * Memory for content that is transferred: blocks of three sizes, which are reused, and whose sum is bounded for the process.
 *
 * # Facts
 * - A socket or a file is read straight into a block. The hash, the disk and every client get the same bytes by reference (`Piece`), and
 *   the last holder gives the block back. No byte is copied, and the garbage collector has no work.
 * - Each read of a socket wakes the sender, and each write the receiver: with blocks of 1 MiB a tunnel passed a quarter more than with 256
 *   KiB. A file wakes no process, and smaller blocks stay in the processor's cache until they are sent: 512 KiB was a tenth faster than 256
 *   KiB and than 1 MiB.
 */

/** Bytes of a block for content of at most this size, or for a part of larger content when blocks are scarce. */
export const smallBlock = 128 * 1024
/** Bytes of a block that a file is read into. */
export const fileBlock = 512 * 1024
/** Bytes of a block that a socket is read into. */
export const socketBlock = 1024 * 1024

/** One block. The caller of `take` holds it. Each further holder retains it, and each holder releases it once. */
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

  /**
   * Gives the block back to its pool when the last holder releases it. Throws when no one holds it: two holders would then write into it.
   */
  release(): void {
    if (this.#holders === 0) throw new Error('a block was released more often than it was held')
    this.#holders -= 1
    if (this.#holders === 0) this.#pool.giveBack(this)
  }
}

/**
 * The most bytes of spare blocks that are kept for the next transfer; the others go back to the system. It is twice the bytes that one
 * reader of a file gives back at once when it leaves (`mostKept` of the store's open-content.ts).
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

  /** `limit` is the memory for blocks in bytes. It is at least one block for a socket. */
  constructor({ limit }: { readonly limit: number }) {
    this.#limit = Math.max(socketBlock, limit)
  }

  /** Bytes of blocks that are held. */
  get used(): number {
    return this.#used
  }

  /** Whether so little memory is left that holders should release blocks they can spare. */
  get scarce(): boolean {
    return this.#used > this.#limit - Math.max(socketBlock, this.#limit / 4)
  }

  /** A block that the caller holds; undefined when the limit is reached. */
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

  /** Gives spare blocks back to the system until at most `most` bytes are left, those of the size `last` after the others. */
  #keepSpare(most: number, last: number): void {
    const others = Object.keys(this.#spare).map(Number)
    for (const size of [...others.filter(other => other !== last), last]) {
      const spare = this.#spare[size] ?? []
      while (this.#spareBytes > most && spare.pop() !== undefined) this.#spareBytes -= size
    }
  }

  /** Takes a block back. Only `Block.release` calls this. */
  giveBack(block: Block): void {
    const { length } = block.memory
    this.#used -= length
    this.#spareBytes += length
    this.#spare[length]?.push(block)
    if (this.#spareBytes > mostSpare) this.#keepSpare(mostSpare, length)
  }
}
