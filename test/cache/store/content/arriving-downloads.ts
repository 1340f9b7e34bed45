/**
 * Contents that are whole and not yet on the disk: they are there at once, and none is lost.
 */
import { existsSync } from 'node:fs'
import t from 'tap'
import { Layout } from '../../../../lib/cache/store/disk/disk.ts'
import { keepAll } from '../../../../lib/cache/store/retention-rules.ts'
import type { Store } from '../../../../lib/cache/store/store.ts'
import { type Call, type Fate, scriptedFiles, sizedFiles } from '../../../fixtures/store/files.ts'
import { KiB, settle } from '../../../fixtures/store/growing.ts'
import { all, keyOf } from '../../../fixtures/store/journal.ts'
import {
  bytesOf,
  contentBytes,
  entryOf,
  keep,
  opened,
  pour,
  until,
} from '../../../fixtures/store/opened.ts'

/** Stores content as a fetch does, and answers before it is written. */
async function begin(store: Store, key: string, content: Buffer) {
  const download = store.download({ length: content.length })
  await pour(download, content)
  const { kept } = download.complete()
  const entry = entryOf(key, content)
  store.put(entry)
  return { entry, kept }
}

/** The file of no content can be made before `release`. */
const heldBack = (call: Call, about: string): Fate =>
  call === 'open' && about.includes('/blobs/') ? 'hang' : 'done'

t.test('a content that is being written is there', async t => {
  const scripted = scriptedFiles()
  const { store, directory } = await opened(t, { files: scripted.files })
  scripted.decide = heldBack
  const content = bytesOf(20 * KiB)
  const { entry, kept } = await begin(store, keyOf(1), content)
  const path = new Layout(directory).blob(entry.digest)
  await settle()
  t.notOk(existsSync(path))
  t.match(store.get(keyOf(1)), { digest: entry.digest })
  t.ok(store.has(entry.digest))
  t.ok((await contentBytes(await store.content(entry)))?.equals(content))
  scripted.decide = () => 'done'
  scripted.release()
  t.strictSame(await kept, { stored: true })
  t.ok(existsSync(path))
  t.equal(store.usage().bytes, content.length)
})

t.test('a stop loses nothing that is being written', async t => {
  const directory = t.testdir({})
  const { store } = await opened(t, { directory })
  const content = bytesOf(20 * KiB)
  const { entry, kept } = await begin(store, keyOf(1), content)
  await store.close()
  t.strictSame(await kept, { stored: true })
  const { store: again } = await opened(t, { directory })
  t.match(await again.get(keyOf(1)), { digest: entry.digest })
  t.ok((await contentBytes(await again.content(entry)))?.equals(content))
})

t.test('what is being written is listed, and can be removed', async t => {
  const scripted = scriptedFiles()
  const { store } = await opened(t, { files: scripted.files })
  scripted.decide = heldBack
  const { entry, kept } = await begin(store, keyOf(1), bytesOf(KiB))
  const other = await begin(store, keyOf(2), bytesOf(KiB))
  const keys = async () =>
    (await all(store.list())).flatMap(some => some.map(one => one.key)).sort()
  t.strictSame(await keys(), [keyOf(1), keyOf(2)])
  store.put({ ...entry, key: keyOf(3) })
  store.remove(keyOf(1))
  t.strictSame(await keys(), [keyOf(2), keyOf(3)])
  await settle()
  scripted.decide = () => 'done'
  scripted.release()
  await Promise.all([kept, other.kept])
  t.strictSame(await keys(), [keyOf(2), keyOf(3)])
  t.equal(await store.get(keyOf(1)), undefined)
})

t.test('what is written while room is made does not look like removing in vain', async t => {
  let used = (): number => 0
  const { store, clock, log } = await opened(t, { files: sizedFiles(() => (32 << 20) - used()) })
  used = () => store.usage().bytes
  for (let n = 0; n < 100; n += 1) await keep(store, keyOf(n), bytesOf(16 * KiB))
  clock.advance(10_000)
  const arriving = []
  for (let n = 100; n < 300; n += 1) arriving.push(await begin(store, keyOf(n), bytesOf(16 * KiB)))
  store.retain({ ...keepAll, free: 31 << 20 })
  for (const { kept } of arriving) t.ok((await kept).stored)
  await until(() => store.usage().bytes <= 1 << 20)
  t.notOk(log.lines.some(({ message }) => /frees no space/.test(message)))
})
