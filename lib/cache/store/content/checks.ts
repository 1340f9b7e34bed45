/**
 * Checks the bytes of contents against their digests: downloads while they arrive (`Expectation`), and stored contents when they are
 * read for the first time after a start and again when the last check is old (`Checks`).
 *
 * A small content is hashed when it is read, before its first byte is sent. A large content is hashed while clients read it, once for all
 * of them, from the file that they have open. A content of which clients read only a part before the end, or whose last check will soon be
 * too old, is hashed in the background. On a mismatch the content and its entries are removed, so that the next request fetches it.
 *
 * # Which checks run at once
 * A check that a client waits for runs in one of four lanes: two are for contents of up to 16 MiB, two for larger ones. In each pair the
 * smallest content goes first, so that a package never waits for an image. A check that no client waits for runs in a fifth lane, at
 * 64 MiB a second, and pauses while a check in another lane runs. A check whose last client has left gives its lane to a waiting check
 * and begins anew in the background.
 */
import { createHash, type Hash, hash } from 'node:crypto'
import { type Clock, day, type Milliseconds } from '../../../async/clock.ts'
import { resultInTime } from '../../../async/deadline.ts'
import { concatenatedSource, iterate, type Source } from '../../../bytes/source.ts'
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

/** The times of the last checks of this many contents are remembered. */
const remembered = 65_536

/** A background check begins when this share of `maxAge` has passed since the last check. */
const aheadShare = 3 / 4

export class Checks {
  /** A check that is older than this does not count any more. */
  maxAge: Milliseconds = day
  /** The number of contents that were found damaged since the start. */
  damaged = 0
  /** Digests whose contents must be hashed before they are used. */
  readonly unproven = new Set<string>()
  readonly #parts: ChecksParts
  readonly #last = recentEntries<string, Milliseconds>(remembered)
  /** Checks that wait or run, by digest. A check of a file that has been replaced is not among them. */
  readonly #checks = new Map<string, Check>()
  readonly #queue: CheckQueue

  constructor(parts: ChecksParts) {
    this.#parts = parts
    this.#queue = new CheckQueue(parts.clock, check => this.#examine(check))
  }

  /** Notes that the content under this digest has just been hashed and is right. */
  passed(digest: string): void {
    const { clock, blobs, events } = this.#parts
    this.#last.set(digest, clock.elapsed())
    if (!this.unproven.delete(digest)) return
    blobs.flushLater(digest)
    events.tell('proven', digest)
  }

  /** Forgets the checks of a file that has been replaced or is being removed. A check goes on when readers of the old file wait for it. */
  forget(digest: string): void {
    this.#last.delete(digest)
    this.unproven.delete(digest)
    const check = this.#checks.get(digest)
    this.#checks.delete(digest)
    if (check?.readers === 0) this.#queue.drop(check)
  }

  /** Whether the content must be hashed, because its last check is older than `maxAge` or unknown. */
  due(digest: string): boolean {
    return this.#age(digest) >= this.maxAge
  }

  /** Whether these bytes, just read, are the content. They are hashed if a check is due. */
  async accepts(digest: string, bytes: Buffer): Promise<boolean> {
    if (!this.due(digest)) return true
    const right = hash('sha256', bytes) === digest
    if (right) this.passed(digest)
    // A verified file may have replaced the one that these bytes are from, so the present file is checked.
    else await this.check(digest, bytes.length)
    return right
  }

  /**
   * Answers how to read a part of a content that `open` opens. A reader of the last part is held back until the check is over, so that
   * it does not get all bytes of a damaged content, unless the check takes too long.
   */
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
      const cut = Math.max(first, end - heldBytes)
      return heldBack(open({ first, end: cut }), open({ first: cut, end }), {
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

  /** Reads and hashes the whole content and answers whether it is right. A wrong content is removed. */
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

  /** Reads and hashes a content, and removes it when it is damaged. Undefined when the check must begin anew later. */
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
      // An error of a disk that hangs or is busy says nothing about the content.
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
    // The result says nothing about a file that has replaced the checked one.
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
  /** The bytes to hash. A source that is set before the check begins keeps the file open for it. */
  source: Source | undefined
  /** The lane in which the check waits or runs. */
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

  /** `examine` answers whether the content is right; undefined when the check was broken off and must wait again. */
  constructor(clock: Clock, examine: (check: Check) => Promise<boolean | undefined>) {
    this.#clock = clock
    this.#examine = examine
  }

  /** Queues a check, or notes that one more client waits for it. */
  add(check: Check): void {
    if (this.#closed) return check.settle(false)
    if (check.running) return check.readers > 0 ? check.wake?.() : undefined
    const small = check.size <= largestSmall ? 'small' : 'large'
    this.#put(check, check.readers > 0 ? small : 'background')
  }

  /** Notes that no client waits for the check any more: it moves to the background, unless it runs. */
  leave(check: Check): void {
    if (check.running || check.lane === undefined) return
    this.#letGo(check)
    this.#put(check, 'background')
  }

  /** Takes a check that does not run yet out of the queue and settles it as not right. */
  drop(check: Check): void {
    if (check.running) return
    this.#letGo(check)
    if (check.lane !== undefined) this.#waiting[check.lane].delete(check)
    check.settle(false)
  }

  /** Called after each reading of `bytes`. Waits as long as the check must pause, and answers whether it goes on. */
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

  /** Pauses a background check after a reading, until its rate allows the next one and no other check runs. */
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

/** The next check of a lane: the smallest one, or in the background the one that was queued first. */
function firstOf(checks: ReadonlySet<Check>, lane: Lane): Check | undefined {
  let [found] = checks
  if (found === undefined || lane === 'background') return found
  for (const check of checks) if (check.size < found.size) found = check
  return found
}

/** How long a client waits for a check before it gets the last bytes: a slow check does not keep a right file from it. */
const longestHeldBack: Milliseconds = 10_000

interface Guarded {
  readonly right: Promise<boolean>
  readonly clock: Clock
  readonly left: () => void
}

/**
 * A source of these bytes and then of the last ones, which fails as soon as the check has failed. It keeps the last bytes back until the
 * check is over, but not longer than `longestHeldBack`. Both sources are open from the start, because the file may lose its name.
 */
function heldBack(before: Source, last: Source, { right, clock, left }: Guarded): Source {
  let [wrong, closed] = [false, false]
  void right.then(found => {
    wrong = !found
  })
  const both = concatenatedSource([
    () => before,
    async () => {
      if ((await resultInTime(right, clock, longestHeldBack)) === false) throw damaged()
      return last
    },
  ])
  return {
    next: take => (wrong ? take(damaged(), undefined) : both.next(take)),
    close() {
      if (closed) return
      closed = true
      for (const source of [both, before, last]) source.close()
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
const heldBytes = 64 * 1024

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
      facts: { algorithm, found, expected: hex, size },
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
