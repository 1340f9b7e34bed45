/**
 * Runs file operations: a few at once, each with a deadline, the others in a bounded queue.
 *
 * # Facts
 * - libuv runs file operations in a few threads (16, see bin/cachesvc) that look-ups of names need as well. An operation on a
 *   disk that hangs keeps its thread until the kernel answers, perhaps for ever, and nothing can take it back.
 *
 * # Representation
 * An operation past its deadline fails its caller with `DiskHung` and keeps its slot until it has really ended. While there is
 * one such operation, every new one fails at once. Age is counted in ticks of one coarse timer that runs while anything is
 * under way, a turn of the event loop between two of them: no timer for each operation, and a process that itself stood still
 * for a minute does not blame the disk.
 */
import type { Clock, Milliseconds } from '../../../async/clock.ts'
import { Failure } from '../../../errors.ts'
import { type Member, Members } from '../../../members.ts'

/** Told once how an operation ended, in the manner of `node:fs`. `value` is there when there is no error. */
export type End<T> = (error: Error | null | undefined, value?: T) => void

export interface Operation<T> {
  /** Begins it; the file system calls `end` once, whenever that is. */
  readonly begin: (end: End<T>) => void
  /**
   * Called once when the operation has really ended, or will never begin: only now is memory it was given free. `late` is its
   * result when the caller was told of a deadline before.
   */
  readonly over?: ((late?: T) => void) | undefined
  /** How many deadlines it may take: a flush takes as long as there are bytes to flush. */
  readonly patience?: number | undefined
  /** It waits for a disk that hangs and does not fail: closing a file. */
  readonly insists?: boolean | undefined
  /** Its caller is told of nothing but its real end: giving a file a name has happened or has not. */
  readonly certain?: boolean | undefined
}

export interface SlotsOptions {
  readonly clock: Clock
  readonly slots?: number
  readonly deadline?: Milliseconds
  /** Told when an operation is past its deadline and none was before. */
  readonly onHung?: (error: DiskHung) => void
}

interface Entered extends Member {
  readonly operation: Omit<Operation<never>, 'begin'>
  begun: number
  late: boolean
  told: boolean
  begin(): void
  fail(error: Error): void
}

/** Operations that wait at most: thousands of clients wait for one read each. */
const mostWaiting = 16_384

/** Ticks in a deadline. */
const ticks = 10

export class Slots {
  readonly #options: Required<SlotsOptions>
  readonly #running = new Members<Entered>()
  #waiting: Entered[] = []
  #tick = 0
  #late = 0
  #watching = false

  constructor(options: SlotsOptions) {
    this.#options = { slots: 10, deadline: 10_000, onHung: () => {}, ...options }
  }

  get hung(): boolean {
    return this.#late > 0
  }

  /** Begins the operation when there is a slot. `done` is called once, not before `run` returns unless it fails at once. */
  run<T>(operation: Operation<T>, done: End<T>): void {
    const entered: Entered = {
      place: 0,
      operation,
      begun: 0,
      late: false,
      told: false,
      begin: () =>
        operation.begin((error, value) => {
          const { told } = entered
          this.#running.delete(entered)
          if (entered.late) this.#late -= 1
          if (!told) done(error, value)
          operation.over?.(told ? value : undefined)
          this.#next()
        }),
      fail: error => {
        entered.told = true
        done(error)
      },
    }
    if (this.hung && operation.insists !== true) this.#refuse(entered, hung(this.#options.deadline))
    else if (this.#running.size < this.#options.slots) this.#begin(entered)
    else if (this.#waiting.length < mostWaiting) this.#waiting.push(entered)
    else this.#refuse(entered, busy())
  }

  #begin(entered: Entered): void {
    entered.begun = this.#tick
    this.#running.add(entered)
    this.#watch()
    entered.begin()
  }

  #next(): void {
    if (this.#running.size >= this.#options.slots) return
    const next = this.#waiting.shift()
    if (next !== undefined) this.#begin(next)
  }

  #refuse(entered: Entered, error: Error): void {
    entered.fail(error)
    entered.operation.over?.()
  }

  #watch(): void {
    if (this.#watching) return
    this.#watching = true
    this.#options.clock.after(this.#options.deadline / ticks, () => {
      this.#tick += 1
      this.#look()
      setImmediate(() => {
        this.#watching = false
        if (this.#running.size > 0) this.#watch()
      })
    })
  }

  #look(): void {
    const before = this.#late
    for (const entered of this.#running) {
      const { patience = 1, certain } = entered.operation
      if (entered.late || this.#tick - entered.begun <= ticks * patience) continue
      this.#late += 1
      entered.late = true
      if (certain !== true) entered.fail(hung(this.#options.deadline))
    }
    if (this.#late === 0) return
    if (before === 0) this.#options.onHung(hung(this.#options.deadline))
    const failing = this.#waiting.filter(({ operation }) => operation.insists !== true)
    this.#waiting = this.#waiting.filter(({ operation }) => operation.insists === true)
    for (const entered of failing) this.#refuse(entered, hung(this.#options.deadline))
  }
}

/** An operation did not end in time. */
export class DiskHung extends Failure {}

function hung(deadline: Milliseconds): DiskHung {
  return new DiskHung(`the disk has not answered for ${deadline / 1000} seconds`, {
    code: 'disk-hung',
    fault: 'internal',
    publicText: 'The disk of the cache does not answer.',
  })
}

function busy(): Failure {
  return new Failure(`${mostWaiting} operations wait for the disk`, {
    code: 'disk-busy',
    fault: 'internal',
    publicText: 'The disk of the cache is too busy.',
  })
}
