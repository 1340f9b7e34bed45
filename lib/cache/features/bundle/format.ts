/**
 * The format of a bundle: stored files with their contents, for a machine that cannot fetch them.
 *
 *     cachesvc-bundle.json          {"version":1,"made":"2026-01-01T00:00:00.000Z","by":"cachesvc 0.1.0"}
 *     sha256/ab/abcd…               a content under its SHA-256, once however many files have it
 *     manifest/000001.jsonl         a line for each file: {"url":…,"size":…,"sha256":…,"lastModified":…,…,"fields":[…]}
 *     builds/NAME.jsonl             a record of a feature, here of a build; a cachesvc without that feature ignores it
 *
 * A bundle is a directory of these files, or a tar archive with the members in this order: contents before the part of the manifest
 * that names them. So both are written and read in one pass. Contents that do not have the digest of the manifest are not imported,
 * and apt checks the signatures of the Release files in it, so a bundle needs no signature of its own.
 */
import { Fields } from '../../../http/message/field.ts'
import { parseTarget } from '../../../http/message/target.ts'
import { isRecord, parsedJson } from '../../../json.ts'
import { keptFields } from '../../rfc9111/stored-response.ts'
import { checkEntry, type Entry, maxEntryBytes } from '../../store/entry.ts'

export const identityName = 'cachesvc-bundle.json'
const version = 1

/** The text of the first member. `place` is the place of the bundle in its series (series.ts). */
export function identityText(made: number, by: string, place: object = {}): string {
  return `${JSON.stringify({ version, made: new Date(made).toISOString(), by, ...place })}\n`
}

/** The reason why this version cannot read a bundle; undefined when it can. */
export function identityProblem(text: string): string | undefined {
  const found = parsedJson(text)
  if (found === undefined) return `its ${identityName} is not JSON`
  if (!isRecord(found) || typeof found['version'] !== 'number')
    return `its ${identityName} is not that of a bundle`
  if (found['version'] <= version) return undefined
  return `it was written by a newer cachesvc (format ${found['version']}, this one knows ${version})`
}

/** The name of the member with a content. */
export function contentName(digest: string): string {
  return `sha256/${digest.slice(0, 2)}/${digest}`
}

/** The digest in the name of a member with a content; undefined for other members. */
export function digestNamed(name: string): string | undefined {
  return /^sha256\/[0-9a-f]{2}\/([0-9a-f]{64})$/.exec(name)?.[1]
}

/** The name of a part of the manifest, counted from 1. */
export function manifestName(part: number): string {
  return `manifest/${String(part).padStart(6, '0')}.jsonl`
}

export function isManifest(name: string): boolean {
  return /^manifest\/\d+\.jsonl$/.test(name)
}

/** The place of a record of a feature: its directory, and its name there. Undefined for other members. */
export function recordNamed(
  member: string,
): { readonly directory: string; readonly name: string } | undefined {
  const [, directory, name] = /^([a-z]+)\/([A-Za-z0-9][\w.-]*)\.jsonl$/.exec(member) ?? []
  return directory === undefined || name === undefined ? undefined : { directory, name }
}

export function manifestLine(entry: Entry): string {
  const { key: url, digest: sha256, size, lastModified, fields } = entry
  const { stored, validated, initialAge } = entry
  const line = { url, size, sha256, lastModified, stored, validated, initialAge, fields }
  return `${JSON.stringify(line)}\n`
}

/** The bytes of the longest line that is read. */
export const maxLineBytes = 2 * maxEntryBytes

/** The entry in a line of the manifest, or a sentence when the line has none. */
export function readManifestLine(line: string): Entry | string {
  const found = parsedJson(line)
  if (found === undefined) return 'a line of the manifest is not JSON'
  if (!isRecord(found)) return 'a line of the manifest is not an entry'
  // The member `verified` is dropped, because a bundle is not trusted to say that a file is verified.
  const { url: key, sha256: digest, verified: _, ...rest } = found
  const { entry, because } = checkEntry({ ...rest, key, digest })
  if (entry === undefined) return `a line of the manifest is not an entry: ${because}`
  const target = parseTarget('GET', entry.key)
  if ('problem' in target || target.form !== 'absolute') return `${entry.key} is not a URL`
  // The fields come from another machine, so they are treated like those of an origin.
  return { ...entry, fields: [...keptFields(Fields.of(...entry.fields))] }
}
