/**
 * A line of JSON with its checksum, so that what is torn or garbled is seen for what it is. Pure.
 *
 * # Format
 *     <crc32 of the JSON, 8 hex digits> <JSON>\n
 *
 * JSON has no raw line feed: damage ends with its line.
 */
import { crc32 } from 'node:zlib'
import { isRecord, type JsonObject } from '../../../json.ts'

export function seal(value: JsonObject): Buffer {
  const json = JSON.stringify(value)
  return Buffer.from(`${crc32(json).toString(16).padStart(8, '0')} ${json}\n`)
}

/** What was sealed in a line, its line feed included; undefined for anything else. */
export function unseal(line: Buffer): JsonObject | undefined {
  if (line.length < 12 || line[8] !== 0x20 || line.at(-1) !== 0x0a) return undefined
  const json = line.subarray(9, -1)
  if (Number.parseInt(line.toString('latin1', 0, 8), 16) !== crc32(json)) return undefined
  try {
    const value: unknown = JSON.parse(json.toString())
    return isRecord(value) ? value : undefined
  } catch {
    return undefined
  }
}

export function isCount(value: unknown): value is number {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0
}
