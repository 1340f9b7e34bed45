/**
 * The order of versions of Debian packages, Debian Policy section 5.6.12. Pure.
 *
 * `[epoch:]upstream[-revision]`: the epoch is compared as a number, the others part by part: what is no digit by a modified
 * ASCII order, in which `~` comes before the end and letters before the rest, then digits as a number.
 */

/** Less than 0 when `a` is older than `b`, 0 when neither is, more when it is newer. */
export function compareVersions(a: string, b: string): number {
  const [one, other] = [partsOf(a), partsOf(b)]
  return (
    compareNumbers(one.epoch, other.epoch) ||
    comparePart(one.upstream, other.upstream) ||
    comparePart(one.revision, other.revision)
  )
}

interface Parts {
  readonly epoch: string
  readonly upstream: string
  readonly revision: string
}

function partsOf(version: string): Parts {
  const colon = version.indexOf(':')
  const rest = version.slice(colon + 1)
  const hyphen = rest.lastIndexOf('-')
  return {
    epoch: version.slice(0, Math.max(0, colon)),
    upstream: hyphen < 0 ? rest : rest.slice(0, hyphen),
    // "The absence of a debian_revision is equivalent to a debian_revision of 0."
    revision: hyphen < 0 ? '' : rest.slice(hyphen + 1),
  }
}

/** Takes text and digits off both by turns until they differ. */
function comparePart(a: string, b: string): number {
  let [atA, atB] = [0, 0]
  while (atA < a.length || atB < b.length) {
    while (isText(a, atA) || isText(b, atB)) {
      const order = orderAt(a, atA) - orderAt(b, atB)
      if (order !== 0) return order
      atA += 1
      atB += 1
    }
    const [endA, endB] = [endOfDigits(a, atA), endOfDigits(b, atB)]
    const order = compareNumbers(a.slice(atA, endA), b.slice(atB, endB))
    if (order !== 0) return order
    atA = endA
    atB = endB
  }
  return 0
}

function isText(part: string, at: number): boolean {
  return at < part.length && !isDigit(part, at)
}

function isDigit(part: string, at: number): boolean {
  return part[at] !== undefined && /[0-9]/.test(part.charAt(at))
}

/** `~` before the end or a digit, these before letters, letters before all else. */
function orderAt(part: string, at: number): number {
  const character = part.charAt(at)
  if (character === '~') return -1
  if (character === '' || isDigit(part, at)) return 0
  const code = character.charCodeAt(0)
  return /[A-Za-z]/.test(character) ? code : code + 256
}

function endOfDigits(part: string, from: number): number {
  let end = from
  while (isDigit(part, end)) end += 1
  return end
}

/** Digits of any length; none are 0. */
function compareNumbers(a: string, b: string): number {
  const [one, other] = [a.replace(/^0+/, ''), b.replace(/^0+/, '')]
  return one.length - other.length || (one < other ? -1 : Number(one > other))
}
