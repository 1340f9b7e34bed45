/**
 * Reads the files of denied packages. This is also the program of a thread, because thousands of rows take a second.
 */

import { doTaskOfThread } from '../../../async/thread.ts'
import { decodeConfig } from '../../../config/config-file.ts'
import { mismatch, readResult } from '../../../config/reading.ts'
import { boolean, calendarDay, text } from '../../../config/setting-kinds.ts'
import {
  checkSettings,
  type Kind,
  kind,
  listOfGroups,
  oneOrMore,
  optionalSetting,
  requiredSetting,
  setting,
} from '../../../config/settings.ts'
import { unreadableReason } from '../../../errors.ts'
import { readBounded } from '../../../files/bounded-file.ts'
import { isRecord, parsedJson } from '../../../json.ts'
import { advisoryRows } from './advisories.ts'
import { type DenyRow, parseRange, type VersionRange } from './row.ts'

/** A list, or what is wrong with it, in one sentence. */
export type DenyRows = { readonly rows: readonly DenyRow[] } | { readonly problem: string }

const mostRows = 100_000
/** The most ranges of a row. They are all compared when a client asks for a file. */
const mostRanges = 10_000
/** The bytes of the largest file: in YAML, and in JSON, which is read a hundred times as fast. */
const mostBytes = { yaml: 4 * 1024 * 1024, json: 32 * 1024 * 1024 }

const range: Kind<VersionRange> = kind({ name: 'range', json: { type: 'string' } }, found => {
  const read = typeof found === 'string' ? parseRange(found) : undefined
  const mend = 'with << <= = >= >> and commas, between quotes, such as ">= 5.6.0, << 5.6.1"'
  return read === undefined ? mismatch(found, 'versions', mend) : readResult(read)
})

const packageName: Kind<string> = kind({ name: 'package', json: { type: 'string' } }, found =>
  typeof found === 'string' && /^[a-z0-9][a-z0-9+.-]*$/.test(found)
    ? readResult(found)
    : mismatch(found, 'the name of a package'),
)

const check = checkSettings(
  listOfGroups('rows', {
    package: requiredSetting(packageName, 'name the package').says(),
    source: setting(boolean, false).says(),
    versions: optionalSetting(oneOrMore(range, 'ranges')).says(),
    architecture: optionalSetting(text).says(),
    reason: requiredSetting(text, 'say why: apt prints it').says(),
    until: optionalSetting(calendarDay).says(),
  }).says(),
)

/** Reads all files. Rows of one that cannot be used make the whole list unusable. Never rejects. */
export async function readDenyFiles(paths: readonly string[]): Promise<DenyRows> {
  const rows: DenyRow[] = []
  for (const path of paths) {
    const found = await readDenyFile(path)
    if ('problem' in found) return found
    if (rows.length + found.rows.length > mostRows)
      return { problem: `${path}: more than ${mostRows} rows` }
    const long = found.rows.find(({ ranges, byRelease = new Map() }) =>
      [ranges, ...byRelease.values()].some(({ length }) => length > mostRanges),
    )
    if (long !== undefined)
      return { problem: `${path}: more than ${mostRanges} ranges of ${long.package}` }
    rows.push(...found.rows)
  }
  return { rows }
}

async function readDenyFile(path: string): Promise<DenyRows> {
  try {
    const { bytes } = await readBounded(path, mostBytes.json)
    const content = bytes.toString()
    const json = /^\s*[[{]/.test(content) ? parsedJson(content) : undefined
    const rows = advisoryRows(json)
    if (rows !== undefined) return { rows }
    if (bytes.length > mostBytes.yaml) return { problem: `${path}: it is larger than 4 MiB` }
    const read = decodeConfig(content, path, (found, file) =>
      // A file of comments alone has no rows.
      check(isRecord(found) && Object.keys(found).length === 0 ? [] : found, file),
    )
    if (!read.ok) return { problem: read.problems.slice(0, 3).join('; ') }
    return { rows: read.value.map(({ versions = [[]], ...row }) => ({ ...row, ranges: versions })) }
  } catch (error) {
    return { problem: `${path}: ${unreadableReason(error)}` }
  }
}

await doTaskOfThread(readDenyFiles)
