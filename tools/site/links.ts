/**
 * Where each file of the repository stands in the site, and the links between pages. They are relative, so that the site works below any path of a
 * file server, and from a directory.
 */
import { existsSync, statSync } from 'node:fs'
import { dirname, join, posix } from 'node:path'

/** The place of a file's page, relative to the root of the site: `docs/x.md` is `docs/x.html`. */
export function placeOf(source: string, root: string): string {
  if (source.endsWith('.md')) return source.replace(/\.md$/, '.html')
  const folder = existsSync(join(root, source)) && statSync(join(root, source)).isDirectory()
  return folder ? `${source}/index.html` : `${source}.html`
}

/** The link from one place of the site to another. */
export function linkBetween(from: string, to: string): string {
  return posix.relative(posix.dirname(from), to)
}

/** The file of the repository that a link of a document leads to, without `#`. */
export function sourceLinked(from: string, path: string): string {
  return posix.join(dirname(from), decodeURI(path)).replace(/\/$/, '')
}
