/**
 * Unpacks bzip2, of which there is no standard. The names are those of the reference implementation, bzip2 1.0.
 *
 * # Facts
 * - A block has up to 900,000 bytes before the first run-length coding is taken off, and needs that much memory five times. It
 *   is unpacked in one go, from input that was gathered before.
 * - A code has at most 20 bits and stands for at least one byte of the block. So the input of a block is bounded, too.
 * - A file may be several streams, one behind the other: parallel packers write such files.
 * - Blocks that were randomised, as before 1995, are refused.
 * - Checksums are passed over: archives are compared with digests of the packed file.
 */
import { ByteReader } from './byte-reader.ts'

const blockMagic = 0x314159265359
const endMagic = 0x177245385090
const levelBytes = 100_000
/** Bytes of the tables that stand before the codes of a block, at most. */
const tableBytes = 64 * 1024
/** Codes decoded with one table before the next is selected. */
const groupSize = 50
const longestCode = 20

/** Packers make one small block for each of their inputs. Its tables cost as much as those of a large one. */
const smallBlock = 4096
const mostSmallBlocks = 1000

/** The content. Throws when it is malformed, and what the source throws. */
export async function* unbzip2(source: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  const reader = new ByteReader(source)
  // One for all blocks: a file may have one block for every few bytes.
  const block = new Uint32Array(9 * levelBytes)
  let small = 0
  for (;;) {
    await reader.gather(4)
    if (reader.ready === 0) return
    const bits = new Bits(reader)
    const [magic, level] = [bits.read(24), bits.read(8) - 0x30]
    if (magic !== 0x425a68 || level < 1 || level > 9) malformed('it is no bzip2')
    for (;;) {
      await reader.gather((level * levelBytes * longestCode) / 8 + tableBytes)
      const begin = bits.read(24) * 2 ** 24 + bits.read(24)
      bits.read(16)
      bits.read(16)
      if (begin === endMagic) break
      if (begin !== blockMagic) malformed('a block has no beginning')
      const bytes = unsorted(bits, block.subarray(0, level * levelBytes))
      if (bytes.length < smallBlock) small += 1
      if (small > mostSmallBlocks) malformed('it has too many small blocks')
      yield* expanded(bytes)
    }
  }
}

function malformed(because: string): never {
  throw new Error(because)
}

/** Bits, the most significant first. */
class Bits {
  readonly #reader: ByteReader
  #word = 0
  #left = 0

  constructor(reader: ByteReader) {
    this.#reader = reader
  }

  /** At most 24 bits. */
  read(count: number): number {
    const value = this.peek(count)
    this.#left -= count
    return value
  }

