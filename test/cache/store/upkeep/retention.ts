import { mkdir, readdir, stat, utimes, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import t from 'tap'
import { Layout } from '../../../../lib/cache/store/disk/disk.ts'
import { keepAll } from '../../../../lib/cache/store/retention-rules.ts'
import { scriptedFiles } from '../../../fixtures/store/files.ts'
import {
  bytesOf,
  contentBytes,
  entryOf,
  keep,
  opened,
  pour,
  until,
} from '../../../fixtures/store/opened.ts'

const key = 'http://archive.example.org/pool/a_1_all.deb'
const day = 86_400_000

/** Makes a file look as if it had been written so long ago. */
async function age(path: string, now: number, by: number): Promise<void> {
  const moment = new Date(now - by)
  await utimes(path, moment, moment)
}

t.test('what was unused for long goes, with its content if no other entry names it', async t => {
  const { store, directory, clock } = await opened(t)
  const shared = bytesOf(1000)
  const alone = await keep(store, `${key}?alone`, bytesOf(700))
  const old = await keep(store, `${key}?old`, shared)
  clock.advance(31 * day)
  const young = await keep(store, `${key}?young`, shared)
  t.strictSame(await store.sweep({ unusedDays: 30, now: clock.now() }), {
    entriesKept: 1,
    entriesRemoved: 2,
    blobsKept: 1,
    blobsRemoved: 1,
    bytesFreed: 700,
    leftoversRemoved: 0,
    because: 'unused 2',
  })
  t.equal(store.peek(old.key), undefined)
  t.equal(await store.get(old.key), undefined)
  t.strictSame(await store.get(young.key), young)
  t.ok((await contentBytes(await store.content(young)))?.equals(shared))
  t.match(store.usage(), { objects: 1, blobs: 1, bytes: 1000 })
  await t.rejects(stat(new Layout(directory).blob(alone.digest)), { code: 'ENOENT' })
  await store.close()
  const { store: again } = await opened(t, { directory })
  t.equal(await again.get(old.key), undefined, 'also after a restart')
})

t.test('many entries go in batches, and nothing is read for it', async t => {
  const scripted = scriptedFiles()
  const { store, clock } = await opened(t, { files: scripted.files })
  const content = bytesOf(10)
  await keep(store, key, content)
  for (let n = 0; n < 9000; n += 1) store.put(entryOf(`${key}/${n}`, content))
  await store.checkpoint()
  clock.advance(31 * day)
  for (let n = 0; n < 4000; n += 1) store.put(entryOf(`${key}/${n}`, content))
  await store.checkpoint()
  scripted.calls.length = 0
  const sweeping = store.sweep({ unusedDays: 30, now: clock.now() })
  await until(() => store.usage().objects < 9000)
  await new Promise(resolve => setImmediate(resolve))
  t.equal(store.usage().objects, 8501, 'a batch, and then requests have a while')
  await until(() => {
    clock.advance(10)
    return store.usage().objects === 4000
  })
  const swept = await sweeping
  t.match(swept, { entriesKept: 4000, entriesRemoved: 5001, blobsKept: 1, blobsRemoved: 0 })
  t.notOk(scripted.calls.some(call => call.startsWith('readv')))
})

t.test('contents go at a bounded rate', async t => {
  const { store, directory, clock } = await opened(t)
  for (let n = 0; n < 110; n += 1) await keep(store, `${key}/${n}`, bytesOf(10))
  clock.advance(31 * day)
  const left = async () => {
    const { blobs } = new Layout(directory)
    const shards = await readdir(blobs)
    return (await Promise.all(shards.map(one => readdir(join(blobs, one))))).flat().length
  }
  const sweeping = store.sweep({ unusedDays: 30, now: clock.now() })
  while ((await left()) > 10) await new Promise(resolve => setImmediate(resolve))
  for (let turn = 0; turn < 20; turn += 1) await left()
  t.equal(await left(), 10)
  clock.advance(1000)
  t.match(await sweeping, { blobsRemoved: 110 })
  t.equal(await left(), 0)
})

t.test('a use counts before it is on disk', async t => {
  const { store, clock } = await opened(t)
  const entry = await keep(store, key, bytesOf(10))
  clock.advance(31 * day)
  store.touch(key)
  t.match(await store.sweep({ unusedDays: 30, now: clock.now() }), { entriesKept: 1 })
  t.strictSame(await store.get(key), entry)
})

t.test('zero days keep entries for ever', async t => {
  const { store, clock } = await opened(t)
  await keep(store, key, bytesOf(10))
  clock.advance(3000 * day)
  t.match(await store.sweep({ unusedDays: 0, now: clock.now() }), { entriesKept: 1, blobsKept: 1 })
})

t.test('files that nothing knows go when they are old; foreign files stay', async t => {
  const { store, directory, clock } = await opened(t)
  const layout = new Layout(directory)
  const entry = await keep(store, key, bytesOf(10))
  const shelf = dirname(layout.blob(entry.digest))
  const [old, young] = [`${'a'.repeat(64)}`, `${'b'.repeat(64)}`].map(digest => layout.blob(digest))
  const foreign = join(shelf, 'README')
  const [part, fresh] = [join(layout.temporary, 'x.part'), join(layout.temporary, 'y.part')]
  for (const path of [old, young, part, fresh, foreign]) {
    if (path === undefined) continue
    await mkdir(dirname(path), { recursive: true })
    await writeFile(path, '')
  }
  for (const path of [old ?? '', foreign, layout.blob(entry.digest)])
    await age(path, clock.now(), day)
  await age(part, clock.now(), 2 * day)
  const download = store.download()
  await pour(download, bytesOf(2_000_000))
  await until(async () => (await readdir(layout.temporary)).length === 3)
  const busy = (await readdir(layout.temporary)).find(name => name.length > 10) ?? ''
  await age(join(layout.temporary, busy), clock.now(), 2 * day)
  t.match(await store.sweep({ unusedDays: 30, now: clock.now() }), { leftoversRemoved: 2 })
  await t.rejects(stat(old ?? ''), { code: 'ENOENT' })
  t.strictSame((await readdir(layout.temporary)).sort(), [busy, 'y.part'].sort())
  for (const path of [young ?? '', foreign, layout.blob(entry.digest)]) t.ok(await stat(path))
  t.match(await download.complete().kept, { stored: true })
})

t.test('when a part of the log could not be read, nothing is removed', async t => {
  const { store, directory, clock } = await opened(t)
  const layout = new Layout(directory)
  const entry = await keep(store, key, bytesOf(10))
  await store.close()
  const scripted = scriptedFiles()
  let reads = 0
  scripted.decide = (call, about) => {
    if (call === 'open' && about === layout.snapshot) return { code: 'ENOENT' }
    if (call !== 'readv' || about !== layout.log) return 'done'
    reads += 1
    return reads > 1 ? { code: 'EIO' } : 'done'
  }
  const { store: again, log } = await opened(t, { directory, files: scripted.files })
  scripted.decide = () => 'done'
  t.equal(await again.get(key), undefined)
  t.ok(log.lines.some(line => /cannot read a part of the log/.test(line.message)))
  await age(layout.blob(entry.digest), clock.now(), 100 * day)
  t.match(await again.sweep({ unusedDays: 1, now: clock.now() + 100 * day }), {
    blobsRemoved: 0,
    leftoversRemoved: 0,
  })
  await keep(again, `${key}?other`, bytesOf(20))
  await again.close()
  const { store: third } = await opened(t, { directory })
  t.strictSame(await third.get(key), entry)
  t.equal((await contentBytes(await third.content(entry)))?.length, 10)
})

t.test('a disk that fails in the middle of a sweep loses nothing', async t => {
  const scripted = scriptedFiles()
  const { store, directory, clock } = await opened(t, { files: scripted.files })
  const kept = await keep(store, key, bytesOf(10))
  for (const call of ['readdir', 'lstat', 'fdatasync', 'unlink'] as const) {
    await keep(store, `${key}?old`, bytesOf(20))
    clock.advance(31 * day)
    store.touch(key)
    await writeFile(new Layout(directory).blob(kept.digest).replace(/.$/, '_'), '')
    scripted.decide = asked => (asked === call ? { code: 'EIO' } : 'done')
    await store.sweep({ unusedDays: 30, now: clock.now() }).catch(() => undefined)
    scripted.decide = () => 'done'
    t.ok(await contentBytes(await store.content(kept)), call)
  }
  await store.sweep({ unusedDays: 30, now: clock.now() })
  t.match(store.usage(), { objects: 1, blobs: 1 })
})

t.test('an entry written during a sweep keeps an old content alive', async t => {
  const { store, directory, clock } = await opened(t)
  const layout = new Layout(directory)
  // Old contents without entries, and for each an entry that begins to name it at some moment of the sweep.
  const contents = Array.from({ length: 60 }, () => bytesOf(100))
  for (const content of contents) {
    const entry = await keep(store, key, content)
    await age(layout.blob(entry.digest), clock.now(), day)
  }
  store.remove(key)
  clock.advance(61_000)
  const sweeping = store.sweep({ unusedDays: 30, now: clock.now() })
  const named: string[] = []
  for (const [n, content] of contents.entries()) {
    if (store.put(entryOf(`${key}/${n}`, content)).stored) named.push(`${key}/${n}`)
    await new Promise(resolve => setImmediate(resolve))
  }
  await sweeping
  for (const one of named) {
    const entry = await store.get(one)
    t.ok(entry !== undefined && (await store.content(entry)) !== undefined, one)
  }
})

t.test('a content that is stored during a sweep stays', async t => {
  const { store, directory, clock } = await opened(t)
  const layout = new Layout(directory)
  const contents = Array.from({ length: 30 }, () => bytesOf(100))
  for (const content of contents) {
    const entry = await keep(store, key, content)
    await age(layout.blob(entry.digest), clock.now(), day)
  }
  store.remove(key)
  clock.advance(61_000)
  const sweeping = store.sweep({ unusedDays: 30, now: clock.now() })
  const entries = await Promise.all(contents.map((one, n) => keep(store, `${key}/${n}`, one)))
  await sweeping
  for (const entry of entries) t.ok(await store.content(entry))
})

t.test('a sweep stops when the store closes', async t => {
  const { store, clock } = await opened(t)
  await keep(store, key, bytesOf(10))
  clock.advance(100 * day)
  const swept = t.rejects(store.sweep({ unusedDays: 30, now: clock.now() }), /the store closes/)
  await store.close()
  await swept
})

t.test('sweeps come every day, after a failed one too, until the store closes', async t => {
  const scripted = scriptedFiles()
  const { store, clock, log } = await opened(t, { files: scripted.files })
  await keep(store, key, bytesOf(10))
  const said = () => log.lines.filter(({ message }) => message.startsWith('retention'))
  store.retain({ ...keepAll, unusedDays: 0 })
  clock.advance(15 * 60_000)
  await until(() => said().length === 1)
  t.ok(await store.get(key))
  scripted.decide = call => (call === 'readdir' ? { code: 'EIO' } : 'done')
  clock.advance(day)
  await until(() => said().length === 2)
  t.match(said()[1], { level: 'warn', facts: { because: /EIO/ } })
  scripted.decide = () => 'done'
  store.retain({ ...keepAll, unusedDays: 1 })
  clock.advance(day)
  await until(() => said().length > 2)
  t.equal(await store.get(key), undefined, 'the latest rules count')
  await store.close()
  const before = said().length
  clock.advance(10 * day)
  t.equal(said().length, before)
})

t.test('a forecast says what a sweep removes, and then what goes for room', async t => {
  const { store, clock } = await opened(t)
  const keyOf = (version: number): string => `http://archive.example.org/pool/a_${version}_all.deb`
  await keep(store, 'http://archive.example.org/old', bytesOf(900))
  clock.advance(31 * day)
  for (const n of [1, 2, 3]) await keep(store, keyOf(n), bytesOf(100 * n))
  clock.advance(8 * day)
  await keep(store, keyOf(4), bytesOf(400))
  const unreferenced = [keyOf(2)]
  store.retain({ ...keepAll, unusedDays: 30, versions: 3, size: 10_000 })
  const forecast = await store.forecast({ now: clock.now(), most: 3, unreferenced })
  t.match(forecast, {
    sweep: {
      files: 3,
      bytes: 1_200,
      first: [
        { reason: 'unused', bytes: 900 },
        { reason: 'superseded', key: keyOf(1) },
        { reason: 'unreferenced', key: keyOf(2) },
      ],
    },
    room: [
      { reason: 'quota', because: 'no index names it', key: keyOf(3) },
      { reason: 'quota', key: keyOf(4) },
    ],
    stored: 1_900,
    size: 10_000,
  })
  t.equal(store.usage().objects, 5, 'nothing is removed')
  const swept = await store.sweep({ unusedDays: 30, versions: 3, now: clock.now() })
  t.match(swept, { entriesRemoved: 2, because: 'unused 1, superseded 1' })
})
