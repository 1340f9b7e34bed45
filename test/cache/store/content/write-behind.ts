import { type FileHandle, readdir, readFile } from 'node:fs/promises'
import t from 'tap'
import type { GrowingFile } from '../../../../lib/cache/store/content/write-behind.ts'
import { Layout } from '../../../../lib/cache/store/disk/layout.ts'
import { grown, hand, KiB, settle } from '../../../fixtures/store/growing.ts'
import {
  bytesOf,
  entryOf,
  openBelow,
  opened,
  sha256,
  until,
} from '../../../fixtures/store/opened.ts'
import { mountTmpfs, withTmpfs } from '../../../fixtures/store/tmpfs.ts'

t.test("a disk that fills up in the middle is nobody else's business", withTmpfs, async t => {
  const directory = mountTmpfs(t, 'size=2m')
  const { store, log, clock } = await opened(t, { directory })
  const content = bytesOf(12 * 1024 * KiB)
  const download = await store.download()
  const quick = hand(download)
  const behind = hand(download)
  const drive = async (reader: ReturnType<typeof hand>) => reader.takeAll()
  const quickly = drive(quick)
  let slowly: Promise<Buffer> | undefined
  for (let at = 0; at < content.length; at += 64 * KiB) {
    await download.append(content.subarray(at, at + 64 * KiB))
    if (!download.stored) slowly ??= drive(behind)
  }
  const completion = await download.complete()
  t.match(completion, { stored: false, digest: sha256(content), because: /no space left/ })
  t.ok((await quickly).equals(content), 'the quick one has it all')
  t.ok((await slowly)?.equals(content), 'and so has the one that began after the disk was full')
  t.match(store.health(), { writable: false, because: /no space left/ })
  t.ok(log.lines.some(line => line.level === 'warn' && /disk fails/.test(line.message)))
  t.strictSame(await readdir(new Layout(directory).temporary), [], 'the space is given back')
  await until(async () => (await openBelow(directory)).length === 0)
  clock.advance(15_000)
  await until(() => store.health().writable)
  const small = await store.download()
  await small.append(Buffer.from('fits'))
  t.match(await small.complete(), { stored: true })
})

t.test('what cannot fit is not begun', withTmpfs, async t => {
  const { store } = await opened(t, { directory: mountTmpfs(t, 'size=2m') })
  const download = await store.download({ length: 5_000_000 })
  t.notOk(download.stored)
  t.match(download.because, /5000000 bytes do not fit/)
  t.ok(store.health().writable, 'which is no fault of the disk: what fits is stored')
  const small = await store.download({ length: 4 })
  await small.append(Buffer.from('fits'))
  t.match(await small.complete(), { stored: true })
})

t.test('without any disk a download is a relay from the start', async t => {
  const { store, directory } = await opened(t, {
    createFile: () => Promise.reject(Object.assign(new Error('EIO'), { code: 'EIO' })),
  })
  const download = await store.download()
  const reader = hand(download)
  const content = bytesOf(20_000)
  await download.append(content)
  const completion = await download.complete()
  t.match(completion, { stored: false, because: /input\/output error/ })
  t.ok(download.canJoin(0), 'as long as somebody reads')
  t.ok((await reader.takeAll()).equals(content))
  t.notOk(download.canJoin(0), 'and no longer')
  t.strictSame(await store.put(entryOf('k', content)), {
    stored: false,
    because: 'its content is not in the store',
  })
  t.strictSame(await readdir(new Layout(directory).temporary), [])
})

t.test('a relay waits for its slowest reader, but not for one that stands still', async t => {
  const { download, clock } = await grown(t, { noDisk: true, window: 128 * KiB })
  const moving = hand(download)
  const still = hand(download)
  const content = bytesOf(512 * KiB)
  await download.append(content.subarray(0, 128 * KiB))
  await moving.takeUntil(128 * KiB)
  let through = false
  const waiting = download.append(content.subarray(128 * KiB, 192 * KiB)).then(() => {
    through = true
  })
  await moving.takeUntil(192 * KiB)
  clock.advance(29_000)
  await settle()
  t.notOk(through, 'it waits')
  await still.take()
  await until(() => through)
  await waiting
  const again = download.append(content.subarray(192 * KiB, 256 * KiB))
  await moving.takeUntil(256 * KiB)
  clock.advance(29_999)
  t.equal(download.readers, 2, 'patience begins anew with each block taken')
  clock.advance(1)
  await again
  t.equal(download.readers, 1)
  await t.rejects(still.take(), { code: 'reader-stalled', fault: 'downstream' })
  t.notOk(download.canJoin(0), 'the beginning is gone')
  t.ok(download.canJoin(200 * KiB), 'what the window has is not')
  const rest = moving.takeAll()
  for (let at = 256 * KiB; at < content.length; at += 64 * KiB) {
    await download.append(content.subarray(at, at + 64 * KiB))
  }
  await download.complete()
  t.ok((await rest).equals(content))
})

