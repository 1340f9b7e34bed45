import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises'
import { dirname } from 'node:path'
import t from 'tap'
import { Layout } from '../../../../lib/cache/store/disk/disk.ts'
import { seeded } from '../../../fixtures/chance/seeded-random.ts'
import { scriptedFiles } from '../../../fixtures/store/files.ts'
import {
  bytesOf,
  contentBytes,
  entryOf,
  keep,
  openBelow,
  opened,
  pour,
  sha256,
  until,
} from '../../../fixtures/store/opened.ts'

const key = 'http://archive.example.org/pool/a_1_all.deb'

t.test('a content goes some time after its last entry', async t => {
  const { store, directory, clock } = await opened(t)
  const path = new Layout(directory).blob((await keep(store, key, bytesOf(500))).digest)
  store.remove(key)
  t.match(store.usage(), { objects: 0, blobs: 0, bytes: 0 })
  clock.advance(59_999)
  await store.checkpoint()
  t.ok(await readFile(path))
  clock.advance(1)
  await until(async () => (await readdir(dirname(path))).length === 0)
})

t.test('a content that was stored and never named goes as well', async t => {
  const { store, directory, clock } = await opened(t)
  const content = bytesOf(100)
  const download = store.download()
  await pour(download, content)
  await download.complete().kept
  const path = new Layout(directory).blob(sha256(content))
  t.ok(await readFile(path))
  t.strictSame(store.put(entryOf(key, content)), { stored: true }, 'it may be named until then')
  store.remove(key)
  clock.advance(60_000)
  await until(async () => (await readdir(dirname(path))).length === 0)
  t.strictSame(store.put(entryOf(key, content)), {
    stored: false,
    because: 'its content is not in the store',
  })
})

t.test('the log says that an entry is gone before its content goes', async t => {
  const scripted = scriptedFiles()
  const { store, directory, clock } = await opened(t, { files: scripted.files })
  const layout = new Layout(directory)
  const path = layout.blob((await keep(store, key, bytesOf(500))).digest)
  await store.checkpoint()
  store.remove(key)
  scripted.calls.length = 0
  clock.advance(60_000)
  await until(() => scripted.calls.includes(`unlink ${path}`))
  const words = scripted.calls.filter(
    call => call.includes('entries.log') || call.startsWith('unlink'),
  )
  const flushed = words.indexOf(`fdatasync ${layout.log}`)
  t.ok(words.indexOf(`writev ${layout.log}`) < flushed)
  t.ok(flushed < words.indexOf(`unlink ${path}`))
  t.ok(flushed > 0)
})

t.test('where the disk fails to say so, nothing is removed', async t => {
  const scripted = scriptedFiles()
  const { store, directory, clock } = await opened(t, { files: scripted.files })
  const layout = new Layout(directory)
  const path = layout.blob((await keep(store, key, bytesOf(500))).digest)
  store.remove(key)
  scripted.decide = (call, about) =>
    call === 'fdatasync' && about === layout.log ? { code: 'EIO' } : 'done'
  clock.advance(60_000)
  await until(() => !store.health().writable)
  t.ok(await readFile(path))
  scripted.decide = () => 'done'
  clock.advance(60_000)
  await until(async () => (await readdir(dirname(path))).length === 0)
})

t.test('a new content is not flushed, one that an entry names or named is', async t => {
  const scripted = scriptedFiles()
  const { store } = await opened(t, { files: scripted.files })
  const content = bytesOf(500)
  const flushes = async (act: () => Promise<unknown>) => {
    scripted.calls.length = 0
    await act()
    return scripted.calls.filter(call => call.startsWith('fdatasync')).length
  }
  t.equal(await flushes(() => keep(store, key, content)), 0)
  t.equal(await flushes(() => keep(store, `${key}?twin`, content)), 2, 'the file and its name')
  store.remove(key)
  store.remove(`${key}?twin`)
  t.equal(await flushes(() => keep(store, key, content)), 2)
  await store.evict(key, { digest: sha256(content), content: true })
  t.equal(await flushes(() => keep(store, key, content)), 2)
})

t.test('a content that comes while it is being removed is there afterwards', async t => {
  const scripted = scriptedFiles()
  const { store, directory, clock } = await opened(t, { files: scripted.files })
  const content = bytesOf(500)
  const entry = await keep(store, key, content)
  const path = new Layout(directory).blob(entry.digest)
  store.remove(key)
  scripted.decide = call => (call === 'unlink' ? 'hang' : 'done')
  clock.advance(60_000)
  await until(() => scripted.calls.includes(`unlink ${path}`))
  t.match(store.put(entry), { stored: false }, 'no entry can name what is being removed')
  const keeping = keep(store, key, content)
  scripted.decide = () => 'done'
  await new Promise(resolve => setImmediate(resolve))
  scripted.release()
  await keeping
  t.ok((await contentBytes(await store.content(entry)))?.equals(content))
  t.ok((await readFile(path)).equals(content))
})

