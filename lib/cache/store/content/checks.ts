/**
 * Checks the bytes of stored contents against their digests, when they are read for the first time after a start and again when the last
 * check is old.
 *
 * A small content is hashed when it is read, before its first byte is sent. A large content is hashed while clients read it, once for all
 * of them, from the file that they have open. A content that clients read only in part before the end, or whose last check will soon be
 * too old, is hashed in the background. On a mismatch the content and its entries are removed, so that the next request fetches it.
 *
 * # Which checks run at once
 * A check that a client waits for runs in one of four lanes: two are for contents of up to 16 MiB, two for larger ones. In each pair the
 * smallest content goes first, so that a package never waits for an image. A check that no client waits for runs in a fifth lane, at
 * 64 MiB a second, and pauses while a check in another lane runs. A check whose last client has left gives its lane to a waiting check
 * and begins again in the background.
 */
import { createHash, hash } from 'node:crypto'
import { type Clock, day, type Milliseconds } from '../../../async/clock.ts'
import { resultInTime } from '../../../async/deadline.ts'
import { concatenatedSource, iterate, type Source } from '../../../bytes/source.ts'
import { explainError, Failure, systemCode } from '../../../errors.ts'
import type { Logger } from '../../../log/log.ts'
import { recentEntries } from '../../../recent.ts'
import type { StoreEvents } from '../events.ts'
import type { Blobs } from './blobs.ts'
import { heldBytes } from './expectation.ts'
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
  /** A check that is older than this no longer counts. */
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

  /** Reads and hashes a content, and removes it when it is damaged. Undefined when the check must begin again later. */
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

  /** Notes that clients no longer wait for the check: it moves to the background, unless it runs. */
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
