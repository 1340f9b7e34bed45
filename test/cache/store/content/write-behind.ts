import { readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { Piece } from '../../../../lib/bytes/piece.ts'
import { Layout } from '../../../../lib/cache/store/disk/disk.ts'
import { type ScriptedFiles, scriptedFiles, sizedFiles } from '../../../fixtures/store/files.ts'
import { grown, hand, KiB, settle } from '../../../fixtures/store/growing.ts'
import {
  bytesOf,
  entryOf,
  openBelow,
  opened,
  pour,
  sha256,
  until,
} from '../../../fixtures/store/opened.ts'
import { mountTmpfs, withTmpfs } from '../../../fixtures/store/tmpfs.ts'

const MiB = 1024 * KiB

t.test('a disk that fills up in the middle is unnoticed by readers', withTmpfs, async t => {
  const directory = mountTmpfs(t, 'size=2m')
  // It says that there is room, so that it is the write that fails.
  const files = sizedFiles(() => 64 * MiB)
  const { store, log, clock } = await opened(t, { directory, files })
  await writeFile(join(directory, 'ballast'), bytesOf(1.5 * MiB))
  const content = bytesOf(12 * MiB)
  const download = store.download()
  const quickly = hand(download).takeAll()
  const behind = hand(download)
  let slowly: Promise<Buffer> | undefined
  for (let at = 0; at < content.length; at += 64 * KiB) {
    await pour(download, content.subarray(at, at + 64 * KiB))
    await settle()
    if (!download.stored) slowly ??= behind.takeAll()
  }
  const { digest, kept } = download.complete()
  t.equal(digest, sha256(content))
  t.ok((await quickly).equals(content), 'the quick one has it all')
  t.ok((await slowly)?.equals(content), 'and so has the one that began after the disk was full')
  t.match(await kept, { stored: false, because: /no space left/ })
  t.match(store.health(), { writable: false, because: /no space left/ })
  t.ok(log.lines.some(line => line.level === 'warn' && /disk fails/.test(line.message)))
  t.strictSame(await readdir(new Layout(directory).temporary), [], 'the space is given back')
  await until(async () => (await openBelow(directory)).length === 0)
  await rm(join(directory, 'ballast'))
  clock.advance(15_000)
  await until(() => store.health().writable)
  const small = store.download()
  await pour(small, Buffer.from('fits'))
  t.strictSame(await small.complete().kept, { stored: true })
})

t.test('what cannot fit is not begun', withTmpfs, async t => {
  const { store } = await opened(t, { directory: mountTmpfs(t, 'size=2m') })
  const download = store.download({ length: 5_000_000 })
  t.notOk(download.stored)
  t.match(download.because, /5000000 bytes do not fit/)
  t.ok(store.health().writable, 'which is no fault of the disk: what fits is stored')
  const small = store.download({ length: 4 })
  await pour(small, Buffer.from('fits'))
  t.strictSame(await small.complete().kept, { stored: true })
})

t.test('without any disk a download passes through', async t => {
  const scripted = scriptedFiles()
  const { store, directory } = await opened(t, { files: scripted.files })
  scripted.decide = call => (call === 'open' ? { code: 'EIO' } : 'done')
  const download = store.download()
  const reader = hand(download)
  const content = bytesOf(20_000)
  await pour(download, content)
  const { kept } = download.complete()
  store.put(entryOf('k', content))
  t.ok(store.peek('k'), 'its content is whole')
  t.match(await kept, { stored: false, because: /input\/output error/ })
  t.equal(store.peek('k'), undefined, 'but was not stored')
  t.ok(download.canJoin(0), 'as long as a reader is there')
  t.ok((await reader.takeAll()).equals(content))
  t.notOk(download.canJoin(0), 'and no longer')
  t.match(store.put(entryOf('k', content)), { stored: false })
  t.strictSame(await readdir(new Layout(directory).temporary), [])
})

t.test(
  'one that is not stored waits for its slowest reader, but not for one that stands still',
  async t => {
    const { download, clock } = grown(t, { noDisk: true, most: 128 * KiB })
    const moving = hand(download)
    const still = hand(download)
    const content = bytesOf(512 * KiB)
    const give = (from: number, to: number) =>
      download.take(new Piece(Buffer.from(content.subarray(from * KiB, to * KiB))))
    let ready = true
    const onReady = () => {
      ready = false
      download.whenReady(() => {
        ready = true
      })
    }
    t.ok(give(0, 64))
    t.ok(give(64, 128))
    await moving.takeUntil(128 * KiB)
    t.notOk(give(128, 192))
    onReady()
    await moving.takeUntil(192 * KiB)
    clock.advance(29_000)
    t.notOk(ready, 'it waits')
    await still.take()
    t.ok(ready)
    t.notOk(give(192, 256))
    onReady()
    await moving.takeUntil(256 * KiB)
    clock.advance(29_999)
    t.equal(download.readers, 2, 'patience begins anew with each piece taken')
    clock.advance(1)
    t.ok(ready)
    t.equal(download.readers, 1)
    await t.rejects(still.take(), { code: 'reader-stalled', fault: 'downstream' })
    still.leave()
    t.notOk(download.canJoin(0), 'the beginning is gone')
    t.ok(download.canJoin(200 * KiB), 'what the tail has is not')
    const rest = moving.takeAll()
    for (let at = 256; at < 512; at += 64) {
      give(at, at + 64)
      await settle()
    }
    download.complete()
    t.ok((await rest).equals(content))
  },
)

t.test('one that is not stored waits for its only reader, however slow', async t => {
  const { download, clock } = grown(t, { noDisk: true, most: 128 * KiB })
  const only = hand(download)
  t.ok(download.take(new Piece(Buffer.alloc(64 * KiB))))
  t.ok(download.take(new Piece(Buffer.alloc(64 * KiB))))
  t.notOk(download.take(new Piece(Buffer.alloc(64 * KiB))))
  let ready = false
  download.whenReady(() => {
    ready = true
  })
  for (let passed = 0; passed < 120_000; passed += 1000) clock.advance(1000)
  t.equal(download.readers, 1)
  t.notOk(ready)
  await only.takeUntil(192 * KiB)
  t.ok(ready)
})

t.test('a reader that has all it asked for holds none up', async t => {
  const { download } = grown(t, { noDisk: true })
  const part = hand(download, 10, 19)
  download.take(new Piece(Buffer.alloc(KiB)))
  await part.take()
  t.equal(part.size, 10)
  for (let n = 0; n < 10; n += 1) t.ok(download.take(new Piece(Buffer.alloc(64 * KiB))))
  t.equal(await part.take(), false)
  part.leave()
})

t.test(
  'one that is not stored waits for its first reader, and then goes on in bounded memory',
  async t => {
    const { download, clock } = grown(t, { noDisk: true })
    const small = grown(t, { noDisk: true }).download
    small.take(new Piece(Buffer.alloc(KiB)))
    await small.complete().kept
    t.ok(small.canJoin(0), 'also when it is whole before that reader comes')
    let taken = 0
    while (download.take(new Piece(Buffer.alloc(64 * KiB)))) taken += 1
    t.ok(taken < 100, 'the origin waits')
    t.ok(download.canJoin(0))
    clock.advance(30_000)
    for (let n = 0; n < 100; n += 1) t.ok(download.take(new Piece(Buffer.alloc(64 * KiB))))
    t.equal(download.readers, 0)
    t.notOk(download.canJoin(0))
    t.strictSame(await download.complete().kept, { stored: false, because: 'no disk today' })
  },
)

t.test('every step at which a disk can fail leaves readers whole', async t => {
  const content = bytesOf(3000 * KiB)
  const table: ReadonlyArray<readonly [string, ScriptedFiles['decide']]> = [
    ['making the file', call => (call === 'open' ? { code: 'EMFILE' } : 'done')],
    ['the first write', call => (call === 'writev' ? { code: 'EIO' } : 'done')],
    [
      'a later write',
      (call, _, count) => (call === 'writev' && count > 3 ? { code: 'ENOSPC' } : 'done'),
    ],
    ['a write that takes nothing', call => (call === 'writev' ? { part: 0 } : 'done')],
  ]
  for (const [what, decide] of table) {
    const { download, failures, directory, pool } = grown(t, { decide, most: 4096 * KiB })
    const early = hand(download)
    await pour(download, content.subarray(0, 300 * KiB), 100 * KiB)
    await early.take()
    for (let at = 300 * KiB; at < content.length; at += 90 * KiB) {
      await pour(download, content.subarray(at, at + 90 * KiB))
      await settle()
    }
    const { kept } = download.complete()
    t.ok((await early.takeAll()).equals(content), what)
    t.match(await kept, { stored: false, because: /^the disk: / }, what)
    t.equal(failures.length, 1, 'told once')
    await until(async () => (await readdir(directory)).length === 0)
    t.equal(pool.used, 0)
  }
})

t.test('a reader far behind when the disk fails reads on from what was written', async t => {
  const { download, scripted } = grown(t, { most: 128 * KiB })
  const content = bytesOf(6000 * KiB)
  const behind = hand(download)
  let at = 0
  const feed = async () => {
    if (at > 3000 * KiB) scripted.decide = call => (call === 'writev' ? { code: 'EIO' } : 'done')
    await pour(download, content.subarray(at, at + 50 * KiB))
    at += 50 * KiB
    await settle()
  }
  while (download.stored) await feed()
  t.ok(at < content.length)
  t.ok(download.canJoin(0), 'even the beginning can still be had')
  const rest = behind.takeAll()
  while (at < content.length) await feed()
  const { kept } = download.complete()
  t.ok((await rest).equals(content))
  t.match(await kept, { stored: false })
})

t.test('writes that take only a part are continued where they stopped', async t => {
  const { download, path } = grown(t, {
    decide: call => (call === 'writev' ? { part: 777 } : 'done'),
  })
  const content = bytesOf(50_000)
  await pour(download, content, 5000)
  t.strictSame(await download.complete().kept, { stored: true })
  t.ok((await readFile(path)).equals(content))
})

t.test('a disk that never answers is given up after its deadline', async t => {
  const { download, clock, scripted, pool, ended } = grown(t, {
    decide: call => (call === 'writev' ? 'hang' : 'done'),
    most: 4096 * KiB,
  })
  const content = bytesOf(4096 * KiB)
  const reader = hand(download)
  const poured = pour(download, content, 256 * KiB)
  await until(() => scripted.calls.some(call => call.startsWith('writev')))
  await until(() => {
    clock.advance(1_000)
    return !download.stored
  })
  await poured
  t.match(download.because, /not answered for 10 seconds/)
  const { kept } = download.complete()
  t.ok((await reader.takeAll()).equals(content))
  scripted.release()
  t.match(await kept, { stored: false })
  await until(() => ended() && pool.used === 0)
})
