/**
 * The record of the tokens that people have made, beside the list of ended sessions (`lib/files/lapsing-marks.ts`): what the page of a person
 * shows, and the attributes that a later login is compared with. Users are hashes. A token that is not in it is no less valid.
 *
 *     [marks, user, attributes, name, paths, methods, created, expires]     `marks` are what the list of ended sessions knows the token by
 */
import type { Clock } from '../../async/clock.ts'
import { filesOfMarks, LapsingMarks } from '../../files/lapsing-marks.ts'
import { parsedJson } from '../../json.ts'
import type { Logger } from '../../log/log.ts'
import type { EndableToken } from '../session/revocation.ts'
import type { OwnToken } from '../session/token.ts'

export interface TokenRecord extends OwnToken, EndableToken {
  /** The person, as `userHash` makes it. */
  readonly user: string
  /** The digest of the attributes of the login. */
  readonly attributes: string
}

type Line = readonly unknown[]

/** Takes over what an earlier run has left. `onLoss` is called when tokens may have been made that the record does not have. */
export async function openRecord(options: {
  readonly path: string
  readonly clock: Clock
  readonly log: Logger
  readonly isShared: boolean
  readonly onLoss: () => void
}) {
  const { path, clock, log, isShared, onLoss } = options
  const records = new Map<string, TokenRecord>()
  const enter = (record: TokenRecord) => records.set(record.marks[0] ?? '', record)
  const sweep = (isLive: (record: TokenRecord) => boolean) => {
    for (const [id, record] of records) if (!isLive(record)) records.delete(id)
    return records.size
  }
  const marks = new LapsingMarks<Line>({
    ...{ path, clock, log, onLoss },
    livingMarks: () => {
      sweep(({ expires }) => expires > clock.now())
      return [...records.values()].map(lineOf)
    },
    isMark: (found): found is Line => recordOf(found).length > 0,
    merge: lines => {
      for (const record of lines.flatMap(recordOf)) enter(record)
    },
    sentences: {
      lost: 'the record of tokens cannot be read: all tokens that people have made are over',
      changed:
        'another program changed the record of tokens: it is written again with what this process knows',
      unwritten: 'a token could not be recorded, and was not made',
    },
  })
  if (!isShared && (await filesOfMarks(path)).length === 0) onLoss()
  await marks.open()
  return {
    /** Forgets the records that are over, and answers how many are left. */
    sweep,
    ofUser: (user: string) => [...records.values()].filter(record => record.user === user),
    /** Answers the line of a record when it is on disk; undefined when it could not be written, and is not kept. */
    async add(record: TokenRecord): Promise<string | undefined> {
      enter(record)
      if (await marks.add([lineOf(record)])) return JSON.stringify(lineOf(record))
      records.delete(record.marks[0] ?? '')
      return undefined
    },
    forget: (record: TokenRecord) => void records.delete(record.marks[0] ?? ''),
    close: () => marks.close(),
  }
}

/** The record in a line of the shared store; none for anything else. */
export function recordIn(line: string): readonly TokenRecord[] {
  return recordOf(parsedJson(line))
}

function lineOf(record: TokenRecord): Line {
  const { marks, user, attributes, name, paths, methods, created, expires } = record
  return [marks, user, attributes, name, paths, methods, created, expires]
}

function recordOf(found: unknown): readonly TokenRecord[] {
  if (!Array.isArray(found)) return []
  const [marks, user, attributes, name, paths, methods, created, expires]: readonly unknown[] =
    found
  if (!isTexts(marks) || !isTexts(paths) || !isTexts(methods)) return []
  if (!isText(user) || !isText(attributes) || !isText(name)) return []
  if (!isMoment(created) || !isMoment(expires)) return []
  return [{ marks, user, attributes, name, paths, methods, created, expires }]
}

function isText(found: unknown): found is string {
  return typeof found === 'string'
}

function isTexts(found: unknown): found is readonly string[] {
  return Array.isArray(found) && found.every(isText)
}

function isMoment(found: unknown): found is number {
  return typeof found === 'number' && Number.isFinite(found)
}
