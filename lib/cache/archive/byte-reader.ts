/**
 * Bytes for decoders that work step by step: enough for the next step is waited for, then it runs without waiting.
 */
export class ByteReader {
  readonly #source: AsyncIterator<Uint8Array>
  #bytes: Uint8Array = new Uint8Array(0)
  #at = 0

  constructor(source: AsyncIterable<Uint8Array>) {
    this.#source = source[Symbol.asyncIterator]()
  }

  /** Bytes that can be read at once. */
  get ready(): number {
    return this.#bytes.length - this.#at
  }

  /** Resolves when so many bytes can be read at once, or all that are left. */
  async gather(count: number): Promise<void> {
    if (this.ready >= count) return
    const pieces = [this.#bytes.subarray(this.#at)]
    for (let bytes = this.ready; bytes < count; ) {
      const { value, done } = await this.#source.next()
      if (done === true) break
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

  /** So many bytes, waited for; all that are left when there are fewer. */
  async take(count: number): Promise<Uint8Array> {
    await this.gather(count)
    const taken = this.#bytes.subarray(this.#at, this.#at + count)
    this.#at += taken.length
    return taken
  }
}
