/**
 * Reads Release and InRelease files: which suite they describe, of when, and which indexes it has. Pure; checks no signature.
 */
import type { Milliseconds } from '../../async/clock.ts'
import { stanzasOf } from './deb822.ts'
import { digests, type ListedFile, listedFiles } from './listed-file.ts'

export interface Release {
  readonly suite: string | undefined
  readonly date: Milliseconds | undefined
  /** The moment after which clients must not use it any more. */
  readonly validUntil: Milliseconds | undefined
  /** Whether its indexes can be asked for by digest. */
  readonly byHash: boolean
  /** The indexes by their path, which begins in the directory of the Release file. */
  readonly files: ReadonlyMap<string, ListedFile>
}

/** A Release file that was read, or why it is none. */
type ReadRelease =
  | { readonly release: Release; readonly because?: undefined }
  | { readonly release?: undefined; readonly because: string }

/** Longest Release file that is read, bytes; the largest suites have half a megabyte. */
export const maxReleaseBytes = 32 * 1024 * 1024

/** A file that has none of these fields is no Release file. */
const wanted = [
  ...['Origin', 'Label', 'Suite', 'Codename', 'Date', 'Valid-Until', 'Acquire-By-Hash'],
  ...['Components', 'Architectures', ...digests.map(({ field }) => field)],
]

/** Reads a Release file, signed in place or not; says why when it is none. Never throws. */
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

/** A date as RFC 5322 writes it, in UTC. */
function readDate(text = ''): Milliseconds | undefined {
  const date = Date.parse(text)
  return Number.isNaN(date) ? undefined : date
}

const beginMessage = '-----BEGIN PGP SIGNED MESSAGE-----'
const beginSignature = '-----BEGIN PGP SIGNATURE-----'
const endSignature = '-----END PGP SIGNATURE-----'

/** A text without its framing. */
interface Unframed {
  /** Each of its lines ends with a line feed; the last of these is not signed. */
  readonly text: string
  /** What stands behind the text, the armoured signature first; undefined when there was no framing. */
  readonly signature?: string
}

/**
 * Takes the framing off a text signed in place, as InRelease is: RFC 9580 section 7. Answers the text that was signed, all of it
 * when there is no framing. Strict: text that can be read in two ways is malformed, and text outside the signed part is dropped.
 */
export function unframe(content: string): Unframed | { readonly because: string } {
  // 7.2: trailing blanks are not part of what is signed, and line ends are written either way.
  const lines = content.split('\n').map(withoutTrailingBlanks)
  const begin = lines.indexOf(beginMessage)
  if (begin < 0) return { text: content }
  // 7: armour headers, of which only Hash may be there, and an empty line.
  let at = begin + 1
  while (HASH.test(lines[at] ?? '')) at += 1
  if (lines[at] !== '')
    return { because: 'something other than Hash stands before the signed text' }
  const end = lines.indexOf(beginSignature, at)
  if (end < 0) return { because: 'the signature is missing' }
  if (!lines.includes(endSignature, end)) return { because: 'the signature has no end' }
  let text = ''
  for (const line of lines.slice(at + 1, end)) {
    // 7.2: a line that begins with a dash is escaped; one that is not would end the text for another reader.
    if (line.startsWith('-') && !line.startsWith('- ')) {
      return { because: 'a line of the signed text begins with a dash that is not escaped' }
    }
    text += `${line.startsWith('- ') ? line.slice(2) : line}\n`
  }
  return { text, signature: lines.slice(end).join('\n') }
}

/** A regular expression would try each blank of a line as the first of the trailing ones, so this is a loop. */
function withoutTrailingBlanks(line: string): string {
  let end = line.length
  while (end > 0 && blanks.has(line.charCodeAt(end - 1))) end -= 1
  return line.slice(0, end)
}

/** Space, tab and carriage return. */
const blanks: ReadonlySet<number> = new Set([0x20, 0x09, 0x0d])

const HASH = /^Hash: [A-Za-z0-9-]+(?:, *[A-Za-z0-9-]+)*$/
