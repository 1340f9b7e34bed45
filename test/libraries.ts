/**
 * The libraries of package.json and the files of the program that import them: one for each library, so that replacing it
 * changes one file.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { packageRoot } from '../lib/package.ts'

const root = packageRoot()
const { dependencies }: { dependencies: Record<string, string> } = JSON.parse(
  readFileSync(join(root, 'package.json'), 'utf8'),
)
/** A data structure, which many files have instances of. */
const withManyImporters = new Set(['lru-cache'])

/** The libraries that each source file of the program imports, in any of the ways there are. */
const imported = new Map(
  ['lib', 'bin', 'demo', 'tools'].flatMap(folder =>
    readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
      .filter(path => path.endsWith('.ts'))
      .map(path => [`${folder}/${path}`, libraries(join(root, folder, path))] as const),
  ),
)

/** A package is named by `from`, by `import` without names, or in a call: `import()`, `require()` and what replaces it. */
function libraries(path: string): ReadonlySet<string> {
  const named = readFileSync(path, 'utf8').matchAll(
    /(?:\bfrom |\bimport |\w\()'((?:@[\w.-]+\/)?[\w-][\w.-]*)(?:\/[^']*)?'/g,
  )
  return new Set([...named].map(([, library = '']) => library))
}

t.test('each library has one importer', async t => {
  for (const library of Object.keys(dependencies)) {
    const importers = [...imported].filter(([, libraries]) => libraries.has(library))
    const files = importers.map(([path]) => path)
    if (withManyImporters.has(library)) t.not(files.length, 0, library)
    else t.equal(files.length, 1, `${library}: ${files.join(', ') || 'no file imports it'}`)
  }
})

t.test('what is for development is loaded when its command runs', async t => {
  const loading = [...imported.keys()].filter(path => {
    const early = /^(?:import|export) .*'(?:\.\.\/)+dev\//m
    return !path.startsWith('demo/') && early.test(readFileSync(join(root, path), 'utf8'))
  })
  t.strictSame(loading, [])
})
