/**
 * Watches whether the shared store throws keys away when its memory is full. A used ID that is gone lets its assertion through once
 * more, at another instance. A store can be set so at any moment, and its access list can be changed, so it is asked when it arrives and
 * each minute. The link logs a refusal once.
 */
import type { Clock, Milliseconds } from '../../async/clock.ts'
import { repeat } from '../../async/repeat.ts'
import type { Logger } from '../../log/log.ts'
import type { StoreLink } from './store-link.ts'

const INTERVAL: Milliseconds = 60_000

/** What INFO says of memory. */
export interface MemoryPolicy {
  readonly policy: string
  /** Whether keys are thrown away when the memory is full. */
  readonly evicts: boolean
  /** The keys that have been thrown away since the store started. */
  readonly evicted: number
}

/** Reads the answer to INFO; undefined when it does not tell. */
export function memoryPolicy(info: string): MemoryPolicy | undefined {
  const value = (name: string) => new RegExp(`^${name}:(.*?)\\r?$`, 'm').exec(info)?.[1]
  const policy = value('maxmemory_policy')
  if (policy === undefined) return undefined
  const evicts = policy !== 'noeviction' && value('maxmemory') !== '0'
  return { policy, evicts, evicted: Number(value('evicted_keys') ?? 0) }
}

export class EvictionWatch {
  readonly #link: Pick<StoreLink, 'askLater'>
  readonly #log: Logger
  readonly #stop: () => void
  #last: MemoryPolicy | undefined

  constructor(
    link: Pick<StoreLink, 'askLater'>,
    parts: { readonly clock: Clock; readonly log: Logger },
  ) {
    this.#link = link
    this.#log = parts.log
    this.#stop = repeat(parts.clock, INTERVAL, () => this.look())
  }

  /** Asks the store. Never throws. */
  async look(): Promise<void> {
    const asked = await this.#link.askLater(['INFO'])
    const now = asked.ok ? memoryPolicy(String(asked.answer)) : undefined
    if (now === undefined) return
    const before = this.#last
    this.#last = now
    const hasLost = now.evicted > (before?.evicted ?? 0)
    if (now.evicts && (before?.evicts !== true || hasLost)) {
      this.#log.warn(SENTENCE, { policy: now.policy, evicted: now.evicted })
    } else if (before?.evicts === true && !now.evicts) {
      this.#log.info('the shared store no longer evicts keys', { policy: now.policy })
    }
  }

  get evicts(): boolean {
    return this.#last?.evicts === true
  }

  /** The sentence for the administrator; undefined while the store keeps what it has. */
  remark(): string | undefined {
    if (this.#last?.evicts !== true) return undefined
    const { policy, evicted } = this.#last
    const lost = evicted === 0 ? '' : `, and has thrown away ${evicted}`
    return `${SENTENCE} (maxmemory-policy ${policy}${lost}): an answer to a login could be used twice and an ended session go on; set maxmemory-policy noeviction`
  }

  close(): void {
    this.#stop()
  }
}

const SENTENCE = 'the shared store throws keys away when its memory is full'
