/**
 * The command `cachesvc list`, and `remove` and `refresh` with `--dry-run`, print entries of the store. They open it for reading, also
 * while the daemon runs.
 */

import { countOf } from '../../figures.ts'
import { type ExitCode, exitCodes, print } from '../../program.ts'
import type { Config } from '../config/config.ts'
import { patternSelection, proposal, selectionOf } from '../control/selection.ts'
import { rulesOf } from '../policy/policy.ts'
import type { ListedEntry } from '../store/catalogue/catalogue.ts'
import type { ReadableStore } from '../store/store.ts'
import type { ListOrder } from './arguments.ts'
import { withStore } from './base/store.ts'
import { printComplaint } from './base/terminal.ts'

/**
 * Prints every entry whose key matches, in order. The output is JSON, or a line for each entry below a head line, with tabs between the
 * fields for other programs. The exit code is that of a failure when no entry matches.
 */
export async function printList(
  pattern: string | undefined,
  config: Config,
  { json, sort }: { readonly json: boolean; readonly sort: ListOrder },
): Promise<ExitCode> {
  let separator = '\n'
  const jsonOf = (entry: ListedEntry): string => {
    const line = `${separator}${JSON.stringify(listedFile(entry))}`
    separator = ',\n'
    return line
  }
  if (json) await print('[')
  const found = await withStore(config, async store => {
    let count = 0
    for await (const some of sortedEntries(
      store,
      patternSelection(`*${pattern ?? ''}*`),
      orders[sort],
    )) {
      if (!json && count === 0) await print('bytes\tlast used\tSHA-256\tURL\n')
      await printLines(some, json ? jsonOf : lineOf)
      count += some.length
    }
    return count
  })
  if (json) await print('\n]\n')
  if (found > 0) return exitCodes.success
  const sought = pattern === undefined ? '' : ` that matches ${JSON.stringify(pattern)}`
  await printComplaint(`${config.cacheDirectory} holds nothing${sought}`)
  return exitCodes.failure
}

/** The JSON of each file that `cachesvc list --json` prints. */
export type ListedFile = ReturnType<typeof listedFile>

function listedFile({ key, size, digest, lastUsed }: ListedEntry) {
  return { url: key, bytes: size, lastUsed: new Date(lastUsed).toISOString(), sha256: digest }
}

/** Prints the URLs that `remove` or `refresh` would act on. The exit code is that of a failure when there is none. */
export async function printChosen(
  act: 'remove' | 'refresh',
  text: string,
  config: Config,
): Promise<ExitCode> {
  const chosen = selectionOf(text, rulesOf(config))
  return withStore(config, async store => {
    let count = 0
    if (typeof chosen === 'string') await printComplaint(chosen)
    else {
      for await (const some of sortedEntries(store, chosen, orders.url)) {
        await printLines(some, ({ key }) => `${key}\n`)
        count += some.length
      }
      await printComplaint(`${countOf(count, 'file')}; nothing was changed`)
    }
    if (count > 0) return exitCodes.success
    const proposed = await proposal(store, text, act)
    if (proposed !== undefined) await printComplaint(proposed)
    return typeof chosen === 'string' ? exitCodes.usage : exitCodes.failure
  })
}

type Order = (a: ListedEntry, b: ListedEntry) => number

const byUrl: Order = (a, b) => (a.key < b.key ? -1 : Number(a.key > b.key))

/** The orders. Only an entry itself is equal to it in an order. */
const orders: Readonly<Record<ListOrder, Order>> = {
  url: byUrl,
  size: (a, b) => b.size - a.size || byUrl(a, b),
  used: (a, b) => b.lastUsed - a.lastUsed || byUrl(a, b),
}

/** The number of entries that are sorted at once. Only these are in memory then, about 70 MB. */
const mostSorted = 250_000

/**
 * The entries that match, in order and some at a time. Memory is bounded: a first walk over the store divides more than `most` entries
 * into parts, and each part takes another walk. A million entries take six walks.
 */
export async function* sortedEntries(
  store: Pick<ReadableStore, 'list'>,
  matches: (key: string) => boolean,
  order: Order,
  most: number = mostSorted,
): AsyncGenerator<readonly ListedEntry[]> {
  let from: ListedEntry | undefined
  for (const to of await divided(store, matches, { order, most })) {
    const found: ListedEntry[] = []
    for await (const some of store.list()) {
      for (const one of some) {
        const after = from === undefined || order(one, from) > 0
        if (matches(one.key) && after && (to === undefined || order(one, to) <= 0)) found.push(one)
      }
    }
    if (found.length > 0) yield found.sort(order)
    from = to
  }
}

const mostSamples = 4000

/** The last entry of each part; undefined for the last part, which has the rest. It estimates them from entries at even distances. */
async function divided(
  store: Pick<ReadableStore, 'list'>,
  matches: (key: string) => boolean,
  { order, most }: { readonly order: Order; readonly most: number },
): Promise<ReadonlyArray<ListedEntry | undefined>> {
  let samples: ListedEntry[] = []
  let [count, distance] = [0, 1]
  for await (const some of store.list()) {
    for (const one of some) {
      if (!matches(one.key)) continue
      if (count % distance === 0) samples.push(one)
      count += 1
      if (samples.length < mostSamples) continue
      samples = samples.filter((_, i) => i % 2 === 0)
      distance *= 2
    }
  }
  samples.sort(order)
  const each = Math.max(1, Math.floor(most / distance))
  const bounds = samples.filter((_, i) => i % each === each - 1 && i < samples.length - 1)
  return [...bounds, undefined]
}

const batch = 1000

async function printLines(
  all: readonly ListedEntry[],
  line: (one: ListedEntry) => string,
): Promise<void> {
  for (let at = 0; at < all.length; at += batch) {
    const lines = all.slice(at, at + batch).map(line)
    await print(lines.join(''))
  }
}

function lineOf({ key, size, digest, lastUsed }: ListedEntry): string {
  return `${size}\t${new Date(lastUsed).toISOString()}\t${digest}\t${key}\n`
}
