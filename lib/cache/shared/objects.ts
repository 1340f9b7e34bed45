/**
 * The objects of the bucket: their names, and what stands in those that are JSON. What was read there is unknown until a reader here has
 * checked it: other nodes write it, and other versions of this program. Pure.
 *
 *     blobs/ab/<sha256>            a content
 *     entries/<sha256 of key>.json the entry of a key: digest, fields, made-up Last-Modified
 *     leases/<sha256 of key>       who fetches the key now
 *     suites/<sha256 of id>.json   the Release file that a suite has
 *     probes/<node>                nothing; for trying the engine
 */
import type { Milliseconds, Seconds } from '../../async/clock.ts'
import { parseDate } from '../../http/message/date.ts'
import { parseUri, type TargetUri } from '../../http/message/target.ts'
import { isCount, isRecord, type JsonObject, parsedJson } from '../../json.ts'
import { checkEntry, type Entry, maxEntryBytes } from '../store/entry.ts'
import { entryName } from '../store/key.ts'
import type { SuitePointer, SuiteRecord } from './shared-store.ts'

/** The format of the JSON objects. Those of another one are not read, and are replaced. */
const format = 1

/** Most bytes of each kind of object that is read whole. */
export const mostBytes = {
  entry: maxEntryBytes + 1024,
  lease: 4096,
  suite: 3 * maxEntryBytes + 4096,
} as const

/** Most bytes of a content that goes to the store: that is what one PUT takes. */
export const largestBlob = 5 * 1024 ** 3

export const blobName = (digest: string): string => `blobs/${digest.slice(0, 2)}/${digest}`
export const entryObject = (key: string): string => `entries/${entryName(key)}.json`
export const leaseName = (key: string): string => `leases/${entryName(key)}`
export const suiteName = (id: string): string => `suites/${entryName(id)}.json`
export const probeName = (node: string): string => `probes/${entryName(node)}`

export const types = { blob: 'application/octet-stream', json: 'application/json' } as const

export function entryBytes(entry: Entry): Buffer {
  return bytesOf({ entry })
}

/** The entry of a key; undefined for what is none. */
export function readEntry(bytes: Buffer, key: string): Entry | undefined {
  const found = entryIn(read(bytes)['entry'])
  return found?.key === key ? found : undefined
}

/** Characters of all fields of an entry: what the head of an origin's answer may have. */
const mostFields = 65_536
/** RFC 9111 section 1.2.2: an age that is larger counts as this. */
const oldest: Seconds = 2 ** 31

/** An entry as another node may have written it: it could have come with the answer of an origin. */
function entryIn(value: unknown): Entry | undefined {
  const found = isRecord(value) ? checkEntry(value).entry : undefined
  if (found === undefined || parseDate(found.lastModified, 0) === undefined) return undefined
  const size = found.fields.reduce((sum, [name, text]) => sum + name.length + text.length + 4, 0)
  if (size > mostFields) return undefined
  return { ...found, initialAge: Math.min(Math.floor(found.initialAge), oldest) }
}

export interface LeaseRecord {
  /** The name of the node. */
  readonly node: string
  /** The `peer_url` of the node. */
  readonly peer: TargetUri | undefined
  /** What no other lease has. */
  readonly id: string
  /** Until when it lasts, by the store's clock. */
  readonly until: Milliseconds
}

export function leaseBytes(
  lease: Omit<LeaseRecord, 'peer'> & { readonly peer: string | undefined },
): Buffer {
  return bytesOf({ ...lease })
}

export function readLease(bytes: Buffer): LeaseRecord | undefined {
  const { node, peer, id, until } = read(bytes)
  if (typeof node !== 'string' || typeof id !== 'string' || !isCount(until)) return undefined
  return { node, id, until, peer: typeof peer === 'string' ? peerOf(peer) : undefined }
}

/** The place of a node: scheme, host and port. Undefined for a URL that has more than these. */
export function peerOf(text: string): TargetUri | undefined {
  const uri = parseUri(text)
  if ('problem' in uri || uri.userinfo !== undefined) return undefined
  return uri.path === '/' && uri.query === undefined ? uri : undefined
}

export function suiteBytes(record: SuiteRecord): Buffer {
  const { release, date, adopted, node } = record
  return bytesOf({ release, date, adopted, node })
}

/** A pointer; undefined for what is none. Its entries are those of any keys. */
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

/** The members of an object of this format; none of what is something else. */
function read(bytes: Buffer): JsonObject {
  const found = parsedJson(bytes.toString('utf8'))
  return isRecord(found) && found['format'] === format ? found : {}
}
