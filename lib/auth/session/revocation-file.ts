/**
 * Reads and writes the file of ended sessions, `<configPath>.revoked.json`.
 *
 * # Format, version 1
 *     { "version": 1, "allBefore": 1900000000000, "entries": [["<mark>", { "before": …, "until": … }], …] }
 * Sessions made at or before `before` under a mark are over; the entry may be dropped after `until`. `allBefore`, when there, is
 * the same for every session. Moments are milliseconds since the epoch. Oldest entry first.
 */
import type { Milliseconds } from '../../async/clock.ts'
import { writeFileAtomically } from '../../atomic-file.ts'
import { readBounded } from '../../bounded-file.ts'
import { systemCode } from '../../errors.ts'
import { isRecord } from '../../json.ts'

export interface RevocationEntry {
  readonly before: Milliseconds
  readonly until: Milliseconds
}

export interface Revocations {
  /** Every session made at or before this moment is over. */
  readonly allBefore: Milliseconds
  readonly entries: ReadonlyMap<string, RevocationEntry>
}

/** The file of an instance, beside its dynamic configuration. */
export function revocationsFile(configPath: string): string {
  return `${configPath}.revoked.json`
}

export const noRevocations: Revocations = {
  allBefore: Number.NEGATIVE_INFINITY,
  entries: new Map(),
}

/** Three times what the most entries take. */
const LARGEST = 64 * 1024 * 1024

/** Reads the file; nothing when there is none. Throws one sentence when it cannot be read, or is not what we write. */
export async function readRevocations(path: string): Promise<Revocations> {
  try {
    const { bytes } = await readBounded(path, LARGEST)
    const file: unknown = JSON.parse(bytes.toString())
    if (!isRecord(file) || file['version'] !== 1) throw new Error('it has another version, or none')
    const { allBefore = noRevocations.allBefore, entries } = file
    if (typeof allBefore !== 'number') throw new Error('its allBefore is no moment')
    if (!Array.isArray(entries) || !entries.every(isEntry)) throw new Error('its entries are none')
    return { allBefore, entries: new Map(entries) }
  } catch (error) {
    if (systemCode(error) === 'ENOENT') return noRevocations
    throw error
  }
}

function isEntry(found: unknown): found is readonly [string, RevocationEntry] {
  const [mark, entry]: readonly unknown[] = Array.isArray(found) ? found : []
  if (typeof mark !== 'string' || !isRecord(entry)) return false
  return Number.isFinite(entry['before']) && Number.isFinite(entry['until'])
}

/** Writes the file, whole or not at all. Throws what the file system throws. */
export async function writeRevocations(path: string, revocations: Revocations): Promise<void> {
  const { allBefore, entries } = revocations
  const known = Number.isFinite(allBefore) ? { allBefore } : {}
  const text = JSON.stringify({ version: 1, ...known, entries: [...entries] })
  await writeFileAtomically(path, text, { mode: 0o600 })
}
