/**
 * The frame of every page: head, search, menu, content, the pages before and after it. Everything can be read and reached without a script.
 */
import { escapeHtml } from '../../lib/template.ts'
import { linkBetween, placeOf } from './links.ts'
import { decisionsFolder, type Entry, type Section } from './navigation.ts'

/** A page that is made: where it stands, what it is made from, and its content. */
export interface Page {
  readonly place: string
  /** The file of the repository, or the name of the page in the menu. */
  readonly source: string
  readonly title: string
  readonly html: string
}

/** A heading within a page, which the menu and the search lead to. */
export interface Heading {
  readonly level: number
  readonly id: string
  readonly text: string
}

export interface Site {
  readonly root: string
  readonly sections: readonly Section[]
  readonly version: string
}

/** Headings in the menu below the page at hand; more of them than this would hide the other pages. */
const mostHeadings = 24

/** What the search loads at its first use, in this order. */
export const searchScripts = ['minisearch.js', 'search-engine.js', 'search-index.js'].map(
  name => `assets/${name}`,
)

/** A whole page. */
export function pageHtml(page: Page, { root, sections, version }: Site): string {
  const to = (place: string) => escapeHtml(linkBetween(page.place, place))
  const entries = sections.flatMap(section => section.entries)
  const current = page.source.startsWith(`${decisionsFolder}/`) ? decisionsFolder : page.source
  const index = entries.findIndex(({ source }) => source === current)
  const neighbour = (entry: Entry | undefined, relation: string, word: string) =>
    entry === undefined
      ? ''
      : `<a rel="${relation}" href="${to(placeOf(entry.source, root))}"><span>${word}</span> ${escapeHtml(entry.title)}</a>`
  const menu = sections.map(({ title, entries }) => {
    const items = entries.map(entry =>
      menuItem(page, entry, current, to(placeOf(entry.source, root))),
    )
    // On the first page all of them can be seen.
    const open = page.place === 'index.html' || entries.some(({ source }) => source === current)
    return `<li><details${open ? ' open' : ''}><summary>${escapeHtml(title)}</summary>\n<ul>\n${items.join('')}</ul></details></li>\n`
  })
  const title = page.place === 'index.html' ? page.title : `${page.title} · cachesvc and authproxy`
  return `<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
<title>${escapeHtml(title)}</title>
<link rel="stylesheet" href="${to('assets/style.css')}">
<link rel="icon" href="${to('assets/favicon.ico')}" sizes="16x16 32x32 48x48">
<script src="${to('assets/search.js')}" defer></script>
</head>
<body>
<a class="skip" href="#site-content">Skip to the content</a>
<header>
<button class="menu-button" type="button" popovertarget="site-menu">Menu</button>
<a class="brand" href="${to('index.html')}">
<svg width="26" height="26" viewBox="0 0 32 32" aria-hidden="true" focusable="false">
<rect class="mark-ground" width="32" height="32" rx="6.4"/>
<rect class="mark-lid" x="6" y="6.4" width="20" height="6.4"/>
<rect class="mark-box" x="6" y="14.4" width="20" height="11.6"/>
<path class="mark-tape" d="M13.4 6.4h5.2v6.4h-5.2zM13.4 14.4h5.2v4.8h-5.2z"/>
</svg>
<span>cachesvc and authproxy</span>
</a>
<search id="site-search" data-scripts="${searchScripts.map(to).join(' ')}" data-root="${to('index.html').replace(/index\.html$/, '')}" hidden>
<label for="site-words">Search</label>
<input id="site-words" type="search" placeholder="Press / to search" autocomplete="off" spellcheck="false" aria-describedby="site-found">
<div id="site-results" hidden>
<p id="site-found" role="status"></p>
<ol></ol>
</div>
</search>
</header>
<div class="columns">
<nav id="site-menu" aria-label="Pages" popover>
<ul>
${menu.join('')}</ul>
</nav>
<main id="site-content" tabindex="-1">
${page.html}
<nav class="neighbours" aria-label="Before and after">
${neighbour(entries[index - 1], 'prev', 'Before:')}
${index < 0 ? '' : neighbour(entries[index + 1], 'next', 'Next:')}
</nav>
</main>
</div>
<footer>
<p>Version ${escapeHtml(version)}, MIT licence. Made from <code>${escapeHtml(page.source)}</code>.</p>
</footer>
</body>
</html>
`
}

function menuItem(page: Page, entry: Entry, current: string, href: string): string {
  if (entry.source !== current) return `<li><a href="${href}">${escapeHtml(entry.title)}</a></li>\n`
  const here = entry.source === page.source ? 'page' : 'true'
  const link = `<a href="${href}" aria-current="${here}">${escapeHtml(entry.title)}</a>`
  if (here === 'true') return `<li>${link}</li>\n`
  const second = headingsIn(page.html).filter(({ level }) => level === 2)
  if (second.length < 2 || second.length > mostHeadings) return `<li>${link}</li>\n`
  const below = second.map(
    ({ id, text }) => `<li><a href="#${escapeHtml(id)}">${escapeHtml(text)}</a></li>\n`,
  )
  return `<li>${link}\n<ul>\n${below.join('')}</ul></li>\n`
}

/** The headings of a page, in their order. */
export function headingsIn(html: string): readonly Heading[] {
  return [...html.matchAll(/<h([1-6]) id="([^"]*)">([\s\S]*?)<\/h\1>/g)].map(
    ([, level, id = '', inner = '']) => ({
      level: Number(level),
      id: textIn(id),
      text: textIn(inner),
    }),
  )
}

/** The text of HTML that this site has made: its tags removed, its characters as they are. */
export function textIn(html: string): string {
  return html
    .replace(/<[^>]*>/g, '')
    .replace(/&#(\d+);/g, (_, code: string) => String.fromCodePoint(Number(code)))
    .replace(/&(amp|lt|gt|quot);/g, (_, name: string) => named[name] ?? '')
    .trim()
}

const named: Readonly<Record<string, string>> = { amp: '&', lt: '<', gt: '>', quot: '"' }
