/**
 * The folders of each half form a line: a folder imports those before it alone, types included. A folder and one inside it are of one
 * kind and may import each other.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join, normalize } from 'node:path'
import t from 'tap'
import { packageRoot } from '../lib/package.ts'

for (const half of ['lib/http', 'lib/saml', 'lib/auth', 'lib/cache']) {
  t.test(
    `no folder of ${half} imports one that imports it, at once or by way of others`,
    async t => {
      const circle = importsOf(join(packageRoot(), half))
      t.ok(circle.size > 3, 'the folders are found')
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
    },
  )
}

/** For each folder below `root` the folders whose files it imports, each with one such import. Files of `root` itself are in `.`. */
function importsOf(root: string): Map<string, Map<string, string>> {
  const imports = new Map<string, Map<string, string>>()
  for (const path of readdirSync(root, { recursive: true, encoding: 'utf8' })) {
    if (!path.endsWith('.ts')) continue
    const from = roomOf(path)
    const others = imports.get(from) ?? new Map<string, string>()
    imports.set(from, others)
    const text = readFileSync(join(root, path), 'utf8')
    for (const [, file = ''] of text.matchAll(/(?:\bfrom |\bimport |\bimport\()'(\.[^']+)'/g)) {
      const to = roomOf(normalize(join(dirname(path), file)))
      const isInside = to.startsWith(`${from}/`) || from.startsWith(`${to}/`)
      if (to !== from && !isInside && !to.startsWith('..'))
        others.set(to, `${path} imports ${file}`)
    }
  }
  return imports
}

/** The folder of a file. The settings of the features are below the configuration, and the rest of the features above it. */
function roomOf(path: string): string {
  return /^features\/(?:[^/]+\/)?settings\.ts$/.test(path) ? 'settings of features' : dirname(path)
}
