/**
 * Unpacks .lzma files, "LZMA alone": the LZMA specification of the LZMA SDK, whose names it uses. It is not xz, which
 * xz-decompress reads.
 */
import { ByteReader } from './byte-reader.ts'

/** The largest dictionary a file may ask for, bytes; `xz -9` makes one of half of it. */
const mostDictionary = 128 * 1024 * 1024
/** No step reads more, nor the header with what the range decoder begins with. */
const stepBytes = 32
/** Pieces of the content are a little longer. */
const pieceBytes = 64 * 1024
const longestMatch = 273

/** The content. Throws when it is malformed, and what the source throws. */
export async function* unlzma(source: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  const reader = new ByteReader(source)
  await reader.gather(stepBytes)
  const properties = reader.next()
  const dictionary = Math.max(4096, littleEndian(reader, 4))
  const [low, high] = [littleEndian(reader, 4), littleEndian(reader, 4)]
  const size = high === 0xffffffff && low === high ? undefined : high * 2 ** 32 + low
  const decoder = new Decoder(reader, properties)
  const window = Math.min(dictionary, Math.max(4096, size ?? dictionary))
  if (window > mostDictionary) throw new RangeError('its dictionary is larger than 128 MiB')
  const content = new Window(window)
  let left = size ?? Number.POSITIVE_INFINITY
  while (left > 0) {
    if (reader.ready < stepBytes) await reader.gather(pieceBytes)
    const added = decoder.step(content, left)
    if (added === 0) break
    left -= added
    if (content.waiting >= pieceBytes) yield content.take()
  }
  if (left > 0 && size !== undefined) throw new Error('it ends too early')
  yield content.take()
}

function littleEndian(reader: ByteReader, bytes: number): number {
  let value = 0
  for (let byte = 0; byte < bytes; byte += 1) value += reader.next() * 2 ** (8 * byte)
  return value
}

/** The last bytes of the content, and those of them that were not taken yet. */
class Window {
  readonly #bytes: Uint8Array
  #at = 0
  #full = false
  #piece = new Uint8Array(pieceBytes + longestMatch)
  waiting = 0

  constructor(size: number) {
    this.#bytes = new Uint8Array(size)
  }

