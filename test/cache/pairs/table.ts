/**
 * The table of pairs (test/fixtures/cache/pairs.ts) is whole, and its tests exist.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { isRecord } from '../../../lib/json.ts'
import { packageRoot } from '../../../lib/package.ts'
import { type Cell, features, owners, pairs, Reason } from '../../fixtures/cache/pairs.ts'

const root = packageRoot()
const sources = new Map<string, string>()

/** All cells, with the names of their two features. */
const cells: ReadonlyArray<readonly [string, Cell]> = features.flatMap(row =>
  Object.entries(pairs[row]).map(([column, cell]) => [`${row} x ${column}`, cell] as const),
)

t.test('each two features have one cell', t => {
  const expected = features.flatMap((row, i) =>
    features.slice(i + 1).map(column => `${row} x ${column}`),
  )
  t.strictSame(
    cells.map(([name]) => name),
    expected,
  )
  t.end()
})

t.test('each cell has a test that exists, or a reason in a sentence', t => {
  for (const [name, cell] of cells) {
    if (cell instanceof Reason) t.match(cell.text, /^[A-Z].{30,}[.)]$/, name)
    else t.ok(exists(cell), `${name}: ${cell}`)
  }
  t.end()
})

t.test('a folder of the cache, or a setting of an archive, that is new belongs to a feature', t => {
  const foldersOf = (folder: string) =>
    readdirSync(join(root, folder), { withFileTypes: true })
      .filter(entry => entry.isDirectory())
      .map(({ name }) => `${folder}/${name}`)
  const folders = [
    ...foldersOf('lib/cache').filter(folder => folder !== 'lib/cache/features'),
    ...foldersOf('lib/cache/features'),
  ]
  const schema: unknown = JSON.parse(
    readFileSync(join(root, 'packaging/cachesvc.schema.json'), 'utf8'),
  )
  const settings = ['properties', 'archives', 'items', 'properties'].reduce(
    (at: unknown, name) => (isRecord(at) ? at[name] : undefined),
    schema,
  )
  const names = isRecord(settings) ? Object.keys(settings) : []
  t.strictSame(
    Object.keys(owners).sort(),
    [...folders, ...names.map(name => `archives[].${name}`)].sort(),
  )
  t.end()
})

/** Whether a file has a test with this title. A title with a part that is filled in needs that part in the file. */
function exists(cell: string): boolean {
  const [path = '', ...rest] = cell.split(': ')
  const title = rest.join(': ')
  const text = read(`test/cache/${path}.ts`)
  return titlesOf(text).some(written => {
    if (written === title) return true
    const parts = written.split(/\$\{[^}]*\}/)
    if (parts.length === 1) return false
    const filled = new RegExp(`^${parts.map(escaped).join('(.+)')}$`).exec(title)
    return filled?.slice(1).every(part => text.includes(part)) === true
  })
}

/** The titles of the tests of a file, as they are written. */
function titlesOf(text: string): readonly string[] {
  const titles = text.matchAll(/\btest\(\s*(['"`])((?:\\.|(?!\1).)*)\1/g)
  return [...titles].map(([, , title = '']) => title.replace(/\\(.)/g, '$1'))
}

function read(path: string): string {
  const known = sources.get(path)
  if (known !== undefined) return known
  let text = ''
  try {
    text = readFileSync(join(root, path), 'utf8')
  } catch {
    // A file that does not exist has no test.
  }
  sources.set(path, text)
  return text
}

function escaped(text: string): string {
  return text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')
}
