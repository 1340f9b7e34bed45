/**
 * The store as a command reads it, also while the service runs.
 */
import { systemClock } from '../../../async/clock.ts'
import { createLog } from '../../../log/log.ts'
import type { Config } from '../../config/config.ts'
import { openStoreForReading, type ReadableStore } from '../../store/store.ts'

/** Opens the store for reading while `act` runs. */
export async function withStore<Result>(
  config: Config,
  act: (store: ReadableStore) => Promise<Result>,
): Promise<Result> {
  const store = await openStoreForReading({
    directory: config.cacheDirectory,
    clock: systemClock,
    log: createLog({ level: 'warn', to: { write: line => process.stderr.write(line) } }),
  })
  try {
    return await act(store)
  } finally {
    await store.close()
  }
}
