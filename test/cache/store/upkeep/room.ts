import { readdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { Layout } from '../../../../lib/cache/store/disk/disk.ts'
import { keepAll } from '../../../../lib/cache/store/retention-rules.ts'
import { scriptedFiles, sizedFiles } from '../../../fixtures/store/files.ts'
import { bytesOf, keep, opened, pour, sha256, until } from '../../../fixtures/store/opened.ts'

const MiB = 1 << 20
const keyOf = (n: number | string): string => `http://archive.example.org/pool/${n}_1_all.deb`

/** Bytes of all files below `blobs/` and `tmp/`. */
async function onDisk(directory: string): Promise<number> {
  const { blobs, temporary } = new Layout(directory)
  const shards = (await readdir(blobs)).map(shard => join(blobs, shard))
  let bytes = 0
  for (const place of [...shards, temporary]) {
    for (const name of await readdir(place)) {
      bytes += await stat(join(place, name)).then(
        found => found.size,
        () => 0,
      )
    }
  }
  return bytes
}

t.test('a gigabyte of content through 64 MiB: within bounds, what is hot stays', async t => {
  const { store, directory, clock } = await opened(t)
  const size = 64 * MiB
  store.retain({ ...keepAll, size })
  const hot = await Promise.all([1, 2, 3, 4].map(n => keep(store, keyOf(`hot${n}`), bytesOf(MiB))))
  let [largest, stored] = [0, 0]
  const content = bytesOf(2 * MiB)
  for (let n = 0; n < 512; n += 1) {
    content.writeUInt32BE(n)
    await keep(store, keyOf(n), content)
    clock.advance(50)
    for (const { key } of hot) store.touch(key)
    if (store.peek(keyOf(n)) !== undefined) stored += 1
    if (n % 4 === 0) largest = Math.max(largest, await onDisk(directory))
  }
  t.ok(largest <= size, `${largest} bytes at most`)
  t.ok(largest > size / 2, 'the quota is used')
  // Contents pass through while a busy disk still makes room: the test's clock does not wait for it.
  t.ok(stored > 256, `${stored} of 512 were stored`)
  for (const entry of hot) t.strictSame(await store.get(entry.key), entry)
  t.equal(await store.get(keyOf(1)), undefined)
})

t.test('the order of use survives a restart', async t => {
  const first = await opened(t)
  for (const n of [1, 2, 3]) {
    await keep(first.store, keyOf(n), bytesOf(MiB))
    first.clock.advance(2_000)
  }
  const hours = 6 * 60 * 60 * 1000
  first.clock.advance(hours)
  first.store.touch(keyOf(1))
  await first.store.close()
  const { store, clock } = await opened(t, { directory: first.directory })
  clock.advance(2 * hours)
  store.retain({ ...keepAll, size: 2.9 * MiB })
  await until(() => store.usage().objects === 2)
  t.equal(await store.get(keyOf(2)), undefined)
  t.ok(await store.get(keyOf(1)))
})

t.test('what no adopted index names goes first, whole generations last', async t => {
  const { store, clock } = await opened(t)
  const contents = [1, 2, 3, 4].map(() => bytesOf(MiB))
  for (const [n, content] of contents.entries()) {
    await keep(store, keyOf(n), content)
    clock.advance(2_000)
  }
  const [release, named] = contents.map(sha256)
  const standing = (digest: string) =>
    digest === release ? 'generation' : digest === named ? 'named' : 'unknown'
  const left = async (size: number): Promise<readonly number[]> => {
    const before = store.usage().objects
    store.retain({ ...keepAll, standing, size })
    await until(() => store.usage().objects < before)
    await until(() => store.usage().bytes <= size)
    return [0, 1, 2, 3].filter(n => store.peek(keyOf(n)) !== undefined)
  }
  t.strictSame(await left(3.9 * MiB), [0, 1, 3])
  t.strictSame(await left(2.9 * MiB), [0, 1])
  t.strictSame(await left(1.9 * MiB), [0])
})

t.test('a lowered quota comes about in the background, at a bounded rate, and is told', async t => {
  const { store, directory, clock, log } = await opened(t)
  for (let n = 0; n < 300; n += 1) await keep(store, keyOf(n), bytesOf(1000))
  clock.advance(2_000)
  store.retain({ ...keepAll, size: 20_000 })
  await until(async () => (await onDisk(directory)) <= 200_000)
  t.ok(await store.get(keyOf(299)), 'what was used last is still there')
  t.ok((await onDisk(directory)) > 100_000, 'and then requests have a while')
  await until(async () => {
    clock.advance(50)
    return (await onDisk(directory)) <= 20_000
  })
  clock.advance(30_000)
  const said = log.lines.find(({ message }) => message === 'retention: made room')
  t.match(said?.facts, { contents: 283, bytes: 283_000, left: 0, because: 'quota 283' })
})

t.test('content that is too large passes through, also when its length comes last', async t => {
  const { store } = await opened(t)
  store.retain({ ...keepAll, objectSize: 3 * MiB })
  t.match(store.download({ length: 3 * MiB + 1 }), { stored: false, because: /object_size/ })
  t.equal(store.download({ length: 3 * MiB }).stored, true)
  const content = bytesOf(5 * MiB)
  const download = store.download()
  await pour(download, content.subarray(0, 3 * MiB))
  t.equal(download.stored, true)
  await pour(download, content.subarray(3 * MiB))
  t.match(await download.complete().kept, { stored: false, because: /object_size/ })
  t.equal(store.health().writable, true, 'no fault of the disk')
  store.retain({ ...keepAll, size: 4 * MiB })
  t.match(store.download({ length: 2 * MiB + 1 }), { stored: false, because: /half/ })
})

t.test('a disk that removes nothing: the quota holds, and everything passes through', async t => {
  const scripted = scriptedFiles()
  const { store, directory } = await opened(t, { files: scripted.files })
  store.retain({ ...keepAll, size: 8 * MiB })
  scripted.decide = call => (call === 'unlink' ? { code: 'EIO' } : 'done')
  for (let n = 0; n < 30; n += 1) {
    await keep(store, keyOf(n), bytesOf(MiB))
    t.ok((await onDisk(directory)) <= 9 * MiB)
  }
  scripted.decide = () => 'done'
})

t.test('a part of the file system stays free', async t => {
  let used = (): number => 0
  const { store, clock } = await opened(t, { files: sizedFiles(() => 10 * MiB - used()) })
  used = () => store.usage().bytes
  for (let n = 0; n < 8; n += 1) {
    await keep(store, keyOf(n), bytesOf(MiB))
    clock.advance(2_000)
  }
  store.retain({ ...keepAll, free: 4 * MiB })
  await until(() => store.usage().bytes <= 6 * MiB)
  t.equal(store.peek(keyOf(0)), undefined)
  t.ok(store.peek(keyOf(7)))
  for (let n = 8; n < 30; n += 1) {
    await keep(store, keyOf(n), bytesOf(MiB))
    t.ok(store.peek(keyOf(n)), 'room is made for what comes')
    t.ok(10 * MiB - used() >= 2 * MiB)
    clock.advance(2_000)
  }
  t.match(store.download({ length: 9 * MiB }), { stored: false, because: /do not fit/ })
})

t.test('the cache is not emptied when other programs fill the file system', async t => {
  const { store, clock, log } = await opened(t, { files: sizedFiles(() => 800) })
  for (let n = 0; n < 40; n += 1) await keep(store, keyOf(n), bytesOf(100))
  clock.advance(10_000)
  store.retain({ ...keepAll, free: 1_000 })
  await until(() => log.lines.some(({ message }) => /frees no space/.test(message)))
  t.ok(store.usage().objects > 30)
  t.match(store.download({ length: 200 }), { stored: true })
  t.match(store.download({ length: 400 }), { stored: false, because: /do not fit/ })
})
