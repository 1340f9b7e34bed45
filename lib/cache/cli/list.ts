/**
 * `cachesvc list [PATTERN]`: prints the entries of the store, beside a running daemon as well.
 */
import { systemClock } from '../../async/clock.ts'
import { createLog } from '../../log/log.ts'
import { type ExitCode, exitCodes, print } from '../../program.ts'
import type { Config } from '../config/config.ts'
import type { Listed } from '../store/catalogue/catalogue.ts'
import { openStoreForReading, type ReadableStore } from '../store/reading.ts'

/**
 * Prints every entry whose key matches, a line each: bytes, last use, digest and key, separated by tabs for other programs to
 * read. A failure when no entry matches.
 */
export async function printList(pattern: string | undefined, config: Config): Promise<ExitCode> {
  const matches = matcher(pattern)
  let found = 0
  await withStore(config, async store => {
    for await (const some of store.list()) {
      const lines = some.filter(({ key }) => matches(key)).map(lineOf)
      found += lines.length
      if (lines.length > 0) await print(lines.join(''))
    }
  })
  if (found > 0) return exitCodes.success
  const sought = pattern === undefined ? '' : ` that matches ${JSON.stringify(pattern)}`
  await print(`cachesvc: ${config.cacheDirectory} holds nothing${sought}\n`, process.stderr)
  return exitCodes.failure
}

function lineOf({ key, size, digest, lastUsed }: Listed): string {
  return `${size}\t${new Date(lastUsed).toISOString()}\t${digest}\t${key}\n`
}

/** A key matches that contains the pattern; `*` in it is any text. */
function matcher(pattern: string | undefined): (key: string) => boolean {
  const parts = pattern?.split('*') ?? []
  return key => {
    let from = 0
    for (const part of parts) {
      const at = key.indexOf(part, from)
      if (at === -1) return false
      from = at + part.length
    }
    return true
  }
}

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
