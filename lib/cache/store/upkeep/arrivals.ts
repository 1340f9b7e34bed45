/**
 * The bytes of downloads, also of those that a crash broke off: what they take of the disk, and what their pace brings within a
 * minute.
 */
import type { Clock, Milliseconds } from '../../../async/clock.ts'
import type { Download } from '../content/download.ts'
import type { Partials } from '../content/partial.ts'

/** Bytes of downloads. */
interface UnderWay {
  /** What there is of them, also of those that a crash broke off. */
  readonly arrived: number
  /** Of that, what the disk does not have yet. */
  readonly unwritten: number
  readonly coming: number
}

type Arrival = Pick<Download, 'size' | 'length' | 'stored' | 'file'>

/** What is counted as coming of a download: what its pace brings in this time, and at least so much. */
const foreseen: Milliseconds = 60_000
const leastForeseen = 4 * 1024 * 1024
/** A shorter time says nothing of the pace. */
const leastTime: Milliseconds = 1_000

export class Arrivals {
  readonly #clock: Clock
  readonly #partials: Partials
  /** When each began, and with how many bytes. */
  readonly #growing = new Map<Arrival, { readonly since: Milliseconds; readonly begun: number }>()
  /** Those that are whole and being stored. There may be hundreds, and these figures are asked for with every download. */
  readonly #whole = new Set<Arrival>()
  #wholeBytes = 0

  constructor(clock: Clock, partials: Partials) {
    this.#clock = clock
    this.#partials = partials
  }

  begin(download: Arrival): void {
    this.#growing.set(download, { since: this.#clock.elapsed(), begun: download.size })
  }

  whole(download: Arrival): void {
    if (!this.#growing.delete(download) || !download.stored) return
    this.#whole.add(download)
    this.#wholeBytes += download.size
  }

  end(download: Arrival): void {
    this.#growing.delete(download)
    if (this.#whole.delete(download)) this.#wholeBytes -= download.size
  }

  get bytes(): UnderWay {
    const now = this.#clock.elapsed()
    let arrived = this.#wholeBytes + this.#partials.bytes
    let unwritten = this.#wholeBytes
    let coming = 0
    for (const [download, { since, begun }] of this.#growing) {
      const { size, length = 0, stored, file } = download
      // A file that is not stored any more takes its space as long as a client reads it.
      if (!stored) arrived += file.file === undefined ? 0 : file.written
      else {
        const pace = (size - begun) / Math.max(leastTime, now - since)
        arrived += size
        unwritten += size - file.written
        coming += Math.max(0, Math.min(length - size, Math.max(leastForeseen, pace * foreseen)))
      }
    }
    return { arrived, unwritten, coming }
  }
}
