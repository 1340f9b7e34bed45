/**
 * The framing of a text signed in place, as InRelease is: RFC 9580 section 7. Strict: what could be read in two ways is
 * malformed, and what stands outside the signed part is not part of anything. Pure; verifies nothing.
 */

export type Framing =
  /** Not signed in place: the text is all there is. */
  | { readonly kind: 'plain'; readonly text: string }
  /** `text` is what was signed, its dash-escapes undone; `signature` the armour as it stands. */
  | { readonly kind: 'clearsigned'; readonly text: string; readonly signature: string }
  | { readonly kind: 'malformed'; readonly because: string }

const beginMessage = '-----BEGIN PGP SIGNED MESSAGE-----'
const beginSignature = '-----BEGIN PGP SIGNATURE-----'
const endSignature = '-----END PGP SIGNATURE-----'

/** Takes the framing off. Never throws. */
export function unframe(content: string): Framing {
  const lines = content.split('\n').map(withoutEnd)
  const begin = lines.indexOf(beginMessage)
  if (begin < 0) return { kind: 'plain', text: content }
  // 7: armour headers, of which only Hash may be there, and an empty line.
  let at = begin + 1
  while (HASH.test(lines[at] ?? '')) at += 1
  if (lines[at] !== '') return malformed('something other than Hash stands before the signed text')
  const end = lines.indexOf(beginSignature, at)
  if (end < 0) return malformed('the signature is missing')
  const close = lines.indexOf(endSignature, end)
  if (close < 0) return malformed('the signature has no end')
  const text: string[] = []
  for (const line of lines.slice(at + 1, end)) {
    // 7.2: a line that begins with a dash is escaped; one that is not would end the text for another reader.
    if (line.startsWith('-') && !line.startsWith('- ')) {
      return malformed('a line of the signed text begins with a dash that is not escaped')
    }
    text.push(line.startsWith('- ') ? line.slice(2) : line)
  }
  const signature = `${lines.slice(end, close + 1).join('\n')}\n`
  return { kind: 'clearsigned', text: text.map(line => `${line}\n`).join(''), signature }
}

const HASH = /^Hash: [A-Za-z0-9-]+(?:, *[A-Za-z0-9-]+)*$/

/** 7.2: trailing blanks are not part of what is signed, and line ends are written either way. */
function withoutEnd(line: string): string {
  return line.replace(/[ \t\r]+$/, '')
}

function malformed(because: string): Framing {
  return { kind: 'malformed', because }
}
