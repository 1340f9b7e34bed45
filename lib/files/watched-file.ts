/**
 * Watches a small file that other processes may replace, and repeats writes that failed.
 */
import type { Clock, Milliseconds } from '../async/clock.ts'
import { repeat } from '../async/repeat.ts'
import { systemCode } from '../errors.ts'
import { type FileCalls, systemFiles } from './file-calls.ts'

interface WatchedFileOptions {
  readonly path: string
  readonly clock: Clock
  /**
   * Reads the file after another process has made, replaced or removed it. A file that this process alone writes has no such
   * function: it is written again instead.
   */
  readonly readAgain?: () => Promise<void>
  readonly write: () => Promise<void>
  /** Reports the errors of both. */
  readonly reportFailure: (error: unknown) => void
  readonly files?: FileCalls
}

const INTERVAL: Milliseconds = 1000
const RETRY: Milliseconds = 60_000

export class WatchedFile {
  readonly #options: WatchedFileOptions
  /** The appearance of the file when it was last read or written; undefined when it was missing. */
  #seen: string | undefined
  /** The moment of the next attempt to write; infinity when everything is written. */
  #dueAt: Milliseconds = Number.POSITIVE_INFINITY
  #writing: Promise<boolean> = Promise.resolve(true)
  #waiting: Promise<boolean> | undefined
  #checking: Promise<void> = Promise.resolve()
  #endWatch = () => {}

  constructor(options: WatchedFileOptions) {
    this.#options = options
  }

  /** Whether the file differs from its appearance at the last check. */
  async look(): Promise<boolean> {
    const before = this.#seen
    this.#seen = await appearance(this.#options.path, this.#options.files)
    return this.#seen !== before
  }

  /** Checks the file, and reads or writes it when that is due. Never throws. */
  async check(): Promise<void> {
    const { clock, readAgain, reportFailure } = this.#options
    const isChanged = await this.look()
    if (isChanged && readAgain !== undefined) await readAgain().catch(reportFailure)
    const isLost = isChanged && readAgain === undefined
    if (isLost || clock.now() >= this.#dueAt) await this.write()
  }

  /**
   * Writes the file, and tries again in a minute when that fails; one write serves all calls that come while another is under
   * way. Answers whether it is written. Never throws.
   */
  write(): Promise<boolean> {
    this.#waiting ??= this.#writing.then(() => {
      this.#waiting = undefined
      this.#writing = this.#writeNow()
      return this.#writing
    })
    return this.#waiting
  }

  /** Checks the file every second from now on. */
  watch(): void {
    this.#endWatch = repeat(this.#options.clock, INTERVAL, () => {
      this.#checking = this.check()
      return this.#checking
    })
  }

  /** Ends the watch; settles when nothing is being read or written. */
  async close(): Promise<void> {
    this.#endWatch()
    await this.#checking
    if (this.#dueAt < Number.POSITIVE_INFINITY) await this.write()
    await (this.#waiting ?? this.#writing)
  }

  async #writeNow(): Promise<boolean> {
    const { clock, write, reportFailure } = this.#options
    try {
      await write()
      await this.look()
      this.#dueAt = Number.POSITIVE_INFINITY
      return true
    } catch (error) {
      this.#dueAt = clock.now() + RETRY
      reportFailure(error)
      return false
    }
  }
}

/** A text that changes whenever the file changes; undefined when there is no file. */
async function appearance(path: string, { stat } = systemFiles): Promise<string | undefined> {
  try {
    const { ino, mtimeMs, size, mode, uid } = await stat(path)
    return [ino, mtimeMs, size, mode, uid].join(' ')
  } catch (error) {
    const code = systemCode(error)
    return code === 'ENOENT' ? undefined : `cannot be looked at: ${code}`
  }
}
