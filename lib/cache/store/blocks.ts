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

/** Bytes of a block read from disk. */
export const blockBytes = 512 * 1024

/** Full-size buffers no reader needs any more; bounded, so that an hour of many clients is not remembered for ever. */
const spare: Buffer[] = []
const maxSpare = 32

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
 * Reads bytes `first` up to and without `end` with two buffers in turn: while the consumer has one, the next read fills the
 * other. Does not own the file; after `close` no read is under way.
 */
export class ReadAhead implements BlockSource {
  readonly #file: ReadableFile
  readonly #end: number
  readonly #size: number
  #position: number
  #filling: Buffer | undefined
  #given: Buffer | undefined
  #reading: Promise<{ bytesRead: number }> | undefined
  #closed = false

  constructor(file: ReadableFile, first: number, end: number) {
    this.#file = file
    this.#position = first
    this.#end = end
    this.#size = Math.min(blockBytes, end - first)
  }

  async next(): Promise<Buffer | undefined> {
    if (this.#position >= this.#end || this.#closed) return undefined
    if (this.#reading === undefined) this.#read()
    const filled = this.#filling
    const read = await this.#reading
    if (this.#closed) return undefined
    if (filled === undefined || read === undefined || read.bytesRead === 0) {
      throw new ShortFile(this.#position, this.#end)
    }
    this.#position += read.bytesRead
    this.#reading = undefined
    this.#filling = this.#given
    this.#given = filled
    if (this.#position < this.#end) this.#read()
    return filled.subarray(0, read.bytesRead)
  }

  async close(finished: boolean): Promise<void> {
    this.#closed = true
    await this.#reading?.catch(() => undefined)
    // A consumer that left early may still have a block on its way into a socket: filling that memory again would send
    // another client's bytes there. Only buffers that were seen to be done with are used again.
    if (finished) for (const buffer of [this.#filling, this.#given]) giveBack(buffer)
    this.#filling = undefined
    this.#given = undefined
  }

  #read(): void {
    this.#filling ??= takeBuffer(this.#size)
    const length = Math.min(this.#filling.length, this.#end - this.#position)
    this.#reading = this.#file.read(this.#filling, 0, length, this.#position)
    // The error is the next caller's; until then nobody may be listening.
    this.#reading.catch(() => undefined)
  }
}

function takeBuffer(size: number): Buffer {
  return (size === blockBytes ? spare.pop() : undefined) ?? Buffer.allocUnsafeSlow(size)
}

function giveBack(buffer: Buffer | undefined): void {
  if (buffer?.length === blockBytes && spare.length < maxSpare) spare.push(buffer)
}
