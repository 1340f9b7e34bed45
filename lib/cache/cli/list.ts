/**
 * `cachesvc list`, and `remove` and `refresh` with `--dry-run`: print entries of the store, which they open for themselves beside a
 * running daemon.
 */

import { systemClock } from '../../async/clock.ts'
import { countOf } from '../../figures.ts'
import { createLog } from '../../log/log.ts'
import { type ExitCode, exitCodes, print } from '../../program.ts'
import type { Config } from '../config/config.ts'
import { chosenBy, fitting } from '../control/selection.ts'
import { rulesOf } from '../policy/policy.ts'
import type { ListedEntry } from '../store/catalogue/catalogue.ts'
import { openStoreForReading, type ReadableStore } from '../store/reading.ts'
import { complain } from './terminal.ts'

/**
 * Prints every entry whose key matches, by key: a line each under a head line, fields separated by tabs for other programs to
 * read, or JSON. A failure when no entry matches.
 */
export async function printList(
  pattern: string | undefined,
  config: Config,
  { json }: { readonly json: boolean },
): Promise<ExitCode> {
  const found = await sorted(config, fitting(`*${pattern ?? ''}*`))
  if (found.length === 0) {
    const sought = pattern === undefined ? '' : ` that matches ${JSON.stringify(pattern)}`
    await complain(`${config.cacheDirectory} holds nothing${sought}`)
  }
  if (json) await printJson(found)
  else if (found.length > 0) {
    await print('bytes\tlast used\tSHA-256\tURL\n')
    await printLines(found, lineOf)
  }
  return found.length > 0 ? exitCodes.success : exitCodes.failure
}

/** Prints the URLs that `remove` or `refresh` would mean. A failure when there is none. */
export async function printChosen(text: string, config: Config): Promise<ExitCode> {
  const chosen = chosenBy(text, rulesOf(config))
  if (typeof chosen === 'string') {
    await complain(chosen)
    return exitCodes.usage
  }
  const found = await sorted(config, chosen)
  await printLines(found, ({ key }) => `${key}\n`)
  await complain(`${countOf(found.length, 'file')}; nothing was changed`)
  return found.length > 0 ? exitCodes.success : exitCodes.failure
}

/** The entries whose keys match, by key. */
function sorted(config: Config, matches: (key: string) => boolean): Promise<ListedEntry[]> {
  return withStore(config, async store => {
    const found: ListedEntry[] = []
    for await (const some of store.list()) found.push(...some.filter(({ key }) => matches(key)))
    return found.sort((a, b) => (a.key < b.key ? -1 : 1))
  })
}

/** Lines that are written at once. */
const batch = 1000

/** Prints a line for each, many at a time. */
async function printLines(
  all: readonly ListedEntry[],
  line: (one: ListedEntry) => string,
): Promise<void> {
  for (let at = 0; at < all.length; at += batch) {
    const lines = all.slice(at, at + batch).map(line)
    await print(lines.join(''))
  }
}

async function printJson(all: readonly ListedEntry[]): Promise<void> {
  await print('[')
  let separator = '\n'
  await printLines(all, ({ key, size, digest, lastUsed }) => {
    const used = new Date(lastUsed).toISOString()
    const line = `${separator}${JSON.stringify({ url: key, bytes: size, lastUsed: used, sha256: digest })}`
    separator = ',\n'
    return line
  })
  await print('\n]\n')
}

function lineOf({ key, size, digest, lastUsed }: ListedEntry): string {
  return `${size}\t${new Date(lastUsed).toISOString()}\t${digest}\t${key}\n`
}

/** Opens the store for reading as long as `act` runs. */
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
