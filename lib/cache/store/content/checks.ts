/**
 * Hashes stored contents when they are read: at the first reading after a start, and again when the last check is old.
 *
 * A content's name is its digest, so bytes that have rotted on the disk are found by hashing them. Small content is hashed when
 * it is read, before its first byte leaves. Large content is read and hashed beside the clients that read it, once however many
 * they are, from the file they have open. A client that reads up to the end waits for the digest before it gets the last bytes,
 * but not for long (held-back.ts). On a mismatch the content goes with its entries, so that the next request fetches it.
 *
 * A content of which clients read other parts, and one whose last check will soon be too old, is hashed in the background:
 * slowly, and not while a client waits for a check. Which checks run at once is said in check-queue.ts.
 */
import { createHash, hash } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import { type Clock, day, type Milliseconds } from '../../../async/clock.ts'
import { iterate, type Source } from '../../../bytes/source.ts'
import { explainError, systemCode } from '../../../errors.ts'
import type { Logger } from '../../../log/log.ts'
import type { StoreEvents } from '../events.ts'
import type { Blobs } from './blobs.ts'
import { Check, CheckQueue } from './check-queue.ts'
import { heldBack } from './held-back.ts'
import { ShortFile } from './open-content.ts'
import type { ContentPart, Opener, OpenFiles } from './open-files.ts'

interface ChecksParts {
  readonly clock: Clock
  readonly log: Logger
  readonly files: OpenFiles
  readonly blobs: Blobs
  readonly events: Pick<StoreEvents, 'tell'>
}

/** How many contents are remembered by the time of their last check; of others it is unknown. */
const remembered = 65_536

/** A background check begins when this part of the time has passed. */
const aheadShare = 3 / 4

export class Checks {
  maxAge: Milliseconds = day
  damaged = 0
  /** Digests whose contents must be hashed before they are used. */
  readonly unproven = new Set<string>()
  readonly #parts: ChecksParts
  readonly #last = new LRUCache<string, Milliseconds>({ max: remembered })
  /** Checks that are not over, of the contents as they are now. */
  readonly #checks = new Map<string, Check>()
  readonly #queue: CheckQueue

  constructor(parts: ChecksParts) {
    this.#parts = parts
    this.#queue = new CheckQueue(parts.clock, check => this.#examine(check))
  }

  /** The content under this digest has just been hashed. */
  passed(digest: string): void {
    const { clock, blobs, events } = this.#parts
    this.#last.set(digest, clock.elapsed())
    if (!this.unproven.delete(digest)) return
    blobs.flushLater(digest)
    events.tell('proven', digest)
  }

  /** The file has changed or goes. A check under way goes on for the readers of the file as it was. */
  forget(digest: string): void {
    this.#last.delete(digest)
    this.unproven.delete(digest)
    const check = this.#checks.get(digest)
    this.#checks.delete(digest)
    if (check?.readers === 0) this.#queue.drop(check)
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

  /** How to read a part of a content that `open` opens, so that a client who waits never gets all of a damaged one. */
  guard(wanted: ContentPart, open: Opener): () => Source {
    const { digest, size, first, end } = wanted
    return () => {
      const age = this.#age(digest)
      if (age < this.maxAge * aheadShare) return open()
      const check = this.#checkOf(digest, size)
      if (age < this.maxAge || end < size) {
        this.#queue.add(check)
        return open()
      }
      check.source ??= open({ first: 0, end: size })
      check.readers += 1
      this.#queue.add(check)
      return heldBack(open(), {
        length: end - first,
        right: check.right,
        clock: this.#parts.clock,
        left: () => {
          check.readers -= 1
          if (check.readers > 0) return
          if (this.#checks.get(digest) === check) this.#queue.leave(check)
          else this.#queue.drop(check)
        },
      })
    }
  }

  /** Whether the content is what it says, from reading all of it. What is wrong is removed. */
  check(digest: string, size: number): Promise<boolean> {
    const check = this.#checkOf(digest, size)
    check.readers += 1
    this.#queue.add(check)
    return check.right
  }

  close(): void {
    this.#queue.close()
    this.#checks.clear()
  }

  #age(digest: string): Milliseconds {
    const last = this.#last.get(digest) ?? Number.NEGATIVE_INFINITY
    return this.#parts.clock.elapsed() - last
  }

  #checkOf(digest: string, size: number): Check {
    const known = this.#checks.get(digest)
    if (known !== undefined) return known
    const check = new Check(digest, size)
    this.#checks.set(digest, check)
    return check
  }

  /** Reads and hashes a content, and does what follows of it. Undefined when the check is to begin anew later. */
  async #examine(check: Check): Promise<boolean | undefined> {
    const { digest, size } = check
    check.source ??= this.#parts.files.read({ digest, size, first: 0, end: size })
    const sha256 = createHash('sha256')
    let wrong: string | undefined
    try {
      for await (const block of iterate(check.source)) {
        sha256.update(block)
        if (await this.#queue.goesOn(check, block.length)) continue
        return this.#checks.get(digest) === check ? undefined : false
      }
    } catch (error) {
      // What the disk says when it hangs, or when it is busy, says nothing of the content.
      const lost = error instanceof ShortFile || systemCode(error) === 'EIO'
      wrong = lost ? explainError(error) : ''
    } finally {
      check.source = undefined
    }
    const current = this.#checks.get(digest) === check
    if (current) this.#checks.delete(digest)
    const found = sha256.digest('hex')
    if (wrong === undefined && found === digest) {
      if (current) this.passed(digest)
      return true
    }
    // Of a file that took its place this says nothing.
    if (!current || wrong === '') return false
    const { log, blobs } = this.#parts
    const because = wrong ?? `its bytes hash to ${found}`
    this.damaged += 1
    log.warn('a stored content is damaged and was removed', { digest, because })
    await blobs.discard(digest).catch(error => {
      log.warn('cannot remove a damaged content', { digest, because: explainError(error) })
    })
    return false
  }
}
