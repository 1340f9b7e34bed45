/**
 * Reads Release and InRelease files: the suite, its dates and the files that it has. This file is pure and checks no signature.
 */
import type { Milliseconds } from '../../async/clock.ts'
import { stanzasOf } from './deb822.ts'
import { digests, type ListedFile, listedFiles } from './listed-file.ts'

export interface Release {
  readonly suite: string | undefined
  readonly date: Milliseconds | undefined
  /** The moment after which clients must no longer use the Release file. */
  readonly validUntil: Milliseconds | undefined
  /** Whether clients can ask for its indexes by digest. */
  readonly byHash: boolean
  /** The indexes by their path from the directory of the Release file. */
  readonly files: ReadonlyMap<string, ListedFile>
}

/** A decoded Release file, or the reason why the file is not one. */
type ReadRelease =
  | { readonly release: Release; readonly because?: undefined }
  | { readonly release?: undefined; readonly because: string }

/** The longest Release file that is read, bytes. The largest suites have half a megabyte. */
export const maxReleaseBytes = 32 * 1024 * 1024

/** The fields of a Release file. A file that has none of them is not a Release file. */
const wanted = [
  ...['Origin', 'Label', 'Suite', 'Codename', 'Date', 'Valid-Until', 'Acquire-By-Hash'],
  ...['Components', 'Architectures', ...digests.map(({ field }) => field)],
]

/** Reads a Release file, which may be signed in place. Answers the reason when it is not a Release file. Never throws. */
export function readRelease(content: Uint8Array): ReadRelease {
  if (content.byteLength > maxReleaseBytes) return { because: 'it is too long' }
  const bytes = Buffer.from(content.buffer, content.byteOffset, content.byteLength)
  const framing = unframe(bytes.toString('latin1'))
  if ('because' in framing) return framing
  const [stanza] = stanzasOf(Buffer.from(framing.text, 'latin1'), { wanted })
  if (stanza === undefined) return { because: 'it is empty' }
  if (stanza.damaged) return { because: 'it is not a list of fields' }
  const { fields } = stanza
  if (fields.size === 0) return { because: 'it has none of the fields of a Release file' }
  return {
    release: {
      suite: fields.get('suite'),
      date: readDate(fields.get('date')),
      validUntil: readDate(fields.get('valid-until')),
      byHash: fields.get('acquire-by-hash')?.toLowerCase() === 'yes',
      files: listedFiles(({ field }) => fields.get(field.toLowerCase())),
    },
  }
}

/** Reads a date in the format of RFC 5322. */
function readDate(text = ''): Milliseconds | undefined {
  const date = Date.parse(text)
  return Number.isNaN(date) ? undefined : date
}

const beginMessage = '-----BEGIN PGP SIGNED MESSAGE-----'
const beginSignature = '-----BEGIN PGP SIGNATURE-----'
const endSignature = '-----END PGP SIGNATURE-----'

/** A text without its framing. */
interface Unframed {
  /** The text. Each line ends with a line feed; the last line feed is not signed. */
  readonly text: string
  /** Everything after the text, which begins with the armoured signature; undefined when there was no framing. */
  readonly signature?: string
}

/**
 * Removes the framing of a text that is signed in place, such as an InRelease (RFC 9580 section 7). Answers the signed text, or the whole
 * content when there is no framing. The function is strict: text that can be read in two ways is malformed, and text outside the signed
 * part is dropped.
 */
export function unframe(content: string): Unframed | { readonly because: string } {
  // 7.2: trailing blanks are not signed, and lines may end with LF or CRLF.
  const lines = content.split('\n').map(withoutTrailingBlanks)
  const begin = lines.indexOf(beginMessage)
  if (begin < 0) return { text: content }
  // 7: the armour headers, where only Hash is allowed, and an empty line.
  let at = begin + 1
  while (HASH.test(lines[at] ?? '')) at += 1
  if (lines[at] !== '') return { because: 'something other than Hash comes before the signed text' }
  const end = lines.indexOf(beginSignature, at)
  if (end < 0) return { because: 'the signature is missing' }
  if (!lines.includes(endSignature, end)) return { because: 'the signature has no end' }
  let text = ''
  for (const line of lines.slice(at + 1, end)) {
    // 7.2: a line that begins with a dash must be escaped. Another reader could take an unescaped one as the end of the text.
    if (line.startsWith('-') && !line.startsWith('- ')) {
      return { because: 'a line of the signed text begins with a dash that is not escaped' }
    }
    text += `${line.startsWith('- ') ? line.slice(2) : line}\n`
  }
  return { text, signature: lines.slice(end).join('\n') }
}

/** Removes blanks at the end of a line with a loop, because a regular expression would try every blank as the first trailing one. */
function withoutTrailingBlanks(line: string): string {
  let end = line.length
  while (end > 0 && blanks.has(line.charCodeAt(end - 1))) end -= 1
  return line.slice(0, end)
}

/** Space, tab and carriage return. */
const blanks: ReadonlySet<number> = new Set([0x20, 0x09, 0x0d])

const HASH = /^Hash: [A-Za-z0-9-]+(?:, *[A-Za-z0-9-]+)*$/
