/**
 * Unpacks indexes as they stream: gzip, xz and zstd. The first bytes tell the format, because names can be wrong. It blocks the thread
 * it works in, so it belongs in a worker thread. The only importer of xz-decompress and fzstd.
 *
 * # Facts
 * - bzip2 and lzma are recognised and not unpacked: archives that have them have gzip or xz beside them
 *   (docs/decisions/0030-what-adopted-indexes-say.md).
 * - 4 KiB of an archive can hold gigabytes of zeroes. What comes out is bounded, absolutely and by what went in; an index packs
 *   six to one, a list of contents twenty to one.
 * - The decoders of xz and zstd are portable ones, three to five times slower than the system's, which a check in the
 *   background can bear. Node's own for zstd, since 22.15, stops at the end of the first frame and reports no error.
 */
import { createRequire } from 'node:module'
import { pipeline } from 'node:stream'
import { ReadableStream } from 'node:stream/web'
import { createGunzip } from 'node:zlib'
import { Decompress } from 'fzstd'
import { explainError } from '../../errors.ts'

/** Bytes that may come out, at most; and how many times what went in, once it is more than `free`. */
export const usualLimits = { most: 4 * 1024 ** 3, ratio: 200, free: 64 * 1024 * 1024 }

/** Why something could not be unpacked; `not-read`: its format is one that is not unpacked here. */
export class DecompressError extends Error {
  readonly code: 'malformed' | 'too-large' | 'not-read'

  constructor(code: DecompressError['code'], message: string, cause?: unknown) {
    super(message, { cause })
    this.name = 'DecompressError'
    this.code = code
  }
}

/** The content, unpacked if it was packed. Throws a DecompressError, and what the source throws. */
export async function* decompress(
  packed: AsyncIterable<Uint8Array>,
  limits = usualLimits,
): AsyncGenerator<Uint8Array> {
  const input = { bytes: 0, failed: false }
  const chunks = watched(packed, input)
  try {
    const head = await firstBytes(chunks)
    const whole = async function* () {
      yield head
      yield* chunks
    }
    const [, unpack] = formats.find(([magic]) => magic.every((byte, i) => head[i] === byte)) ?? []
    let out = 0
    for await (const chunk of unpack?.(whole()) ?? whole()) {
      out += chunk.length
      if (out > limits.most || (out > limits.free && out > input.bytes * limits.ratio)) {
        throw new DecompressError('too-large', `it unpacks to more than ${out} bytes`)
      }
      yield chunk
    }
  } catch (error) {
    if (input.failed || error instanceof DecompressError) throw error
    throw new DecompressError('malformed', `it cannot be unpacked: ${explainError(error)}`, error)
  } finally {
    await chunks.return(undefined)
  }
}

/** Counts what is read, and notes whether an error came from reading, not from unpacking. */
async function* watched(
  packed: AsyncIterable<Uint8Array>,
  input: { bytes: number; failed: boolean },
): AsyncGenerator<Buffer, undefined> {
  let reading = true
  try {
    for await (const chunk of packed) {
      input.bytes += chunk.length
      reading = false
      // A copy: what is read ahead may be read into the same memory. A stream that fails throws its error in here.
      yield Buffer.from(chunk)
      reading = true
    }
  } catch (error) {
    input.failed = reading
    throw error
  }
}

/** The first bytes, as many as tell the format; fewer when there are no more. */
async function firstBytes(chunks: AsyncGenerator<Buffer, undefined>): Promise<Buffer> {
  let head = Buffer.alloc(0)
  while (head.length < longestMagic) {
    const { value } = await chunks.next()
    if (value === undefined) break
    head = Buffer.concat([head, value])
  }
  return head
}

type Unpack = (source: AsyncIterable<Uint8Array>) => AsyncIterable<Uint8Array>

const longestMagic = 6

/** What a file of each beginning is unpacked with; a file of another beginning is not packed. */
const formats: ReadonlyArray<readonly [magic: readonly number[], unpack: Unpack]> = [
  [[0x1f, 0x8b], gunzip],
  [[0xfd, 0x37, 0x7a, 0x58, 0x5a, 0x00], unxz],
  [[0x28, 0xb5, 0x2f, 0xfd], unzstd],
  [[0x42, 0x5a, 0x68], notRead('bzip2')],
  [[0x5d, 0x00, 0x00], notRead('lzma')],
]

function notRead(format: string): Unpack {
  return () => {
    throw new DecompressError('not-read', `it is packed with ${format}, which is not read`)
  }
}

function gunzip(source: AsyncIterable<Uint8Array>): AsyncIterable<Uint8Array> {
  // The reader gets the error, if there is one.
  return pipeline(source, createGunzip(), () => undefined)
}

