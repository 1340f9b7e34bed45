/**
 * Recognises content that is plainly not the file it was asked for: the page of a captive portal, an empty file, another format.
 * Pure.
 *
 * # Facts
 * - Networks that want a login answer every request with 200 and a page; broken mirrors answer with an empty file. Stored under
 *   the name of a package, which never changes, such an answer would reach every later client.
 * - Formats begin with fixed bytes: ar (deb(5)), gzip (RFC 1952), xz, bzip2, zstd (RFC 8878), lzip, lzma as xz(1) writes it.
 *   Source control files and detached signatures begin with OpenPGP armour or with the field Format. Bytes that are none of these
 *   are no proof of anything, and pass.
 * - Servers that do not know an ending send their default label, which can be `text/html`. So the label decides only where the
 *   bytes say nothing, and where a digest is known neither decides: the whole content is compared with it.
 */
import type { Fields } from '../../http/message/field.ts'
import type { ArchivePath } from './path.ts'

/** Why a response is not the file its name promises. */
export type Impostor = 'page' | 'empty' | 'format'

/** Bytes of the beginning that `impostor` needs to see. */
export const tellingBytes = 8

const ar = ['!<arch>\n']
const armour = '-----BEG'

/** How files with these endings begin. Endings that are not here promise text or nothing. */
const beginnings: Readonly<Record<string, readonly string[]>> = {
  deb: ar,
  udeb: ar,
  ddeb: ar,
  gz: ['\x1f\x8b'],
  xz: ['\xfd7zXZ\0'],
  bz2: ['BZh'],
  zst: ['\x28\xb5\x2f\xfd'],
  lz: ['LZIP'],
  lzma: [']\0\0'],
  dsc: [armour, 'Format: '],
  asc: [armour],
}

const formats: readonly string[] = [...new Set(Object.values(beginnings).flat())]

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
  const text = beginning.subarray(0, tellingBytes).toString('latin1')
  if (isPage(beginning)) return 'page'
  const ending = /\.([a-z0-9]+)$/.exec(name)?.[1] ?? ''
  const promised = Object.hasOwn(beginnings, ending) ? beginnings[ending] : undefined
  const begins = (beginning: string): boolean => text.startsWith(beginning)
  const fixed = promised !== undefined || file.kind === 'pool'
  if (fixed && text === '') return 'empty'
  const coded = fields.has('Content-Encoding')
  if (!coded && promised?.some(begins)) return undefined
  const type = fields.get('Content-Type') ?? ''
  if (fixed && /^\s*(text\/html|application\/xhtml)/i.test(type)) return 'page'
  return promised !== undefined && !coded && formats.some(begins) ? 'format' : undefined
}

/** Whether content that begins so is a page, whatever it was asked for as. */
export function isPage(beginning: Buffer): boolean {
  return /^(\xef\xbb\xbf)?\s*</.test(beginning.subarray(0, tellingBytes).toString('latin1'))
}
