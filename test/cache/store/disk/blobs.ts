import { mkdir, readdir, rm, truncate, utimes } from 'node:fs/promises'
import t from 'tap'
import { iterate } from '../../../../lib/bytes/source.ts'
import { Layout } from '../../../../lib/cache/store/disk/layout.ts'
import type { StreamedContent } from '../../../../lib/http/message/message.ts'
import {
  bytesOf,
  collect,
  contentBytes,
  keep,
  openBelow,
  opened,
  until,
} from '../../../fixtures/store/opened.ts'

const forever = new AbortController().signal
const key = 'http://archive.example.org/pool/a_1_all.deb'

async function streamed(content: Promise<unknown>): Promise<StreamedContent> {
  const found = (await content) as StreamedContent | undefined
  if (found?.kind !== 'stream') throw new Error('it is not a stream')
  return found
}

t.test('small content is bytes, and from the second reading on it is memory', async t => {
  const { store, directory } = await opened(t)
  const content = bytesOf(200_000)
  const entry = await keep(store, key, content)
  t.ok((await contentBytes(await store.content(entry)))?.equals(content))
  const second = await store.content(entry, 5, 9)
  t.match(second, { kind: 'bytes' })
  t.ok((await contentBytes(second))?.equals(content.subarray(5, 10)))
  await rm(new Layout(directory).blob(entry.digest))
  const third = await contentBytes(await store.content(entry, 199_999))
  t.ok(third?.equals(content.subarray(-1)), 'the disk is not asked')
})

t.test('one reading does not push out what is in demand', async t => {
  const { store, directory } = await opened(t, { memory: 300_000 })
  const demanded = await keep(store, `${key}-index`, bytesOf(200_000))
  await store.content(demanded)
  await store.content(demanded)
  for (let n = 0; n < 5; n += 1) {
    await store.content(await keep(store, `${key}${n}`, bytesOf(200_000)))
  }
  await rm(new Layout(directory).blob(demanded.digest))
  t.ok(await store.content(demanded))
})

t.test('without memory everything comes from disk', async t => {
  const { store } = await opened(t, { memory: 0 })
  const content = bytesOf(1000)
  const entry = await keep(store, key, content)
  for (let n = 0; n < 3; n += 1) {
    t.ok((await contentBytes(await store.content(entry)))?.equals(content))
  }
})

t.test('large content is streamed, whole or in part, through one handle', async t => {
  const { store, directory } = await opened(t)
  const content = bytesOf(3_000_001)
  const entry = await keep(store, key, content)
  const whole = await streamed(store.content(entry))
  t.equal(whole.length, content.length)
  const part = await streamed(store.content(entry, 1_000_000, 2_999_999_999))
  t.equal(part.length, 2_000_001)
  const [all, some, one] = await Promise.all([
    collect(iterate(whole.open())),
    collect(iterate(part.open())),
    contentBytes(await store.content(entry, 7, 7)),
  ])
  t.ok(all.equals(content))
  t.ok(some.equals(content.subarray(1_000_000)))
  t.ok(one?.equals(content.subarray(7, 8)))
  t.equal((await openBelow(directory)).length, 1, 'kept for the next')
})

t.test('a block stays as it is until the next one is asked for', async t => {
  const { store } = await opened(t)
  const content = bytesOf(3_000_000)
  const entry = await keep(store, key, content)
  let at = 0
  for await (const block of iterate((await streamed(store.content(entry))).open())) {
    for (let turn = 0; turn < 10; turn += 1) await new Promise(resolve => setImmediate(resolve))
    t.ok(block.equals(content.subarray(at, at + block.length)))
    at += block.length
  }
  t.equal(at, content.length)
})

