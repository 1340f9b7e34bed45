/**
 * Which packages differ between two generations of a suite.
 */
import { mkdir, writeFile } from 'node:fs/promises'
import { dirname } from 'node:path'
import { gzipSync } from 'node:zlib'
import t from 'tap'
import {
  ChangesInThread,
  changesBetween,
  countOfChanges,
} from '../../../../lib/cache/features/delay/changes.ts'
import { Layout } from '../../../../lib/cache/store/disk/disk.ts'
import type { ListedContent } from '../../../../lib/cache/suites/generation.ts'
import { hexOf } from '../../../fixtures/archive/tiny-archive.ts'
import { createMemoryLog } from '../../../fixtures/log/memory-log.ts'
import { ManualClock } from '../../../fixtures/time/manual-clock.ts'

t.test('versions old and new', async t => {
  const cacheDirectory = t.testdir({})
  const layout = new Layout(cacheDirectory)
  /** Stores an index of `name version architecture` lines. */
  const index = async (path: string, ...packages: readonly string[]): Promise<ListedContent> => {
    const text = packages.map(line => {
      const [name, version, architecture = 'amd64'] = line.split(' ')
      return `Package: ${name}\nVersion: ${version}\nArchitecture: ${architecture}\nDescription: x\n y\n`
    })
    const content = gzipSync(text.join('\n'))
    const digest = hexOf('sha256', content)
    await mkdir(dirname(layout.blob(digest)), { recursive: true })
    await writeFile(layout.blob(digest), content)
    return { path, digest, size: content.length }
  }
  const main = 'main/binary-amd64/Packages.gz'
  const same = await index('contrib/binary-amd64/Packages.gz', 'c 1')
  const before = [
    same,
    await index(main, 'a 1:1.9', 'b 2', 'gone 1', 'kept 1', 'two 1', 'two 2', 'x 1 all'),
    { path: 'main/Contents-amd64.gz', digest: '0'.repeat(64), size: 1 },
  ]
  const after = [
    same,
    await index(main, 'a 1:1.10', 'b 2', 'kept 1', 'new 1~rc1', 'two 2', 'two 3', 'x 2 all', 'x 1'),
  ]
  const changes = await changesBetween({ cacheDirectory, before, after })
  t.strictSame(
    changes.map(one => `${one.name} ${one.architecture} ${one.old} ${one.new}`),
    [
      'a amd64 1:1.9 1:1.10',
      'gone amd64 1 undefined',
      'new amd64 undefined 1~rc1',
      'two amd64 1 3',
      'x all 1 2',
      'x amd64 undefined 1',
    ],
  )
  t.strictSame(countOfChanges(changes), { packages: 6, added: 2, removed: 1 })
  t.strictSame(await changesBetween({ cacheDirectory, before, after: before }), [])
  const lost = [{ path: main, digest: 'f'.repeat(64), size: 1 }]
  await t.rejects(changesBetween({ cacheDirectory, before, after: lost }), { code: 'ENOENT' })
  const clock = new ManualClock(0)
  const inThread = new ChangesInThread({ cacheDirectory, clock, log: createMemoryLog() })
  t.strictSame(await inThread.list({ before, after }), changes, 'the same in a thread')
  await t.rejects(inThread.list({ before, after: lost }), { code: 'ENOENT' })
  const [listed] = await Promise.allSettled([inThread.list({ before, after }), inThread.close()])
  t.match(listed, { status: 'rejected', reason: /the service stops/ }, 'the stop ends it')
})
