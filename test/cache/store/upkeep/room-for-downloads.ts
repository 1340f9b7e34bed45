import t from 'tap'
import { keepAll } from '../../../../lib/cache/store/retention-rules.ts'
import { sizedFiles } from '../../../fixtures/store/files.ts'
import { hand, settle } from '../../../fixtures/store/growing.ts'
import { bytesOf, keep, opened, pour, until } from '../../../fixtures/store/opened.ts'

const MiB = 1 << 20
const keyOf = (n: number | string): string => `http://archive.example.org/pool/${n}_1_all.deb`

t.test('a content that fits once room is made waits for it and is stored', async t => {
  const { store, clock } = await opened(t)
  for (let n = 0; n < 90; n += 1) await keep(store, keyOf(n), bytesOf(1_000))
  clock.advance(10_000)
  store.retain({ ...keepAll, size: 20_000 })
  const content = bytesOf(5_000)
  const download = store.download({ length: content.length })
  const client = hand(download).takeAll()
  t.equal(download.stored, true)
  await pour(download, content)
  const { kept } = download.complete()
  t.ok((await client).equals(content), 'the client does not wait')
  t.strictSame(await kept, { stored: true })
  t.ok(store.usage().bytes <= 20_000)
})

t.test('a content for which no room can be made waits for a bounded time only', async t => {
  const { store, clock } = await opened(t)
  for (let n = 0; n < 30; n += 1) await keep(store, keyOf(n), bytesOf(MiB / 4))
  clock.advance(10_000)
  const standing = () => 'recorded' as const
  store.retain({ ...keepAll, size: 4 * MiB, standing })
  const download = store.download({ length: MiB })
  await pour(download, bytesOf(MiB))
  t.match(await download.complete().kept, { stored: false, because: /retention.size/ })
  t.equal(store.usage().objects, 30)
})

t.test('downloads of unknown length keep within the quota', async t => {
  const { store } = await opened(t)
  store.retain({ ...keepAll, size: 8 * MiB })
  const downloads = Array.from({ length: 12 }, () => store.download())
  const piece = bytesOf(MiB / 2)
  for (let n = 0; n < 6; n += 1) {
    for (const download of downloads) await pour(download, piece)
    const arrived = downloads.filter(one => one.stored).map(one => one.file.written)
    const sum = arrived.reduce((all, one) => all + one, 0)
    t.ok(sum <= 8 * MiB, `${sum} bytes`)
  }
  t.ok(downloads.some(download => !download.stored))
  for (const download of downloads) download.complete()
})

t.test('a download of unknown length leaves the floor free and half of the contents', async t => {
  let used = (): number => 0
  const { store, clock } = await opened(t, { files: sizedFiles(() => 64 * MiB - used()) })
  used = () => store.usage().bytes
  for (let n = 0; n < 20; n += 1) await keep(store, keyOf(n), bytesOf(MiB))
  clock.advance(10_000)
  const download = store.download()
  const client = hand(download).takeAll()
  used = () => store.usage().bytes + (download.stored ? download.file.written : 0)
  store.retain({ ...keepAll, free: 16 * MiB })
  const piece = bytesOf(MiB)
  for (let n = 0; n < 60; n += 1) {
    await pour(download, piece)
    await settle()
    t.ok(64 * MiB - used() >= 8 * MiB)
  }
  const { kept } = download.complete()
  t.equal((await client).length, 60 * MiB)
  t.match(await kept, { stored: false, because: /more than half/ })
  t.ok(store.usage().objects >= 10, `${store.usage().objects} are left`)
})

t.test('a download that has hardly begun takes no room from others', async t => {
  const { store, clock } = await opened(t)
  for (let n = 0; n < 30; n += 1) await keep(store, keyOf(n), bytesOf(MiB))
  clock.advance(10_000)
  store.retain({ ...keepAll, size: 40 * MiB })
  const drip = store.download({ length: 19 * MiB })
  await pour(drip, bytesOf(10))
  clock.advance(60_000)
  await settle()
  t.equal(store.usage().objects, 30)
  t.equal(store.download({ length: 19 * MiB }).stored, true)
})

t.test('nothing is removed when that cannot reach the floor', async t => {
  let free = 100
  const { store, clock, log } = await opened(t, { files: sizedFiles(() => free) })
  for (let n = 0; n < 4; n += 1) await keep(store, keyOf(n), bytesOf(100))
  clock.advance(10_000)
  store.retain({ ...keepAll, free: 1_000 })
  const said = () => log.lines.filter(({ message }) => /other programs/.test(message))
  await until(() => said().length === 1)
  clock.advance(30_000)
  await settle()
  t.equal(store.usage().objects, 4)
  t.match(store.download({ length: 50 }), { stored: false, because: /do not fit/ })
  t.equal(said().length, 1)
  free = 5_000
  clock.advance(30_000)
  await settle()
  t.equal(store.download({ length: 200 }).stored, true)
})
