/**
 * Takes the framing off a text signed in place, as InRelease is: RFC 9580 section 7. Strict: text that can be read in two ways
 * is malformed, and text outside the signed part is dropped. Pure; checks no signature.
 */

/** The text that was signed, or all of it when it has no framing; the reason when the framing is malformed. */
export type Unframed = { readonly text: string } | { readonly because: string }

const beginMessage = '-----BEGIN PGP SIGNED MESSAGE-----'
const beginSignature = '-----BEGIN PGP SIGNATURE-----'
const endSignature = '-----END PGP SIGNATURE-----'

/** Never throws. */
export function unframe(content: string): Unframed {
  // 7.2: trailing blanks are not part of what is signed, and line ends are written either way.
  const lines = content.split('\n').map(line => line.replace(/[ \t\r]+$/, ''))
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
  return { text }
}

const HASH = /^Hash: [A-Za-z0-9-]+(?:, *[A-Za-z0-9-]+)*$/
