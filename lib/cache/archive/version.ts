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

/** `~` before the end, the end before letters, letters before all else. */
function placeOf(character: string): number {
  if (character === '~') return -1
  if (character === '') return 0
  const code = character.charCodeAt(0)
  return /[A-Za-z]/.test(character) ? code : code + 256
}

/** Digits of any length; none are 0. */
function compareNumbers(a: string, b: string): number {
  const [one, other] = [a.replace(/^0+/, ''), b.replace(/^0+/, '')]
  return one.length - other.length || (one < other ? -1 : Number(one > other))
}