  /** Whether there is a byte so far back. */
  reaches(distance: number): boolean {
    return distance <= (this.#full ? this.#bytes.length : this.#at)
  }

  /** The byte so far back; zero before the beginning. */
  byte(distance: number): number {
    return this.#bytes[this.#at - distance + (distance > this.#at ? this.#bytes.length : 0)] ?? 0
  }

  put(byte: number): void {
    this.#bytes[this.#at] = byte
    this.#piece[this.waiting] = byte
    this.waiting += 1
    this.#at += 1
    if (this.#at < this.#bytes.length) return
    this.#at = 0
    this.#full = true
  }

  take(): Uint8Array {
    const taken = this.#piece.subarray(0, this.waiting)
    this.#piece = new Uint8Array(pieceBytes + longestMatch)
    this.waiting = 0
    return taken
  }
}

const states = 12
const alignBits = 4
const endModelled = 14

function probabilities(count: number): Uint16Array {
  return new Uint16Array(count).fill(1 << 10)
}

/** Of the lengths of matches: two choices, then trees for 2 to 9, 10 to 17 and 18 to 273. */
const [lowLengths, midLengths, highLengths, lengthBits] = [2, 130, 258, 514]

/** Makes content of bits, a literal or a match with each step. */
class Decoder {
  readonly #reader: ByteReader
  readonly #lc: number
  readonly #literalMask: number
  readonly #positionMask: number
  readonly #literals: Uint16Array
  readonly #isMatch = probabilities(states << 4)
  /** IsRep, IsRepG0, IsRepG1 and IsRepG2 of each state. */
  readonly #isRep = probabilities(states << 2)
  readonly #isRep0Long = probabilities(states << 4)
  readonly #slots = Array.from({ length: 4 }, () => probabilities(64))
  readonly #distances = probabilities(1 + (1 << (endModelled / 2)) - endModelled)
  readonly #align = probabilities(1 << alignBits)
  readonly #lengths = probabilities(lengthBits)
  readonly #repLengths = probabilities(lengthBits)
  /** How far back the last four matches lay. */
  readonly #reps = [1, 1, 1, 1]
  #state = 0
  #position = 0
  #range = 0xffffffff
  #code = 0

  constructor(reader: ByteReader, properties: number) {
    const [lc, rest] = [properties % 9, Math.floor(properties / 9)]
    const [lp, pb] = [rest % 5, Math.floor(rest / 5)]
    if (pb > 4 || lc + lp > 4) throw new Error('its properties are wrong')
    this.#reader = reader
    this.#lc = lc
    this.#literalMask = (1 << lp) - 1
    this.#positionMask = (1 << pb) - 1
    this.#literals = probabilities(0x300 << (lc + lp))
    if (reader.next() !== 0) throw new Error('it does not begin with a zero')
    for (let byte = 0; byte < 4; byte += 1) this.#code = ((this.#code << 8) | reader.next()) >>> 0
  }

  /** Adds to the content, at most `left` bytes. Answers how many; 0 at its end. */
  step(content: Window, left: number): number {
    const state = this.#state
    const position = this.#position & this.#positionMask
    if (this.#bit(this.#isMatch, (state << 4) + position) === 0) {
      this.#literal(content)
      this.#position += 1
      return 1
    }
    let length = 1
    if (this.#bit(this.#isRep, state << 2) === 0) {
      length = this.#length(this.#lengths, position)
      this.#state = state < 7 ? 7 : 10
      const distance = this.#distance(length)
      if (distance === 2 ** 32) return 0
      this.#reps.unshift(distance)
      this.#reps.pop()
    } else {
      const first = this.#bit(this.#isRep, (state << 2) + 1) === 0
      const short = first && this.#bit(this.#isRep0Long, (state << 4) + position) === 0
      if (!first) {
        const older = this.#bit(this.#isRep, (state << 2) + 2) === 0
        const place = older ? 1 : 2 + this.#bit(this.#isRep, (state << 2) + 3)
        this.#reps.unshift(...this.#reps.splice(place, 1))
      }
      if (!short) length = this.#length(this.#repLengths, position)
      this.#state = short ? (state < 7 ? 9 : 11) : state < 7 ? 8 : 11
    }
    const [distance = 0] = this.#reps
    if (!content.reaches(distance)) throw new Error('it repeats what was never there')
    if (length > left) throw new Error('it is longer than it says')
    for (let byte = 0; byte < length; byte += 1) content.put(content.byte(distance))
    this.#position += length
    return length
  }

  #literal(content: Window): void {
    const before = content.byte(1)
    const place = ((this.#position & this.#literalMask) << this.#lc) + (before >> (8 - this.#lc))
    const base = 0x300 * place
    let symbol = 1
    if (this.#state >= 7) {
      let match = content.byte(this.#reps[0] ?? 0)
      while (symbol < 0x100) {
        const bit = (match >> 7) & 1
        match <<= 1
        const found = this.#bit(this.#literals, base + ((1 + bit) << 8) + symbol)
        symbol = (symbol << 1) | found
        if (bit !== found) break
      }
    }
    while (symbol < 0x100) symbol = (symbol << 1) | this.#bit(this.#literals, base + symbol)
    content.put(symbol & 0xff)
    const state = this.#state
    this.#state = state < 4 ? 0 : state - (state < 10 ? 3 : 6)
  }

  #length(probs: Uint16Array, position: number): number {
    const base = position << 3
    if (this.#bit(probs, 0) === 0) return 2 + this.#tree(probs, 3, lowLengths + base)
    if (this.#bit(probs, 1) === 0) return 10 + this.#tree(probs, 3, midLengths + base)
    return 18 + this.#tree(probs, 8, highLengths)
  }

  /** How far back a match of this length lies; 2^32 at the end. */
  #distance(length: number): number {
    const slots = this.#slots[Math.min(length - 2, 3)] ?? this.#align
    const slot = this.#tree(slots, 6)
    if (slot < 4) return slot + 1
    const bits = (slot >> 1) - 1
    const first = (2 | (slot & 1)) * 2 ** bits
    if (slot < endModelled) {
      return first + this.#reverse(this.#distances, bits, first - slot) + 1
    }
    let direct = 0
    for (let bit = alignBits; bit < bits; bit += 1) {
      this.#range >>>= 1
      const found = this.#code < this.#range ? 0 : 1
      this.#code -= found * this.#range
      direct = direct * 2 + found
      this.#normalise()
    }
    return first + direct * 2 ** alignBits + this.#reverse(this.#align, alignBits) + 1
  }

  /** A number of so many bits, the most significant first. */
  #tree(probs: Uint16Array, bits: number, base = 0): number {
    let value = 1
    for (let bit = 0; bit < bits; bit += 1) value = (value << 1) | this.#bit(probs, base + value)
    return value - (1 << bits)
  }

  /** A number of so many bits, the least significant first. */
  #reverse(probs: Uint16Array, bits: number, base = 0): number {
    let [place, value] = [1, 0]
    for (let bit = 0; bit < bits; bit += 1) {
      const found = this.#bit(probs, base + place)
      place = (place << 1) | found
      value |= found << bit
    }
    return value
  }

  #bit(probs: Uint16Array, at: number): 0 | 1 {
    const probability = probs[at] ?? 0
    const bound = (this.#range >>> 11) * probability
    const bit = this.#code < bound ? 0 : 1
    if (bit === 0) {
      probs[at] = probability + ((2048 - probability) >> 5)
      this.#range = bound
    } else {
      probs[at] = probability - (probability >> 5)
      this.#code -= bound
      this.#range -= bound
    }
    this.#normalise()
    return bit
  }

  #normalise(): void {
    if (this.#range >= 2 ** 24) return
    this.#range = (this.#range << 8) >>> 0
    this.#code = ((this.#code << 8) | this.#reader.next()) >>> 0
  }
}
