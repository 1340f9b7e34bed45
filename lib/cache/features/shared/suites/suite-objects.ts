/**
 * The pointers of suites as objects of the bucket: a pointer names the generation that all nodes have, and is replaced by compare and swap. A read
 * pointer is remembered for a second, and then asked for by its version.
 */
import { LRUCache } from 'lru-cache'
import type { Clock, Milliseconds } from '../../../../async/clock.ts'
import { SingleFlight } from '../../../../async/single-flight.ts'
import { mostBytes, readSuite, suiteBytes, suiteName } from '../objects.ts'
import type { Bucket, ObjectWrite } from '../s3/bucket.ts'
import type { SuitePointer, SuiteRecord, SwapResult } from '../shared-store.ts'

const trust: Milliseconds = 1000
/** The most bytes of the pointers that are remembered. */
const mostRemembered = 16 * 1024 * 1024

interface SuiteObjectParts {
  readonly clock: Clock
  readonly bucket: Bucket
  readonly conditional: () => boolean
}

interface Known {
  readonly pointer: SuitePointer | undefined
  /** The version of the object, which need not be a valid pointer; "" when there is no object. */
  readonly etag: string
  /** When it was asked for, by `elapsed`. */
  readonly asked: Milliseconds
  readonly size: number
}

/** A pointer that was read, or `away` when the store failed and nothing is known. */
type Read = Known | 'away'

export class SuiteObjects {
  readonly #parts: SuiteObjectParts
  readonly #known = new LRUCache<string, Known>({
    maxSize: mostRemembered,
    sizeCalculation: ({ size }) => Math.max(size, 100),
  })
  readonly #flights = new SingleFlight<Read>()

  constructor(parts: SuiteObjectParts) {
    this.#parts = parts
  }

  async read(id: string, fresh: boolean): Promise<Read> {
    const known = this.#known.get(id)
    const age = this.#parts.clock.elapsed() - (known?.asked ?? 0)
    if (!fresh && known !== undefined && age < trust) return known
    // A read that began earlier may not have what a swap has to compare with.
    return fresh ? this.#ask(id, known) : this.#flights.run(id, () => this.#ask(id, known))
  }

  async swap(id: string, from: SuitePointer | undefined, to: SuiteRecord): Promise<SwapResult> {
    const { bucket, conditional, clock } = this.#parts
    const compares = conditional() && from?.etag !== ''
    if (!compares) {
      // Two nodes that swap at the same moment do not notice each other, and the later one wins.
      const now = await this.read(id, true)
      if (now === 'away') return 'away'
      if (!isSame(now.pointer, from)) return 'lost'
    }
    const there = from?.etag ?? this.#known.get(id)?.etag ?? ''
    const bytes = suiteBytes(to)
    let only: ObjectWrite['only']
    if (compares) only = there === '' ? 'new' : { etag: there }
    const written = await bucket.putJson(suiteName(id), bytes, only)
    const asked = clock.elapsed()
    if (written.outcome === 'done') {
      const { etag } = written
      this.#known.set(id, { pointer: { ...to, etag }, etag, asked, size: bytes.length })
      return 'swapped'
    }
    this.#known.delete(id)
    // `absent` means that the lifecycle rule has removed the object since it was read.
    return written.outcome === 'precondition' || written.outcome === 'absent' ? 'lost' : 'away'
  }

  async #ask(id: string, known: Known | undefined): Promise<Read> {
    const { bucket, clock } = this.#parts
    const asked = clock.elapsed()
    const etag = known?.etag ?? ''
    const there = await bucket.read(suiteName(id), { most: mostBytes.suite, etag })
    let read: Known = { pointer: undefined, etag: '', asked, size: 0 }
    if (there.outcome === 'unchanged') read = { ...read, ...known, asked }
    else if (there.outcome === 'done') {
      const { bytes, size } = there
      read = { pointer: readSuite(bytes, there.etag), etag: there.etag, asked, size }
    } else if (there.outcome !== 'absent') return 'away'
    this.#known.set(id, read)
    return read
  }
}

function isSame(a: SuitePointer | undefined, b: SuitePointer | undefined): boolean {
  if (a === undefined || b === undefined) return a === b
  return suiteBytes(a).equals(suiteBytes(b))
}
