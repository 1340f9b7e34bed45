import { mkdir, readFile, rm, symlink, truncate, writeFile } from 'node:fs/promises'
import t, { type Test } from 'tap'
import { iterate } from '../../../../lib/bytes/source.ts'
import { Layout } from '../../../../lib/cache/store/disk/disk.ts'
import type { Content, StreamedContent } from '../../../../lib/http/message/message.ts'
import { scriptedFiles } from '../../../fixtures/store/files.ts'
import {
  bytesOf,
  collect,
  contentBytes,
  keep,
  openBelow,
  opened,
  until,
} from '../../../fixtures/store/opened.ts'

const key = 'http://archive.example.org/pool/a_1_all.deb'
const MiB = 1024 * 1024

async function streamed(content: Content | Promise<Content | undefined>): Promise<StreamedContent> {
  const found = await content
  if (found?.kind !== 'stream') throw new Error('it is not a stream')
  return found
}

t.test('small content is bytes, and from the second reading on it is memory', async t => {
  for (const size of [0, 1, 200_000, 3 * MiB]) {
    const { store, directory } = await opened(t)
    const content = bytesOf(size)
    const entry = await keep(store, `${key}${size}`, content)
    t.ok((await contentBytes(await store.content(entry)))?.equals(content))
    t.ok((await contentBytes(await store.content(entry)))?.equals(content))
    await rm(new Layout(directory).blob(entry.digest))
    const third = store.content(entry, 5, 9)
    t.notOk(third instanceof Promise, 'at once')
    t.ok((await contentBytes(await third))?.equals(content.subarray(5, 10)))
  }
})

t.test('large content does not go into memory', async t => {
  const { store } = await opened(t, { memory: 64 * MiB })
  const entry = await keep(store, key, bytesOf(4 * MiB + 1))
  for (let n = 0; n < 3; n += 1) t.match(await store.content(entry), { kind: 'stream' })
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
  for (const size of [1000, 3 * MiB]) {
    const content = bytesOf(size)
    const entry = await keep(store, `${key}${size}`, content)
    for (let n = 0; n < 3; n += 1) {
      t.ok((await contentBytes(await store.content(entry)))?.equals(content))
    }
  }
})

t.test('wrong bytes that were being read when they were discarded do not come back', async t => {
  for (const size of [1000, 3 * MiB]) {
    const scripted = scriptedFiles()
    const { store, directory } = await opened(t, { files: scripted.files })
    const content = bytesOf(size)
    const entry = await keep(store, key, content)
    await contentBytes(await store.content(entry))
    const path = new Layout(directory).blob(entry.digest)
    await writeFile(path, Buffer.alloc(size))
    scripted.decide = (call, about) => (call === 'readv' && about === path ? 'hang' : 'done')
    const reading = store.content(entry)
    await until(() => scripted.calls.at(-1)?.startsWith('readv') === true)
    t.ok(await store.evict(key, { digest: entry.digest, content: true }))
    scripted.decide = () => 'done'
    scripted.release()
    await reading
    await keep(store, key, content)
    for (let n = 0; n < 3; n += 1) {
      t.ok((await contentBytes(await store.content(entry)))?.equals(content), `reading ${n}`)
    }
  }
})