t.test('a reader that has all it asked for holds nobody up', async t => {
  const { download } = await grown(t, { noDisk: true })
  const part = hand(download, 10, 19)
  await download.append(Buffer.alloc(KiB))
  await part.take()
  t.equal(part.size, 10)
  for (let n = 0; n < 10; n += 1) await download.append(Buffer.alloc(64 * KiB))
  t.equal(await part.take(), false)
})

t.test('a relay nobody reads goes on in bounded memory', async t => {
  const { download } = await grown(t, { noDisk: true })
  for (let n = 0; n < 100; n += 1) await download.append(Buffer.alloc(64 * KiB))
  t.equal(download.readers, 0)
  t.notOk(download.canJoin(0))
  t.match(await download.complete(), { stored: false, because: 'no disk today' })
})

t.test('every step at which a disk can fail leaves readers whole', async t => {
  const eio = () => Promise.reject(Object.assign(new Error('EIO'), { code: 'EIO' }))
  const content = bytesOf(700 * KiB)
  const table: ReadonlyArray<readonly [string, (file: FileHandle) => Partial<GrowingFile>]> = [
    ['the first write', () => ({ writev: eio })],
    [
      'a later write',
      file => ({
        writev: (buffers, position) => (position > 0 ? eio() : file.writev(buffers, position)),
      }),
    ],
    ['a write that takes nothing', () => ({ writev: async () => ({ bytesWritten: 0 }) })],
    ['the flush', () => ({ sync: eio })],
  ]
  for (const [what, spoil] of table) {
    const { download, failures, directory } = await grown(t, { spoil, window: 4096 * KiB })
    const early = hand(download)
    await download.append(content.subarray(0, 300 * KiB))
    await early.take()
    for (let at = 300 * KiB; at < content.length; at += 40 * KiB) {
      await download.append(content.subarray(at, at + 40 * KiB))
      await new Promise(resolve => setImmediate(resolve))
    }
    const completion = await download.complete()
    t.match(completion, { stored: false, because: /^the disk: / }, what)
    t.ok((await early.takeAll()).equals(content), what)
    t.equal(failures.length, 1, 'told once')
    t.strictSame(await readdir(directory), [], 'no file')
  }
})

t.test('a reader far behind when the disk fails reads on from what was written', async t => {
  const { download } = await grown(t, {
    window: 128 * KiB,
    spoil: file => ({
      writev: async (buffers, position) => {
        if (position > 600 * KiB) throw new Error('worn out')
        return file.writev(buffers, position)
      },
    }),
  })
  const content = bytesOf(3000 * KiB)
  const behind = hand(download)
  let at = 0
  const feed = async () => {
    await download.append(content.subarray(at, at + 50 * KiB))
    at += 50 * KiB
    await settle()
  }
  while (download.stored) await feed()
  t.ok(at < content.length)
  t.ok(download.canJoin(0), 'even the beginning can still be had')
  const rest = behind.takeAll()
  while (at < content.length) await feed()
  t.match(await download.complete(), { stored: false, because: 'the disk: worn out' })
  t.ok((await rest).equals(content))
})

t.test('writes that take only a part are continued where they stopped', async t => {
  const { download, path } = await grown(t, {
    spoil: file => ({
      writev: (buffers, position) =>
        file.writev([Buffer.concat(buffers).subarray(0, 777)], position),
    }),
  })
  const content = bytesOf(50_000)
  for (let at = 0; at < content.length; at += 5000) {
    await download.append(content.subarray(at, at + 5000))
  }
  t.match(await download.complete(), { stored: true })
  t.ok((await readFile(path)).equals(content))
})

t.test('a disk that never answers is given up after a while', async t => {
  const { download, clock } = await grown(t, {
    spoil: () => ({ writev: () => new Promise(() => undefined), close: async () => undefined }),
    window: 4096 * KiB,
  })
  const content = bytesOf(2048 * KiB)
  const reader = hand(download)
  const appended = download.append(content)
  clock.advance(30_000)
  await appended
  t.match(download.because, /took nothing for 30000 ms/)
  t.match(await download.complete(), { stored: false })
  t.ok((await reader.takeAll()).equals(content))
})

t.test('the writer waits for the disk, in bounded memory', async t => {
  let free: () => void = () => undefined
  const gate = new Promise<void>(resolve => {
    free = resolve
  })
  const { download } = await grown(t, {
    spoil: file => ({
      writev: async (buffers, position) => {
        await gate
        return file.writev(buffers, position)
      },
    }),
  })
  let through = false
  await download.append(Buffer.alloc(1024 * KiB))
  const waiting = download.append(Buffer.alloc(1)).then(() => {
    through = true
  })
  await settle()
  t.notOk(through)
  free()
  await waiting
  t.match(await download.complete(), { stored: true })
})
