/**
 * Checks the bytes of a download against its announced length and its promised size and digest, while they arrive. Knows no files.
 */
import { createHash, type Hash } from 'node:crypto'
import { Failure } from '../../../errors.ts'

interface ExpectedDigest {
  readonly algorithm: 'md5' | 'sha1' | 'sha256' | 'sha512'
  /** Lower-case hex. The text of a SHA-512 may be its first half. */
  readonly hex: string
}

export interface ExpectedContent {
  /** The size in bytes, as an index promises it. */
  readonly size?: number
  readonly digest?: ExpectedDigest
  /** Other contents that are as right, each with a SHA-256 or SHA-512. */
  readonly others?: ReadonlyArray<{ readonly size: number; readonly digest: ExpectedDigest }>
  /** Whether indexes of the archive contradict each other about the content. */
  readonly contradicted?: boolean
  /** An index that may promise a size and a SHA-256 or SHA-512 is still being read; `promise` sets them later. */
  readonly later?: boolean
}

/** At most this many bytes at the end are held back from readers until the digest is known to be right. */
export const heldBytes = 64 * 1024

/**
 * Checks a download against its announced length and its promised size and digest. An index of the archive or a by-hash name promises
 * them. It hashes the bytes while they arrive and knows no files.
 */
export class Expectation {
  #length: number | undefined
  #verified = false
  #digest: ExpectedDigest | undefined
  #others: NonNullable<ExpectedContent['others']>
  #contradicted: boolean
  #later: boolean
  /** Whether readers may have the first half of a content that is so small that all of it was held back. */
  #shown = false
  readonly #sha256 = createHash('sha256')
  #other: Hash | undefined

  /** Throws a Failure when the announced length is not the expected size, before any byte is fetched. */
  constructor(expected: ExpectedContent, length: number | undefined) {
    const { digest, others = [], contradicted = false } = expected
    const sizes = [expected.size, ...others.map(({ size }) => size)]
    const known = sizes.every(size => size === expected.size) ? expected.size : undefined
    if (length !== undefined && expected.size !== undefined && !sizes.includes(length)) {
      throw wrongSize(length, expected.size, contradicted)
    }
    this.#length = length ?? known
    this.#digest = digest
    this.#others = others
    this.#contradicted = contradicted
    this.#later = expected.later === true
    // The algorithm of a later promise is SHA-256 or SHA-512, so both are computed until it is known.
    const algorithms = [digest, ...others.map(one => one.digest)].map(one => one?.algorithm)
    const algorithm = this.#later ? 'sha512' : algorithms.find(one => one && one !== 'sha256')
    if (algorithm !== undefined) this.#other = createHash(algorithm)
  }

  get length(): number | undefined {
    return this.#length
  }

  /** Whether all bytes have come and are right. */
  get verified(): boolean {
    return this.#verified
  }

  /**
   * Sets the expected size and digest later: both may be missing, and the digest is a SHA-256 or SHA-512. Throws a Failure when the
   * announced length differs, or when the `size` bytes that have arrived are more.
   */
  promise(expected: ExpectedContent, size: number): void {
    const { size: promised, digest, others = [], contradicted = false } = expected
    if (digest !== undefined && digest.algorithm !== 'sha256' && digest.algorithm !== 'sha512') {
      throw new Error(`the bytes so far were not hashed with ${digest.algorithm}`)
    }
    this.#later = false
    this.#digest = digest
    this.#others = others
    this.#contradicted = contradicted
    const all = [digest, ...others.map(one => one.digest)]
    if (all.every(one => one?.algorithm !== 'sha512')) this.#other = undefined
    if (promised === undefined) return
    const found = Math.max(size, this.#length ?? 0)
    if (others.some(one => (this.#length === undefined ? one.size >= size : one.size === found))) {
      return
    }
    if (found > promised || (this.#length ?? promised) !== promised)
      throw wrongSize(found, promised, contradicted)
    this.#length = promised
  }

  /** Takes the next bytes. `size` is the sum with them. Throws a Failure when it is more than the expected length. */
  update(block: Buffer, size: number): void {
    if (this.length !== undefined && size > this.length)
      throw wrongSize(size, this.length, this.#contradicted)
    this.#sha256.update(block)
    this.#other?.update(block)
  }

  /** From now on at most half of a content is held back, because readers have waited long enough for the first byte of a small one. */
  show(): void {
    this.#shown = true
  }

  /**
   * The position up to which readers may read while `size` bytes have arrived. Nothing is held back from a verified content, nor unless a
   * digest is expected or may be promised later. Else the last bytes are held back, so that no client ever gets the whole of a wrong
   * content. All of a small content is held back until `show`.
   */
  visible(size: number): number {
    if (this.#verified || (this.#digest === undefined && !this.#later)) return size
    const length = this.#length ?? size
    const most = this.#shown ? Math.ceil(length / 2) : length
    return Math.max(0, Math.min(size, length - Math.min(heldBytes, most)))
  }

  /** The SHA-256 of the bytes so far, lower-case hex. A second delivery of the same content must begin with the same bytes. */
  digestSoFar(): string {
    return this.#sha256.copy().digest('hex')
  }

  /** The SHA-256 of all bytes. Throws a Failure when they are not the expected content. It may be called only once. */
  verify(size: number): string {
    if (this.#later) throw new Error('it is not known yet what the content must be')
    if (this.length !== undefined && size !== this.length)
      throw wrongSize(size, this.length, this.#contradicted)
    const sha256 = this.#sha256.digest('hex')
    const other = this.#other?.digest('hex') ?? ''
    const digestLike = ({ algorithm, hex }: ExpectedDigest): string => {
      const whole = algorithm === 'sha256' ? sha256 : other
      const isHalf = algorithm === 'sha512' && hex.length === whole.length / 2
      return isHalf ? whole.slice(0, hex.length) : whole
    }
    const { algorithm, hex } = this.#digest ?? { algorithm: 'sha256' as const, hex: sha256 }
    const found = digestLike({ algorithm, hex })
    const isOther = this.#others.some(
      one => one.size === size && digestLike(one.digest) === one.digest.hex.toLowerCase(),
    )
    this.#verified = found === hex.toLowerCase() || isOther
    if (this.#verified) return sha256
    throw new Failure(`The content's ${algorithm} is ${found} and should be ${hex}.`, {
      code: 'wrong-digest',
      fault: 'upstream',
      publicText: this.#contradicted
        ? `Hash Sum mismatch: ${contradictionText}.`
        : 'Hash Sum mismatch: the origin sent other content than the archive promises.',
      facts: { algorithm, found, expected: hex, size, sha256 },
    })
  }
}

const contradictionText = 'indexes of the archive contradict each other about this file'

function wrongSize(found: number, expected: number, contradicted: boolean): Failure {
  const more = found > expected
  return new Failure(
    `The content has ${more ? 'at least ' : ''}${found} bytes and should have ${expected}.`,
    {
      code: 'wrong-size',
      fault: 'upstream',
      publicText: contradicted
        ? `File has unexpected size: ${contradictionText}.`
        : 'File has unexpected size: the origin sent content of another length than promised.',
      facts: { found, expected },
    },
  )
}
