/**
 * Chooses the contents that go first when room is needed: those that no adopted index names before those that one names, and of
 * each the least recently used. Reads the table in memory and nothing else.
 */
import type { EntryTable } from '../catalogue/entry-table.ts'
import { type RetentionRules, type Standing, standingOf } from './rules.ts'

/** A content that may go, by the first row that names it. */
export interface Victim {
  readonly row: number
  /** What is lower goes first. */
  readonly rank: number
}

/** So many are found by one walk over the table. */
const most = 4_096

/** Beyond any last use in seconds, so that standing comes before use. */
const standingStep = 2 ** 33
const steps: Readonly<Record<Standing, number>> = { unknown: 0, named: 1, generation: 2 }

/** The rank of the content of a row, which must be the first of those that name it. */
export function rankOf(table: EntryTable, row: number, rules: RetentionRules): number {
  const standing = rules.standing && standingOf(rules, table.digest(row))
  return table.recency(row) + steps[standing ?? 'unknown'] * standingStep
}

/** Those that go first, in order. `walk` gives the rows some at a time. */
export async function findVictims(
  walk: AsyncIterable<readonly number[]>,
  table: EntryTable,
  rules: RetentionRules,
): Promise<readonly Victim[]> {
  let found: Victim[] = []
  let worst = Number.POSITIVE_INFINITY
  for await (const rows of walk) {
    for (const row of rows) {
      if (table.length(row) === 0 || !table.isFirst(row)) continue
      const rank = rankOf(table, row, rules)
      if (rank >= worst || found.push({ row, rank }) < 2 * most) continue
      found = first(found)
      worst = found.at(-1)?.rank ?? worst
    }
  }
  return first(found)
}

function first(found: Victim[]): Victim[] {
  return found.sort((a, b) => a.rank - b.rank).slice(0, most)
}
