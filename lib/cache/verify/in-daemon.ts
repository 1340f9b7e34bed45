/**
 * Verification in the process that owns the store: the schedule, and the socket over which `cachesvc verify-repos` asks for
 * removals.
 */
import type { Clock } from '../../async/clock.ts'
import type { Logger } from '../../log/log.ts'
import { openControl } from '../cli/admin-socket.ts'
import type { Config } from '../config/config.ts'
import type { Verification } from '../operations/sources.ts'
import type { Store } from '../store/store.ts'
import { evictFrom, type Fate, readEvictRequest } from './eviction.ts'
import type { Wrong } from './report.ts'
import { VerificationSchedule } from './schedule.ts'

export interface DaemonParts {
  readonly directory: string
  readonly store: Pick<Store, 'evict'>
  readonly clock: Clock
  readonly log: Logger
  /** Asked anew each time. */
  readonly settings: () => Config['verification']
  /** Told of every repository-verification warning. */
  readonly onWarning: () => void
}

/** Verification that goes on until it is closed. */
export interface RunningVerification extends Verification {
  close(): Promise<void>
}

export async function startVerification(parts: DaemonParts): Promise<RunningVerification> {
  const { directory, store, clock, log, settings, onWarning } = parts
  const evict = (wrong: Wrong): Promise<Fate> => {
    onWarning()
    return evictFrom(store, wrong, log)
  }
  const schedule = await VerificationSchedule.start({ directory, clock, log, settings, evict })
  const control = await openControl(directory, {
    clock,
    log,
    handle: async request => {
      const wrong = readEvictRequest(request)
      if (wrong === undefined) throw new Error('this process does not know how to do that')
      return evict(wrong)
    },
  })
  return {
    get last() {
      return schedule.last
    },
    get running() {
      return schedule.running
    },
    async close() {
      await control.close()
      await schedule.close()
    },
  }
}
