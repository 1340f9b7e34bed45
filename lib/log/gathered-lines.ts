/**
 * Lines on their way to a slow destination: gathered for some milliseconds, handed over one text at a time, bounded, and
 * counted when they are lost. Knows nothing of what the lines say but the one that tells of a loss.
 *
 * # Facts
 * - sonic-boom (pino's destination) wakes a thread for every text and writes what it queues itself 16 KiB a turn of the event
 *   loop. With a text for every line a fifth of a warm hit was spent there, and bursts of twenty thousand requests a second
 *   lost two lines in five.
 * - So a line after a pause leaves at once, and those that follow gather until the last text is written and `gathering` over.
 */

/** The part of sonic-boom that is used. */
export interface TextDestination {
  write(text: string): unknown
  flush(done: () => void): void
  on(event: 'drain' | 'error', act: () => void): unknown
  on(event: 'drop', act: (text: string) => void): unknown
}

/** How long lines gather behind a text that has just left, milliseconds: what kill -9 may cost. */
const gathering = 5

/** A loss is told no more often, milliseconds. */
const tellingInterval = 1000

export class GatheredLines {
  readonly #to: TextDestination
  readonly #most: number
  #text = ''
  #lines = 0
  #lost = 0
  #lastTold = 0
  #writing = false
  #pause: NodeJS.Timeout | undefined

  /** `most` characters wait at most; what comes on top is lost. */
  constructor(to: TextDestination, most: number) {
    this.#to = to
    this.#most = most
    to.on('drain', () => {
      this.#writing = false
      if (this.#pause === undefined) this.#send()
    })
    to.on('drop', text => {
      this.#lost += text.split('\n').length - 1
    })
    // A broken pipe has silenced the destination already; after anything else the next text tries again.
    to.on('error', () => {
      this.#writing = false
    })
  }

  /** One line with its line feed. */
  write(line: string): void {
    if (this.#lost > 0 && Date.now() - this.#lastTold >= tellingInterval) this.#tellLoss()
    this.#gather(line)
    if (!this.#writing && this.#pause === undefined) this.#send()
  }

  /** Settles when every line so far has been handed to the kernel, or after `deadline` milliseconds. */
  flush(deadline: number): Promise<void> {
    return new Promise<void>(settle => {
      if (this.#lost > 0) this.#tellLoss()
      this.#send()
      const timer = setTimeout(settle, deadline)
      this.#to.flush(() => {
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
    if (this.#lines === 0) return
    const text = this.#text
    this.#text = ''
    this.#lines = 0
    this.#writing = true
    this.#pause ??= setTimeout(() => {
      this.#pause = undefined
      if (!this.#writing) this.#send()
    }, gathering).unref()
    this.#to.write(text)
  }

  #tellLoss(): void {
    this.#lastTold = Date.now()
    const lines = this.#lost
    this.#lost = 0
    const message = 'log lines were lost: nobody read them in time'
    const line = { level: 'warn', time: new Date().toISOString(), message, lines }
    this.#gather(`${JSON.stringify(line)}\n`)
    // It found no room itself: what it was to tell is still to be told.
    if (this.#lost > 0) this.#lost = lines
  }
}
