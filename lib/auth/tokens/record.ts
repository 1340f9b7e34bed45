/**
 * The record of the tokens that people have made, beside the list of ended sessions (`lib/files/lapsing-marks.ts`): what the page of a person
 * shows, and the attributes that a later login is compared with. Users are hashes. A mark in the file is `[record]`.
 */
import { filesOfMarks, LapsingMarks } from '../../files/lapsing-marks.ts'
import { isRecord, parsedJson } from '../../json.ts'
import type { TokenParts } from '../features/feature.ts'
import type { EndableToken } from '../session/revocation.ts'
import type { OwnToken } from '../session/token.ts'

export interface TokenRecord extends OwnToken, EndableToken {
  readonly id: string
  /** The person, as `userHash` makes it. */
  readonly user: string
  /** The digest of the attributes of the login. */
  readonly attributes: string
}

type Mark = readonly [TokenRecord]

/** Takes over what an earlier run has left. `onLoss` is called when there may be tokens that the record does not have. */
export async function openRecord(
  path: string,
  { clock, log, shared, onLoss }: TokenParts & { readonly onLoss: () => void },
) {
  const records = new Map<string, TokenRecord>()
  const enter = (record: TokenRecord) => records.set(record.id, record)
  const marks = new LapsingMarks<Mark>({
    ...{ path, clock, log, onLoss },
    livingMarks: () => [...records.values()].map(record => [record]),
    isMark: (found): found is Mark => Array.isArray(found) && isTokenRecord(found[0]),
    merge: found => found.map(([record]) => enter(record)),
    sentences: {
      lost: 'the record of tokens cannot be read: all tokens of people are over',
      changed: 'another program changed the record of tokens: it is written again from memory',
      unwritten: 'the record of tokens could not be written',
    },
  })
  // Where a store is shared, other instances have records as well, and a new instance begins with none.
  if (shared === undefined && (await filesOfMarks(path)).length === 0) onLoss()
  await marks.open()
  return {
    /** Forgets the records that are over, and answers how many are left. */
    sweep(isLive: (record: TokenRecord) => boolean): number {
      for (const record of records.values()) if (!isLive(record)) records.delete(record.id)
      return records.size
    },
    ofUser: (user: string) => [...records.values()].filter(record => record.user === user),
    /** Enters a record. Answers whether it is on disk; one that is not is forgotten. */
    async add(record: TokenRecord): Promise<boolean> {
      enter(record)
      const isWritten = await marks.add([[record]])
      return isWritten || !records.delete(record.id)
    },
    close: () => marks.close(),
  }
}

/** The records in lines of the shared store, without what is none. */
export function recordsIn(lines: readonly string[] = []): readonly TokenRecord[] {
  return lines.map(parsedJson).filter(isTokenRecord)
}

function isTokenRecord(found: unknown): found is TokenRecord {
  if (!isRecord(found)) return false
  const isText = (value: unknown) => typeof value === 'string'
  const texts = ['id', 'user', 'attributes', 'name'].every(name => isText(found[name]))
  const lists = ['marks', 'paths', 'methods'].map(name => found[name])
  const moments = [found['created'], found['expires']].every(Number.isFinite)
  return texts && moments && lists.every(list => Array.isArray(list) && list.every(isText))
}
