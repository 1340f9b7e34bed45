/**
 * The map of the source tree in docs/design.md, made from first comments. `npm run manual` writes it; a test fails while it
 * is out of date.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

const path = 'docs/design.md'
const fence = /(<!-- map -->\n```\n)[\s\S]*?(```\n<!-- end of map -->)/

/** docs/design.md as it should be: its path in the repository and its text. Throws when it has no place for the map. */
export function designWithMap(root: string): readonly [path: string, content: string] {
  const text = readFileSync(join(root, path), 'utf8')
  if (!fence.test(text)) throw new Error(`${path} has no place for the map`)
  const map = ['bin', 'demo', 'lib', 'tools'].flatMap(folder => rooms(root, folder)).join('\n')
  return [path, text.replace(fence, (_, start: string, end: string) => `${start}${map}\n${end}`)]
}

/** A folder and those below it: its name, then a line for each file. */
function rooms(root: string, folder: string): string[] {
  const entries = readdirSync(join(root, folder), { withFileTypes: true })
  const names = (folders: boolean) =>
    entries.filter(entry => entry.isDirectory() === folders).map(entry => entry.name)
  const files = names(false)
    .filter(name => name.endsWith('.ts'))
    .sort()
    .map(name => `  ${name.padEnd(26)} ${summary(readFileSync(join(root, folder, name), 'utf8'))}`)
  const below = names(true).sort()
  return [
    ...(files.length > 0 ? [`${folder}/`, ...files, ''] : []),
    ...below.flatMap(name => rooms(root, join(folder, name))),
  ]
}

/** The first sentence of a file's first comment, or its beginning up to a colon. */
function summary(source: string): string {
  const comment = /^\/\*\*\n([\s\S]*?)\n \*\//.exec(source)?.[1] ?? ''
  const prose = comment
    .split('\n')
    .map(line => line.replace(/^ \* ?/, ''))
    .join(' ')
  return /^.{30,}?(?=[.:](\s|$))/.exec(prose)?.[0] ?? prose
}