t.test('whatever comes and goes at the same time, what an entry names is there', async t => {
  for (let seed = 1; seed <= 4; seed += 1) {
    const chance = seeded(seed)
    const { store, clock } = await opened(t, { directory: t.testdir({ [seed]: {} }) })
    const contents = Array.from({ length: 20 }, (_, n) => Buffer.from(`content ${n}`))
    const work = new Set<Promise<unknown>>()
    const start = (act: Promise<unknown>) => {
      work.add(act)
      void act.finally(() => work.delete(act))
    }
    for (let step = 0; step < 400; step += 1) {
      const content = chance.pick(contents)
      const name = `${key}/${chance.below(15)}`
      switch (chance.below(6)) {
        case 0:
        case 1:
          start(keep(store, name, content))
          break
        case 2:
          store.put(entryOf(name, content))
          break
        case 3:
          store.remove(name)
          break
        case 4:
          clock.advance(chance.below(70_000))
          break
        default:
          start(store.sweep({ unusedDays: 0, now: clock.now() }))
      }
      if (chance.below(3) === 0) await new Promise(resolve => setImmediate(resolve))
    }
    await Promise.all(work)
    clock.advance(60_000)
    await store.checkpoint()
    let found = 0
    for await (const entry of store.entries()) {
      found += 1
      const bytes = await contentBytes(await store.content(entry))
      t.equal(bytes && sha256(bytes), entry.digest)
    }
    t.ok(found > 0)
    await store.close()
  }
})

t.test('verified content that comes while wrong bytes are evicted stays', async t => {
  const scripted = scriptedFiles()
  const { store, directory } = await opened(t, { files: scripted.files })
  const content = bytesOf(500)
  const entry = await keep(store, key, content)
  const path = new Layout(directory).blob(entry.digest)
  scripted.decide = (call, about) =>
    call === 'rename' && about.endsWith('.part') ? 'hang' : 'done'
  const again = keep(store, key, content)
  await until(() => scripted.calls.filter(call => call.startsWith('rename')).length > 1)
  const evicted = store.evict(key, { digest: entry.digest, content: true })
  scripted.decide = () => 'done'
  scripted.release()
  await Promise.all([again, evicted])
  t.ok((await readFile(path)).equals(content))
})

t.test('what was evicted cannot be named until it comes again', async t => {
  const { store } = await opened(t)
  const content = bytesOf(500)
  const entry = await keep(store, key, content)
  const evicted = store.evict(key, { digest: entry.digest, content: true })
  t.match(store.put(entry), { stored: false })
  await evicted
  t.match(store.put(entry), { stored: false })
  await keep(store, key, content)
  t.ok((await contentBytes(await store.content(entry)))?.equals(content))
})

t.test(
  'a content the disk failed to flush is not taken for durable by the next checkpoint',
  async t => {
    const scripted = scriptedFiles()
    const { store, directory } = await opened(t, { files: scripted.files })
    const lost = await keep(store, key, bytesOf(500))
    const path = new Layout(directory).blob(lost.digest)
    scripted.decide = (call, about) =>
      call === 'fdatasync' && about === path ? { code: 'EIO' } : 'done'
    await t.rejects(store.checkpoint(), { code: 'EIO' })
    scripted.decide = () => 'done'
    await store.checkpoint()
    t.equal(await store.get(key), undefined)
    await t.rejects(readFile(path), { code: 'ENOENT' })
    await keep(store, key, bytesOf(500))
    t.ok(await store.get(key))
  },
)

t.test('what a crash left under the name of a content is replaced', async t => {
  const { store, directory } = await opened(t)
  const content = bytesOf(500)
  const path = new Layout(directory).blob(sha256(content))
  await mkdir(dirname(path), { recursive: true })
  await writeFile(path, content.subarray(0, 100))
  await keep(store, key, content)
  t.ok((await readFile(path)).equals(content))
})

t.test('a disk that takes no content leaves nothing under its name', async t => {
  for (const fate of [{ code: 'ENOSPC' }, { part: 100 }]) {
    const scripted = scriptedFiles()
    const { store, directory } = await opened(t, {
      files: scripted.files,
      directory: t.testdir({ [JSON.stringify(fate)]: {} }),
    })
    const content = bytesOf(500)
    const path = new Layout(directory).blob(sha256(content))
    scripted.decide = (call, about) => (call === 'writev' && about === path ? fate : 'done')
    const download = store.download({ length: 500 })
    await pour(download, content)
    const { stored } = await download.complete().kept
    // A disk that took a part is asked again, with a file of the download's own.
    t.equal(stored, 'part' in fate)
    if (stored) t.ok((await readFile(path)).equals(content))
    else await t.rejects(readFile(path), { code: 'ENOENT' })
    await store.close()
  }
})

t.test(
  'a file that is open until a checkpoint is closed by its removal, and by a failure',
  async t => {
    const scripted = scriptedFiles()
    const { store, directory, clock } = await opened(t, { files: scripted.files })
    const layout = new Layout(directory)
    await keep(store, key, bytesOf(500))
    const removed = layout.blob((await keep(store, `${key}?2`, bytesOf(600))).digest)
    t.equal((await openBelow(directory)).filter(one => one.includes('/blobs/')).length, 2)
    scripted.decide = (call, about) =>
      call === 'fdatasync' && about === layout.log ? { code: 'EIO' } : 'done'
    store.remove(`${key}?2`)
    await t.rejects(store.checkpoint(), { code: 'EIO' })
    scripted.decide = () => 'done'
    clock.advance(60_000)
    await store.checkpoint()
    await until(() => scripted.calls.includes(`unlink ${removed}`))
    const open = async () => (await openBelow(directory)).filter(one => one.includes('/blobs/'))
    await until(async () => (await open()).length === 0)
  },
)
