/**
 * One line of the log of entries: written, and read while trusting nothing in it. Pure.
 *
 * # Format
 * `<crc32 of the JSON, 8 hex digits> <JSON>\n`. JSON has no raw line feed: damage ends with its line.
 *
 *     {"log":2,"generation":"8d41…"}                     first line; a snapshot belongs to one generation
 *     {"entry":{…},"used":1735689600}                    an entry, in place of any before under its key
 *     {"uses":[["3fa1c0…",1735689600],…]}                last uses by name, seconds since the epoch
 *     {"gone":["3fa1c0…",…]}                             entries that were removed
 *     {"durable":81920,"unproven":["e3b0…",…],"clean":false}
 *                                                        content named before this position survives a power cut,
 *                                                        but for these digests, whose bytes were not hashed yet
 *     {"durable":81920,"unproven":[],"clean":true}       as the last line: the log was closed in order
 *
 * A name is the first 16 digits of the SHA-256 of a key. Unknown properties are ignored.
 */
import { crc32 } from 'node:zlib'
import type { Seconds } from '../../../async/clock.ts'
import { isCount, isRecord, type JsonObject } from '../../../json.ts'
import { isDigest } from '../disk/layout.ts'
import { checkEntry, type Entry } from '../entry.ts'

export type LogRecord =
  | { readonly is: 'header'; readonly generation: string }
  | { readonly is: 'entry'; readonly entry: Entry; readonly used: Seconds }
  | { readonly is: 'uses'; readonly uses: readonly Use[] }
  | { readonly is: 'gone'; readonly gone: readonly string[] }
  | ({ readonly is: 'durable' } & Durable)

export type Use = readonly [name: string, at: Seconds]

/** Up to where contents survive a power cut. */
export interface Durable {
  readonly durable: number
  /** Digests before that position that must be hashed before they are used. */
  readonly unproven: readonly string[]
  /** Nothing was written after it: the log was closed in order. */
  readonly clean: boolean
}

const logVersion = 2

/** Longest line that is read, bytes. */
export const maxLine = 1024 * 1024

/** A line of the log. */
export function encodeRecord(record: LogRecord): Buffer {
  switch (record.is) {
    case 'header':
      return seal({ log: logVersion, generation: record.generation })
    case 'entry':
      return seal({ entry: record.entry, used: record.used })
    case 'uses':
      return seal({ uses: record.uses })
    case 'gone':
      return seal({ gone: record.gone })
    case 'durable':
      return seal({ durable: record.durable, unproven: record.unproven, clean: record.clean })
  }
}

/** The record in a line, its line feed included; undefined when it is none. */
export function decodeRecord(line: Buffer): LogRecord | undefined {
  const value = unseal(line)
  return value && recordOf(value)
}

/** The key in the line of an entry, for looking at many: only the checksum is compared. */
export function keyInLine(line: Buffer): string | undefined {
  const key = PLAIN_ENTRY.exec(line.toString('latin1', 9, 2048))?.[1]
  if (key !== undefined) return isSealed(line) ? key : undefined
  const record = decodeRecord(line)
  return record?.is === 'entry' ? record.entry.key : undefined
}

/** How the JSON of an entry begins whose key needs no escapes: every one this program writes for a canonical key. */
const PLAIN_ENTRY = /^\{"entry":\{"key":"([\x20\x21\x23-\x5b\x5d-\x7e]+)",/

/** A line of JSON with its checksum. */
export function seal(value: JsonObject): Buffer {
  const json = JSON.stringify(value)
  return Buffer.from(`${crc32(json).toString(16).padStart(8, '0')} ${json}\n`)
}

/** What was sealed in a line, its line feed included; undefined for anything else. */
export function unseal(line: Buffer): JsonObject | undefined {
  if (!isSealed(line)) return undefined
  try {
    const value: unknown = JSON.parse(line.toString('utf8', 9))
    return isRecord(value) ? value : undefined
  } catch {
    return undefined
  }
}

/** Whether a line has the checksum it begins with. */
export function isSealed(line: Buffer): boolean {
  if (line.length < 12 || line[8] !== 0x20 || line.at(-1) !== 0x0a) return false
  return Number.parseInt(line.toString('latin1', 0, 8), 16) === crc32(line.subarray(9, -1))
}

function recordOf(value: JsonObject): LogRecord | undefined {
  const { log, generation, entry, used, uses, gone, durable, unproven, clean } = value
  if (isRecord(entry)) {
    const checked = checkEntry(entry)
    if (checked.entry === undefined || !isCount(used)) return undefined
    return { is: 'entry', entry: checked.entry, used }
  }
  if (Array.isArray(uses)) return uses.every(isUse) ? { is: 'uses', uses } : undefined
  if (Array.isArray(gone)) return gone.every(isName) ? { is: 'gone', gone } : undefined
  if (isCount(durable) && isDigests(unproven)) {
    return { is: 'durable', durable, unproven, clean: clean === true }
  }
  if (log === logVersion && isName(generation)) return { is: 'header', generation }
  return undefined
}

function isUse(value: unknown): value is Use {
  return Array.isArray(value) && value.length === 2 && isName(value[0]) && isCount(value[1])
}

export function isDigests(value: unknown): value is readonly string[] {
  return Array.isArray(value) && value.every(one => typeof one === 'string' && isDigest(one))
}

export function isName(value: unknown): value is string {
  return typeof value === 'string' && NAME.test(value)
}

const NAME = /^[0-9a-f]{16}$/
