/**
 * The memory a connection is read into: exactly enough for a small rest, blocks for a large one, and memory that all
 * connections share while it is not known how much comes and little does.
 *
 * # Facts
 * - Reads are synchronous: what lies in the shared memory is copied or understood before another connection can be read.
 * - A connection that is silent keeps the memory offered to it for its next read. So none of those that say little, event
 *   streams and idle tunnels for instance, keeps a block.
 */
import { type Block, type BlockPool, smallBlock, socketBlock } from './block-pool.ts'
import { Piece } from './piece.ts'

/** Bytes of the shared memory: a response of 100 KB comes with one read. */
const scratchBytes = 256 * 1024
/** Reads of this size are worth a block when it is not known how much comes. */
const busyRead = 128 * 1024
/** Content of at least this size is copied from the shared memory into a block: large ordinary memory costs more to make. */
const worthBlock = 32 * 1024
/** A block with less room than this is left, and the next one is begun. */
const leastRoom = 16 * 1024

let shared: Buffer | undefined

/** Memory that all connections read into. What lies there is gone when the reader returns. */
export function scratch(): Buffer {
  shared ??= Buffer.allocUnsafeSlow(scratchBytes)
  return shared
}

export class Landing {
  readonly #pool: BlockPool
  #memory: Buffer | undefined
  /** The block that the memory is a part of; undefined when it is none's. */
  #block: Block | undefined
  /** Bytes of the memory that were read. */
  #at = 0
  /** The size of reads of late. */
  #pace = 0

  constructor(pool: BlockPool) {
    this.#pool = pool
  }

  /** Room for the next read: for at most `most` bytes when it is known that no more come. */
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

  /** The bytes of a read into the room given last. */
  landed(count: number): Buffer {
    const from = this.#at
    const memory = this.#memory ?? scratch()
    this.#pace = Math.max(count, this.#pace >> 1)
    if (memory !== shared) this.#at += count
    return memory.subarray(from, from + count)
  }

  /** A part of what has landed as a piece: by reference, or copied out of the shared memory. */
  piece(bytes: Buffer): Piece {
    if (this.#memory === shared) return this.#copy(bytes)
    this.#block?.retain()
    return new Piece(bytes, this.#block)
  }

  #copy(bytes: Buffer): Piece {
    const size = bytes.length <= smallBlock ? smallBlock : socketBlock
    const block = bytes.length < worthBlock ? undefined : this.#pool.take(size)
    if (block === undefined) return new Piece(Buffer.from(bytes))
    bytes.copy(block.memory)
    return new Piece(block.memory.subarray(0, bytes.length), block)
  }

  /** Whether the next read needs no further memory, and what has landed stays where it is. */
  hasRoom(most?: number): boolean {
    const memory = this.#memory
    return memory !== undefined && memory !== shared && this.#goesOn(memory, most)
  }

  /** Lets go of the memory. Nothing may be on its way into it. */
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
    if (most !== undefined && most < worthBlock) return Buffer.allocUnsafe(most)
    const { scarce } = this.#pool
    if (most === undefined && (this.#pace < busyRead || scarce)) return scratch()
    const little = scarce || (most !== undefined && most <= smallBlock)
    this.#block = this.#pool.take(little ? smallBlock : socketBlock)
    return this.#block?.memory ?? Buffer.allocUnsafeSlow(Math.min(smallBlock, most ?? smallBlock))
  }
}
