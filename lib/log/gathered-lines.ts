/**
 * Writes log lines to a destination that may be slow: gathered for some milliseconds, one call at a time, bounded, and counted
 * when they are lost.
 *
 * # Facts
 * - Every write wakes a thread of libuv. With a write for every line a fifth of the cost of a warm hit was spent there. So a
 *   line after a pause is written at once, and those that follow gather until that write and `gathering` are over.
 * - A write is over in a later turn of the event loop, and with 500 clients a turn has more lines than a block holds. So a write takes
 *   many blocks; with one a turn they waited until lines were lost.
 * - The other end of a pipe can set it non-blocking: a full pipe is then an error (EAGAIN) instead of a wait.
 */
import { type Clock, keepAlive, type Milliseconds } from '../async/clock.ts'
import { inTime } from '../async/deadline.ts'
import { systemCode } from '../errors.ts'

/** Writes bytes one behind the other as `fs.writev` does: `done` gets an error, or how many were written. */
type Write = (parts: Buffer[], done: (error: Error | null, written: number) => void) => void

/** Time for which lines are gathered after a write. kill -9 loses these lines. */
const gathering: Milliseconds = 20

/** The time after which a full pipe is tried again. */
const retry: Milliseconds = 20

/** A loss is told no more often. */
const tellingInterval: Milliseconds = 1000

/** Lines wait in memory of this size, which is used again; so many that are not in use are kept. */
const blockBytes = 64 * 1024
const mostSpare = 8
/** The number of blocks that one call writes. */
const mostTogether = 16

/** Lines that lie behind each other. */
interface Batch {
  readonly bytes: Buffer
  readonly lines: number
  /** Where they lie; undefined for a line too long for a block, whose memory may be shared. */
  readonly block: Buffer | undefined
}

interface GatheredOptions {
  readonly clock: Clock
  /** Bytes that wait at most; lines beyond are lost. */
  readonly most: number
  /** Marks the line about lost lines as the writer's other lines are marked. */
  readonly asWarning?: (line: string) => string
}

export class GatheredLines {
  readonly #write: Write
  readonly #options: GatheredOptions
  /** Where lines are gathered: encoded at once, so that nothing they were made of is kept. */
  #block: Buffer = Buffer.allocUnsafeSlow(blockBytes)
  #used = 0
  #lines = 0
  /** What did not fit into the block, and waits before it. */
  #full: Batch[] = []
  #waiting = 0
  #lost = 0
  #lastTold = Number.NEGATIVE_INFINITY
  #writing = false
  /** Blocks that are not in use. */
  readonly #spare: Buffer[] = []
  /** Whether lines are gathered, since a write began less than `gathering` ago. */
  #gathers = false
  /** The reader has gone for good. */
  #closed = false
  #flushed: (() => void)[] = []

  constructor(write: Write, options: GatheredOptions) {
    this.#write = write
    this.#options = options
  }

  /** One line with its line feed. */
  write(line: string): void {
    if (this.#closed) return
    if (this.#lost > 0) {
      const since = this.#options.clock.elapsed() - this.#lastTold
      if (since >= tellingInterval) this.#tellLoss()
    }
    this.#gather(line)
    if (!this.#gathers) this.#send()
  }

  /** Settles when every line so far has been handed to the kernel, or after the deadline. */
  async flush(deadline: Milliseconds): Promise<void> {
    if (this.#lost > 0) this.#tellLoss()
    this.#send()
    if (!this.#writing) return
    const flushed = new Promise<void>(settle => this.#flushed.push(settle))
    await keepAlive(inTime(flushed, this.#options.clock, deadline))
  }

  #gather(line: string): void {
    if (this.#waiting + line.length > this.#options.most) {
      this.#lost += 1
      return
    }
    // In UTF-8 a line takes at most three bytes for each of its characters.
    if (this.#used + 3 * line.length > blockBytes) this.#seal()
    const long = 3 * line.length > blockBytes
    if (long) this.#full.push({ bytes: Buffer.from(line), lines: 1, block: undefined })
    const bytes = long ? Buffer.byteLength(line) : this.#block.write(line, this.#used)
    this.#waiting += bytes
    if (long) return
    this.#used += bytes
    this.#lines += 1
  }

  /** Lets the block wait for its turn, and takes another one. */
  #seal(): void {
    if (this.#lines === 0) return
    const block = this.#block
    this.#full.push({ bytes: block.subarray(0, this.#used), lines: this.#lines, block })
    this.#block = this.#spare.pop() ?? Buffer.allocUnsafeSlow(blockBytes)
    this.#used = 0
    this.#lines = 0
  }

  #send(): void {
    if (this.#writing) return
    this.#seal()
    const batches = this.#full.splice(0, mostTogether)
    if (batches.length === 0) return
    for (const { bytes } of batches) this.#waiting -= bytes.length
    this.#writing = true
    if (!this.#gathers) {
      this.#gathers = true
      this.#options.clock.after(gathering, () => {
        this.#gathers = false
        this.#send()
      })
    }
    this.#writeAll(
      batches.map(({ bytes }) => bytes),
      batches,
    )
  }

  /** Writes `rest`, the end of `batches`. */
  #writeAll(rest: Buffer[], batches: readonly Batch[]): void {
    this.#write(rest, (error, written) => {
      const code = systemCode(error)
      if (code === 'EAGAIN') {
        this.#options.clock.after(retry, () => this.#writeAll(rest, batches))
        return
      }
      const left = error === null ? behind(rest, written) : []
      if (left.length > 0) return this.#writeAll(left, batches)
      this.#writing = false
      if (code === 'EPIPE') this.#close()
      else if (error !== null) {
        for (const { lines } of batches.slice(-rest.length)) this.#lost += lines
      }
      for (const { block } of batches) {
        if (block !== undefined && this.#spare.length < mostSpare) this.#spare.push(block)
      }
      if (!this.#gathers || this.#flushed.length + this.#full.length > 0) this.#send()
      if (this.#writing) return
      for (const settle of this.#flushed.splice(0)) settle()
    })
  }

  #close(): void {
    this.#closed = true
    this.#full = []
    this.#lines = 0
    this.#lost = 0
  }

  #tellLoss(): void {
    const { clock, asWarning = String } = this.#options
    this.#lastTold = clock.elapsed()
    const lines = this.#lost
    this.#lost = 0
    const message = 'log lines were lost: they were not read in time'
    const line = { level: 'warn', time: new Date(clock.now()).toISOString(), message, lines }
    this.#gather(asWarning(`${JSON.stringify(line)}\n`))
    // There was no room for this line either: it is reported later.
    if (this.#lost > 0) this.#lost = lines
  }
}

/** What is left of the parts behind their first bytes. */
function behind(parts: readonly Buffer[], written: number): Buffer[] {
  let from = written
  return parts.flatMap(part => {
    const rest = part.subarray(Math.min(from, part.length))
    from -= part.length - rest.length
    return rest.length === 0 ? [] : [rest]
  })
}
