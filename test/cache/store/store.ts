import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { mkdir, readdir, readFile, rm } from 'node:fs/promises'
import t from 'tap'
import { Layout } from '../../../lib/cache/store/disk/layout.ts'
import { startChild } from '../../fixtures/store/child.ts'
import {
  bytesOf,
  contentBytes,
  entryOf,
  keep,
  openBelow,
  opened,
  sha256,
  until,
} from '../../fixtures/store/opened.ts'

const key = 'http://archive.example.org/pool/a_1_all.deb'

t.test('a process killed in the middle leaves whole contents and whole entries', async t => {
  const directory = t.testdir({})
  let entries = 0
  for (let round = 0; round < 6; round += 1) {
    const child = startChild(t, 'commit', { directory })
    const wanted = String(3 + round * 4)
    for (let line = await child.line(); line !== wanted; line = await child.line()) {
      if (line === undefined) throw new Error('the child ended by itself')
    }
    await child.kill()
    const { store, log } = await opened(t, { directory })
    entries = 0
    for await (const entry of store.entries()) {
      entries += 1
      const hash = createHash('sha256')
      for await (const block of createReadStream(new Layout(directory).blob(entry.digest))) {
        hash.update(block)
      }
      t.equal(hash.digest('hex'), entry.digest)
      t.equal((await contentBytes(await store.content(entry)))?.length, entry.size)
    }
    t.notOk(log.lines.some(line => line.level === 'warn'))
    t.strictSame(await readdir(new Layout(directory).temporary), [])
    await store.close()
  }
  t.equal(entries, 10)
})

t.test('the same bytes under several keys are one blob', async t => {
  const { store, directory } = await opened(t)
  const content = bytesOf(100)
  const [a, b] = [await keep(store, `${key}?a`, content), await keep(store, `${key}?b`, content)]
  t.equal(a.digest, b.digest)
  const path = new Layout(directory).blob(sha256(content))
  t.ok((await readFile(path)).equals(content))
})

t.test('directories removed by hand come back when they are needed', async t => {
  const { store, directory } = await opened(t)
  const layout = new Layout(directory)
  await keep(store, key, bytesOf(100))
  for (const gone of [layout.temporary, layout.blobs, layout.entries]) {
    await rm(gone, { recursive: true })
  }
  const entry = await keep(store, key, bytesOf(200))
  t.equal((await contentBytes(await store.content(entry)))?.length, 200)
  t.strictSame(await store.sweep({ unusedDays: 30, now: 0 }), {
    entriesKept: 1,
    entriesRemoved: 0,
    blobsKept: 1,
    blobsRemoved: 0,
    bytesFreed: 0,
    leftoversRemoved: 0,
  })
})

t.test(
  'an entry that cannot be written is remembered, and the store is red until it can',
  async t => {
    const { store, directory, clock } = await opened(t)
    const layout = new Layout(directory)
    const entry = await keep(store, key, bytesOf(100))
    const path = layout.entry(key)
    await rm(path)
    await mkdir(`${path}/in-the-way`, { recursive: true })
    const later = { ...entry, validated: entry.validated + 1 }
    t.match(await store.put(later), { stored: false, because: /^writing an entry: / })
    t.strictSame(await store.get(key), later)
    t.match(store.health(), { writable: false })
    clock.advance(14_999)
    t.match(store.health(), { writable: false })
    clock.advance(1)
    await until(() => store.health().writable)
  },
)

t.test('closing fails what is under way and leaves nothing open or half-written', async t => {
  const { store, directory } = await opened(t)
  const download = await store.download()
  await download.append(bytesOf(1000))
  const blocks = download.open(1000, undefined, new AbortController().signal)
  const cut = t.rejects(blocks[Symbol.asyncIterator]().next(), { code: 'store-closing' })
  await keep(store, key, bytesOf(400_000))
  await store.content(entryOf(key, bytesOf(400_000)))
  await store.close()
  await cut
  await until(async () => (await openBelow(directory)).length === 0)
  t.strictSame(await readdir(new Layout(directory).temporary), [])
})
