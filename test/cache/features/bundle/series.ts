/**
 * Bundles that follow each other: the second has what came after the first, and the third is not imported without the second.
 */
import { join } from 'node:path'
import t from 'tap'
import { type Clock, day, systemClock } from '../../../../lib/async/clock.ts'
import {
  bundleBefore,
  gapBefore,
  placeAfter,
  placeIn,
} from '../../../../lib/cache/features/bundle/series.ts'
import { packageRoot } from '../../../../lib/package.ts'
import { TestCache } from '../../../fixtures/cache/cache.ts'
import { file, ScriptedOrigin } from '../../../fixtures/http/scripted-origin.ts'
import { attempt } from '../../../fixtures/process/command.ts'

t.test('a number, and the name of the one before', t => {
  const first = placeAfter(undefined, 'a', [])
  const second = placeAfter(first, 'b', [])
  t.match(second, { number: 2, id: 'b', after: { number: 1, id: 'a' } })
  t.strictSame(placeIn(JSON.stringify({ version: 1, ...second })), second)
  t.throws(() => placeAfter(first, 'b', ['stable']), /has everything, so this one/)
  t.equal(placeIn('{"version":1}'), undefined, 'of an earlier version')
  t.equal(gapBefore(first, []), undefined)
  t.equal(gapBefore(second, ['x', 'a']), undefined)
  t.match(gapBefore(second, ['x']), /^it is bundle 2 and lacks what bundle 1 \(a\) has/)
  t.equal(gapBefore(undefined, []), undefined)
  t.end()
})

t.test('the third without the second is refused', async t => {
  const origin = await ScriptedOrigin.listen(t)
  const work = t.testdir()
  let ahead = -day
  const clock: Clock = { ...systemClock, now: () => systemClock.now() + ahead }
  const cache = await TestCache.start(t, { origins: [origin], clock })
  const cachesvc = async (directory: string, ...words: readonly string[]) => {
    const line = [...words, '--cache-dir', directory]
    const { code, stdout, stderr } = await attempt(join(packageRoot(), 'bin/cachesvc'), line)
    return { code, said: `${stdout}${stderr}` }
  }
  /** Exports after a package has come. */
  const exported = async (name: string, ...options: readonly string[]) => {
    const path = `/debian/pool/main/a/${name}_1_all.deb`
    const content = `!<arch>\n${name}`
    origin.at(path, file({ content, lastModified: 'Wed, 01 Jan 2025 00:00:00 GMT' }))
    await cache.warm(origin.url(path))
    const bundle = join(work, name)
    return { bundle, ...(await cachesvc(cache.directory, 'export', bundle, ...options)) }
  }
  const first = await exported('one')
  t.match(first, { code: 0, said: /^exported 1 file, / })
  ahead = 0
  const second = await exported('two', '--after', first.bundle)
  t.match(second, { code: 0, said: /^exported bundle 2, 1 file, / }, 'the first file is left out')
  const third = await exported('three.tar', '--after', second.bundle)
  t.match(third, { code: 0, said: /^exported bundle 3, / })

  const there = join(work, 'there')
  t.match(await cachesvc(there, 'import', first.bundle), { code: 0, said: /imported 1 file/ })
  for (const options of [['--dry-run'], []]) {
    const refused = await cachesvc(there, 'import', third.bundle, ...options)
    t.equal(refused.code, 1)
    const { id } = (await bundleBefore(second.bundle)).place
    t.match(refused.said, `it is bundle 3 and lacks what bundle 2 (${id}) has`)
  }
  t.match(await cachesvc(there, 'list'), { said: /one_1_all.deb\n$/ }, 'nothing of it is stored')
  t.match(await cachesvc(there, 'import', second.bundle), { code: 0 })
  t.match(await cachesvc(there, 'import', third.bundle), { code: 0 })
  const listed = await cachesvc(there, 'list')
  for (const name of ['one', 'two', 'three.tar']) t.match(listed.said, `${name}_1_all.deb`)

  const other = await exported('other', '--after', first.bundle, '--suite', 'stable')
  t.match(other, { code: 1, said: /has everything, so this one has to have the same/ })
  const none = await exported('none', '--after', join(work, 'no-bundle'))
  t.equal(none.code, 1)
})
