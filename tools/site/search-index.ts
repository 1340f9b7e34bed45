/**
 * What the search reads: the text of every page, in parts that begin at headings. It is a script, because a browser reads no other
 * file of a directory by `file:`.
 */
import { headingsIn, type Page, textIn } from './page.ts'

/** Pages that repeat what others say, and would double what is found. */
const repeating = /^man\/.*\.5$/

/** The script with the texts of all pages. */
export function searchIndex(pages: readonly Page[]): string {
  const indexed = pages
    .filter(({ source }) => !repeating.test(source))
    .map(({ place, title, html }) => ({ place, title, parts: partsOf(html) }))
  return `searchIndex(${JSON.stringify(indexed)})\n`
}

/** Anchor, heading and text of each part; the first one has no anchor. */
function partsOf(
  html: string,
): ReadonlyArray<readonly [id: string, heading: string, text: string]> {
  const [first = '', ...others] = html.split(/(?=<h[1-6] id=)/)
  const parts = others.map(part => {
    const [heading] = headingsIn(part)
    const text = proseOf(part.replace(/^<h[1-6][\s\S]*?<\/h[1-6]>/, ''))
    return [heading?.level === 1 ? '' : (heading?.id ?? ''), heading?.text ?? '', text] as const
  })
  const before = proseOf(first)
  return before === '' ? parts : [['', '', before] as const, ...parts]
}

function proseOf(html: string): string {
  return textIn(html.replace(/<\/(td|th|li|dt|dd|p|div)>|<br>/g, ' ')).replace(/\s+/g, ' ')
}