t.test('large content is streamed, whole or in part, through one open file', async t => {
  const { store, directory } = await opened(t)
  const content = bytesOf(5_000_001)
  const entry = await keep(store, key, content)
  const whole = await streamed(store.content(entry))
  t.equal(whole.length, content.length)
  const part = await streamed(store.content(entry, 1_000_000, 4_999_999_999))
  t.equal(part.length, 4_000_001)
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

t.test('a piece stays as it is until it is released', async t => {
  const { store } = await opened(t)
  const content = bytesOf(5_000_000)
  const entry = await keep(store, key, content)
  let at = 0
  for await (const block of iterate((await streamed(store.content(entry))).open())) {
    for (let turn = 0; turn < 10; turn += 1) await new Promise(resolve => setImmediate(resolve))
    t.ok(block.equals(content.subarray(at, at + block.length)))
    at += block.length
  }
  t.equal(at, content.length)
})

t.test('the file is closed some time after its last reader', async t => {
  const { store, directory, clock } = await opened(t)
  const content = bytesOf(5_000_000)
  const entry = await keep(store, key, content)
  const never = await streamed(store.content(entry))
  const leaving = (await streamed(store.content(entry))).open()
  leaving.next((_, piece) => piece?.release())
  await new Promise(resolve => setImmediate(resolve))
  clock.advance(60_000)
  await store.checkpoint()
  await until(async () => (await openBelow(directory)).length === 1)
  t.equal((await openBelow(directory)).length, 1, 'not while it is being read')
  leaving.close()
  await until(async () => {
    clock.advance(10_000)
    return (await openBelow(directory)).length === 0
  })
  t.ok((await collect(iterate(never.open()))).equals(content), 'it is opened again when needed')
  const gone = await streamed(store.content(entry))
  clock.advance(30_000)
  await rm(new Layout(directory).blob(entry.digest))
  await t.rejects(collect(iterate(gone.open())), { name: 'ShortFile' })
})

t.test('idle files are bounded', async t => {
  const { store, directory } = await opened(t, { memory: 0 })
  for (let n = 0; n < 80; n += 1) {
    await store.content(await keep(store, `${key}${n}`, bytesOf(300_000)))
  }
  await store.checkpoint()
  await until(async () => (await openBelow(directory)).length === 64)
  await store.close()
  await until(async () => (await openBelow(directory)).length === 0)
})

t.test('an entry whose content is missing or of another size is a miss and goes', async t => {
  const { store, directory, log } = await opened(t)
  const layout = new Layout(directory)
  for (const size of [1_000, 4_400_000]) {
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

    const link = await keep(store, `${key}?link`, bytesOf(size))
    await rm(layout.blob(link.digest))
    await symlink(layout.blob(link.digest), layout.blob(link.digest))
    t.equal(await store.content(link), undefined)
  }
  t.ok(log.lines.some(line => line.message === 'an entry without its content'))
})

t.test('what the disk cannot read now is not served and stays', async t => {
  const scripted = scriptedFiles()
  const { store, log } = await opened(t, { files: scripted.files })
  for (const size of [1_000, 4_400_000]) {
    const entry = await keep(store, `${key}${size}`, bytesOf(size))
    for (const code of ['EIO', 'ESTALE', 'EMFILE']) {
      scripted.decide = call => (call === 'open' ? { code } : 'done')
      t.equal(await store.content(entry), undefined)
      scripted.decide = () => 'done'
    }
    t.strictSame(await store.get(entry.key), entry)
    t.equal((await contentBytes(await store.content(entry)))?.length, size)
  }
  t.ok(log.lines.some(line => line.message === 'cannot read a blob'))
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
  const entry = await keep(store, key, bytesOf(8_000_000))
  const blocks = iterate((await streamed(store.content(entry))).open())
  await blocks.next()
  await truncate(new Layout(directory).blob(entry.digest), 4_000_000)
  const rest = async () => {
    while ((await blocks.next()).done !== true);
  }
  await t.rejects(rest(), {
    name: 'ShortFile',
    message: /the file ends at byte 4000000 and should reach 8000000/,
  })
  await until(async () => (await store.get(key)) === undefined)
  clock.advance(120_000)
  await until(async () => (await openBelow(directory)).length === 0)
})

t.test('content is served while it is being stored', async (t: Test) => {
  for (const size of [10_000, 5 * MiB]) {
    const scripted = scriptedFiles()
    const { store, directory } = await opened(t, { files: scripted.files })
    const content = bytesOf(size)
    scripted.decide = call => (call === 'rename' ? 'hang' : 'done')
    const keeping = keep(store, key, content)
    await until(() => store.peek(key) !== undefined)
    const entry = store.peek(key)
    if (entry === undefined) throw new Error('it is not there')
    t.ok((await contentBytes(await store.content(entry)))?.equals(content))
    const part = store.content(entry, 5, 9)
    t.notOk(part instanceof Promise)
    scripted.decide = () => 'done'
    scripted.release()
    await keeping
    t.ok(
      (await contentBytes(await part))?.equals(content.subarray(5, 10)),
      'asked before, read after',
    )
    t.ok((await readFile(new Layout(directory).blob(entry.digest))).equals(content))
  }
})

t.test('what slow clients keep in memory after the tier has let it go is bounded', async t => {
  const { store } = await opened(t, { memory: 4 * MiB })
  const kept: Content[] = []
  for (let n = 0; n < 12; n += 1) {
    const content = bytesOf(MiB)
    const entry = await keep(store, `${key}${n}`, content)
    await store.content(entry)
    const again = await store.content(entry)
    if (again?.kind === 'bytes') kept.push(again)
    t.ok((await contentBytes(again))?.equals(content))
  }
  t.ok(kept.length > 4, 'more than the tier holds')
  t.ok(kept.length <= 8, `${kept.length} MiB are held`)
})
