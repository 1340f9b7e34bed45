/**
 * Unpacks streams of gzip, xz and zstd. The first bytes decide the format, because names can be wrong. Unpacking blocks its thread, so it
 * belongs in a worker thread. Only this file imports xz-decompress and fzstd.
 *
 * # Facts
 * - bzip2 and lzma are recognised and not unpacked: archives that have them also have gzip or xz
 *   (docs/decisions/0030-what-adopted-indexes-say.md).
 * - 4 KiB of packed data can unpack to gigabytes of zeroes. So the output has an absolute limit and one relative to the input. The ratio
 *   is six for an index and twenty for a list of contents.
 * - The decoders of xz and zstd are portable code and three to five times slower than the system's, which is fast enough for a thread in
 *   the background. Node's own decoder for zstd, since 22.15, stops at the end of the first frame and reports no error.
 */
import { createRequire } from 'node:module'
import { pipeline } from 'node:stream'
import { ReadableStream } from 'node:stream/web'
import { createGunzip } from 'node:zlib'
import { Decompress } from 'fzstd'
import { explainError } from '../../errors.ts'

/** The output has at most `most` bytes. When it has more than `free` bytes, it has at most `ratio` times the bytes of the input. */
export const usualLimits = { most: 4 * 1024 ** 3, ratio: 200, free: 64 * 1024 * 1024 }

/** The error for data that cannot be unpacked. The code `not-read` means a format that is not unpacked here. */
export class DecompressError extends Error {
  readonly code: 'malformed' | 'too-large' | 'not-read'

  constructor(code: DecompressError['code'], message: string, cause?: unknown) {
    super(message, { cause })
    this.name = 'DecompressError'
    this.code = code
  }
}

/** The unpacked content. Data of another format is passed through. Throws a DecompressError, and the errors of the source. */
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

/** Counts the bytes that are read, and notes whether an error came from reading or from unpacking. */
async function* watched(
  packed: AsyncIterable<Uint8Array>,
  input: { bytes: number; failed: boolean },
): AsyncGenerator<Buffer, undefined> {
  let reading = true
  try {
    for await (const chunk of packed) {
      input.bytes += chunk.length
      reading = false
      // The chunk is copied, because the source may read the next one into the same memory. A stream that fails throws its error here.
      yield Buffer.from(chunk)
      reading = true
    }
  } catch (error) {
    input.failed = reading
    throw error
  }
}

/** The first bytes, enough to recognise the format; fewer when the content is shorter. */
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

/** The function that unpacks each format, by its first bytes. A file with other first bytes is not packed. */
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
  // The reader of the stream gets an error, so the callback ignores it.
  return pipeline(source, createGunzip(), () => undefined)
}

async function* unxz(source: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  const { XzReadableStream }: typeof import('xz-decompress') = load('xz-decompress')
  const chunks: AsyncIterable<Uint8Array> = new XzReadableStream(ReadableStream.from(source))
  yield* chunks
}

/** Loads a CommonJS module when it is needed, because few processes unpack anything. */
const load = createRequire(import.meta.url)

/** The largest window of zstd, and the most that one piece may unpack to, bytes. */
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
 * Divides a zstd stream into pieces. The header of each frame is checked before the decoder gets it, because the decoder allocates the
 * frame's window at once (RFC 8878 section 3.1). The decoder reports data that is not zstd.
 */
async function* checkedPieces(reader: ByteReader): AsyncGenerator<Uint8Array> {
  for (;;) {
    const magic = await reader.take(4)
    if (magic.length === 0) return
    // 3.1.2: a skippable frame has its size after the magic number.
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
    // 3.1.1.2: Last_Block, Block_Type, Block_Size. A block of type 1 repeats one byte and has only this byte.
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

/** The next `count` bytes in small pieces. A few bytes may unpack to a block of 128 KiB, and the output of one piece is kept in memory. */
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

/** Reads the bytes of a source in portions of any size. */
class ByteReader {
  readonly #source: AsyncIterator<Uint8Array>
  #bytes: Uint8Array = new Uint8Array(0)

  constructor(source: AsyncIterable<Uint8Array>) {
    this.#source = source[Symbol.asyncIterator]()
  }

  /** Waits for `count` bytes and answers them. Answers the remaining bytes when there are fewer. */
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
