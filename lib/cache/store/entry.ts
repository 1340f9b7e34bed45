/**
 * An entry: what is remembered of one cached target, apart from its bytes. One small JSON file each (layout: docs/disk-layout.md).
 */
import type { Milliseconds } from '../../clock.ts'

export interface Entry {
  /** Canonical key, see key.ts; kept in the file so that a file can be checked against its name. */
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
  /** When the origin last said that this is still its answer. */
  readonly validated: Milliseconds
  /** Age the origin's response had when it was received or last validated (RFC 9111 section 4.2.3), seconds. */
  readonly initialAge: number
}
