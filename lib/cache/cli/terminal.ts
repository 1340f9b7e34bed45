/**
 * What commands write for a person beside their output: complaints, and a line that is written over again while one works.
 */
import type { Clock, Milliseconds } from '../../async/clock.ts'
import { errorLine } from '../../log/journal.ts'
import type { LogLevel } from '../../log/log.ts'
import { print } from '../../program.ts'

/** Writes a sentence to standard error. `level` is what the journal takes it for. */
export function complain(sentence: string, level: LogLevel = 'error'): Promise<void> {
  return print(errorLine(level, `cachesvc: ${sentence}\n`), process.stderr)
}

/** Clears to the end of the line. */
const clearLine = '\u001b[K'
/** Time between two writings. */
const interval: Milliseconds = 100

/** Writes nothing when the stream is no terminal. */
export class ProgressLine {
  readonly #to: NodeJS.WriteStream
  readonly #clock: Clock
  #last = Number.NEGATIVE_INFINITY

  constructor(to: NodeJS.WriteStream, clock: Clock) {
    this.#to = to
    this.#clock = clock
  }

  show(text: string): void {
    const now = this.#clock.elapsed()
    if (!this.#to.isTTY || now - this.#last < interval) return
    this.#last = now
    this.#to.write(`\r${text.slice(0, (this.#to.columns || 80) - 1)}${clearLine}`)
  }

  end(): void {
    if (this.#to.isTTY) this.#to.write(`\r${clearLine}`)
  }
}
