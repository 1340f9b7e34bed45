/**
 * Bytes for decoders that work step by step: enough for the next step is waited for, then it runs without waiting.
 */
export class ByteReader {
  readonly #source: AsyncIterator<Uint8Array>
  #bytes: Uint8Array = new Uint8Array(0)
  #at = 0
  #ended = false

  constructor(source: AsyncIterable<Uint8Array>) {
    this.#source = source[Symbol.asyncIterator]()
  }

  /** Bytes that can be read at once. */
  get ready(): number {
    return this.#bytes.length - this.#at
  }

  /** Resolves when so many bytes can be read at once, or all that are left. */
  async gather(count: number): Promise<void> {
    if (this.ready >= count || this.#ended) return
    const pieces = [this.#bytes.subarray(this.#at)]
    let bytes = this.ready
    while (bytes < count) {
      const { value, done } = await this.#source.next()
      if (done === true) {
        this.#ended = true
        break
      }
      pieces.push(value)
      bytes += value.length
    }
    this.#bytes = Buffer.concat(pieces)
    this.#at = 0
  }

  /** Throws when there is none. */
  next(): number {
    const byte = this.#bytes[this.#at]
    if (byte === undefined) throw new Error('it ends too early')
    this.#at += 1
    return byte
  }
}
