/**
 * Makes what is new survive a power cut: in the background, everything together, some seconds after the first of it.
 *
 * The contents are flushed one after the other, then the log says up to where they are, and is flushed itself. An entry behind
 * that mark counts after an unclean stop only when its content has been hashed. Where there are contents that an earlier stop
 * left unproven and that have not been hashed yet, the mark names them.
 */
import type { Milliseconds } from '../../../async/clock.ts'
import type { Checks } from '../content/checks.ts'
import type { Downloads } from '../content/downloads.ts'
import { isForbidden } from '../disk/disk.ts'
import type { UpkeepParts } from './removal.ts'

interface CheckpointParts extends UpkeepParts {
  readonly downloads: Downloads
  readonly checks: Checks
}

/** After so long, or so many new contents. */
const interval: Milliseconds = 5_000
const mostFresh = 256

const flushedAtOnce = 4

/** So many are flushed when the store closes; more are hashed at the next start. */
const mostAtClose = 4_096

export class Checkpoints {
  readonly #parts: CheckpointParts
  #running: Promise<void> = Promise.resolve()
  #cancel: (() => void) | undefined
  /** Whether one may begin before its time: none is about to, and the last one has not failed. */
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

  /** Makes everything that is there now survive. Rejects when the disk fails; the next one goes on with it. */
  run({ clean = false } = {}): Promise<void> {
    const turn = this.#running.then(() => this.#run(clean))
    this.#running = turn.catch(() => undefined)
    return turn
  }

  /** The last one, when none is under way. Rejects when the disk fails or when it would take too long: nothing is proven then. */
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
    const { journal, blobs, checks, downloads } = this.#parts
    await journal.flush()
    await journal.tidy()
    // From here to the mark nothing may come between what is counted and what is flushed.
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
            // Made another user's file meanwhile: it is tried again, and must not keep the others.
            left.push(digest)
            blobs.flushLater(digest)
          })
        }
      }
      const lanes = await Promise.allSettled(Array.from({ length: flushedAtOnce }, lane))
      for (const ended of lanes) if (ended.status === 'rejected') throw ended.reason
      if (!clean && (await downloads.save())) this.soon()
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
