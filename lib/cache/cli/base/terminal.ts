/**
 * The texts that commands write to standard error for people: complaints, and a line that shows the progress.
 */
import type { Clock, Milliseconds } from '../../../async/clock.ts'
import { errorLine } from '../../../log/journal.ts'
import type { LogLevel } from '../../../log/log.ts'
import { print } from '../../../program.ts'

/** Writes a sentence to standard error. `level` is its priority in the journal. */
export function printComplaint(sentence: string, level: LogLevel = 'error'): Promise<void> {
  return print(errorLine(level, `cachesvc: ${sentence}\n`), process.stderr)
}

/** The escape sequence that clears the rest of a line. */
const clearLine = '\u001b[K'
/** The shortest time between two updates of the line. */
const interval: Milliseconds = 100

/** A line that shows the progress on a terminal, and nothing on another stream. */
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
