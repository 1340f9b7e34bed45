import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import t, { type Test } from 'tap'
import { EntryTable } from '../../../../lib/cache/store/catalogue/entry-table.ts'
import { Blobs } from '../../../../lib/cache/store/content/blobs.ts'
import { Disk, type DiskFile, Layout } from '../../../../lib/cache/store/disk/disk.ts'
import { StoreEvents } from '../../../../lib/cache/store/events.ts'
import { silentLog } from '../../../../lib/log/log.ts'
import { scriptedFiles } from '../../../fixtures/store/files.ts'
import { bytesOf, sha256 } from '../../../fixtures/store/opened.ts'
import { ManualClock } from '../../../fixtures/time/manual-clock.ts'

/** Contents in a directory of their own, on a disk that can be made to fail. */
async function blobsOf(t: Test) {
  const scripted = scriptedFiles()
  const clock = new ManualClock(0)
  const layout = new Layout(await mkdtemp(join(tmpdir(), 'cachesvc-')))
  t.teardown(() => rm(layout.directory, { recursive: true }))
  const events = new StoreEvents()
  const unused: string[] = []
  events.listen({ unused: digest => unused.push(digest) })
  const blobs = new Blobs({
    ...{ disk: new Disk({ clock, files: scripted.files }), layout, clock, log: silentLog },
    journal: { table: new EntryTable(), removeRows: () => [] },
    events,
  })
  const remove = () => Promise.all(blobs.unnamed().map(unnamed => blobs.remove(unnamed)))
  return { scripted, layout, blobs, remove, unused }
}

const content = bytesOf(500)
const digest = sha256(content)

t.test('a content whose removal failed is flushed all the same', async t => {
  const { scripted, blobs, remove } = await blobsOf(t)
  const write = async (file: DiskFile) => {
    await file.put(content, 0)
    return true
  }
  t.ok(await blobs.place({ digest, size: 500 }, write))
  scripted.decide = call => (call === 'unlink' ? { code: 'EIO' } : 'done')
  await t.rejects(remove(), { code: 'EIO' })
  t.ok(blobs.fresh.get(digest), 'over the file that is open')
  scripted.decide = () => 'done'
  t.strictSame(await remove(), [true])
  t.notOk(blobs.fresh.has(digest))
})

t.test('a file that was begun and given up, and that the disk does not remove', async t => {
  const { scripted, layout, blobs, remove, unused } = await blobsOf(t)
  scripted.decide = call => (call === 'unlink' ? { code: 'EIO' } : 'done')
  t.notOk(await blobs.place({ digest, size: 500 }, async () => false))
  t.notOk(blobs.has(digest))
  t.same(unused, [digest], 'the upkeep is told')
  t.equal(blobs.unnamedBytes, 500, 'it takes room')
  await t.rejects(remove(), { code: 'EIO' })
  t.match(blobs.staying(), [{ digest }])
  scripted.decide = () => 'done'
  t.strictSame(await remove(), [true])
  t.same(await readdir(dirname(layout.blob(digest))), [])
  t.equal(blobs.unnamedBytes, 0)
})
