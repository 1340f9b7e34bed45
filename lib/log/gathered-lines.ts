/**
 * Writes log lines to a destination that may be slow: gathered for some milliseconds, one text at a time, bounded, and counted
 * when they are lost.
 *
 * # Facts
 * - Every write wakes a thread of libuv. With a write for every line a fifth of the cost of a warm hit was spent there. So a
 *   line after a pause is written at once, and those that follow gather until that write and `gathering` are over.
 * - The other end of a pipe can set it non-blocking: a full pipe is then an error (EAGAIN) instead of a wait.
 */
import { systemCode } from '../errors.ts'

/** Writes bytes as `fs.write` does: `done` gets an error, or how many bytes were written. */
type Write = (bytes: Buffer, done: (error: Error | null, written: number) => void) => void

/** Time for which lines are gathered after a write, milliseconds. kill -9 loses these lines. */
const gathering = 20

/** After so many milliseconds a full pipe is tried again. */
const retry = 20

/** A loss is told no more often, milliseconds. */
const tellingInterval = 1000

export class GatheredLines {
  readonly #write: Write
  readonly #most: number
  #text = ''
  #lines = 0
  #lost = 0
  #lastTold = 0
  #writing = false
  #pause: NodeJS.Timeout | undefined
  /** The reader has gone for good. */
  #closed = false
  #flushed: (() => void)[] = []

  /** `most` characters wait at most; lines beyond are lost. */
  constructor(write: Write, most: number) {
    this.#write = write
    this.#most = most
  }

  /** One line with its line feed. */
  write(line: string): void {
    if (this.#lost > 0 && Date.now() - this.#lastTold >= tellingInterval) this.#tellLoss()
    this.#gather(line)
    if (this.#pause === undefined) this.#send()
  }

  /** Settles when every line so far has been handed to the kernel, or after `deadline` milliseconds. */
  flush(deadline: number): Promise<void> {
    if (this.#lost > 0) this.#tellLoss()
    this.#send()
    if (!this.#writing) return Promise.resolve()
    return new Promise(settle => {
      const timer = setTimeout(settle, deadline)
      this.#flushed.push(() => {
        clearTimeout(timer)
        settle()
      })
    })
  }

  #gather(line: string): void {
    if (this.#text.length + line.length > this.#most) {
      this.#lost += 1
      return
    }
    this.#text += line
    this.#lines += 1
  }

  #send(): void {
    if (this.#writing || this.#lines === 0) return
    const bytes = Buffer.from(this.#text)
    const lines = this.#lines
    this.#text = ''
    this.#lines = 0
    if (this.#closed) return
    this.#writing = true
    this.#pause ??= setTimeout(() => {
      this.#pause = undefined
      this.#send()
    }, gathering).unref()
    this.#writeAll(bytes, lines)
  }

  #writeAll(bytes: Buffer, lines: number): void {
    this.#write(bytes, (error, written) => {
      const code = systemCode(error)
      if (code === 'EAGAIN') {
        setTimeout(() => this.#writeAll(bytes, lines), retry).unref()
        return
      }
      if (error === null && written < bytes.length) {
        this.#writeAll(bytes.subarray(written), lines)
        return
      }
      this.#writing = false
      this.#closed = code === 'EPIPE'
      if (error !== null && !this.#closed) this.#lost += lines
      if (this.#pause === undefined || this.#flushed.length > 0) this.#send()
      if (this.#writing) return
      for (const settle of this.#flushed.splice(0)) settle()
    })
  }

  #tellLoss(): void {
    this.#lastTold = Date.now()
    const lines = this.#lost
    this.#lost = 0
    const message = 'log lines were lost: they were not read in time'
    const line = { level: 'warn', time: new Date().toISOString(), message, lines }
    this.#gather(`${JSON.stringify(line)}\n`)
    // There was no room for this line either: it is reported later.
    if (this.#lost > 0) this.#lost = lines
  }
}
