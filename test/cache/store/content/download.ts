import { readdir, readFile, writeFile } from 'node:fs/promises'
import t from 'tap'
import { Layout } from '../../../../lib/cache/store/disk/layout.ts'
import { forever, grown, hand, KiB } from '../../../fixtures/store/growing.ts'
import {
  bytesOf,
  collect,
  contentBytes,
  entryOf,
  openBelow,
  opened,
  sha256,
  until,
} from '../../../fixtures/store/opened.ts'

t.test('readers at different speeds and from different places all get their bytes', async t => {
  const { store, directory } = await opened(t)
  const content = bytesOf(9 * 1024 * KiB + 13)
  const download = await store.download({ length: content.length })
  const quick = hand(download)
  const slow = hand(download)
  const range = hand(download, 1_000_000, 1_999_999)
  const ahead = hand(download, content.length - 5)
  const early = Promise.all([range.takeAll(), ahead.takeAll()])
  for (let at = 0; at < content.length; at += 100_000) {
    await download.append(content.subarray(at, at + 100_000))
    await quick.takeUntil(Math.min(at + 100_000, content.length))
    if (at === 200_000) await slow.takeUntil(1)
  }
  const late = hand(download)
  await late.takeUntil(1)
  const { stored, digest, size } = await download.complete()
  t.strictSame(
    { stored, digest, size },
    {
      stored: true,
      digest: sha256(content),
      size: content.length,
    },
  )
  t.ok((await quick.takeAll()).equals(content), 'the quick one')
  t.ok((await slow.takeAll()).equals(content), 'the slow one')
  t.ok((await late.takeAll()).equals(content), 'the late one')
  const [part, tail] = await early
  t.ok(part?.equals(content.subarray(1_000_000, 2_000_000)), 'a range')
  t.ok(tail?.equals(content.subarray(-5)), 'one that waited for the end')
  await until(async () => (await openBelow(directory)).length === 0)
  t.equal(download.readers, 0)
  t.ok(
    (await collect(download.open(7, 99, forever))).equals(content.subarray(7, 100)),
    'afterwards',
  )
})

t.test('a reader that keeps up never touches the disk', async t => {
  const { download } = await grown(t, {
    spoil: () => ({ read: () => Promise.reject(new Error('read')) }),
  })
  const reader = hand(download)
  const content = bytesOf(1000 * KiB)
  for (let at = 0; at < content.length; at += 10 * KiB) {
    await download.append(content.subarray(at, at + 10 * KiB))
    await reader.takeUntil(at + 10 * KiB)
  }
  await download.complete()
  t.ok((await reader.takeAll()).equals(content))
})

t.test('blocks are only lent: the source may fill the same memory again', async t => {
  const { download, path } = await grown(t)
  const lent = Buffer.alloc(1000)
  const reader = hand(download)
  for (let n = 0; n < 200; n += 1) {
    lent.fill(n)
    await download.append(lent)
  }
  lent.fill(255)
  await download.complete()
  const whole = Buffer.concat(Array.from({ length: 200 }, (_, n) => Buffer.alloc(1000, n)))
  t.ok((await reader.takeAll()).equals(whole))
  t.ok((await readFile(path)).equals(whole))
})

t.test('single bytes cost memory like bytes', async t => {
  const { download } = await grown(t, { window: 64 * KiB })
  const reader = hand(download)
  const content = bytesOf(5_000)
  for (const byte of content) await download.append(Buffer.of(byte))
  await download.complete()
  t.ok((await reader.takeAll()).equals(content))
})

t.test('a reader that leaves or is aborted changes nothing for the others', async t => {
  const { store, directory } = await opened(t)
  const content = bytesOf(6 * 1024 * KiB)
  const download = await store.download()
  await download.append(content)
  const aborted = new AbortController()
  const [leaving, stopping, staying] = [
    hand(download),
    hand(download, 0, undefined, aborted.signal),
    hand(download),
  ]
  await Promise.all([leaving.take(), stopping.take(), staying.take()])
  const waiting = hand(download, content.length, undefined, aborted.signal)
  const cut = t.rejects(waiting.take(), { message: 'gone' }, 'a wait for bytes ends')
  await leaving.leave()
  aborted.abort(new Error('gone'))
  await cut
  await t.rejects(stopping.take(), { message: 'gone' })
  t.equal(download.readers, 1)
  await download.complete()
  t.ok((await staying.takeAll()).equals(content))
  await until(async () => (await openBelow(directory)).length === 0)
})

t.test('a reader aborted before it began holds nothing', async t => {
  const { download } = await grown(t)
  const reader = hand(download, 0, undefined, AbortSignal.abort(new Error('gone')))
  t.equal(download.readers, 0)
  await t.rejects(reader.take(), { message: 'gone' })
})

t.test('nothing at all is content too', async t => {
  const { store } = await opened(t)
  const download = await store.download({ length: 0 })
  const reader = hand(download)
  const { digest } = await download.complete()
  t.equal((await reader.takeAll()).length, 0)
  const empty = entryOf('http://archive.example.org/empty', Buffer.alloc(0))
  t.equal(digest, empty.digest)
  t.strictSame(await store.put(empty), { stored: true })
  t.equal((await contentBytes(await store.content(empty)))?.length, 0)
})

t.test('discarding fails readers with the reason and leaves no file', async t => {
  const { store, directory } = await opened(t)
  const download = await store.download()
  const reader = hand(download)
  await download.append(Buffer.alloc(5))
  await reader.take()
  const cut = t.rejects(reader.take(), { message: 'the origin went away' })
  await download.discard(new Error('the origin went away'))
  await cut
  await t.rejects(download.append(Buffer.alloc(1)), { message: 'the origin went away' })
  await t.rejects(download.complete(), { message: 'the origin went away' })
  t.strictSame(await readdir(new Layout(directory).temporary), [])
  await until(async () => (await openBelow(directory)).length === 0)
})

t.test('content that is there already is kept, and a broken copy of it replaced', async t => {
  const { store, directory } = await opened(t)
  const content = bytesOf(10_000)
  const path = new Layout(directory).blob(sha256(content))
  const once = async () => {
    const download = await store.download()
    await download.append(content)
    return download.complete()
  }
  await once()
  t.match(await once(), { stored: true })
  await writeFile(path, content.subarray(0, 5000))
  t.match(await once(), { stored: true })
  t.ok((await readFile(path)).equals(content))
  t.strictSame(await readdir(new Layout(directory).temporary), [])
  await store.counted()
  // Its bytes depend on whether the count came before or after the damage, which nobody told us of.
  t.match(await store.usage(), { blobs: 1 })
})
