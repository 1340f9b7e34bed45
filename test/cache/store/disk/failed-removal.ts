import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { EntryTable } from '../../../../lib/cache/store/catalogue/entry-table.ts'
import { Blobs } from '../../../../lib/cache/store/content/blobs.ts'
import { Disk, type DiskFile, Layout } from '../../../../lib/cache/store/disk/disk.ts'
import { StoreEvents } from '../../../../lib/cache/store/events.ts'
import { silentLog } from '../../../../lib/log/log.ts'
import { scriptedFiles } from '../../../fixtures/store/files.ts'
import { bytesOf, sha256 } from '../../../fixtures/store/opened.ts'
import { ManualClock } from '../../../fixtures/time/manual-clock.ts'

t.test('a content whose removal failed is flushed all the same', async t => {
  const scripted = scriptedFiles()
  const clock = new ManualClock(0)
  const layout = new Layout(await mkdtemp(join(tmpdir(), 'cachesvc-')))
  t.teardown(() => rm(layout.directory, { recursive: true }))
  const blobs = new Blobs({
    ...{ disk: new Disk({ clock, files: scripted.files }), layout, clock, log: silentLog },
    journal: { table: new EntryTable(), removeRows: () => [] },
    events: new StoreEvents(),
  })
  const content = bytesOf(500)
  const digest = sha256(content)
  const write = async (file: DiskFile) => {
    await file.put(content, 0)
    return true
  }
  t.ok(await blobs.place({ digest, size: 500 }, write))
  const remove = () => Promise.all(blobs.unnamed().map(unnamed => blobs.remove(unnamed)))
  scripted.decide = call => (call === 'unlink' ? { code: 'EIO' } : 'done')
  await t.rejects(remove(), { code: 'EIO' })
  t.ok(blobs.fresh.get(digest), 'over the file that is open')
  scripted.decide = () => 'done'
  t.strictSame(await remove(), [true])
  t.notOk(blobs.fresh.has(digest))
})
