/**
 * An entry: the facts about one cached target, apart from its bytes. The log of entries has it as JSON.
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
  /** Bytes of the content. */
  readonly size: number
  /**
   * The Last-Modified that clients get, an IMF-fixdate of RFC 9110: the origin's value, or the moment at which this content first
   * arrived. It never changes while the digest does not, because apt compares it byte for byte when it resumes.
   */
  readonly lastModified: string
  /** When the content was received, milliseconds since the epoch. */
  readonly stored: Milliseconds
  /** When the origin last confirmed this content; `neverConfirmed` when an operator wants the origin to be asked. */
  readonly validated: Milliseconds
  /** The age of the origin's response when it was received or last validated (RFC 9111 section 4.2.3), seconds. */
  readonly initialAge: number
  /** The source of the digest with which the content was compared and found right; undefined when it was not compared. */
  readonly verified?: EntryProof
}

/** The result of reading a key: an entry, undefined when none is stored, or `unreadable` when the disk failed. */
export type Reading = Entry | 'unreadable' | undefined

/**
 * - name: the target's name is a digest
 * - index: an index has the digest. The Release file in the directory with the key `suite` names that index, and `signer` is the
 *   fingerprint of the key that signed the Release file.
 */
export interface EntryProof {
  readonly by: 'name' | 'index'
  readonly suite?: string
  readonly signer?: string
}

/** The value of `Entry.validated` with which the next request asks the origin, for every kind of file. */
export const neverConfirmed: Milliseconds = 0

/** The longest entry, bytes of JSON. A response head has only some kilobytes. */
export const maxEntryBytes = 256 * 1024

/** Whether the JSON of an entry is longer than `maxEntryBytes`. */
export function isTooLong(entry: Entry): boolean {
  const { key, fields, verified } = entry
  let characters =
    1000 + key.length + (verified?.suite?.length ?? 0) + (verified?.signer?.length ?? 0)
  for (const [name, value] of fields) characters += name.length + value.length + 8
  // A character takes six bytes at most, so nearly every entry is short enough without being encoded.
  return 6 * characters > maxEntryBytes && Buffer.byteLength(JSON.stringify(entry)) > maxEntryBytes
}

/** A decoded entry, or the reason why the value is not an entry. */
type Decoded =
  | { readonly entry: Entry; readonly because?: undefined }
  | { readonly entry?: undefined; readonly because: string }

/** Checks that a value has the shape of an entry and that its fields may be sent to clients. */
export function checkEntry(value: Readonly<Partial<Record<keyof Entry, unknown>>>): Decoded {
  const { key, fields, digest, size, lastModified, stored, validated, initialAge } = value
  if (typeof key !== 'string' || key === '') return { because: 'key is not text' }
  if (!isFieldList(fields)) return { because: 'fields are not pairs of name and value' }
  if (typeof digest !== 'string' || !isDigest(digest)) return { because: 'digest is no SHA-256' }
  if (!isCount(size)) return { because: 'size is not a number of bytes' }
  if (typeof lastModified !== 'string' || !IMF_FIXDATE.test(lastModified)) {
    return { because: 'lastModified is no IMF-fixdate' }
  }
  if (!isQuantity(stored)) return { because: 'stored is not a time' }
  if (!isQuantity(validated)) return { because: 'validated is not a time' }
  if (!isQuantity(initialAge)) return { because: 'initialAge is not a number of seconds' }
  const entry = { key, fields, digest, size, lastModified, stored, validated, initialAge }
  const verified = readVerified(value.verified)
  return { entry: verified === undefined ? entry : { ...entry, verified } }
}

/** Undefined for a value that is missing, as in older entries, or malformed. */
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

/** The shape of a date of RFC 9110 section 5.6.7. The date itself is not checked, because apt only compares its bytes. */
const IMF_FIXDATE = /^[A-Z][a-z]{2}, \d{2} [A-Z][a-z]{2} \d{4} \d{2}:\d{2}:\d{2} GMT$/

/** field-value (RFC 9110 section 5.5). CR, LF and NUL are refused, so that a forged log cannot add fields to a response. */
const FIELD_VALUE = /^[\t\x20-\x7e\x80-\xff]*$/

function isFieldList(value: unknown): value is Entry['fields'] {
  return Array.isArray(value) && value.every(isFieldLine)
}

export function isFieldLine(value: unknown): value is readonly [name: string, value: string] {
  if (!Array.isArray(value) || value.length !== 2) return false
  const [name, text]: readonly unknown[] = value
  return (
    typeof name === 'string' && isToken(name) && typeof text === 'string' && FIELD_VALUE.test(text)
  )
}

function isQuantity(value: unknown): value is number {
  return typeof value === 'number' && Number.isFinite(value) && value >= 0
}
