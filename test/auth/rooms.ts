/**
 * The folders of lib/auth form the line that docs/design.md names, and no folder of the core imports a feature. Sub-folders count with their
 * folder, and types count as well.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join, normalize } from 'node:path'
import t from 'tap'
import { packageRoot } from '../../lib/package.ts'

const root = join(packageRoot(), 'lib/auth')

/** The folders that are not there when a feature is deleted. */
const features = ['shared-state', 'forward-auth', 'doctor', 'replay', 'tokens']

/** The order of docs/design.md. The files of lib/auth itself are `the service with its pipeline`. */
function orderInDesign(): readonly string[] {
  const design = readFileSync(join(packageRoot(), 'docs/design.md'), 'utf8')
  const [, sentence = ''] =
    /The folders of `lib\/auth` form a line,[^:]*: ([^(]+)\(/.exec(design) ?? []
  return sentence
    .replace(/the\s+service\s+with\s+its\s+pipeline/, '`.`')
    .split(/,\s+/)
    .map(name => name.trim().replaceAll('`', ''))
}

/** The imports of lib/auth between folders: the folder that imports, the one that is imported, and the line. */
function importsOf(): ReadonlyArray<{ from: string; to: string; line: string }> {
  const folderOf = (path: string) => (path.includes('/') ? (path.split('/', 1)[0] ?? '') : '.')
  return readdirSync(root, { recursive: true, encoding: 'utf8' })
    .filter(path => path.endsWith('.ts'))
    .flatMap(path => {
      const text = readFileSync(join(root, path), 'utf8')
      return [...text.matchAll(/(?:\bfrom |\bimport |\bimport\()'(\.[^']+)'/g)].flatMap(
        ([, file = '']) => {
          const to = normalize(join(dirname(path), file))
          if (to.startsWith('..')) return []
          return { from: folderOf(path), to: folderOf(to), line: `${path} imports ${file}` }
        },
      )
    })
    .filter(({ from, to }) => from !== to)
}

t.test('a folder imports those before it in docs/design.md alone', t => {
  const order = orderInDesign()
  const imports = importsOf()
  t.same([...new Set(imports.flatMap(({ from, to }) => [from, to]))].sort(), [...order].sort())
  for (const { from, to, line } of imports) {
    t.ok(order.indexOf(to) < order.indexOf(from), line)
  }
  t.ok(imports.length > 300, `${imports.length} imports`)
  t.end()
})

t.test(
  'features.ts alone imports a feature, and no feature another but for one check each of doctor',
  t => {
    const imports = importsOf().filter(({ to }) => features.includes(to))
    for (const { from, to, line } of imports) {
      const isList = from === '.' && line.startsWith('features.ts imports ')
      const isOwnCheck = from === 'doctor' && line.startsWith(`doctor/checks/${to}.ts imports `)
      t.ok(isList || isOwnCheck, line)
    }
    t.end()
  },
)
