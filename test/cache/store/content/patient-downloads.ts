/**
 * Small contents that are written when others let them: they are there at once, and none is lost.
 */
import { existsSync } from 'node:fs'
import t from 'tap'
import { Layout } from '../../../../lib/cache/store/disk/layout.ts'
import type { Store } from '../../../../lib/cache/store/store.ts'
import { keepAll } from '../../../../lib/cache/store/upkeep/rules.ts'
import { sizedFiles } from '../../../fixtures/store/files.ts'
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

/** Stores content as the fetch of a package does. */
async function keepPatiently(store: Store, key: string, content: Buffer) {
  const download = store.download({ length: content.length })
  await pour(download, content)
  const { kept } = download.complete({ patient: true })
  const entry = entryOf(key, content)
  store.put(entry)
  const said: { stored?: boolean } = {}
  void kept.then(({ stored }) => Object.assign(said, { stored }))
  return { entry, kept, said }
}

t.test('a content that waits is there, and written a moment later', async t => {
  const { store, directory, clock } = await opened(t)
  const content = bytesOf(20 * KiB)
  const { entry, kept } = await keepPatiently(store, keyOf(1), content)
  const path = new Layout(directory).blob(entry.digest)
  await settle()
  t.notOk(existsSync(path))
  t.match(store.get(keyOf(1)), { digest: entry.digest })
  t.ok(store.has(entry.digest))
  t.ok((await contentBytes(await store.content(entry)))?.equals(content))
  clock.advance(20)
  t.strictSame(await kept, { stored: true })
  t.ok(existsSync(path))
  t.equal(store.usage().bytes, content.length)
})

t.test('a stop loses nothing that waits', async t => {
  const directory = t.testdir({})
  const { store } = await opened(t, { directory })
  const content = bytesOf(20 * KiB)
  const { entry, said } = await keepPatiently(store, keyOf(1), content)
  await store.close()
  t.strictSame(said, { stored: true })
  const { store: again } = await opened(t, { directory })
  t.match(await again.get(keyOf(1)), { digest: entry.digest })
  t.ok((await contentBytes(await again.content(entry)))?.equals(content))
})

t.test('what waits is listed, and can be removed', async t => {
  const { store, clock } = await opened(t)
  const { entry, kept } = await keepPatiently(store, keyOf(1), bytesOf(KiB))
  const other = await keepPatiently(store, keyOf(2), bytesOf(KiB))
  const keys = async () =>
    (await all(store.list())).flatMap(some => some.map(one => one.key)).sort()
  t.strictSame(await keys(), [keyOf(1), keyOf(2)])
  store.put({ ...entry, key: keyOf(3) })
  store.remove(keyOf(1))
  t.strictSame(await keys(), [keyOf(2), keyOf(3)])
  clock.advance(20)
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
  const waiting = []
  for (let n = 100; n < 300; n += 1) {
    waiting.push(await keepPatiently(store, keyOf(n), bytesOf(16 * KiB)))
  }
  store.retain({ ...keepAll, free: 31 << 20 })
  clock.advance(20)
  for (const { kept } of waiting) t.ok((await kept).stored)
  await until(() => store.usage().bytes <= 1 << 20)
  t.notOk(log.lines.some(({ message }) => /frees no space/.test(message)))
})

t.test('what waits keeps no more than so much memory', async t => {
  const { store } = await opened(t)
  const all = []
  // Each keeps a block of 1 MiB.
  for (let n = 0; n < 9; n += 1) all.push(await keepPatiently(store, keyOf(n), bytesOf(100 * KiB)))
  const [first] = all
  t.strictSame(await first?.kept, { stored: true })
  t.equal(all.filter(({ said }) => said.stored).length, 1)
})

t.test('nothing waits where there is hardly room', async t => {
  const { store } = await opened(t)
  store.retain({ ...keepAll, size: 320 * KiB })
  const { kept } = await keepPatiently(store, keyOf(1), bytesOf(30 * KiB))
  t.strictSame(await kept, { stored: true }, 'more than the headroom of the quota')
  const small = bytesOf(KiB)
  const { said } = await keepPatiently(store, keyOf(2), small)
  await settle()
  t.strictSame(said, {}, 'less than that')
})
