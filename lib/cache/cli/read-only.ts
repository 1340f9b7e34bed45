/**
 * Opens the store for commands that look at it themselves and change nothing.
 */
import { systemClock } from '../../async/clock.ts'
import { createLog } from '../../log/log.ts'
import type { Config } from '../config/config.ts'
import { openStoreForReading, type ReadableStore } from '../store/reading.ts'

/** Opens the store for reading as long as `act` runs. */
export async function withStore(
  config: Config,
  act: (store: ReadableStore) => Promise<void>,
): Promise<void> {
  const store = await openStoreForReading({
    directory: config.cacheDirectory,
    clock: systemClock,
    log: createLog({ level: 'warn', to: { write: line => process.stderr.write(line) } }),
  })
  try {
    await act(store)
  } finally {
    await store.close()
  }
}
