/**
 * Remembers whether the disk takes writes: it does not after a write that failed or hung, until a trial succeeds. Trials run at a fixed
 * interval, and only while the disk takes no writes.
 */
import type { Clock, Milliseconds } from '../../../async/clock.ts'
import { explainError, systemCode } from '../../../errors.ts'
import type { Logger } from '../../../log/log.ts'
import type { StoreEvents } from '../events.ts'
import { DiskHung } from './disk.ts'

/** Whether the store takes writes. Reading goes on as long as the disk answers. */
export type Health =
  | { readonly writable: true }
  | { readonly writable: false; readonly because: string }

const trialInterval: Milliseconds = 15_000

interface HealthParts {
  readonly clock: Clock
  readonly log: Logger
  readonly events: Pick<StoreEvents, 'tell'>
  readonly trial: () => Promise<void>
}

export class DiskHealth {
  readonly #parts: HealthParts
  #because: string | undefined
  #cancel: (() => void) | undefined
  #closed = false

  constructor(parts: HealthParts) {
    this.#parts = parts
  }

  get state(): Health {
    return this.#because === undefined
      ? { writable: true }
      : { writable: false, because: this.#because }
  }

  /** Notes that the disk failed during `doing`. Answers the reason in words. */
  failed(error: unknown, doing: string): string {
    const because = `${doing}: ${diskProblem(error)}`
    if (this.#because === undefined) {
      this.#parts.log.warn('the disk fails; serving without it', {
        because,
        system: systemCode(error),
      })
    }
    this.#because = because
    if (!this.#closed)
      this.#cancel ??= this.#parts.clock.after(trialInterval, () => void this.#try())
    return because
  }

  close(): void {
    this.#closed = true
    this.#cancel?.()
  }

  async #try(): Promise<void> {
    try {
      await this.#parts.trial()
      this.#cancel = undefined
      this.#because = undefined
      this.#parts.log.info('the disk takes writes again')
      this.#parts.events.tell('recovered', undefined)
    } catch (error) {
      this.#cancel = undefined
      this.failed(error, 'trial')
    }
  }
}

/** The problem of the disk in words, for an error of the file system. */
export function diskProblem(error: unknown): string {
  if (error instanceof DiskHung) return 'the disk does not answer'
  return inWords.get(systemCode(error)) ?? explainError(error)
}

const inWords: ReadonlyMap<string | undefined, string> = new Map([
  ['ENOSPC', 'no space left on the file system'],
  ['EDQUOT', 'the disk quota is used up'],
  ['EROFS', 'the file system is read-only'],
  ['EIO', 'the disk reports an input/output error'],
  ['EACCES', 'permission denied'],
  ['EPERM', 'permission denied'],
])
