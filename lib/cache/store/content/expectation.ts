/**
 * Checks a download against its announced length and its promised size and digest. An index of the archive or a by-hash name
 * promises them. Hashes while it grows; knows no files.
 */
import { createHash, type Hash } from 'node:crypto'
import { Failure } from '../../../errors.ts'

export interface ExpectedContent {
  /** Bytes, as a signed index names them. */
  readonly size?: number
  readonly digest?: {
    readonly algorithm: 'md5' | 'sha1' | 'sha256' | 'sha512'
    /** Lower-case hex; of a SHA-512 perhaps the first half. */
    readonly hex: string
  }
  /** An index that may promise a size and a SHA-256 or SHA-512 is still being read: `promise` tells what it says. */
  readonly later?: boolean
}

/** Most bytes at the end kept from readers until the digest is known to be right. */
export const heldBytes = 64 * 1024

export class Expectation {
  #length: number | undefined
  #digest: ExpectedContent['digest']
  #later: boolean
  /** Readers may have the beginning of a content that is no longer than what is kept from them. */
  #shown = false
  readonly #sha256 = createHash('sha256')
  readonly #other: Hash | undefined

  /** Throws a Failure when the announced length is not the expected size: no byte need be fetched to know. */
  constructor(expected: ExpectedContent, length: number | undefined) {
    if (length !== undefined && expected.size !== undefined && length !== expected.size) {
      throw wrongSize(length, expected.size)
    }
    this.#length = expected.size ?? length
    this.#digest = expected.digest
    this.#later = expected.later === true
    // Of a later promise the algorithm is not known yet.
    const algorithm = this.#later ? 'sha512' : (this.#digest?.algorithm ?? 'sha256')
    if (algorithm !== 'sha256') this.#other = createHash(algorithm)
  }

  get length(): number | undefined {
    return this.#length
  }

  /**
   * What was expected later: nothing more, or a size and a SHA-256 or SHA-512. Throws a Failure when the announced length is another, or the
   * `size` bytes that have come are more.
   */
  promise({ size: promised, digest }: ExpectedContent, size: number): void {
    if (digest !== undefined && digest.algorithm !== 'sha256' && digest.algorithm !== 'sha512') {
      throw new Error(`the bytes so far were not hashed with ${digest.algorithm}`)
    }
    this.#later = false
    this.#digest = digest
    if (promised === undefined) return
    const found = Math.max(size, this.#length ?? 0)
    if (found > promised || (this.#length ?? promised) !== promised)
      throw wrongSize(found, promised)
    this.#length = promised
  }

  /** Takes the next bytes. Throws a Failure when `size`, with them, is more than there may be. */
  update(block: Buffer, size: number): void {
    if (this.length !== undefined && size > this.length) throw wrongSize(size, this.length)
    this.#sha256.update(block)
    this.#other?.update(block)
  }

  /** From now on at most half of a content is kept from readers: they have waited long enough for the first byte of a small one. */
  show(): void {
    this.#shown = true
  }

  /**
   * How far readers may see while `size` bytes are here and nothing is verified: everything, unless a digest is expected or may be
   * promised later. Then the last block stays back, at least one byte, so that no client ever gets the whole of wrong content. All of a
   * small content stays back until `show`.
   */
  visible(size: number): number {
    if (this.#digest === undefined && !this.#later) return size
    const length = this.length ?? size
    const most = this.#shown ? Math.ceil(length / 2) : length
    return Math.max(0, Math.min(size, length - Math.min(heldBytes, most)))
  }

  /** The SHA-256 of the bytes so far: what a second delivery of the same content must begin with. */
  digestSoFar(): string {
    return this.#sha256.copy().digest('hex')
  }

  /** The SHA-256 of all bytes. Throws a Failure when they are not what was expected. To be called once. */
  verify(size: number): string {
    if (this.#later) throw new Error('it is not known yet what the content must be')
    if (this.length !== undefined && size !== this.length) throw wrongSize(size, this.length)
    const sha256 = this.#sha256.digest('hex')
    if (this.#digest === undefined) return sha256
    const { algorithm, hex } = this.#digest
    const whole = algorithm === 'sha256' ? sha256 : (this.#other?.digest('hex') ?? '')
    const isHalf = algorithm === 'sha512' && hex.length === whole.length / 2
    const found = isHalf ? whole.slice(0, hex.length) : whole
    if (found === hex.toLowerCase()) return sha256
    throw new Failure(
      `The content's ${this.#digest.algorithm} is ${found} and should be ${this.#digest.hex}.`,
      {
        code: 'wrong-digest',
        fault: 'upstream',
        publicText: 'Hash Sum mismatch: the origin sent other content than the archive promises.',
        facts: { algorithm: this.#digest.algorithm, found, expected: this.#digest.hex, size },
      },
    )
  }
}

function wrongSize(found: number, expected: number): Failure {
  const more = found > expected
  return new Failure(
    `The content has ${more ? 'at least ' : ''}${found} bytes and should have ${expected}.`,
    {
      code: 'wrong-size',
      fault: 'upstream',
      publicText:
        'File has unexpected size: the origin sent content of another length than promised.',
      facts: { found, expected },
    },
  )
}