  /** The same without passing over them. */
  peek(count: number): number {
    while (this.#left < count) {
      this.#word = (this.#word << 8) | this.#reader.next()
      this.#left += 8
    }
    return (this.#word >>> (this.#left - count)) & ((1 << count) - 1)
  }

  skip(count: number): void {
    this.#left -= count
  }
}

/** A canonical Huffman code: how many symbols there are of each length, and the symbols from the shortest on. */
interface Code {
  readonly counts: readonly number[]
  readonly symbols: readonly number[]
}

/** The bytes of a block, with the move-to-front coding and the sorting of Burrows and Wheeler undone. */
function unsorted(bits: Bits, block: Uint32Array): Uint8Array {
  if (bits.read(1) === 1) malformed('it is randomised')
  const origin = bits.read(24)
  const front = usedBytes(bits)
  const symbols = front.length + 2
  const tables = bits.read(3)
  const selectors = readSelectors(bits, tables)
  const codes = Array.from({ length: tables }, () => readCode(bits, symbols))
  const most = block.length
  const counts = new Uint32Array(257)
  let length = 0
  const append = (byte: number, times: number): void => {
    if (times > most - length) malformed('a block is too long')
    block.fill(byte, length, length + times)
    counts[byte + 1] = (counts[byte + 1] ?? 0) + times
    length += times
  }
  let [run, weight] = [0, 1]
  for (let group = 0, left = 0; ; left -= 1) {
    if (left === 0) {
      left = groupSize
      group += 1
    }
    const code = codes[selectors[group - 1] ?? -1] ?? malformed('a table is missing')
    const symbol = readSymbol(bits, code)
    if (symbol <= 1) {
      // RUNA and RUNB: digits 1 and 2 of how often the first byte is repeated.
      run += weight << symbol
      weight *= 2
      if (run > most) malformed('a block is too long')
      continue
    }
    if (run > 0) append(front[0] ?? 0, run)
    ;[run, weight] = [0, 1]
    if (symbol === symbols - 1) break
    append(toFront(front, symbol - 1), 1)
  }
  if (origin >= length) malformed('a block begins outside of itself')
  // In the upper bits of each place: which byte follows it.
  for (let byte = 1; byte < 257; byte += 1) {
    counts[byte] = (counts[byte] ?? 0) + (counts[byte - 1] ?? 0)
  }
  for (let at = 0; at < length; at += 1) {
    const byte = (block[at] ?? 0) & 0xff
    const place = counts[byte] ?? 0
    block[place] = ((block[place] ?? 0) & 0xff) | (at << 8)
    counts[byte] = place + 1
  }
  const bytes = new Uint8Array(length)
  let next = (block[origin] ?? 0) >>> 8
  for (let at = 0; at < length; at += 1) {
    const entry = block[next] ?? 0
    bytes[at] = entry & 0xff
    next = entry >>> 8
  }
  return bytes
}

/** The byte in a place, which goes to the front. */
function toFront(bytes: Uint8Array, place: number): number {
  const byte = bytes[place] ?? malformed('there is no such place')
  bytes.copyWithin(1, 0, place)
  bytes[0] = byte
  return byte
}

/** The bytes that a block has, in order: a map of maps of sixteen. */
function usedBytes(bits: Bits): Uint8Array {
  const ranges = bits.read(16)
  const used: number[] = []
  for (let range = 0; range < 16; range += 1) {
    const map = (ranges >> (15 - range)) & 1 ? bits.read(16) : 0
    for (let bit = 0; bit < 16; bit += 1) {
      if ((map >> (15 - bit)) & 1) used.push(range * 16 + bit)
    }
  }
  return used.length > 0 ? Uint8Array.from(used) : malformed('a block has no bytes')
}

/** Which table each group of codes is of. */
function readSelectors(bits: Bits, tables: number): Uint8Array {
  if (tables < 2 || tables > 6) malformed('the number of tables is wrong')
  const selectors = new Uint8Array(bits.read(15))
  const front = Uint8Array.from({ length: tables }, (_, table) => table)
  for (let at = 0; at < selectors.length; at += 1) {
    let place = 0
    while (bits.read(1) === 1) place += 1
    selectors[at] = toFront(front, place)
  }
  return selectors
}

/** The lengths of the codes, each by its difference to the one before, and the canonical code they make. */
function readCode(bits: Bits, symbols: number): Code {
  const lengths: number[] = []
  let length = bits.read(5)
  while (lengths.length < symbols) {
    while (bits.read(1) === 1) length += bits.read(1) === 0 ? 1 : -1
    if (length < 1 || length > longestCode) malformed('the length of a code is wrong')
    lengths.push(length)
  }
  const counts = Array.from({ length: longestCode + 1 }, () => 0)
  for (const one of lengths) counts[one] = (counts[one] ?? 0) + 1
  const order = lengths.map((_, symbol) => symbol)
  order.sort((a, b) => (lengths[a] ?? 0) - (lengths[b] ?? 0))
  return { counts, symbols: order }
}

/** No valid code comes so close to the end of the file that there are not as many bits. */
function readSymbol(bits: Bits, { counts, symbols }: Code): number {
  const next = bits.peek(longestCode)
  for (let length = 1, first = 0, at = 0; length <= longestCode; length += 1) {
    const count = counts[length] ?? 0
    const place = (next >> (longestCode - length)) - first
    if (place < count) {
      bits.skip(length)
      return symbols[at + place] ?? malformed('a code stands for nothing')
    }
    at += count
    first = (first + count) * 2
  }
  return malformed('a code stands for nothing')
}

/** Pieces of the content are a little longer. */
const pieceBytes = 64 * 1024

/** Takes off the first run-length coding: behind four equal bytes stands how many more there are. */
function* expanded(bytes: Uint8Array): Generator<Uint8Array> {
  let piece = new Uint8Array(pieceBytes + 255)
  let [length, equal, last] = [0, 0, -1]
  for (const byte of bytes) {
    const repeats = equal === 4
    const times = repeats ? byte : 1
    piece.fill(repeats ? last : byte, length, length + times)
    length += times
    equal = repeats ? 0 : byte === last ? equal + 1 : 1
    last = repeats ? -1 : byte
    if (length < pieceBytes) continue
    yield piece.subarray(0, length)
    piece = new Uint8Array(pieceBytes + 255)
    length = 0
  }
  yield piece.subarray(0, length)
}
