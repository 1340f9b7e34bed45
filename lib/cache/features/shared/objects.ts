/**
 * The objects of the bucket: their names, and the format of those that are JSON. Other nodes and other versions of this program write them,
 * so the readers here check every object. This file is pure.
 *
 *     blobs/ab/<sha256>            a content
 *     entries/<sha256 of key>.json the entry of a key: digest, fields, made-up Last-Modified
 *     suites/<sha256 of id>.json   the Release file that a suite has
 *     probes/<node>                an empty JSON object, for trying the engine
 */
import type { Seconds } from '../../../async/clock.ts'
import { parseDate } from '../../../http/message/date.ts'
import { isCount, isRecord, type JsonObject, parsedJson } from '../../../json.ts'
import { checkEntry, type Entry, maxEntryBytes } from '../../store/entry.ts'
import { entryName } from '../../store/key.ts'
import type { SuitePointer, SuiteRecord } from './shared-store.ts'

/** The version of the format of JSON objects. Objects of another version are not read, and are replaced. */
const format = 1

/** The most bytes of each kind of object that is read whole. */
export const mostBytes = {
  entry: maxEntryBytes + 1024,
  probe: 4096,
  suite: 3 * maxEntryBytes + 4096,
} as const

/** The most bytes of a content that is uploaded, because one PUT takes at most this many. */
export const largestBlob = 5 * 1024 ** 3

export const blobName = (digest: string): string => `blobs/${digest.slice(0, 2)}/${digest}`
export const entryObject = (key: string): string => `entries/${entryName(key)}.json`
export const suiteName = (id: string): string => `suites/${entryName(id)}.json`
export const probeName = (node: string): string => `probes/${entryName(node)}`

export const types = { blob: 'application/octet-stream', json: 'application/json' } as const

export function entryBytes(entry: Entry): Buffer {
  return bytesOf({ entry })
}

/** The entry of a key; undefined for bytes that are not an entry of this key. */
export function readEntry(bytes: Buffer, key: string): Entry | undefined {
  const found = entryIn(read(bytes)['entry'])
  return found?.key === key ? found : undefined
}

/** The most characters of all fields of an entry. The head of an origin's answer has the same limit. */
const mostFields = 65_536
/** RFC 9111 section 1.2.2: a larger age counts as this one. */
const oldest: Seconds = 2 ** 31

/** An entry that another node may have written. It passes the same checks as the answer of an origin. */
function entryIn(value: unknown): Entry | undefined {
  const found = isRecord(value) ? checkEntry(value).entry : undefined
  if (found === undefined || parseDate(found.lastModified, 0) === undefined) return undefined
  const size = found.fields.reduce((sum, [name, text]) => sum + name.length + text.length + 4, 0)
  if (size > mostFields) return undefined
  return { ...found, initialAge: Math.min(Math.floor(found.initialAge), oldest) }
}

export function suiteBytes(record: SuiteRecord): Buffer {
  const { release, date, adopted, node } = record
  return bytesOf({ release, date, adopted, node })
}

/** A pointer; undefined for bytes that are not a pointer. The keys of its entries are not checked. */
export function readSuite(bytes: Buffer, etag: string): SuitePointer | undefined {
  const { release, date, adopted, node } = read(bytes)
  if (!Array.isArray(release) || release.length === 0 || release.length > 3) return undefined
  const members: readonly unknown[] = release
  const entries = members.flatMap(one => entryIn(one) ?? [])
  if (entries.length < release.length || typeof node !== 'string') return undefined
  if (!isCount(date) || !isCount(adopted)) return undefined
  return { release: entries, date, adopted, node, etag }
}

function bytesOf(members: JsonObject): Buffer {
  return Buffer.from(`${JSON.stringify({ format, ...members })}\n`)
}

/** The members of an object of this format; none for any other bytes. */
function read(bytes: Buffer): JsonObject {
  const found = parsedJson(bytes.toString('utf8'))
  return isRecord(found) && found['format'] === format ? found : {}
}
