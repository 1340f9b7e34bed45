import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { ManualClock } from '../../../../lib/async/clock.ts'
import { type SizeChange, Space, Tally } from '../../../../lib/cache/store/upkeep/usage.ts'
import { bytesOf, entryOf, keep, opened } from '../../../fixtures/store/opened.ts'

const forever = new AbortController().signal
const key = 'http://archive.example.org/pool/a_1_all.deb'

t.test('contents count once however many entries share them, and totals follow', async t => {
  const { store, directory } = await opened(t)
  await store.counted()
  const shared = bytesOf(1000)
  await keep(store, `${key}?a`, shared)
  await keep(store, `${key}?b`, shared)
  await keep(store, `${key}?c`, bytesOf(500))
  await store.put(entryOf(`${key}?a`, shared, { validated: 5 }))
  const full = { objects: 3, blobs: 2, bytes: 1500, counting: false }
  t.match(await store.usage(), full)
  await store.remove(`${key}?a`)
  await store.remove(`${key}?a`)
  t.match(await store.usage(), { objects: 2, blobs: 2, bytes: 1500 })
  await store.close()
  const { store: again } = await opened(t, { directory })
  await again.counted()
  t.match(await again.usage(), { objects: 2, blobs: 2, bytes: 1500, counting: false })
})

t.test('the file system is asked once in some seconds', async t => {
  const clock = new ManualClock(1_000_000)
  const space = new Space(t.testdir({}), clock)
  const [first, same] = await Promise.all([space.get(), space.get()])
  t.equal(first, same)
  t.ok(first !== undefined && first.total >= first.used + first.free && first.free > 0)
  clock.advance(4_999)
  t.equal(await space.get(), first)
  clock.advance(1)
  t.not(await space.get(), first)
  t.equal(await new Space('/nowhere/at/all', clock).get(), undefined)
})

t.test('what comes and goes during the count is counted once', async t => {
  const directory = t.testdir({ '00': {}, '80': {}, ff: {} })
  for (const name of ['00aa', '80aa', '80bb', '80cc', 'ffaa']) {
    await writeFile(join(directory, name.slice(0, 2), `${name}.x`), Buffer.alloc(10))
  }
  const tally = new Tally(directory, { sized: true })
  let slow = (_: SizeChange): void => undefined
  const changes: Promise<void>[] = []
  const change = (name: string, ...came: SizeChange) =>
    changes.push(tally.change(name, async () => came))
  let looked = 0
  const named = (file: string) => {
    looked += 1
    // The names of shard 80 were listed and its sizes not yet asked for: it is being counted now.
    if (file === '80aa.x') {
      change('00bb', undefined, 10)
      change('00aa', 10, undefined)
      change('80bb', 10, undefined)
      change('80dd', undefined, 10)
      change('80cc', 10, 10)
      change('ffbb', undefined, 10)
      // Its file is there already, and those who made it do not know yet.
      changes.push(
        tally.change(
          '80aa',
          () =>
            new Promise(resolve => {
              slow = resolve
            }),
        ),
      )
    }
    return file.endsWith('.x') ? file.slice(0, 4) : undefined
  }
  await writeFile(join(directory, 'ff', 'ffbb.x'), Buffer.alloc(10))
  t.ok(tally.counting)
  await tally.countAll(named, forever)
  t.notOk(tally.counting)
  t.ok(looked >= 5)
  // 00bb; 80cc 80dd; ffaa ffbb
  t.strictSame([tally.count, tally.bytes], [5, 50])
  slow([undefined, 10])
  await Promise.all(changes)
  t.strictSame([tally.count, tally.bytes], [6, 60])
})

t.test('what failed counts as before', async t => {
  const directory = t.testdir({ '00': {} })
  await writeFile(join(directory, '00', '00aa'), Buffer.alloc(10))
  const tally = new Tally(directory, { sized: true })
  await tally.countAll(file => file, forever)
  await t.rejects(
    tally.change('00aa', () => Promise.reject(new Error('EIO'))),
    /EIO/,
  )
  t.strictSame([tally.count, tally.bytes], [1, 10])
})

t.test('a count that is told to stop stops, and says it is not done', async t => {
  const directory = t.testdir({})
  await mkdir(join(directory, '00'))
  await writeFile(join(directory, '00', '00aa'), '')
  const tally = new Tally(directory, { sized: true })
  await tally.countAll(file => file, AbortSignal.abort())
  t.ok(tally.counting)
})
