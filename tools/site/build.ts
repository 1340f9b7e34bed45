/**
 * Makes the site: a page for each document and manual, a page for each file of the repository that a document links to, and what
 * the search reads. Links to what does not exist are errors.
 */
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { cp, mkdir, rm, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { packageVersion } from '../../lib/package.ts'
import { escapeHtml } from '../../lib/template.ts'
import { codeHtml, documentHtml } from './documents.ts'
import { frontPageHtml } from './front-page.ts'
import { linkBetween, placeOf, sourceLinked } from './links.ts'
import { manualHtml } from './manual-pages.ts'
import { decisionsFolder, decisionsOf, frontPage, picturesPage, sectionsOf } from './navigation.ts'
import { headingsIn, type Page, pageHtml, type Site, textIn } from './page.ts'
import { picturesHtml } from './pictures.ts'
import { searchIndex } from './search-index.ts'

/** Directory of the pictures, within the site. */
export const picturesDirectory = 'pictures'

/** The engine of the search, as a script that needs no modules: browsers load none by `file:`. */
export const minisearch = 'node_modules/minisearch/dist/umd/index.js'

/** Writes the site into a directory. Pictures that are there stay; everything else is replaced. Resolves to its pages. */
export async function buildSite(root: string, directory: string): Promise<readonly Page[]> {
  const sections = sectionsOf(root)
  const site: Site = { root, sections, version: packageVersion() }
  const maker = new PageMaker(root)
  const pictures = join(directory, picturesDirectory)
  for (const { source } of sections.flatMap(({ entries }) => entries)) {
    if (source === picturesPage) maker.put(source, 'Pictures', picturesHtml(pictures))
    else if (source === frontPage) maker.front()
    else maker.add(source)
  }
  for (const { source } of decisionsOf(root)) maker.add(source)
  const pages = maker.finish()

  await mkdir(directory, { recursive: true })
  for (const name of readdirSync(directory)) {
    if (name !== picturesDirectory) await rm(join(directory, name), { recursive: true })
  }
  await cp(join(root, 'tools/site/assets'), join(directory, 'assets'), { recursive: true })
  await cp(join(root, 'templates/operations/favicon.ico'), join(directory, 'assets/favicon.ico'))
  await cp(join(root, minisearch), join(directory, 'assets/minisearch.js'))
  await writeFile(join(directory, 'assets/search-index.js'), searchIndex(pages))
  for (const source of maker.pictures) await copyInto(directory, source, root)
  for (const page of pages) await writeInto(directory, page.place, pageHtml(page, site))
  return pages
}

/** Makes pages, and those that their links need. */
class PageMaker {
  readonly pictures = new Set<string>()
  readonly #root: string
  readonly #pages = new Map<string, Page>()
  readonly #waiting: string[] = []

  constructor(root: string) {
    this.#root = root
  }

  put(source: string, title: string, html: string): void {
    this.#pages.set(source, { place: placeOf(source, this.#root), source, title, html })
  }

  front(): void {
    const source = 'docs/answers.md'
    const answers = documentHtml(this.#read(source), {
      link: href => this.#link(source, href, placeOf(frontPage, this.#root)),
      picture: href => ({ light: href }),
    }).replace(/^<h1[\s\S]*?<\/h1>\n/, '')
    const link = (file: string) => this.#link(frontPage, file)
    this.put(frontPage, 'cachesvc and authproxy', frontPageHtml(link, answers))
  }

  /** A page for a file or a folder of the repository, once. */
  add(source: string): void {
    if (!this.#waiting.includes(source)) this.#waiting.push(source)
  }

  finish(): readonly Page[] {
    // The list grows while it is read.
    for (const source of this.#waiting) {
      if (source === decisionsFolder) this.put(source, 'Decisions', this.#decisions())
      else if (source.endsWith('.md')) this.#document(source)
      else if (/^man\/.*\.[58]$/.test(source)) this.#manual(source)
      else this.#fileOrFolder(source)
    }
    return [...this.#pages.values()]
  }

  #document(source: string): void {
    const html = documentHtml(this.#read(source), {
      link: href => this.#link(source, href),
      picture: href => {
        const address = (file: string) => {
          this.pictures.add(file)
          return linkBetween(placeOf(source, this.#root), file)
        }
        const file = sourceLinked(source, href)
        const dark = file.replace(/\.webp$/, '-dark.webp')
        const isThere = existsSync(join(this.#root, dark))
        return { light: address(file), ...(isThere && { dark: address(dark) }) }
      },
    })
    this.put(source, headingsIn(html)[0]?.text ?? source, this.#withManuals(html, source))
  }

  #manual(source: string): void {
    const html = manualHtml(this.#read(source))
    const [, title = source] = /<h1>(.*?)<\/h1>/.exec(html) ?? []
    this.put(source, textIn(title), this.#withManuals(html, source))
  }

  /** A file that a document links to, as it stands; a folder, as the list of its files. */
  #fileOrFolder(source: string): void {
    const path = join(this.#root, source)
    if (!existsSync(path)) throw new Error(`there is no ${source}`)
    const heading = `<h1>${escapeHtml(source)}</h1>\n`
    if (statSync(path).isFile()) {
      const language = /\.(ya?ml|service|socket|cfg|conf)$/.test(source) ? 'yaml' : ''
      this.put(source, source, `${heading}${codeHtml(this.#read(source).trimEnd(), language)}`)
      return
    }
    const items = readdirSync(path)
      .sort()
      .map(name => {
        const inner = join(source, name)
        return `<li><a href="${escapeHtml(this.#link(`${source}/list`, inner.slice(source.length + 1)))}">${escapeHtml(name)}</a></li>\n`
      })
    this.put(
      source,
      source,
      `${heading}<p>Files of the repository, as they are in it.</p>\n<ul>\n${items.join('')}</ul>`,
    )
  }

  #decisions(): string {
    const items = decisionsOf(this.#root).map(({ source, title }) => {
      const href = linkBetween(placeOf(decisionsFolder, this.#root), placeOf(source, this.#root))
      return `<li><a href="${href}">${escapeHtml(title)}</a></li>\n`
    })
    return `<h1>Decisions</h1>\n<p>Each has what was decided, why, and its price.</p>\n<ol>\n${items.join('')}</ol>`
  }

  /** A link of a document as it stands in its page. What it leads to becomes a page as well. */
  #link(source: string, href: string, place = placeOf(source, this.#root)): string {
    if (/^[a-z]+:/.test(href) || href.startsWith('#')) return href
    const [path = '', anchor] = href.split('#')
    const file = sourceLinked(source, path)
    this.add(file)
    const link = linkBetween(place, placeOf(file, this.#root))
    return anchor === undefined ? link : `${link}#${anchor}`
  }

  /** Names of our manuals, such as cachesvc(8), become links outside of headings, code and other links. */
  #withManuals(html: string, source: string): string {
    return html
      .split(/(<(a|h[1-6]|pre|code|dt)\b[\s\S]*?<\/\2>)/)
      .map((part, index) => {
        if (index % 3 === 2) return ''
        if (index % 3 === 1) return part
        return part.replace(
          /(<strong>)?\b((?:cachesvc|authproxy)(?:\.yaml)?)(<\/strong>)?\(([58])\)/g,
          (_, __, name: string, ___, section: string) => {
            const place = placeOf(`man/${name}.${section}`, this.#root)
            const to = linkBetween(placeOf(source, this.#root), place)
            return `<a href="${to}">${name}(${section})</a>`
          },
        )
      })
      .join('')
  }

  #read(source: string): string {
    return readFileSync(join(this.#root, source), 'utf8')
  }
}

async function writeInto(directory: string, place: string, content: string): Promise<void> {
  await mkdir(dirname(join(directory, place)), { recursive: true })
  await writeFile(join(directory, place), content)
}

async function copyInto(directory: string, source: string, root: string): Promise<void> {
  await mkdir(dirname(join(directory, source)), { recursive: true })
  await cp(join(root, source), join(directory, source))
}
