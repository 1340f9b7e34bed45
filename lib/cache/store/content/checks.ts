/**
 * Checks that contents are what they say: downloads while they arrive (`Expectation`), and stored contents when they are read, at
 * the first reading after a start, and again when the last check is old. A regular verification (cache/verify) counts as a check
 * of what it has read, and what it finds damaged goes the same way.
 *
 * A content's name is its digest, so bytes that have rotted on the disk are found by hashing them. Small content is hashed when
 * it is read, before its first byte leaves. Large content is read and hashed beside the clients that read it, once however many
 * they are, from the file they have open. A client that reads up to the end waits for the digest before it gets the last bytes,
 * ten seconds at most, for a file that is right is better than none. After that its last bytes go and the check goes on. On a
 * mismatch the content goes with its entries, so that the next request fetches it.
 *
 * A content of which clients read other parts, and one whose last check will soon be too old, is hashed in the background.
 *
 * # Which checks run at once
 * A check that a client waits for runs in one of four lanes: two are for contents of up to 16 MiB, two for larger ones. In each
 * pair the smallest content goes first, so a package never waits for an image. A check no client waits for runs in a fifth
 * lane, at 64 MiB a second, and stands still while one of the others runs. When the last client has left a check that another
 * one wants the lane of, it begins anew in the background.
 */
import { createHash, type Hash, hash } from 'node:crypto'
import { type Clock, day, type Milliseconds } from '../../../async/clock.ts'
import type { Piece } from '../../../bytes/piece.ts'
import { iterate, type Source, type Take } from '../../../bytes/source.ts'
import { explainError, Failure, systemCode } from '../../../errors.ts'
import type { Logger } from '../../../log/log.ts'
import { recentEntries } from '../../../recent.ts'
import type { StoreEvents } from '../events.ts'
import type { Blobs } from './blobs.ts'
import { type ContentPart, type Opener, type OpenFiles, ShortFile } from './open-content.ts'

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
  readonly #last = recentEntries<string, Milliseconds>(remembered)
  /** Checks that are not over, of the contents as they are now. */
  readonly #checks = new Map<string, Check>()
  readonly #queue: CheckQueue

  constructor(parts: ChecksParts) {
    this.#parts = parts
    this.#queue = new CheckQueue(parts.clock, check => this.#examine(check))
  }

  /** The content under this digest has just been hashed, for a reader or by the regular verification. */
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

type Lane = 'small' | 'large' | 'background'

const most: Readonly<Record<Lane, number>> = { small: 2, large: 2, background: 1 }

const largestSmall = 16 * 1024 * 1024

/** Bytes that a background check reads in a millisecond: 64 MiB a second. */
const backgroundRate = 64 * 1024

/** The check of one content. */
class Check {
  readonly digest: string
  readonly size: number
  readonly right: Promise<boolean>
  readers = 0
  /** What is hashed; when it is there before the check begins, the file stays open for it. */
  source: Source | undefined
  /** Where it waits or runs. */
  lane: Lane | undefined
  running = false
  wake: (() => void) | undefined
  settle: (right: boolean) => void = () => {}

  constructor(digest: string, size: number) {
    this.digest = digest
    this.size = size
    this.right = new Promise(resolve => {
      this.settle = resolve
    })
  }
}

