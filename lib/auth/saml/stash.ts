/**
 * Form posts whose session had ended, kept until their sender has logged in again. Held in memory, sealed with a key that only
 * the sender's cookie has; taken once. Bounded in size and time.
 */
import type { Clock, Milliseconds } from '../../clock.ts'
import type { Stash } from './contract.ts'
import { seal, unseal } from './seal.ts'

interface Kept {
  readonly contentType: string
  readonly sealed: string
  readonly until: Milliseconds
  /** What it costs, so that many small ones count for what they are. */
  readonly size: number
}

/** Bytes an entry costs besides its texts. */
const OVERHEAD = 512
/** Bytes of all stashes together. */
const MOST_BYTES = 32 * 1024 * 1024

export class StashRoom {
  readonly #clock: Clock
  readonly #random: (size: number) => Buffer
  readonly #kept = new Map<string, Kept>()
  #bytes = 0

  constructor(clock: Clock, random: (size: number) => Buffer) {
    this.#clock = clock
    this.#random = random
  }

  /** Keeps a stash under the ID of a login and answers its key; the oldest go when there is no room. */
  put(id: string, stash: Stash, lifetime: Milliseconds): string {
    const key = this.#random(32)
    const sealed = seal(stash.content, purposeOf(id), [{ kid: 'stash', key }], this.#random)
    const { contentType } = stash
    const size = sealed.length + contentType.length + OVERHEAD
    this.#sweep(size)
    this.#kept.set(id, { contentType, sealed, until: this.#clock.now() + lifetime, size })
    this.#bytes += size
    return key.toString('base64url')
  }

  /** Hands a stash out, once; undefined when it is gone, too old, or the key is another. */
  take(id: string, key: string): Stash | undefined {
    const kept = this.#kept.get(id)
    if (kept === undefined) return undefined
    this.#drop(id, kept)
    const bytes = Buffer.from(key, 'base64url')
    if (kept.until <= this.#clock.now() || bytes.length !== 32) return undefined
    const content = unseal(kept.sealed, purposeOf(id), [{ kid: 'stash', key: bytes }])
    return content === undefined ? undefined : { contentType: kept.contentType, content }
  }

  /** Bytes held. */
  get bytes(): number {
    return this.#bytes
  }

  #sweep(wanted: number): void {
    const now = this.#clock.now()
    // The oldest first, which end first: who looks at all of them each time lets strangers make that many.
    for (const [id, kept] of this.#kept) {
      if (kept.until > now && this.#bytes + wanted <= MOST_BYTES) return
      this.#drop(id, kept)
    }
  }

  #drop(id: string, kept: Kept): void {
    this.#kept.delete(id)
    this.#bytes -= kept.size
  }
}

function purposeOf(id: string): string {
  return `authproxy stash 1 ${id}`
}
