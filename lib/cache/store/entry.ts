/**
 * An entry: what is remembered of one cached target, apart from its bytes. It stands in the log of entries as JSON.
 */
import type { Milliseconds } from '../../async/clock.ts'
import { isToken } from '../../http/message/field.ts'
import { isCount, isRecord } from '../../json.ts'
import { isDigest } from './disk/disk.ts'

export interface Entry {
  /** Canonical key, see key.ts. */
  readonly key: string
  /** End-to-end fields of the origin's 200, as pairs in their order, without framing, connection, Age and Set-Cookie fields. */
  readonly fields: ReadonlyArray<readonly [name: string, value: string]>
  /** SHA-256 of the content, lower-case hex: the name of the blob. */
  readonly digest: string
  /** Bytes of content. */
  readonly size: number
  /**
   * What clients get as Last-Modified, RFC 9110 IMF-fixdate: the origin's, or the moment this content first arrived. It never
   * changes while the digest does not: apt compares it byte for byte when it resumes.
   */
  readonly lastModified: string
  /** When the content was received, milliseconds since the epoch. */
  readonly stored: Milliseconds
  /** When the origin last said that this is still its answer; `neverConfirmed` when an operator wants it to be asked. */
  readonly validated: Milliseconds
  /** Age the origin's response had when it was received or last validated (RFC 9111 section 4.2.3), seconds. */
  readonly initialAge: number
  /** What the content was compared with, and found right; undefined when nothing says what it must be. */
  readonly verified?: EntryProof
}

/** What the store has under a key: an entry, nothing, or what the disk does not say now. */
export type Reading = Entry | 'unreadable' | undefined

/**
 * - name: the name is a digest
 * - index: an index says so that the Release file in the directory with the key `suite` names; `signer` is the fingerprint of
 *   the key that signed it
 */
export interface EntryProof {
  readonly by: 'name' | 'index'
  readonly suite?: string
  readonly signer?: string
}

/** The moment in `Entry.validated` that has the next request ask the origin, whatever kind of file it is. */
export const neverConfirmed: Milliseconds = 0

/** Longest entry, bytes of JSON: a head is some kilobytes at most. */
export const maxEntryBytes = 256 * 1024

/** Whether the JSON of an entry is longer. */
export function isTooLong(entry: Entry): boolean {
  const { key, fields, verified } = entry
  let characters =
    1000 + key.length + (verified?.suite?.length ?? 0) + (verified?.signer?.length ?? 0)
  for (const [name, value] of fields) characters += name.length + value.length + 8
  // A character takes six bytes at most: of nearly every entry that says enough.
  return 6 * characters > maxEntryBytes && Buffer.byteLength(JSON.stringify(entry)) > maxEntryBytes
}

/** What became of an entry that was read: the entry, or why it is none. */
type Decoded =
  | { readonly entry: Entry; readonly because?: undefined }
  | { readonly entry?: undefined; readonly because: string }

/** Whether a value has the shape of an entry, and its fields that of fields that may be sent on. */
export function checkEntry(value: Readonly<Partial<Record<keyof Entry, unknown>>>): Decoded {
  const { key, fields, digest, size, lastModified, stored, validated, initialAge } = value
  if (typeof key !== 'string' || key === '') return { because: 'key is no text' }
  if (!isFieldList(fields)) return { because: 'fields are not pairs of name and value' }
  if (typeof digest !== 'string' || !isDigest(digest)) return { because: 'digest is no SHA-256' }
  if (!isCount(size)) return { because: 'size is no count of bytes' }
  if (typeof lastModified !== 'string' || !IMF_FIXDATE.test(lastModified)) {
    return { because: 'lastModified is no IMF-fixdate' }
  }
  if (!isQuantity(stored)) return { because: 'stored is no moment' }
  if (!isQuantity(validated)) return { because: 'validated is no moment' }
  if (!isQuantity(initialAge)) return { because: 'initialAge is no number of seconds' }
  const entry = { key, fields, digest, size, lastModified, stored, validated, initialAge }
  const verified = readVerified(value.verified)
  return { entry: verified === undefined ? entry : { ...entry, verified } }
}

/** Older entries have none. */
function readVerified(value: unknown): EntryProof | undefined {
  if (!isRecord(value)) return undefined
  const { by, suite, signer } = value
  if (by !== 'name' && by !== 'index') return undefined
  return {
    by,
    ...(typeof suite === 'string' && { suite }),
    ...(typeof signer === 'string' && { signer }),
  }
}

/** RFC 9110 section 5.6.7; only the shape, the bytes are what apt compares. */
const IMF_FIXDATE = /^[A-Z][a-z]{2}, \d{2} [A-Z][a-z]{2} \d{4} \d{2}:\d{2}:\d{2} GMT$/

/** field-value (RFC 9110 section 5.5): no CR, LF or NUL, so that a made-up file cannot write fields of its own. */
const FIELD_VALUE = /^[\t\x20-\x7e\x80-\xff]*$/

function isFieldList(value: unknown): value is Entry['fields'] {
  return Array.isArray(value) && value.every(isFieldLine)
}

function isFieldLine(value: unknown): boolean {
  if (!Array.isArray(value) || value.length !== 2) return false
  const [name, text]: readonly unknown[] = value
  return (
    typeof name === 'string' && isToken(name) && typeof text === 'string' && FIELD_VALUE.test(text)
  )
}

function isQuantity(value: unknown): value is number {
  return typeof value === 'number' && Number.isFinite(value) && value >= 0
}
