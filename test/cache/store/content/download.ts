import { readdir, readFile, writeFile } from 'node:fs/promises'
import t, { type Test } from 'tap'
import { BlockPool, socketBlock } from '../../../../lib/bytes/block-pool.ts'
import { Piece } from '../../../../lib/bytes/piece.ts'
import { Layout } from '../../../../lib/cache/store/disk/disk.ts'
import { type Grown, grown, hand, KiB, pieceIn, settle } from '../../../fixtures/store/growing.ts'
import {
  bytesOf,
  contentBytes,
  entryOf,
  openBelow,
  opened,
  pour,
  sha256,
  until,
} from '../../../fixtures/store/opened.ts'

const MiB = 1024 * KiB

/** Nothing is left of a download that is over and that no reader reads. */
async function leavesNothing(t: Test, { pool, directory, ended }: Grown): Promise<void> {
  await until(() => ended() && pool.used === 0)
  await until(async () => (await openBelow(directory)).length === 0)
  t.equal(pool.used, 0)
}

t.test('readers at different speeds and from different places all get their bytes', async t => {
  const { store, directory } = await opened(t)
  const content = bytesOf(9 * MiB + 13)
  const download = store.download({ length: content.length })
  const quick = hand(download)
  const slow = hand(download)
  const range = hand(download, 1_000_000, 1_999_999)
  const ahead = hand(download, content.length - 5)
  const early = Promise.all([range.takeAll(), ahead.takeAll()])
  for (let at = 0; at < content.length; at += 100_000) {
    await pour(download, content.subarray(at, at + 100_000))
    await quick.takeUntil(Math.min(at + 100_000, content.length))
    if (at === 200_000) await slow.takeUntil(1)
  }
  const late = hand(download)
  await late.takeUntil(1)
  const { digest, size, kept } = download.complete()
  t.strictSame([digest, size], [sha256(content), content.length])
  t.ok((await quick.takeAll()).equals(content), 'the quick one')
  t.ok((await slow.takeAll()).equals(content), 'the slow one')
  t.ok((await late.takeAll()).equals(content), 'the late one')
  t.strictSame(await kept, { stored: true })
  const [part, tail] = await early
  t.ok(part?.equals(content.subarray(1_000_000, 2_000_000)), 'a range')
  t.ok(tail?.equals(content.subarray(-5)), 'one that waited for the end')
  await until(async () => (await openBelow(directory)).length === 0)
  t.equal(download.readers, 0)
  t.ok((await hand(download, 7, 99).takeAll()).equals(content.subarray(7, 100)), 'afterwards')
})

t.test(
  'a reader that keeps up never touches the disk, and pieces are passed by reference',
  async t => {
    const made = grown(t, { decide: call => (call === 'readv' ? { code: 'EIO' } : 'done') })
    const { download, pool } = made
    const reader = hand(download)
    const content = bytesOf(4 * MiB)
    for (let at = 0; at < content.length; at += 256 * KiB) {
      const ready = download.take(pieceIn(pool, content.subarray(at, at + 256 * KiB)))
      await reader.takeUntil(at + 256 * KiB)
      if (!ready) await new Promise<void>(resolve => download.whenReady(resolve))
    }
    download.complete()
    t.ok((await reader.takeAll()).equals(content))
    await leavesNothing(t, made)
  },
)

t.test('small content touches the disk when all of it is there, in one write', async t => {
  const { download, scripted, path, ended } = grown(t)
  const content = bytesOf(700 * KiB)
  const reader = hand(download)
  for (let at = 0; at < content.length; at += 50 * KiB) {
    download.take(new Piece(content.subarray(at, at + 50 * KiB)))
  }
  await settle()
  t.strictSame(scripted.calls, [])
  download.complete()
  t.ok((await reader.takeAll()).equals(content))
  await until(ended)
  const words = scripted.calls.map(call => call.split(' ')[0])
  t.strictSame(words.slice(0, 2), ['open', 'writev'])
  t.ok((await readFile(path)).equals(content))
})

t.test('single bytes of one block that do not lie together are copied together', async t => {
  const { download } = grown(t)
  const reader = hand(download)
  const pool = new BlockPool({ limit: 1 << 20 })
  const content = bytesOf(5_000)
  const block = pool.take(socketBlock)
  if (block === undefined) throw new Error('there is no block')
  for (const [i, byte] of content.entries()) {
    block.memory[i * 6] = byte
    block.retain()
    download.take(new Piece(block.memory.subarray(i * 6, i * 6 + 1), block))
  }
  block.release()
  download.complete()
  t.ok(await reader.take())
  t.ok(reader.bytes().equals(content), 'they are one piece')
  reader.leave()
})

t.test('single bytes cost memory like bytes', async t => {
  const { download } = grown(t)
  const reader = hand(download)
  const content = bytesOf(5_000)
  for (let at = 0; at < content.length; at += 1) {
    download.take(new Piece(content.subarray(at, at + 1)))
  }
  download.complete()
  t.ok(await reader.take())
  t.equal(reader.size, 5_000, 'they are one piece by now')
  reader.leave()
})

