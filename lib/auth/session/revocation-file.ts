/**
 * The file of ended sessions, `<configPath>.revoked.json`.
 *
 * # Format, version 1
 *     { "version": 1, "allBefore": 1900000000000, "entries": [["<mark>", { "before": …, "until": … }], …] }
 * Sessions made at or before `before` under a mark are over; nobody has to remember it after `until`. `allBefore`, when there,
 * is the same for every session. Moments are milliseconds since the epoch. Oldest entry first.
 */
import { rename } from 'node:fs/promises'
import type { Milliseconds } from '../../async/clock.ts'
import { writeFileAtomically } from '../../atomic-file.ts'
import { readBounded } from '../../bounded-file.ts'
import { systemCode } from '../../errors.ts'

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
    return decode((await readBounded(path, LARGEST)).bytes)
  } catch (error) {
    if (systemCode(error) === 'ENOENT') return noRevocations
    throw error
  }
}

function decode(bytes: Buffer): Revocations {
  const file: unknown = parse(bytes)
  if (typeof file !== 'object' || file === null) throw new Error('it is not an object')
  const { version, entries, allBefore }: Readonly<Record<string, unknown>> = { ...file }
  if (version !== 1) throw new Error('it has another version')
  if (!Array.isArray(entries)) throw new Error('it has no entries')
  if (allBefore !== undefined && !isMoment(allBefore)) throw new Error('its allBefore is no moment')
  const found = new Map<string, RevocationEntry>()
  for (const pair of entries) {
    const [mark, entry]: readonly unknown[] = Array.isArray(pair) ? pair : []
    if (typeof mark !== 'string' || !isEntry(entry)) throw new Error('an entry is none')
    found.set(mark, { before: entry.before, until: entry.until })
  }
  return { allBefore: allBefore ?? noRevocations.allBefore, entries: found }
}

function parse(bytes: Buffer): unknown {
  try {
    return JSON.parse(bytes.toString())
  } catch {
    throw new Error('it is not JSON: cut off, or damaged')
  }
}

function isEntry(found: unknown): found is RevocationEntry {
  if (typeof found !== 'object' || found === null) return false
  return 'before' in found && isMoment(found.before) && 'until' in found && isMoment(found.until)
}

function isMoment(found: unknown): found is Milliseconds {
  return typeof found === 'number' && Number.isFinite(found)
}

/** Writes the file, whole or not at all. Throws what the file system throws. */
export async function writeRevocations(path: string, revocations: Revocations): Promise<void> {
  const { allBefore, entries } = revocations
  const known = Number.isFinite(allBefore) ? { allBefore } : {}
  const text = JSON.stringify({ version: 1, ...known, entries: [...entries] })
  await writeFileAtomically(path, text, { mode: 0o600 })
}

/** Puts a file that cannot be read out of the way, for whoever wants to look at it. False when that is not possible. */
export async function setAside(path: string): Promise<boolean> {
  return rename(path, `${path}.damaged`).then(
    () => true,
    () => false,
  )
}
