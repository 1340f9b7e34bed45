/**
 * Settles what a file must be when indexes contradict each other about it.
 *
 * # Facts
 * - A pool has one file for a path. When two indexes name different contents for it, one of them is wrong, and nobody but the owner of
 *   the archive knows which. apt compares the file with the index that it has fetched.
 * - So the indexes that a client has fetched count for it, whatever other clients have fetched. Where they are not known, as after a
 *   restart, the file may have any content that one of the indexes names.
 */
import type { Claim, NamedContent } from './generation.ts'
import { keyIn } from './generation.ts'
import type { Source } from './known-suites.ts'
import type { Tables } from './tables.ts'

/** What one index says about a file. */
interface Statement {
  readonly source: Source
  readonly content: NamedContent
}

/** What these indexes say about a path. `unknown` when one of them cannot be read now; those that are missing are added to `lost`. */
export async function statementsOf(
  sources: readonly Source[],
  { path, tables, lost }: { readonly path: Buffer; readonly tables: Tables; lost: Source[] },
): Promise<readonly Statement[] | 'unknown'> {
  const said: Statement[] = []
  let unknown = false
  for (const source of sources) {
    const table = tables.hot(source.table) ?? (await tables.load(source.table))
    if (table === undefined || table === 'unreadable') {
      if (table === undefined) lost.push(source)
      unknown = true
      continue
    }
    const content = table.find(path)
    if (content !== undefined) said.push({ source, content })
  }
  return unknown ? 'unknown' : said
}

/**
 * The claim about a file on which indexes disagree; undefined when no index names it. `own` has the suites whose Release file the client
 * got, and `fetched` says whether it has fetched the index with a key.
 */
export function settledClaim(
  said: readonly Statement[],
  client: { readonly own: ReadonlySet<string>; readonly fetched: (index: string) => boolean },
): Claim | undefined {
  const fetched = said.filter(({ source }) => indexesOf(source).some(client.fetched))
  const ofSuites = said.filter(({ source }) => client.own.has(source.suite.at))
  const counting = [fetched, ofSuites, said].find(some => some.length > 0) ?? []
  const contents = new Map(counting.map(one => [one.content.digest, one]))
  const [first, ...others] = contents.values()
  if (first === undefined) return undefined
  const { suite, generation } = first.source
  const every = new Map(said.map(one => [one.content.digest, one.source]))
  const contradicting = [...every.values()].flatMap(source => indexesOf(source).slice(0, 1))
  return {
    ...first.content,
    suite: suite.at,
    generation,
    ...(every.size > 1 && { contradicting }),
    ...(others.length > 0 && { others: others.map(({ content }) => content) }),
  }
}

/**
 * Whether an index of another suite contradicts a claim and counts as much: the client got the Release files of both suites, or of
 * neither. Only tables in memory are asked.
 */
export function isContradicted(
  claim: Claim,
  about: {
    readonly sources: readonly Source[]
    readonly own: ReadonlySet<string>
    readonly path: Buffer
    readonly tables: Tables
  },
): boolean {
  const { sources, own, path, tables } = about
  return sources.some(({ suite, table }) => {
    if (suite.at === claim.suite || own.has(suite.at) !== own.has(claim.suite)) return false
    const content = tables.hot(table)?.find(path)
    return content !== undefined && content.by === claim.by && content.digest !== claim.digest
  })
}

export function suitesOf(sources: readonly Source[]): readonly string[] {
  return [...new Set(sources.map(({ suite }) => suite.at))]
}

/** The keys of an index. A Release file may name one index in several directories. */
function indexesOf({ suite, generation, table }: Source): readonly string[] {
  const paths = generation.contents.filter(({ digest }) => digest === table)
  return paths.flatMap(({ path }) => keyIn(suite.at, path) ?? [])
}
