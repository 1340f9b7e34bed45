/**
 * The rules of retention: what the operator wants to keep, how much of it, the reasons to let a file go, and which contents are removed
 * first when room is needed.
 */
import type { Milliseconds } from '../../async/clock.ts'
import type { EntryTable } from './catalogue/entry-table.ts'

/**
 * - recorded: a build was given the content, so it stays
 * - generation: it is a part of a generation that is kept
 * - named: an adopted index names it
 * - unknown: none of these
 */
export type ContentStanding = 'recorded' | 'generation' | 'named' | 'unknown'

/** Why a stored file goes. */
export type RemovalReason = 'by-hand' | 'unused' | 'superseded' | 'unreferenced' | 'quota' | 'floor'

/** Every reason with its rank and its sentence. When several apply to a file, that of the lowest rank is the one that is named. */
export const removalReasons: Readonly<
  Record<RemovalReason, { readonly rank: number; readonly sentence: string }>
> = {
  'by-hand': { rank: 0, sentence: 'an operator removed it' },
  unused: { rank: 1, sentence: 'no client asked for it in expiration.unused_days' },
  superseded: { rank: 2, sentence: 'retention.versions newer versions of the package are stored' },
  unreferenced: { rank: 3, sentence: 'no index has named it for retention.unreferenced' },
  quota: { rank: 4, sentence: 'room is needed for retention.size' },
  floor: { rank: 5, sentence: 'room is needed for retention.free' },
}

/** The numbers of removed files by reason, in the order of the ranks: `unused 3, superseded 1`. */
export function reasonCounts(counts: ReadonlyMap<RemovalReason, number>): string {
  const some = [...counts].filter(([, count]) => count > 0)
  some.sort(([a], [b]) => removalReasons[a].rank - removalReasons[b].rank)
  return some.map(([reason, count]) => `${reason} ${count}`).join(', ')
}

/** What the standing of a content means for the order in which room is made. */
export const standingSentences: Readonly<Record<ContentStanding, string>> = {
  unknown: 'no index names it',
  named: 'an index in use names it',
  generation: 'a generation that is kept has it',
  recorded: 'a build keeps it',
}

export interface RetentionRules {
  /** Entries that no client asked for in this many days are removed; 0 keeps them for ever. */
  readonly unusedDays: number
  /** This many of the newest versions of a package are kept; 0 keeps all. */
  readonly versions: number
  /** Most bytes of contents, including downloads under way; 0 is no limit. */
  readonly size: number
  /** Bytes of the file system that stay free; undefined is the smaller of 1 GiB and a fiftieth of the file system. */
  readonly free?: number | undefined
  /** The largest content that is stored, bytes; 0 is no limit. */
  readonly objectSize: number
  /** The standing of a content by its digest. It is called for many contents in a row and must answer at once. */
  readonly standing?: ((digest: string) => ContentStanding) | undefined
}

/** Rules with which no entry and no content is removed. */
export const keepAll: RetentionRules = {
  unusedDays: 0,
  versions: 0,
  size: 0,
  free: 0,
  objectSize: 0,
}

/** A stored file that goes next, and why. */
export interface NextRemoval {
  readonly reason: RemovalReason
  readonly because: string
  readonly key: string
  readonly bytes: number
  readonly lastUsed: Milliseconds
}

/** What retention would remove, in order. The lists are bounded; `files` and `bytes` count all. */
export interface Forecast {
  /** What a sweep would remove now. `bytes` counts a content once, and only when no other file needs it. */
  readonly sweep: {
    readonly files: number
    readonly bytes: number
    readonly first: readonly NextRemoval[]
  }
  /** The order in which files go when room is needed. */
  readonly room: readonly NextRemoval[]
  /** Bytes of all stored contents. */
  readonly stored: number
  /** Free bytes of the file system; undefined when it does not answer. */
  readonly free: number | undefined
  /** Bytes of the file system that must stay free. */
  readonly floor: number
  readonly size: number
}

/** A content that may be removed, by the first row that names it. */
export interface Victim {
  readonly row: number
  /** The lowest rank is removed first: contents are ordered by their standing, and then by their last use. */
  readonly rank: number
}

/** One walk over the table finds this many victims. */
const mostVictims = 4_096

/** More than any last use in seconds, so that the standing comes before the use. */
const standingStep = 2 ** 33
const steps: Readonly<Record<Exclude<ContentStanding, 'recorded'>, number>> = {
  unknown: 0,
  named: 1,
  generation: 2,
}

/** The rank of a row's content. Undefined when the content stays, when the row is free, and when another row names the content first. */
export function rankOf(table: EntryTable, row: number, rules: RetentionRules): number | undefined {
  if (table.length(row) === 0 || !table.isFirst(row)) return undefined
  const standing = rules.standing?.(table.digest(row)) ?? 'unknown'
  if (standing === 'recorded') return undefined
  return table.recency(row) + steps[standing] * standingStep
}

/** The contents that are removed first, in order. `walk` gives the rows some at a time. Only the table in memory is read. */
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
