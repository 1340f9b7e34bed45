/**
 * Decides which checks of stored contents run at once and which wait. Knows how much there is to read, not files.
 *
 * A check that a client waits for runs in one of four lanes: two are for contents of up to 16 MiB, two for larger ones. In each
 * pair the smallest content goes first, so a package never waits for an image. A check no client waits for runs in a fifth
 * lane, at 64 MiB a second, and stands still while one of the others runs. When the last client has left a check that another
 * one wants the lane of, it begins anew in the background.
 */
import type { Clock } from '../../../async/clock.ts'
import type { Source } from '../../../bytes/source.ts'

type Lane = 'small' | 'large' | 'background'

const most: Readonly<Record<Lane, number>> = { small: 2, large: 2, background: 1 }

const largestSmall = 16 * 1024 * 1024

/** Bytes that a background check reads in a millisecond: 64 MiB a second. */
const backgroundRate = 64 * 1024

/** The check of one content. */
export class Check {
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

export class CheckQueue {
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
