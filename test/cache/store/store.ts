import { cp, readdir, readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { iterate } from '../../../lib/bytes/source.ts'
import { Layout } from '../../../lib/cache/store/disk/disk.ts'
import { openStoreForReading } from '../../../lib/cache/store/store.ts'
import { scriptedFiles } from '../../fixtures/store/files.ts'
import { hand, settle } from '../../fixtures/store/growing.ts'
import {
  bytesOf,
  collect,
  contentBytes,
  entryOf,
  keep,
  openBelow,
  opened,
  pour,
  sha256,
  until,
} from '../../fixtures/store/opened.ts'

const key = 'http://archive.example.org/pool/a_1_all.deb'

t.test('the same bytes under several keys are one blob', async t => {
  const { store, directory } = await opened(t)
  const content = bytesOf(100)
  const [a, b] = [await keep(store, `${key}?a`, content), await keep(store, `${key}?b`, content)]
  t.equal(a.digest, b.digest)
  const path = new Layout(directory).blob(sha256(content))
  t.ok((await readFile(path)).equals(content))
})

t.test('a small content costs two file operations, and two to make it durable', async t => {
  const scripted = scriptedFiles()
  const { store, directory } = await opened(t, { files: scripted.files })
  const { digest } = await keep(store, key, bytesOf(100))
  await store.checkpoint()
  let content = bytesOf(30_000)
  // The directory it goes to is there.
  while (sha256(content).slice(0, 2) !== digest.slice(0, 2)) content = bytesOf(30_000)
  const path = new Layout(directory).blob(sha256(content))
  const calls = () => scripted.calls.filter(call => call.endsWith(path))
  scripted.calls.length = 0
  await keep(store, `${key}?2`, content)
  t.strictSame(calls(), [`open ${path}`, `writev ${path}`])
  t.notOk(scripted.calls.some(call => call.endsWith('.part')))
  await store.checkpoint()
  t.strictSame(calls().slice(2), [`fdatasync ${path}`, `close ${path}`])
})

t.test('entries that cannot be are not put', async t => {
  const { store } = await opened(t)
  const content = bytesOf(10)
  await keep(store, key, content)
  const malformed = { code: 'malformed-entry', fault: 'internal' }
  t.throws(() => store.put(entryOf('', content)), malformed)
  t.throws(() => store.put(entryOf(key, content, { fields: [['a', 'b\r\nc']] })), malformed)
  const long = entryOf(key, content, { fields: [['a', 'b'.repeat(300_000)]] })
  t.throws(() => store.put(long), { ...malformed, message: /too long/ })
  t.strictSame(store.put(entryOf(key, bytesOf(11))), {
    stored: false,
    because: 'its content is not in the store',
  })
  t.strictSame(await store.get(key), entryOf(key, content), 'the old one stands')
})

t.test('directories removed by hand come back when they are needed', async t => {
  const { store, directory } = await opened(t)
  const layout = new Layout(directory)
  await keep(store, `${key}?gone`, bytesOf(100))
  for (const gone of [layout.temporary, layout.blobs]) await rm(gone, { recursive: true })
  const entry = await keep(store, key, bytesOf(200))
  t.equal((await contentBytes(await store.content(entry)))?.length, 200)
  t.equal(await store.content(entryOf(`${key}?gone`, bytesOf(100))), undefined)
})

t.test('entries that cannot be written wait, and the store is red until they can', async t => {
  const scripted = scriptedFiles()
  const { store, directory, clock, log } = await opened(t, { files: scripted.files })
  const layout = new Layout(directory)
  const entry = await keep(store, key, bytesOf(100))
  await store.checkpoint()
  scripted.decide = (call, about) =>
    (call === 'writev' && about === layout.log) || about.endsWith('.part')
      ? { code: 'ENOSPC' }
      : 'done'
  const later = { ...entry, validated: entry.validated + 1 }
  t.strictSame(store.put(later), { stored: true })
  t.equal(store.peek(key), later)
  clock.advance(25)
  await until(() => !store.health().writable)
  t.match(store.health(), { because: 'writing entries: no space left on the file system' })
  clock.advance(14_999)
  t.match(store.health(), { writable: false })
  scripted.decide = () => 'done'
  clock.advance(1)
  await until(() => store.health().writable)
  const reader = await openStoreForReading({ directory, clock, log })
  await until(async () => (await reader.get(key))?.validated === later.validated)
  await reader.close()
})

t.test('a disk that hangs: red at once, served from memory, green when it answers', async t => {
  const scripted = scriptedFiles()
  const { store, clock } = await opened(t, { files: scripted.files, deadline: 10_000 })
  const content = bytesOf(1000)
  const entry = await keep(store, key, content)
  const other = await keep(store, `${key}?other`, bytesOf(2000))
  for (let n = 0; n < 2; n += 1) await store.content(entry)
  scripted.decide = () => 'hang'
  const reading = store.content(other)
  await until(() => {
    clock.advance(1000)
    return !store.health().writable
  })
  t.match(store.health(), { because: 'waiting for the disk: the disk does not answer' })
  t.equal(await reading, undefined)
  t.ok((await contentBytes(await store.content(entry)))?.equals(content), 'from memory')
  t.equal(await store.content(other), undefined, 'at once')
  const download = store.download()
  const reader = hand(download)
  t.match(download.because, 'the disk does not answer')
  await pour(download, content)
  download.complete()
  t.ok((await reader.takeAll()).equals(content))
  clock.advance(15_000)
  t.match(store.health(), { writable: false })
  scripted.decide = () => 'done'
  scripted.release()
  await until(async () => {
    await settle()
    clock.advance(15_000)
    return store.health().writable
  })
  // The clock went on while the disk was busy, which may count as hanging once more.
  await until(async () => (await contentBytes(await store.content(other)))?.length === 2000)
})

t.test('a reader beside the owner sees everything and changes nothing', async t => {
  const { store, directory, clock, log } = await opened(t)
  const entry = await keep(store, key, bytesOf(10))
  await store.checkpoint()
  const reader = await openStoreForReading({ directory, clock, log })
  t.strictSame(await reader.get(key), entry)
  const later = await keep(store, `${key}?later`, bytesOf(3_000_000))
  await store.checkpoint()
  t.strictSame(await reader.get(later.key), later)
  const streamed = await reader.content(later)
  t.match(streamed, { kind: 'stream' })
  if (streamed?.kind === 'stream') {
    t.equal(sha256(await collect(iterate(streamed.open()))), later.digest)
  }
  t.match(await reader.content(entry), { kind: 'bytes' })
  const { size, digest } = later
  const examined = await reader.examine(digest, { size, algorithms: ['sha256'] })
  t.match(examined, { found: 'whole' })
  await reader.close()
  await rm(new Layout(directory).blob(entry.digest))
  const another = await openStoreForReading({ directory, clock, log })
  t.equal(await another.content(entry), undefined)
  t.strictSame(await another.get(key), entry, 'removing is the owner’s')
  await another.close()
})

t.test('a reader finds nothing where nothing is, and says so of what is no directory', async t => {
  const { clock, log, directory } = await opened(t)
  const nowhere = await openStoreForReading({ directory: `${directory}/nowhere`, clock, log })
  t.equal(await nowhere.get('http://archive.example.org/a'), undefined)
  for await (const entry of nowhere.entries()) t.fail(entry.key)
  await nowhere.close()
  const file = `${directory}/CACHEDIR.TAG`
  await t.rejects(openStoreForReading({ directory: file, clock, log }), {
    message: `The cache directory ${file} is not a directory`,
  })
})

t.test('closing fails what is under way and leaves nothing open or half-written', async t => {
  const { store, directory } = await opened(t)
  const download = store.download()
  await pour(download, bytesOf(3_000_000))
  const reader = hand(download, 3_000_000)
  const cut = t.rejects(reader.take(), { code: 'store-closing' })
  await keep(store, key, bytesOf(400_000))
  await store.content(entryOf(key, bytesOf(400_000)))
  await store.close()
  await store.close()
  await cut
  await until(async () => (await openBelow(directory)).length === 0)
  t.strictSame(await readdir(new Layout(directory).temporary), [])
})

t.test('a store that was closed in order need not be proven', async t => {
  const { store, directory } = await opened(t)
  const entry = await keep(store, key, bytesOf(1000))
  await store.close()
  const scripted = scriptedFiles()
  const { store: again, log } = await opened(t, { directory, files: scripted.files })
  t.notOk(scripted.calls.some(call => call.includes('/blobs/')))
  t.strictSame(log.lines, [])
  t.strictSame(await again.get(key), entry)
})

/** A directory, and one for a copy of it. */
function twoDirectories(t: Test): readonly [string, string] {
  const directory = t.testdir({})
  return [join(directory, 'first'), join(directory, 'second')]
}

t.test('content whose entry was confirmed after a checkpoint is proven again soon', async t => {
  const [directory, left] = twoDirectories(t)
  const { store, clock } = await opened(t, { directory })
  const entry = await keep(store, key, bytesOf(100))
  await store.checkpoint()
  clock.advance(5_000)
  const { log: path, root } = new Layout(directory)
  const last = async () => (await readFile(path, 'utf8')).trim().split('\n').at(-1) ?? ''
  await until(async () => (await last()).includes('"durable"'))
  store.put({ ...entry, validated: entry.validated + 1 })
  clock.advance(25)
  await until(async () => (await last()).includes('"entry"'))
  clock.advance(5_000)
  await until(async () => (await last()).includes('"durable"'))
  // What a crash leaves.
  await cp(root, new Layout(left).root, { recursive: true })
  const { store: again, log } = await opened(t, { directory: left })
  t.strictSame(log.lines, [], 'nothing is to be hashed')
  t.match(await again.get(key), { validated: entry.validated + 1 })
})

t.test('a client waits ten seconds at most for unproven content to be hashed', async t => {
  const [directory, left] = twoDirectories(t)
  const { store, clock: now } = await opened(t, { directory })
  const content = bytesOf(5 << 20)
  const entry = await keep(store, key, content)
  now.advance(25)
  await until(async () => (await readFile(new Layout(directory).log, 'utf8')).includes(key))
  await cp(new Layout(directory).root, new Layout(left).root, { recursive: true })
  const scripted = scriptedFiles()
  const blob = new Layout(left).blob(entry.digest)
  scripted.decide = (call, about) => (call === 'readv' && about === blob ? 'hang' : 'done')
  const { store: again, clock } = await opened(t, { directory: left, files: scripted.files })
  let waited = 0
  const found = Promise.resolve(again.content(entry)).finally(() => {
    waited = clock.elapsed()
  })
  await until(() => {
    clock.advance(500)
    return waited > 0
  })
  t.equal(await found, undefined, 'it is absent for this client')
  t.ok(waited <= 11_000, `after ${waited} ms`)
  t.strictSame(await again.get(key), entry)
  scripted.decide = () => 'done'
  scripted.release()
  await until(
    async () => (await contentBytes(await again.content(entry)))?.equals(content) === true,
  )
})
