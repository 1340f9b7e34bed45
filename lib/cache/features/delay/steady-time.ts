/**
 * A time that setting the clock does not change, by which the age of generations counts. It is kept in a file.
 *
 * # Facts
 * - It runs with elapsed time. Setting the clock of the machine, forwards or back, does not change it.
 * - It stands still while the service is stopped or the machine sleeps. The Date of an adoptable Release file of a delayed archive proves
 *   that time has passed: the steady time moves forward to it, but never beyond the clock of the machine. So it can only run ahead when
 *   a Date is forged and the clock is wrong too.
 * - After a stop it is late rather than early. So a delay may last longer than its setting, but never ends too soon.
 */
import { join } from 'node:path'
import type { Clock, Milliseconds } from '../../../async/clock.ts'
import { explainError, valueUnlessMissing } from '../../../errors.ts'
import { writeFileAtomically } from '../../../files/atomic-file.ts'
import { readBounded } from '../../../files/bounded-file.ts'
import { isRecord } from '../../../json.ts'
import type { Logger } from '../../../log/log.ts'

interface SteadyParts {
  readonly cacheDirectory: string
  readonly clock: Clock
  readonly log: Logger
}

const fileName = 'steady-time.json'
const fileVersion = 1
const mostBytes = 1024

export class SteadyTime {
  readonly #parts: SteadyParts
  /** The time at a moment of `elapsed`; undefined until the first call of `now` when there is no file. */
  #base: { readonly time: Milliseconds; readonly at: Milliseconds } | undefined
  #written: Milliseconds | undefined

  private constructor(parts: SteadyParts, earlier: Milliseconds | undefined) {
    this.#parts = parts
    this.#written = earlier
    if (earlier !== undefined) this.#base = { time: earlier, at: parts.clock.elapsed() }
  }

  /** Continues the time of an earlier run. Never rejects. */
  static async open(parts: SteadyParts): Promise<SteadyTime> {
    return new SteadyTime(parts, await readTime(parts))
  }

  now(): Milliseconds {
    const { clock } = this.#parts
    this.#base ??= { time: clock.now(), at: clock.elapsed() }
    return this.#base.time + (clock.elapsed() - this.#base.at)
  }

  /** Moves the time forward to the Date of a Release file that has arrived, but not beyond the clock of the machine. */
  proved(date: Milliseconds): void {
    const { clock } = this.#parts
    const time = Math.min(date, clock.now())
    if (time > this.now()) this.#base = { time, at: clock.elapsed() }
  }

  /** Writes the time to the file, unless it was never needed. Never rejects. */
  async save(): Promise<void> {
    const { cacheDirectory, log } = this.#parts
    if (this.#base === undefined) return
    const time = Math.floor(this.now())
    if (time === this.#written) return
    this.#written = time
    try {
      const text = `${JSON.stringify({ version: fileVersion, time })}\n`
      await writeFileAtomically(join(cacheDirectory, fileName), text, { durable: false })
    } catch (error) {
      log.warn('cannot note how much time has passed', { because: explainError(error) })
    }
  }
}

async function readTime({ cacheDirectory, log }: SteadyParts): Promise<Milliseconds | undefined> {
  try {
    const found = await valueUnlessMissing(readBounded(join(cacheDirectory, fileName), mostBytes))
    const value: unknown = found && JSON.parse(found.bytes.toString())
    const time = isRecord(value) && value['version'] === fileVersion ? value['time'] : undefined
    return typeof time === 'number' && Number.isFinite(time) ? time : undefined
  } catch (error) {
    log.warn('cannot read how much time has passed', { because: explainError(error) })
    return undefined
  }
}
