/**
 * Documents of the repository as HTML. Knows Markdown as the documents use it; HTML within them is an error, but for comments.
 */
import { Marked, type Tokens } from 'marked'
import { escapeHtml } from '../../lib/template.ts'

/** How a document's links and pictures are written; the argument is what stands in the document. */
export interface Addresses {
  readonly link: (href: string) => string
  /** The picture, and the one for a dark page if there is one. */
  readonly picture: (href: string) => { readonly light: string; readonly dark?: string }
}

/** The content of a page for a document. Throws where it has HTML. */
export function documentHtml(markdown: string, addresses: Addresses): string {
  const anchors = new Anchors()
  // A page has one heading of the first level: from the second one of a document on, all are a level lower.
  let titles = 0
  const marked = new Marked({
    renderer: {
      heading({ tokens, depth, text }: Tokens.Heading) {
        if (depth === 1) titles += 1
        const level = titles > 1 ? depth + 1 : depth
        return `<h${level} id="${anchors.of(text)}">${this.parser.parseInline(tokens)}</h${level}>\n`
      },
      code: ({ text, lang = '' }: Tokens.Code) => codeHtml(text, lang),
      codespan: ({ text }: Tokens.Codespan) => `<code>${escapeHtml(text)}</code>`,
      table(token: Tokens.Table) {
        const row = (cells: readonly Tokens.TableCell[]) =>
          `<tr>${cells.map(cell => cellHtml(cell, this.parser.parseInline(cell.tokens))).join('')}</tr>\n`
        const head = row(token.header)
        return scrolling(
          'table',
          `<table>\n<thead>\n${head}</thead>\n<tbody>\n${token.rows.map(row).join('')}</tbody>\n</table>`,
        )
      },
      link({ href, tokens }: Tokens.Link) {
        return `<a href="${escapeHtml(addresses.link(href))}">${this.parser.parseInline(tokens)}</a>`
      },
      // A telephone shows a picture small: the link leads to it.
      image({ href, text }: Tokens.Image) {
        const { light, dark } = addresses.picture(href)
        const image = `<img src="${escapeHtml(light)}" alt="${escapeHtml(text)}" loading="lazy">`
        const either =
          dark === undefined
            ? image
            : `<picture><source srcset="${escapeHtml(dark)}" media="(prefers-color-scheme: dark)">${image}</picture>`
        return `<a href="${escapeHtml(light)}">${either}</a>`
      },
      html({ text }: Tokens.HTML | Tokens.Tag) {
        if (/^\s*<!--[\s\S]*-->\s*$/.test(text)) return ''
        throw new Error(`HTML in a document: ${text}`)
      },
    },
  })
  return marked.parse(markdown, { async: false })
}

/** Code to read and copy. Comments are told apart; the rest stands as it is. */
export function codeHtml(text: string, language: string): string {
  const [name = ''] = language.split(' ')
  const lines = text.split('\n').map(line => {
    const [, before, comment] = hashComments.has(name)
      ? (/^((?:.*\s)?)(#.*)$/.exec(line) ?? [])
      : []
    if (before === undefined || comment === undefined) return escapeHtml(line)
    return `${escapeHtml(before)}<span class="comment">${escapeHtml(comment)}</span>`
  })
  return scrolling('code', `<pre><code>${lines.join('\n')}</code></pre>`)
}

const hashComments = new Set(
  'sh yaml ini nginx toml dockerfile python apache auth preseed caddy haproxy'.split(' '),
)

/** What may be wider than the page scrolls for itself; the keyboard can reach it. */
function scrolling(kind: 'code' | 'table', html: string): string {
  const name = kind === 'code' ? 'Example' : 'Table'
  return `<div class="${kind}" tabindex="0" role="group" aria-label="${name}">${html}</div>\n`
}

function cellHtml({ header, align }: Tokens.TableCell, content: string): string {
  const name = header ? 'th' : 'td'
  const scope = header ? ' scope="col"' : ''
  const aligned = align === null ? '' : ` class="${align}"`
  // The first cell of a comparison is empty, and a heading must not be.
  if (header && content === '') return '<td></td>'
  return `<${name}${scope}${aligned}>${content}</${name}>`
}

/** Anchors of headings as web views of repositories make them, so that one link works in both. */
export class Anchors {
  readonly #taken = new Map<string, number>()

  of(heading: string): string {
    const anchor = heading
      .replace(/\[([^\]]*)\]\([^)]*\)/g, '$1')
      .toLowerCase()
      .replace(/[^\p{L}\p{N} _-]/gu, '')
      .replaceAll(' ', '-')
    const before = this.#taken.get(anchor)
    this.#taken.set(anchor, (before ?? 0) + 1)
    return before === undefined ? anchor : `${anchor}-${before}`
  }
}
