/**
 * The memory that a connection is read into. A small rest gets exactly enough, and a large one gets blocks. When the size is unknown and
 * few bytes come, all connections share one memory.
 *
 * # Facts
 * - Reads are synchronous: the bytes in the shared memory are copied or understood before another connection can be read.
 * - A silent connection keeps the memory that was given for its next read. So connections that receive little, such as event streams and
 *   idle tunnels, get no block.
 */
import { type Block, type BlockPool, smallBlock, socketBlock } from './block-pool.ts'
import { Piece } from './piece.ts'

/** Bytes of the shared memory: a response of 100 KB comes with one read. */
const scratchBytes = 256 * 1024
/** A read of this size justifies a block when the size of the content is unknown. */
const busyRead = 128 * 1024
/** Content of at least this size is copied from the shared memory into a block: to make large ordinary memory costs more. */
const leastBlockContent = 32 * 1024
/** A block with less room than this is given up for the next one. */
const leastRoom = 16 * 1024

let shared: Buffer | undefined

/** Memory that all connections read into. Its bytes are lost when the reader returns. */
export function scratchBuffer(): Buffer {
  shared ??= Buffer.allocUnsafeSlow(scratchBytes)
  return shared
}

export class Landing {
  readonly #pool: BlockPool
  #memory: Buffer | undefined
  /** The block that the memory is a part of; undefined when it is not part of a block. */
  #block: Block | undefined
  /** The number of bytes of the memory that were read. */
  #at = 0
  /** The size of recent reads. */
  #pace = 0

  constructor(pool: BlockPool) {
    this.#pool = pool
  }

  /** Room for the next read. `most` is the number of bytes when no more can come. */
  room(most?: number): Buffer {
    let memory = this.#memory
    if (memory === undefined || !this.#goesOn(memory, most)) {
      this.close()
      memory = this.#renew(most)
      this.#memory = memory
    }
    const scarce = memory === shared && this.#pool.scarce
    const room = scarce ? smallBlock : memory.length
    const end = most === undefined ? room : Math.min(room, this.#at + most)
    return memory.subarray(this.#at, end)
  }

  /** The bytes of a read into the last given room. */
  landed(count: number): Buffer {
    const from = this.#at
    const memory = this.#memory ?? scratchBuffer()
    this.#pace = Math.max(count, this.#pace >> 1)
    if (memory !== shared) this.#at += count
    return memory.subarray(from, from + count)
  }

  /** Bytes of the last read as a piece: a reference, or a copy when they are in the shared memory. */
  piece(bytes: Buffer): Piece {
    if (this.#memory === shared) return this.#copy(bytes)
    this.#block?.retain()
    return new Piece(bytes, this.#block)
  }

  #copy(bytes: Buffer): Piece {
    const size = bytes.length <= smallBlock ? smallBlock : socketBlock
    const block = bytes.length < leastBlockContent ? undefined : this.#pool.take(size)
    if (block === undefined) return new Piece(Buffer.from(bytes))
    bytes.copy(block.memory)
    return new Piece(block.memory.subarray(0, bytes.length), block)
  }

  /** Whether the next read needs no further memory, so that the bytes read so far stay where they are. */
  hasRoom(most?: number): boolean {
    const memory = this.#memory
    return memory !== undefined && memory !== shared && this.#goesOn(memory, most)
  }

  /** Releases the memory. No read into it may be under way. */
  close(): void {
    this.#block?.release()
    this.#block = undefined
    this.#memory = undefined
    this.#at = 0
  }

  #goesOn(memory: Buffer, most: number | undefined): boolean {
    if (memory === shared) return this.#pace < busyRead
    if (most === undefined && this.#pace < busyRead) return false
    const room = memory.length - this.#at
    return room >= leastRoom || (most !== undefined && room >= most)
  }

  #renew(most: number | undefined): Buffer {
    if (most !== undefined && most < leastBlockContent) return Buffer.allocUnsafe(most)
    const { scarce } = this.#pool
    if (most === undefined && (this.#pace < busyRead || scarce)) return scratchBuffer()
    const little = scarce || (most !== undefined && most <= smallBlock)
    this.#block = this.#pool.take(little ? smallBlock : socketBlock)
    return this.#block?.memory ?? Buffer.allocUnsafeSlow(Math.min(smallBlock, most ?? smallBlock))
  }
}
