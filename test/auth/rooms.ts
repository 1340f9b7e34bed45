/** The folders of lib/auth form a line: each imports those before it alone, types included. */
import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join, normalize } from 'node:path'
import t from 'tap'
import { packageRoot } from '../../lib/package.ts'

const root = join(packageRoot(), 'lib/auth')

/** The files that import a file of another folder, by both folders. The service and the pipeline are in the folder `.`. */
const importers = new Map<string, Map<string, string>>()
for (const path of readdirSync(root, { recursive: true, encoding: 'utf8' })) {
  if (!path.endsWith('.ts')) continue
  const from = dirname(path)
  const others = importers.get(from) ?? new Map<string, string>()
  importers.set(from, others)
  const text = readFileSync(join(root, path), 'utf8')
  for (const [, file = ''] of text.matchAll(/(?:\bfrom |\bimport |\bimport\()'(\.[^']+)'/g)) {
    const to = dirname(normalize(join(from, file)))
    if (to !== from && !to.startsWith('..')) others.set(to, `${path} imports ${file}`)
  }
}

t.test('no folder imports one that imports it, at once or by way of others', async t => {
  t.ok(importers.size > 10, 'the folders are found')
  const circle = new Map(importers)
  const isBelow = (others: ReadonlyMap<string, string>) =>
    ![...others.keys()].some(to => circle.has(to))
  const isAbove = (folder: string) => ![...circle.values()].some(others => others.has(folder))
  for (let before = Infinity; circle.size < before; ) {
    before = circle.size
    for (const [folder, others] of circle) {
      if (isBelow(others) || isAbove(folder)) circle.delete(folder)
    }
  }
  const lines = [...circle.values()].flatMap(others =>
    [...others].filter(([to]) => circle.has(to)).map(([, line]) => line),
  )
  t.strictSame(lines, [])
})
