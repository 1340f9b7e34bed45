import t from 'tap'
import { Space } from '../../../../lib/cache/store/content/space.ts'
import { Disk, Layout } from '../../../../lib/cache/store/disk/disk.ts'
import { createMemoryLog } from '../../../fixtures/log/memory-log.ts'
import { sizedFiles } from '../../../fixtures/store/files.ts'
import { bytesOf, entryOf, keep, opened } from '../../../fixtures/store/opened.ts'
import { ManualClock } from '../../../fixtures/time/manual-clock.ts'

const log = createMemoryLog()
const key = 'http://archive.example.org/pool/a_1_all.deb'

t.test('contents count once however many entries share them, and totals follow', async t => {
  const { store, directory } = await opened(t)
  const shared = bytesOf(1000)
  await keep(store, `${key}?a`, shared)
  await keep(store, `${key}?b`, shared)
  await keep(store, `${key}?c`, bytesOf(500))
  store.put(entryOf(`${key}?a`, shared, { validated: 5 }))
  t.strictSame(store.usage(), { objects: 3, blobs: 2, bytes: 1500 })
  store.remove(`${key}?a`)
  store.remove(`${key}?a`)
  t.strictSame(store.usage(), { objects: 2, blobs: 2, bytes: 1500 })
  await store.close()
  const { store: again } = await opened(t, { directory })
  t.strictSame(again.usage(), { objects: 2, blobs: 2, bytes: 1500 })
  t.ok(((await again.fileSystem())?.total ?? 0) > 0)
})

t.test('what is free is told as it is when it is asked for', async t => {
  let free = 8_000_000
  const { store } = await opened(t, { files: sizedFiles(() => free) })
  t.equal((await store.fileSystem())?.free, 8_000_000)
  free = 0
  t.equal((await store.fileSystem())?.free, 0)
})

t.test('the file system is asked once in some seconds', async t => {
  const clock = new ManualClock(1_000_000)
  const disk = new Disk({ clock })
  const space = new Space({ disk, layout: new Layout(t.testdir({})), clock, log }, () => 0)
  t.equal(space.latest, undefined)
  const [first, same] = await Promise.all([space.get(), space.get()])
  t.equal(first, same)
  t.equal(space.latest, first)
  t.ok(first !== undefined && first.total >= first.used + first.free && first.free > 0)
  clock.advance(4_999)
  t.equal(await space.get(), first)
  clock.advance(1)
  t.not(await space.get(), first)
  t.equal(
    await new Space({ disk, layout: new Layout('/nowhere/at/all'), clock, log }, () => 0).get(),
    undefined,
  )
})
