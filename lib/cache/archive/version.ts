/**
 * The order of versions of Debian packages, Debian Policy section 5.6.12. This file is pure.
 *
 * A version is `[epoch:]upstream[-revision]`. The epoch is compared as a number. The upstream version and the revision are compared part by
 * part: first the text up to a digit, then the digits as a number, and so on. Text is compared in a modified ASCII order, in which `~`
 * comes before the end of the text and letters come before other characters.
 */

/** Negative when `a` is older than `b`, positive when it is newer, 0 when the versions are equal. */
export function compareVersions(a: string, b: string): number {
  const [one, other] = [partsOf(a), partsOf(b)]
  return (
    compareNumbers(one.epoch, other.epoch) ||
    comparePart(one.upstream, other.upstream) ||
    comparePart(one.revision, other.revision)
  )
}

function partsOf(version: string) {
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

/** Compares text and digits by turns until they differ. */
function comparePart(a: string, b: string): number {
  const [one, other] = [a.split(/([0-9]+)/), b.split(/([0-9]+)/)]
  for (let at = 0; at < Math.max(one.length, other.length); at += 1) {
    const compare = at % 2 === 0 ? compareText : compareNumbers
    const order = compare(one[at] ?? '', other[at] ?? '')
    if (order !== 0) return order
  }
  return 0
}

function compareText(a: string, b: string): number {
  for (let at = 0; at < Math.max(a.length, b.length); at += 1) {
    const order = placeOf(a.charAt(at)) - placeOf(b.charAt(at))
    if (order !== 0) return order
  }
  return 0
}

/** The place of a character in the order: `~`, the end of the text, letters, all other characters. */
function placeOf(character: string): number {
  if (character === '~') return -1
  if (character === '') return 0
  const code = character.charCodeAt(0)
  return /[A-Za-z]/.test(character) ? code : code + 256
}

/** Compares numbers of any length. A text without digits is 0. */
function compareNumbers(a: string, b: string): number {
  const [one, other] = [a.replace(/^0+/, ''), b.replace(/^0+/, '')]
  return one.length - other.length || (one < other ? -1 : Number(one > other))
}
