/**
 * Checkpoints: make new contents and entries survive a power cut, in the background, some seconds after the first new one.
 *
 * A checkpoint flushes the contents, then appends a mark to the log with the position up to which contents are durable, and flushes the
 * log. The mark names the contents that an earlier stop left unproven and that have not been hashed yet.
 */
import type { Milliseconds } from '../../../async/clock.ts'
import type { Checks } from '../content/checks.ts'
import type { UpkeepParts } from '../content/removal.ts'
import { isForbidden } from '../disk/disk.ts'

interface CheckpointParts extends UpkeepParts {
  readonly checks: Checks
}

/** A checkpoint begins `interval` after the first change, or when there are `mostFresh` new contents. */
const interval: Milliseconds = 5_000
const mostFresh = 256

const flushedAtOnce = 4

/** At most this many contents are flushed when the store closes. When there are more, the next start hashes them. */
const mostAtClose = 4_096

export class Checkpoints {
  readonly #parts: CheckpointParts
  #running: Promise<void> = Promise.resolve()
  #cancel: (() => void) | undefined
  /** Whether a checkpoint may begin before `interval` is over: none has just begun, and the last one has not failed. */
  #mayBeEarly = true
  #closed = false

  constructor(parts: CheckpointParts) {
    this.#parts = parts
  }

  soon(): void {
    if (this.#closed) return
    this.#cancel ??= this.#parts.clock.after(interval, () => this.#start())
    if (this.#mayBeEarly && this.#parts.blobs.fresh.size >= mostFresh) this.#start()
  }

  /** Makes everything that is stored now durable. Rejects when the disk fails; the next checkpoint tries it again. */
  run({ clean = false } = {}): Promise<void> {
    const turn = this.#running.then(() => this.#run(clean))
    this.#running = turn.catch(() => undefined)
    return turn
  }

  /** Waits for the running checkpoint and runs the last one. Rejects when the disk fails, or when there are too many contents to flush. */
  async close(): Promise<void> {
    this.#closed = true
    this.#cancel?.()
    await this.#running
    const { size } = this.#parts.blobs.fresh
    if (size > mostAtClose) throw new Error(`${size} contents are not yet durable`)
    await this.run({ clean: true })
  }

  #start(): void {
    this.#cancel?.()
    this.#cancel = undefined
    this.#mayBeEarly = false
    this.run().then(
      () => {
        this.#mayBeEarly = true
      },
      error => {
        this.#parts.health.failed(error, 'making contents durable')
        this.soon()
      },
    )
  }

  async #run(clean: boolean): Promise<void> {
    const { journal, blobs, checks } = this.#parts
    await journal.flush()
    await journal.tidy()
    // The position, the fresh contents and the removed contents must be taken in one turn of the event loop.
    const durable = journal.position
    const fresh = blobs.takeFresh()
    const removed = blobs.removed()
    const left = [...checks.unproven]
    try {
      const rest = fresh.entries()
      const lane = async (): Promise<void> => {
        for (const [digest, file] of rest) {
          await blobs.flush(digest, file).catch(error => {
            if (!isForbidden(error)) throw error
            // The file belongs to another user by now. It is tried again later and must not stop the others.
            left.push(digest)
            blobs.flushLater(digest)
          })
        }
      }
      const lanes = await Promise.allSettled(Array.from({ length: flushedAtOnce }, lane))
      for (const ended of lanes) if (ended.status === 'rejected') throw ended.reason
      await journal.mark({ durable, unproven: left, clean })
      blobs.marked(removed)
    } catch (error) {
      for (const [digest, file] of fresh) {
        file?.close()
        blobs.flushLater(digest)
      }
      throw error
    }
  }
}
