/**
 * A feature can be deleted: outside of its folder and its tests, `features.ts` alone imports files of it, and no feature imports another.
 * `tools/without.ts` tries it; this is the cheap part.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join, normalize } from 'node:path'
import t from 'tap'
import { packageRoot } from '../../lib/package.ts'

const below = /^lib\/cache\/features\/([^/]+)\//

/** The lists of features. */
const lists: readonly string[] = ['lib/cache/features.ts', 'lib/cache/features/settings.ts']

/** Every import of a file of a feature, from outside of the feature. */
function* crossings(): Generator<{ readonly path: string; readonly feature: string }> {
  for (const root of ['lib', 'bin', 'tools', 'test', 'bench', 'demo']) {
    for (const name of readdirSync(join(packageRoot(), root), {
      recursive: true,
      encoding: 'utf8',
    })) {
      if (!name.endsWith('.ts')) continue
      const path = join(root, name)
      const text = readFileSync(join(packageRoot(), path), 'utf8')
      for (const [, file = ''] of text.matchAll(/(?:\bfrom |\bimport |\bimport\()'(\.[^']+)'/g)) {
        const [, feature] = below.exec(normalize(join(dirname(path), file))) ?? []
        if (feature === undefined) continue
        const own = path.startsWith(`lib/cache/features/${feature}/`)
        const ofTests = ['cache/features', 'fixtures/features'].map(
          one => `test/${one}/${feature}/`,
        )
        if (!own && !ofTests.some(one => path.startsWith(one))) yield { path, feature }
      }
    }
  }
}

t.test('only the lists import files of features', async t => {
  const all = [...crossings()]
  t.ok(
    all.some(({ path }) => path === 'lib/cache/features.ts'),
    'the list is found',
  )
  const others = all.filter(({ path }) => !lists.includes(path))
  const found = new Set(others.map(({ path, feature }) => `${path}: ${feature}`))
  t.strictSame([...found], [])
})