t.test('every way to stop reading gives the file back', async t => {
  const { store, directory, clock } = await opened(t)
  const entry = await keep(store, key, bytesOf(3_000_000))
  const open = async (signal: AbortSignal) =>
    iterate((await streamed(store.content(entry))).open(), signal)[Symbol.asyncIterator]()

  const never = await open(forever)
  t.ok(never)
  const leaving = await open(forever)
  await leaving.next()
  await leaving.return?.(undefined)
  t.match(await leaving.next(), { done: true })

  const between = new AbortController()
  const stopped = await open(between.signal)
  await stopped.next()
  between.abort(new Error('gone'))

  const during = new AbortController()
  const interrupted = await open(during.signal)
  const reading = t.rejects(interrupted.next(), { message: 'gone' })
  during.abort(new Error('gone'))
  await reading

  const before = await open(AbortSignal.abort(new Error('gone')))
  await t.rejects(before.next(), { message: 'gone' })
  await until(async () => {
    clock.advance(60_000)
    return (await openBelow(directory)).length === 0
  })
  await t.rejects(stopped.next(), { message: 'gone' })
})

t.test('idle handles are bounded', async t => {
  const { store, directory } = await opened(t)
  for (let n = 0; n < 80; n += 1) {
    await store.content(await keep(store, `${key}${n}`, bytesOf(300_000)))
  }
  await until(async () => (await openBelow(directory)).length === 64)
  await store.close()
  t.strictSame(await openBelow(directory), [])
})

t.test('an entry whose content is missing or of another size is a miss and goes', async t => {
  const { store, directory, log } = await opened(t)
  const layout = new Layout(directory)
  for (const size of [1_000, 400_000]) {
    const gone = await keep(store, `${key}?gone`, bytesOf(size))
    await rm(layout.blob(gone.digest))
    t.equal(await store.content(gone), undefined)
    t.equal(await store.get(gone.key), undefined)

    const cut = await keep(store, `${key}?cut`, bytesOf(size))
    await truncate(layout.blob(cut.digest), size - 1)
    t.equal(await store.content(cut), undefined)
    t.equal(await store.get(cut.key), undefined)

    const odd = await keep(store, `${key}?odd`, bytesOf(size))
    await rm(layout.blob(odd.digest))
    await mkdir(layout.blob(odd.digest))
    t.equal(await store.content(odd), undefined)
  }
  t.ok(log.lines.some(line => line.message === 'an entry without its content'))
})

t.test('an entry that has moved on is not removed for its old content', async t => {
  const { store, directory } = await opened(t)
  const old = await keep(store, key, bytesOf(1_000))
  const current = await keep(store, key, bytesOf(2_000))
  await rm(new Layout(directory).blob(old.digest))
  t.equal(await store.content(old), undefined)
  t.strictSame(await store.get(key), current)
})

t.test('a file cut short in the middle of a stream breaks the stream and the entry', async t => {
  const { store, directory, clock } = await opened(t)
  const entry = await keep(store, key, bytesOf(5_000_000))
  const reading = iterate((await streamed(store.content(entry))).open())
  const blocks = reading[Symbol.asyncIterator]()
  await blocks.next()
  await truncate(new Layout(directory).blob(entry.digest), 2_000_000)
  await t.rejects(
    (async () => {
      while ((await blocks.next()).done !== true);
    })(),
    { name: 'ShortFile', message: /the file ends at byte 2000000 and should reach 5000000/ },
  )
  await until(async () => (await store.get(key)) === undefined)
  clock.advance(120_000)
  await until(async () => (await openBelow(directory)).length === 0)
})

t.test('only old, unnamed, unread blobs are orphans', async t => {
  const { store, directory, clock } = await opened(t)
  const layout = new Layout(directory)
  const entry = await keep(store, key, bytesOf(500_000))
  await store.remove(key)
  const sweep = () => store.sweep({ unusedDays: 0, now: clock.now() })
  t.match(await sweep(), { blobsKept: 1, blobsRemoved: 0 }, 'young')
  const old = new Date(clock.now() - 2 * 3_600_000)
  await utimes(layout.blob(entry.digest), old, old)
  const reader = iterate((await streamed(store.content(entry))).open())[Symbol.asyncIterator]()
  await reader.next()
  t.match(await sweep(), { blobsKept: 1, blobsRemoved: 0 }, 'being read')
  await reader.return?.(undefined)
  t.match(await sweep(), { blobsKept: 0, blobsRemoved: 1, bytesFreed: 500_000 })
  t.strictSame(await readdir(layout.blob(entry.digest).slice(0, -65)), [])
  await until(async () => (await openBelow(directory)).length === 0)
})
