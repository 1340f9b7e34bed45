/**
 * Content block by block: the iterator every stream of the store is, and reading a file ahead of its consumer.
 */

/** What an iteration draws from. `close` is called exactly once, possibly while `next` is still running. */
export interface BlockSource {
  /** The next block, undefined at the end. A block is valid until the next call. */
  next(): Promise<Buffer | undefined>
  /** Lets go of everything. `finished` tells that the consumer took the last block and needs none of them any more. */
  close(finished: boolean): Promise<void>
}

/**
 * The source as an iteration that lets go of it at the end, on an error, on `return`, and as soon as `signal` fires, even if
 * nobody ever asks again. After the signal the iteration throws its reason.
 */
export function iterate(source: BlockSource, signal: AbortSignal): AsyncIterableIterator<Buffer> {
  let closing: Promise<void> | undefined
  const close = (finished: boolean): Promise<void> => {
    signal.removeEventListener('abort', gone)
    closing ??= source.close(finished)
    return closing
  }
  // Nobody waits for a close after an abort; whoever asks next does.
  const gone = () => void close(false).catch(() => undefined)
  if (signal.aborted) gone()
  else signal.addEventListener('abort', gone, { once: true })
  return {
    [Symbol.asyncIterator]() {
      return this
    },
    async next() {
      signal.throwIfAborted()
      if (closing !== undefined) return { done: true, value: undefined }
      try {
        const block = await source.next()
        signal.throwIfAborted()
        if (block !== undefined) return { done: false, value: block }
      } catch (error) {
        await close(false)
        throw signal.aborted ? signal.reason : error
      }
      await close(true)
      return { done: true, value: undefined }
    },
    async return() {
      await close(false)
      return { done: true, value: undefined }
    },
  }
}

/**
 * Bytes of a block: for a reader that has yet to show that it reads, and for one that has. A megabyte in large blocks costs
 * three quarters of one in small blocks; a client that asks and never reads costs one block.
 */
export const smallBlock = 64 * 1024
export const largeBlock = 512 * 1024

/** What a reader takes in small blocks first: more than the kernel takes in for a client that reads nothing. */
export const trialBytes = 8 * 1024 * 1024

/** Large blocks there are at most, in use or spare; when all are taken, reading goes on in small ones. */
const mostLarge = 128
const maxSpare = 32

/** Large blocks no reader needs any more; bounded, so that an hour of many clients is not remembered for ever. */
const spare: Buffer[] = []
let large = 0

/** The part of a file handle that reading needs. */
export interface ReadableFile {
  read(
    buffer: Buffer,
    offset: number,
    length: number,
    position: number,
  ): Promise<{ bytesRead: number }>
}

/** A file that ended before the length it should have. */
export class ShortFile extends Error {
  constructor(position: number, end: number) {
    super(`the file ends at byte ${position} and should reach ${end}`)
    this.name = 'ShortFile'
  }
}

/**
 * Reads bytes `first` up to and without `end`: in small blocks, each when it is asked for, until the consumer has taken
 * `trialBytes`; from then on in large ones with two buffers in turn, so that while the consumer has one, the next read fills
 * the other. Does not own the file; after `close` no read is under way.
 */
export class ReadAhead implements BlockSource {
  readonly #file: ReadableFile
  readonly #end: number
  /** From here on in large blocks. */
  readonly #trialEnd: number
  #position: number
  #filling: Buffer | undefined
  #given: Buffer | undefined
  #free: Buffer | undefined
  #reading: Promise<{ bytesRead: number }> | undefined
  #closed = false

  constructor(file: ReadableFile, first: number, end: number) {
    this.#file = file
    this.#position = first
    this.#end = end
    this.#trialEnd = first + trialBytes
  }

  async next(): Promise<Buffer | undefined> {
    if (this.#position >= this.#end || this.#closed) return undefined
    // Whoever asks for the next block is done with the last one.
    this.#free = this.#given
    this.#given = undefined
    if (this.#reading === undefined) this.#read(this.#suitable())
    const filled = this.#filling
    const read = await this.#reading
    if (this.#closed) return undefined
    if (filled === undefined || read === undefined || read.bytesRead === 0) {
      throw new ShortFile(this.#position, this.#end)
    }
    this.#position += read.bytesRead
    this.#reading = undefined
    this.#filling = undefined
    this.#given = filled
    if (filled.length === largeBlock && this.#position < this.#end) this.#readAhead()
    return filled.subarray(0, read.bytesRead)
  }

  async close(finished: boolean): Promise<void> {
    this.#closed = true
    await this.#reading?.catch(() => undefined)
    giveBack(this.#filling)
    giveBack(this.#free)
    // A consumer that left early may still have a block on its way into a socket: filling that memory again would send
    // another client's bytes there. Only what was seen to be done with is used again.
    if (finished) giveBack(this.#given)
    else letGo(this.#given)
    this.#filling = undefined
    this.#free = undefined
    this.#given = undefined
  }

  /** The buffer to read into next: the free one if its size is right, else another. */
  #suitable(): Buffer {
    const free = this.#free
    this.#free = undefined
    if (free?.length === largeBlock) return free
    const rest = this.#end - this.#position
    const wanted = this.#position >= this.#trialEnd && rest > smallBlock ? takeLarge() : undefined
    return wanted ?? free ?? Buffer.allocUnsafeSlow(Math.min(smallBlock, rest))
  }

  #readAhead(): void {
    const into = this.#free ?? takeLarge()
    this.#free = undefined
    if (into !== undefined) this.#read(into)
  }

  #read(into: Buffer): void {
    this.#filling = into
    const length = Math.min(into.length, this.#end - this.#position)
    this.#reading = this.#file.read(into, 0, length, this.#position)
    // The error is the next caller's; until then nobody may be listening.
    this.#reading.catch(() => undefined)
  }
}

/** Undefined when there are as many as there may be. */
function takeLarge(): Buffer | undefined {
  const again = spare.pop()
  if (again !== undefined || large >= mostLarge) return again
  large += 1
  return Buffer.allocUnsafeSlow(largeBlock)
}

function giveBack(buffer: Buffer | undefined): void {
  if (buffer?.length === largeBlock && spare.length < maxSpare) spare.push(buffer)
  else letGo(buffer)
}

/** Not to be used again by us: the memory goes when nobody holds it any more. */
function letGo(buffer: Buffer | undefined): void {
  if (buffer?.length === largeBlock) large -= 1
}
