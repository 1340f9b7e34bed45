/**
 * Large downloads that a checkpoint flushes while they go on.
 */
import t, { type Test } from 'tap'
import type { Download } from '../../../../lib/cache/store/content/download.ts'
import { scriptedFiles } from '../../../fixtures/store/files.ts'
import { hand } from '../../../fixtures/store/growing.ts'
import { bytesOf, entryOf, opened, pour, until } from '../../../fixtures/store/opened.ts'

const MiB = 1024 * 1024
const content = bytesOf(10 * MiB)
const keyOf = (n: number): string => `http://archive.example.org/pool/large_${n}_1_all.deb`

/** A store with large downloads of this content, all but the last MiB of each, and flushes of their files that end as told. */
async function growing(t: Test, count: number) {
  const { files } = scriptedFiles()
  const flushes: ((error?: Error) => void)[] = []
  const held: typeof files = {
    ...files,
    fdatasync: (fd, end) => {
      if (flushing) flushes.push(error => (error ? end(error) : files.fdatasync(fd, end)))
      else files.fdatasync(fd, end)
    },
  }
  let flushing = false
  const { store } = await opened(t, { files: held })
  const downloads: Download[] = []
  for (let n = 0; n < count; n += 1) {
    const download = store.download({ key: keyOf(n), fields: [], length: content.length })
    await pour(download, content.subarray(0, 9 * MiB))
    downloads.push(download)
  }
  flushing = true
  const checkpoint = store.checkpoint()
  await until(() => flushes.length === 1)
  flushing = false
  const flushed = (code?: string): void => {
    flushes.shift()?.(code === undefined ? undefined : Object.assign(new Error(code), { code }))
  }
  return { store, downloads, checkpoint, flushed }
}

t.test('a checkpoint passes over a download that is whole meanwhile', async t => {
  for (const ended of [false, true]) {
    const { store, downloads, checkpoint, flushed } = await growing(t, 2)
    const [first, second] = downloads
    if (first === undefined || second === undefined) throw new Error('there are two')
    await pour(second, content.subarray(9 * MiB))
    const { kept } = second.complete()
    store.put(entryOf(keyOf(1), content))
    if (ended) await kept
    flushed()
    await checkpoint
    t.strictSame(await kept, { stored: true })
    t.strictSame(store.health(), { writable: true })
    first.discard(new Error('enough'))
    await store.close()
  }
})

t.test('a download whose file the disk fails to flush is not stored', async t => {
  for (const whole of [false, true]) {
    const { store, downloads, checkpoint, flushed } = await growing(t, 1)
    const [download] = downloads
    if (download === undefined) throw new Error('there is one')
    const reader = hand(download)
    const entry = entryOf(keyOf(0), content)
    const complete = async () => {
      await pour(download, content.subarray(9 * MiB))
      const { kept } = download.complete()
      store.put(entry)
      return { kept }
    }
    const completed = whole ? await complete() : undefined
    flushed('EIO')
    await t.rejects(checkpoint, { code: 'EIO' })
    const { kept } = completed ?? (await complete())
    t.match(await kept, { stored: false, because: /input\/output error/ })
    t.ok((await reader.takeAll()).equals(content), 'its reader notices nothing')
    t.notOk(store.has(entry.digest))
    t.equal(await store.get(entry.key), undefined)
    await store.close()
  }
})
