/**
 * Recognises content that is plainly not the file it was asked for: the page of a captive portal, an empty file, another format.
 * Pure.
 *
 * # Facts
 * - Networks that want a login answer every request with 200 and a page; broken mirrors answer with an empty file. Stored under
 *   the name of a package, which never changes, such an answer would reach every later client.
 * - Formats begin with fixed bytes: ar (deb(5)), gzip (RFC 1952), xz, bzip2, zstd (RFC 8878), lzip. Bytes that are none of
 *   these are no proof of anything, and pass.
 */
import type { Fields } from '../../http/message/field.ts'
import type { ArchivePath } from './path.ts'

/** Why a response is not the file its name promises. */
export type Impostor = 'page' | 'empty' | 'format'

/** Bytes of the beginning that `impostor` needs to see. */
export const telling = 8

const ar = '!<arch>\n'

/** How files with these endings begin. Endings that are not here, such as `.dsc`, promise text or nothing. */
const beginnings: Readonly<Record<string, string>> = {
  ...{ deb: ar, udeb: ar, ddeb: ar, gz: '\x1f\x8b', xz: '\xfd7zXZ\0', bz2: 'BZh' },
  ...{ zst: '\x28\xb5\x2f\xfd', lz: 'LZIP' },
}

const formats: readonly string[] = [...new Set(Object.values(beginnings))]

/** Whether this response cannot be judged by what its name promises: then its beginning need not be waited for. */
export function promisesNothing({ kind }: ArchivePath): boolean {
  return kind === 'other' || kind === 'by-hash'
}

/**
 * What is wrong with a 200 for the file `name`, which begins with `beginning`; undefined when nothing shows. That is shorter than
 * `telling` only when the content is.
 */
export function impostor(
  file: ArchivePath,
  name: string,
  fields: Fields,
  beginning: Buffer,
): Impostor | undefined {
  if (promisesNothing(file)) return undefined
  const first = beginning.subarray(0, telling)
  const ending = /\.([a-z0-9]+)$/.exec(name)?.[1] ?? ''
  const promised = Object.hasOwn(beginnings, ending) ? beginnings[ending] : undefined
  const fixed = promised !== undefined || file.kind === 'pool'
  const type = fields.get('Content-Type') ?? ''
  if (fixed && /^\s*(text\/html|application\/xhtml)/i.test(type)) return 'page'
  if (fixed && first.length === 0) return 'empty'
  const text = first.toString('latin1')
  if (/^(\xef\xbb\xbf)?\s*</.test(text)) return 'page'
  if (promised === undefined || fields.has('Content-Encoding')) return undefined
  const found = formats.find(beginning => text.startsWith(beginning))
  return found !== undefined && found !== promised ? 'format' : undefined
}