t.test('a reader that leaves changes nothing for the others', async t => {
  const { store, directory } = await opened(t)
  const content = bytesOf(6 * MiB)
  const download = store.download()
  await pour(download, content)
  const [leaving, staying] = [hand(download), hand(download)]
  await Promise.all([leaving.take(), staying.take()])
  const waiting = download.open(content.length)
  waiting.next(() => t.fail('it has left'))
  waiting.close()
  leaving.leave()
  leaving.leave()
  t.equal(download.readers, 1)
  download.complete()
  t.ok((await staying.takeAll()).equals(content))
  await until(async () => (await openBelow(directory)).length === 0)
})

t.test('nothing at all is content too', async t => {
  const { store } = await opened(t)
  const download = store.download({ length: 0 })
  const reader = hand(download)
  const { digest, kept } = download.complete()
  t.equal((await reader.takeAll()).length, 0)
  const empty = entryOf('http://archive.example.org/empty', Buffer.alloc(0))
  t.equal(digest, empty.digest)
  t.strictSame(store.put(empty), { stored: true })
  t.strictSame(await kept, { stored: true })
  t.equal((await contentBytes(await store.content(empty)))?.length, 0)
})

t.test('discarding fails readers with the reason and leaves no file', async t => {
  for (const size of [5, 3 * MiB]) {
    const { store, directory } = await opened(t)
    const download = store.download()
    const reader = hand(download)
    await pour(download, Buffer.alloc(size), 64 * KiB)
    await reader.takeUntil(size)
    const cut = t.rejects(reader.take(), { message: 'the origin went away' })
    download.discard(new Error('the origin went away'))
    await cut
    const piece = new Piece(Buffer.alloc(1))
    t.throws(() => download.take(piece), { message: 'the origin went away' })
    t.throws(() => download.complete(), { message: 'the origin went away' })
    await t.rejects(hand(download).take(), { message: 'the origin went away' })
    await until(async () => (await readdir(new Layout(directory).temporary)).length === 0)
    await until(async () => (await openBelow(directory)).length === 0)
  }
})

t.test('one that is discarded while its file is being made leaves none', async t => {
  const made = grown(t, { decide: call => (call === 'open' ? 'hang' : 'done') })
  const { download, scripted, directory, pool } = made
  download.take(pieceIn(pool, Buffer.alloc(256 * KiB)))
  for (let n = 0; n < 4; n += 1) download.take(pieceIn(pool, Buffer.alloc(256 * KiB)))
  t.ok(scripted.calls.some(call => call.startsWith('open')))
  download.discard(new Error('gone'))
  scripted.release()
  await leavesNothing(t, made)
  t.strictSame(await readdir(directory), [])
})

t.test('content that is there already is replaced, so a broken copy of it heals', async t => {
  const { store, directory } = await opened(t)
  const content = bytesOf(10_000)
  const path = new Layout(directory).blob(sha256(content))
  const once = async () => {
    const download = store.download()
    await pour(download, content)
    return download.complete().kept
  }
  await once()
  const entry = entryOf('http://archive.example.org/a', content)
  store.put(entry)
  for (let n = 0; n < 3; n += 1) await contentBytes(await store.content(entry))
  await writeFile(path, Buffer.alloc(content.length))
  t.strictSame(await once(), { stored: true })
  t.ok((await readFile(path)).equals(content), 'on disk')
  t.ok((await contentBytes(await store.content(entry)))?.equals(content), 'and in memory')
  t.strictSame(await readdir(new Layout(directory).temporary), [])
  t.match(store.usage(), { objects: 1, blobs: 1, bytes: 10_000 })
})

t.test('the origin waits for the disk, in bounded memory', async t => {
  const made = grown(t, { decide: call => (call === 'writev' ? 'hang' : 'done') })
  const { download, pool, scripted } = made
  let taken = 0
  const give = () => {
    taken += 256 * KiB
    return download.take(pieceIn(pool, Buffer.alloc(256 * KiB, taken)))
  }
  while (give()) if (taken > 64 * MiB) break
  t.ok(taken <= 3 * MiB, `${taken} bytes`)
  let ready = false
  download.whenReady(() => {
    ready = true
  })
  await settle()
  t.notOk(ready)
  scripted.decide = () => 'done'
  scripted.release()
  await until(() => ready)
  t.ok(give())
  download.complete()
  await leavesNothing(t, made)
})

t.test('when blocks are scarce little is kept', async t => {
  const made = grown(t, { memory: 20 * 256 * KiB, most: 4 * MiB })
  const { download, pool } = made
  const content = bytesOf(12 * MiB)
  const behind = hand(download)
  for (let at = 0; at < content.length; at += 256 * KiB) {
    const ready = download.take(pieceIn(pool, content.subarray(at, at + 256 * KiB)))
    if (!ready) await new Promise<void>(resolve => download.whenReady(resolve))
  }
  t.ok(pool.used < 20 * 256 * KiB, `${pool.used} bytes`)
  download.complete()
  t.ok((await behind.takeAll()).equals(content))
  await leavesNothing(t, made)
})

t.test('bytes nobody expects fail it, and the piece is let go', async t => {
  const made = grown(t, { length: 10 })
  const { download, pool } = made
  const reader = hand(download)
  t.throws(() => download.take(pieceIn(pool, Buffer.alloc(11))), { code: 'wrong-size' })
  await t.rejects(reader.take(), { code: 'wrong-size' })
  reader.leave()
  await leavesNothing(t, made)
})