async function* unxz(source: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  const { XzReadableStream }: typeof import('xz-decompress') = load('xz-decompress')
  const chunks: AsyncIterable<Uint8Array> = new XzReadableStream(ReadableStream.from(source))
  yield* chunks
}

/** A CommonJS module; loaded when it is needed, because few processes unpack anything. */
const load = createRequire(import.meta.url)

/** Bytes of the largest window of zstd, and of what one piece may unpack to. */
const mostMemory = 128 * 1024 * 1024

const pieceBytes = 1024

async function* unzstd(source: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  let ready: Uint8Array[] = []
  let waiting = 0
  const decoder = new Decompress(chunk => {
    waiting += chunk.length
    if (waiting > mostMemory) throw new DecompressError('too-large', 'it unpacks too fast')
    ready.push(chunk.slice())
  })
  for await (const piece of checkedPieces(new ByteReader(source))) {
    decoder.push(piece)
    yield* ready
    ready = []
    waiting = 0
  }
  decoder.push(new Uint8Array(0), true)
  yield* ready
}

/**
 * All of a zstd stream, in pieces: the header of each frame when it is checked, because the decoder allocates the frame's window
 * at once (RFC 8878 section 3.1). What is no zstd is for the decoder to report.
 */
async function* checkedPieces(reader: ByteReader): AsyncGenerator<Uint8Array> {
  for (;;) {
    const magic = await reader.take(4)
    if (magic.length === 0) return
    // 3.1.2: a skippable frame has its size behind the magic number.
    if (((magic[0] ?? 0) & 0xf0) === 0x50 && magic[1] === 0x2a && magic[2] === 0x4d) {
      const size = await reader.take(4)
      yield* [magic, size]
      yield* passed(reader, littleEndian(size))
      continue
    }
    // 3.1.1.1: Frame_Header_Descriptor, Window_Descriptor, Dictionary_ID, Frame_Content_Size
    const header = await reader.take(1)
    const descriptor = header[0] ?? 0
    const single = (descriptor & 0x20) !== 0
    const window = await reader.take(single ? 0 : 1)
    const dictionary = await reader.take([0, 1, 2, 4][descriptor & 3] ?? 0)
    const size = await reader.take([single ? 1 : 0, 2, 4, 8][descriptor >> 6] ?? 0)
    const base = 2 ** (10 + ((window[0] ?? 0) >> 3))
    const asked = single ? littleEndian(size) : base + (base / 8) * ((window[0] ?? 0) & 7)
    if (asked > mostMemory)
      throw new DecompressError('too-large', 'its window is larger than 128 MiB')
    yield Buffer.concat([magic, header, window, dictionary, size])
    // 3.1.1.2: Last_Block, Block_Type, Block_Size; of a run of one byte only that byte follows.
    for (let last = false; !last; ) {
      const block = await reader.take(3)
      if (block.length === 0) return
      yield block
      const bits = littleEndian(block)
      last = (bits & 1) === 1
      yield* passed(reader, ((bits >> 1) & 3) === 1 ? 1 : bits >> 3)
    }
    yield* passed(reader, (descriptor & 4) === 0 ? 0 : 4)
  }
}

/** The next `count` bytes in small pieces: a few bytes may stand for a block of 128 KiB, and what one piece unpacks to waits in memory. */
async function* passed(reader: ByteReader, count: number): AsyncGenerator<Uint8Array> {
  for (let left = count; left > 0; ) {
    const piece = await reader.take(Math.min(left, pieceBytes))
    if (piece.length === 0) return
    yield piece
    left -= piece.length
  }
}

function littleEndian(bytes: Uint8Array): number {
  return bytes.reduceRight((value, byte) => value * 256 + byte, 0)
}

/** Bytes of a source in portions of the size that is asked for. */
class ByteReader {
  readonly #source: AsyncIterator<Uint8Array>
  #bytes: Uint8Array = new Uint8Array(0)

  constructor(source: AsyncIterable<Uint8Array>) {
    this.#source = source[Symbol.asyncIterator]()
  }

  /** Waits for `count` bytes and answers them; answers all that are left when there are fewer. */
  async take(count: number): Promise<Uint8Array> {
    const pieces = [this.#bytes]
    for (let bytes = this.#bytes.length; bytes < count; ) {
      const { value, done } = await this.#source.next()
      if (done === true) break
      pieces.push(value)
      bytes += value.length
    }
    const [only = this.#bytes, ...more] = pieces
    const ready = more.length === 0 ? only : Buffer.concat(pieces)
    this.#bytes = ready.subarray(count)
    return ready.subarray(0, count)
  }
}
