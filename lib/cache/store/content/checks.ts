/**
 * Hashes stored contents when they are read: at the first reading after a start, and again when the last check is old.
 *
 * A content's name is its digest, so bytes that have rotted on the disk are found by hashing them. Small content is hashed when
 * it is read, before its first byte leaves. Large content is read and hashed beside the clients that read it, once however many
 * they are; a client that reads up to the end gets the last bytes when the digest has turned out right (held-back.ts). On a
 * mismatch the content goes with its entries, so that the next request fetches it.
 *
 * A content that clients go on reading is hashed again in the background, slowly and before its last check is too old; so no
 * client waits for that.
 */
import { hash } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import type { Clock, Milliseconds } from '../../../async/clock.ts'
import { KeyedMutex } from '../../../async/keyed-mutex.ts'
import type { Source } from '../../../bytes/source.ts'
import { explainError } from '../../../errors.ts'
import type { Logger } from '../../../log/log.ts'
import type { Examination, Examined } from '../disk/examine.ts'
import { heldBack } from './held-back.ts'
import type { Wanted } from './open-files.ts'

export interface ChecksParts {
  readonly clock: Clock
  readonly log: Logger
  /** Reads all of the content under a digest. */
  readonly examine: (digest: string, examination: Examination) => Promise<Examined>
  /** Told of a digest whose content has been hashed and is right. */
  readonly passed: (digest: string) => void
  /** Removes a content that is not what it says, and the entries that name it. */
  readonly discard: (digest: string) => Promise<void>
}

/** How many contents are remembered by the time of their last check; of others it is unknown. */
const remembered = 65_536

/** Large contents that are hashed at once. */
const lanes = 2

/** A background check begins when this part of the time has passed, and reads so many bytes in a millisecond: 64 MiB a second. */
const aheadShare = 3 / 4
const backgroundRate = 64 * 1024

const day: Milliseconds = 24 * 60 * 60 * 1000

interface Running {
  readonly result: Promise<boolean>
  /** A client waits for it. */
  awaited: boolean
}

export class Checks {
  /** How old a check may be. */
  maxAge: Milliseconds = day
  /** Contents that were found damaged. */
  damaged = 0
  readonly #parts: ChecksParts
  readonly #last = new LRUCache<string, Milliseconds>({ max: remembered })
  readonly #running = new Map<string, Running>()
  readonly #lanes = new KeyedMutex()
  #begun = 0
  #closed = false

  constructor(parts: ChecksParts) {
    this.#parts = parts
  }

  /** The content under this digest has just been hashed. */
  passed(digest: string): void {
    this.#last.set(digest, this.#parts.clock.elapsed())
    this.#parts.passed(digest)
  }

  /** The file has changed or goes. */
  forget(digest: string): void {
    this.#last.delete(digest)
    this.#running.delete(digest)
  }

  /** Whether all of it must be hashed before it is known to be right. */
  due(digest: string): boolean {
    return this.#age(digest) >= this.maxAge
  }

  /** Whether these bytes, just read, are the content; they are hashed if it is due. */
  async accepts(digest: string, bytes: Buffer): Promise<boolean> {
    if (!this.due(digest)) return true
    const right = hash('sha256', bytes) === digest
    if (right) this.passed(digest)
    // Verified content may have taken the place of the file these bytes are from: what is there now decides.
    else await this.check(digest, bytes.length)
    return right
  }

  /** How to read a part of a content that `open` opens, so that a client never gets all of a damaged one. */
  guard({ digest, size, first, end }: Wanted, open: () => Source): () => Source {
    return () => {
      const age = this.#age(digest)
      if (age >= this.maxAge) {
        const reaches = end === size
        return heldBack(open(), { length: end - first, reaches, check: this.check(digest, size) })
      }
      if (age >= this.maxAge * aheadShare) void this.#run(digest, size)
      return open()
    }
  }

  /** Whether the content is what it says, from reading all of it. What is wrong is removed. */
  check(digest: string, size: number): Promise<boolean> {
    const running = this.#run(digest, size)
    running.awaited = true
    return running.result
  }

  /** Breaks off what is under way. */
  close(): void {
    this.#closed = true
  }

  #age(digest: string): Milliseconds {
    const last = this.#last.get(digest) ?? Number.NEGATIVE_INFINITY
    return this.#parts.clock.elapsed() - last
  }

  #run(digest: string, size: number): Running {
    const known = this.#running.get(digest)
    if (known !== undefined) return known
    this.#begun += 1
    const result = this.#lanes.run(String(this.#begun % lanes), () => this.#examine(running))
    const running: Running & { digest: string; size: number } = {
      ...{ digest, size, awaited: false },
      result: result.catch(() => false),
    }
    this.#running.set(digest, running)
    return running
  }

  async #examine(running: Running & { digest: string; size: number }): Promise<boolean> {
    const { digest, size } = running
    const examined = await this.#parts.examine(digest, {
      size,
      algorithms: ['sha256'],
      onRead: bytes => {
        if (this.#closed) throw new Error('the store closes')
        if (running.awaited) return undefined
        return new Promise(resolve => this.#parts.clock.after(bytes / backgroundRate, resolve))
      },
    })
    const found = examined.found === 'whole' ? examined.digests.get('sha256') : undefined
    const replaced = this.#running.get(digest) !== running
    if (!replaced) this.#running.delete(digest)
    if (found === digest) {
      if (!replaced) this.passed(digest)
      return true
    }
    // Of a file that took its place this says nothing.
    if (replaced || examined.found === 'unknown') return false
    const because = examined.found === 'broken' ? examined.because : `its bytes hash to ${found}`
    await this.#remove(digest, because)
    return false
  }

  async #remove(digest: string, because: string): Promise<void> {
    this.damaged += 1
    this.#parts.log.warn('a stored content is damaged and was removed', { digest, because })
    await this.#parts.discard(digest).catch(error => {
      this.#parts.log.warn('cannot remove a damaged content', {
        digest,
        because: explainError(error),
      })
    })
  }
}
