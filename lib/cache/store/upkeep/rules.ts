/**
 * The rules of retention: what the operator wants kept, how much of it, and which contents go first when room is needed.
 */
import type { EntryTable } from '../catalogue/entry-table.ts'

/**
 * What is known of a content: a build was given it, so that it stays; it is a part of a generation that is kept; an adopted index
 * names it; or none of these.
 */
export type Standing = 'recorded' | 'generation' | 'named' | 'unknown'

export interface RetentionRules {
  /** Entries that no client asked for in so many days go; 0 keeps them for ever. */
  readonly unusedDays: number
  /** So many of the newest versions of a package are kept; 0 keeps all. */
  readonly versions: number
  /** Most bytes of contents, downloads under way included; 0 is no limit. */
  readonly size: number
  /** Bytes of the file system that stay free; undefined is the smaller of 1 GiB and a fiftieth of the file system. */
  readonly free?: number | undefined
  /** Largest content that is stored, bytes; 0 is no limit. */
  readonly objectSize: number
  /** By digest. It is asked for many contents in a row and must answer at once. */
  readonly standing?: ((digest: string) => Standing) | undefined
}

/** Nothing goes. */
export const keepAll: RetentionRules = {
  unusedDays: 0,
  versions: 0,
  size: 0,
  free: 0,
  objectSize: 0,
}

/** A content that may go, by the first row that names it. */
export interface Victim {
  readonly row: number
  /** What is lower goes first: what no adopted index names before what one names, and of each the least recently used. */
  readonly rank: number
}

/** So many are found by one walk over the table. */
const mostVictims = 4_096

/** Beyond any last use in seconds, so that standing comes before use. */
const standingStep = 2 ** 33
const steps: Readonly<Record<Exclude<Standing, 'recorded'>, number>> = {
  unknown: 0,
  named: 1,
  generation: 2,
}

/** The rank of the content of a row; undefined when it stays, and when the row is free or not the first of those that name its content. */
export function rankOf(table: EntryTable, row: number, rules: RetentionRules): number | undefined {
  if (table.length(row) === 0 || !table.isFirst(row)) return undefined
  const standing = rules.standing?.(table.digest(row)) ?? 'unknown'
  if (standing === 'recorded') return undefined
  return table.recency(row) + steps[standing] * standingStep
}

/** The contents that go first, in order. `walk` gives the rows some at a time. Reads the table in memory and nothing else. */
export async function findVictims(
  walk: AsyncIterable<readonly number[]>,
  table: EntryTable,
  rules: RetentionRules,
): Promise<readonly Victim[]> {
  let found: Victim[] = []
  let worst = Number.POSITIVE_INFINITY
  for await (const rows of walk) {
    for (const row of rows) {
      const rank = rankOf(table, row, rules) ?? worst
      if (rank >= worst || found.push({ row, rank }) < 2 * mostVictims) continue
      found = first(found)
      worst = found.at(-1)?.rank ?? worst
    }
  }
  return first(found)
}

function first(found: Victim[]): Victim[] {
  return found.sort((a, b) => a.rank - b.rank).slice(0, mostVictims)
}