class CheckQueue {
  readonly #clock: Clock
  readonly #examine: (check: Check) => Promise<boolean | undefined>
  readonly #waiting: Readonly<Record<Lane, Set<Check>>> = {
    small: new Set(),
    large: new Set(),
    background: new Set(),
  }
  readonly #running = new Set<Check>()
  #closed = false

  /** `examine` answers whether the content is right; undefined when it was broken off and is to wait again. */
  constructor(clock: Clock, examine: (check: Check) => Promise<boolean | undefined>) {
    this.#clock = clock
    this.#examine = examine
  }

  /** The check is wanted, or wanted by one more client. */
  add(check: Check): void {
    if (this.#closed) return check.settle(false)
    if (check.running) return check.readers > 0 ? check.wake?.() : undefined
    const small = check.size <= largestSmall ? 'small' : 'large'
    this.#put(check, check.readers > 0 ? small : 'background')
  }

  /** No client waits for it any more. */
  leave(check: Check): void {
    if (check.running || check.lane === undefined) return
    this.#letGo(check)
    this.#put(check, 'background')
  }

  drop(check: Check): void {
    if (check.running) return
    this.#letGo(check)
    if (check.lane !== undefined) this.#waiting[check.lane].delete(check)
    check.settle(false)
  }

  /** Told of the bytes that were read. Waits as long as the check must; answers whether it goes on. */
  goesOn(check: Check, bytes: number): boolean | Promise<boolean> {
    if (this.#closed) return false
    if (check.readers > 0) return true
    if (check.lane === 'background') return this.#pause(check, bytes)
    return check.lane === undefined || this.#waiting[check.lane].size === 0
  }

  close(): void {
    this.#closed = true
    const waiting = Object.values(this.#waiting)
    for (const check of [this.#running, ...waiting].flatMap(checks => [...checks])) {
      this.#letGo(check)
      check.settle(false)
    }
    for (const checks of waiting) checks.clear()
  }

  #letGo(check: Check): void {
    check.source?.close()
    check.source = undefined
  }

  #put(check: Check, lane: Lane): void {
    if (check.lane !== undefined && check.lane !== lane) this.#waiting[check.lane].delete(check)
    check.lane = lane
    this.#waiting[lane].add(check)
    this.#begin(lane)
  }

  #begin(lane: Lane): void {
    const running = [...this.#running].filter(check => check.lane === lane).length
    const next = firstOf(this.#waiting[lane], lane)
    if (next === undefined || running >= most[lane] || this.#closed) return
    this.#waiting[lane].delete(next)
    this.#running.add(next)
    next.running = true
    void this.#run(next, lane)
  }

  async #run(check: Check, lane: Lane): Promise<void> {
    const right = await this.#examine(check).catch(() => false)
    this.#running.delete(check)
    check.running = false
    if (right === undefined && !this.#closed) this.add(check)
    else check.settle(right ?? false)
    this.#begin(lane)
    if (this.#awaited) return
    for (const other of this.#running) other.wake?.()
  }

  get #awaited(): boolean {
    return [...this.#running].some(({ lane }) => lane !== 'background')
  }

  /** A background check rests after each reading, and until no other check runs. */
  #pause(check: Check, bytes: number): Promise<boolean> {
    return new Promise(resolve => {
      let rested = false
      const look = (): void => {
        const over = check.readers > 0 || (rested && !this.#awaited)
        if (!over && !this.#closed) return
        check.wake = undefined
        cancel()
        resolve(!this.#closed)
      }
      const cancel = this.#clock.after(bytes / backgroundRate, () => {
        rested = true
        look()
      })
      check.wake = look
    })
  }
}

/** The check whose turn it is: the smallest, but in the background the one that came first. */
function firstOf(checks: ReadonlySet<Check>, lane: Lane): Check | undefined {
  let [found] = checks
  if (found === undefined || lane === 'background') return found
  for (const check of checks) if (check.size < found.size) found = check
  return found
}

/** How long a client waits for a check at the end of what it reads. */
const longestHeldBack: Milliseconds = 10_000

interface Guarded {
  /** Bytes of the source, up to the end of the content. */
  readonly length: number
  readonly right: Promise<boolean>
  readonly clock: Clock
  readonly left: () => void
}

/** The source, which fails as soon as the check has, at the latest before its end unless the check takes too long. */
function heldBack(source: Source, { length, right, clock, left }: Guarded): Source {
  let outcome: 'open' | 'free' | 'wrong' = 'open'
  let closed = false
  /** Bytes that may leave before the check is over. */
  let free = Math.max(0, length - heldBytes)
  let kept: Piece | undefined
  let waiting: Take | undefined
  let cancel: (() => void) | undefined
  const settle = (found: 'free' | 'wrong'): void => {
    outcome = found
    cancel?.()
    const take = waiting
    waiting = undefined
    if (take !== undefined) next(take)
  }
  void right.then(found => settle(found ? 'free' : 'wrong'))
  const arrived = (piece: Piece, take: Take): void => {
    const { bytes } = piece
    if (outcome === 'free' || bytes.length <= free) {
      free -= bytes.length
      return take(undefined, piece)
    }
    kept = piece.slice(free)
    const before = piece.slice(0, free)
    piece.release()
    if (free === 0) {
      before.release()
      return next(take)
    }
    free = 0
    take(undefined, before)
  }
  const next = (take: Take): void => {
    if (closed) return
    if (outcome === 'wrong') return take(damaged(), undefined)
    if (outcome === 'open' && free === 0) {
      waiting = take
      cancel ??= clock.after(longestHeldBack, () => settle('free'))
      return
    }
    if (kept !== undefined) {
      const piece = kept
      kept = undefined
      return take(undefined, piece)
    }
    source.next((error, piece) => {
      if (piece === undefined) take(error, undefined)
      else arrived(piece, take)
    })
  }
  return {
    next,
    close() {
      if (closed) return
      closed = true
      cancel?.()
      waiting = undefined
      kept?.release()
      kept = undefined
      source.close()
      left()
    },
  }
}

function damaged(): Failure {
  return new Failure('The stored content is damaged; it was removed and will be fetched again.', {
    code: 'damaged-content',
    fault: 'internal',
    publicText: 'The stored file is damaged.',
  })
}

/*
 * Checks a download against its announced length and its promised size and digest. An index of the archive or a by-hash name
 * promises them. Hashes while it grows; knows no files.
 */

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
const heldBytes = 64 * 1024

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
