/**
 * Compares texts with patterns in which `*` stands for any text, none included. The comparison takes linear time, because clients choose
 * some of the texts. Case counts. This file is pure.
 */

/** The parts of a pattern between its wildcards: one part when it has none. */
export type WildcardPattern = readonly string[]

export function wildcardPattern(text: string): WildcardPattern {
  return text.split('*')
}

/** Whether a text has all parts in order, the first at its beginning and the last at its end. */
export function fitsPattern(text: string, parts: WildcardPattern): boolean {
  const [first = ''] = parts
  const count = parts.length - 1
  if (count === 0) return text === first
  const last = parts[count] ?? ''
  if (!text.startsWith(first) || !text.endsWith(last)) return false
  const end = text.length - last.length
  let at = first.length
  for (let i = 1; i < count; i += 1) {
    const part = parts[i] ?? ''
    const found = text.indexOf(part, at)
    if (found === -1) return false
    at = found + part.length
  }
  return at <= end
}
