/** The table of a content's life, and a content that goes through it. */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { EntryTable } from '../../../../lib/cache/store/catalogue/entry-table.ts'
import { Blobs } from '../../../../lib/cache/store/content/blobs.ts'
import {
  afterEvent,
  type ContentEvent,
  type ContentState,
  isServed,
  isUnnamed,
  mayBeNamedAfterCut,
} from '../../../../lib/cache/store/content/content-life.ts'
import { Disk, type DiskFile, Layout } from '../../../../lib/cache/store/disk/disk.ts'
import { StoreEvents } from '../../../../lib/cache/store/events.ts'
import { silentLog } from '../../../../lib/log/log.ts'
import { scriptedFiles } from '../../../fixtures/store/files.ts'
import { bytesOf, sha256 } from '../../../fixtures/store/opened.ts'
import { ManualClock } from '../../../fixtures/time/manual-clock.ts'

const events: readonly ContentEvent[] = [
  ...(['stored', 'named', 'freed', 'found-wrong'] as const),
  ...(['emptied', 'removal', 'refused', 'marked'] as const),
]

/** What each event makes of each state, in the order of `events`; a dot where it stays. */
const table: Readonly<Record<ContentState, string>> = {
  absent: 'unused named  unused wrong  .      .       staying .',
  unused: '.      named  .      wrong  .      removed staying .',
  named: ' .      .      unused wrong  .      .       .       .',
  wrong: ' unused .      .      .      .      removed staying .',
  staying: 'unused .     .      .      wrong  removed .       .',
  removed: 'unused .     .      wrong  .      .       staying absent',
}

t.test('each event in each state', async t => {
  for (const [state, row] of Object.entries(table)) {
    const next = row.trim().split(/ +/)
    t.equal(next.length, events.length, state)
    for (const [index, event] of events.entries()) {
      const expected = next[index] === '.' ? state : next[index]
      t.equal(afterEvent(state as ContentState, event), expected, `${state}, ${event}`)
    }
  }
})

t.test('what holds in each state', async t => {
  const states = Object.keys(table) as ContentState[]
  t.strictSame(states.filter(isServed), ['unused', 'named'])
  t.strictSame(states.filter(isUnnamed), ['unused', 'wrong', 'staying'])
  t.strictSame(
    states.filter(state => !mayBeNamedAfterCut(state)),
    ['absent'],
  )
})

t.test('no way leads from bytes that are wrong to clients but by a new file', async t => {
  for (const from of ['wrong', 'staying', 'removed'] as const) {
    for (const event of events) {
      const next = afterEvent(from, event)
      if (event === 'stored') t.equal(next, 'unused')
      else t.notOk(isServed(next), `${from}, ${event}`)
    }
  }
})

/** Blobs over a scripted disk, and a table of entries that the test fills. */
async function openBlobs(t: Test) {
  const scripted = scriptedFiles()
  const clock = new ManualClock(0)
  const layout = new Layout(await mkdtemp(join(tmpdir(), 'cachesvc-')))
  t.teardown(() => rm(layout.directory, { recursive: true }))
  const unused: string[] = []
  const storeEvents = new StoreEvents()
  storeEvents.listen({ unused: digest => void unused.push(digest) })
  const disk = new Disk({ clock, files: scripted.files })
  const blobs = new Blobs({
    ...{ disk, layout, clock, log: silentLog },
    journal: { table: new EntryTable(), removeRows: () => [] },
    events: storeEvents,
  })
  const content = bytesOf(700)
  const digest = sha256(content)
  const place = () =>
    blobs.place({ digest, size: 700 }, async (file: DiskFile) => {
      await file.put(content, 0)
      return true
    })
  const commit = async () => {
    const path = layout.temporaryFile()
    await disk.makeDirectory(layout.temporary)
    const file = await disk.open(path, 'creating')
    try {
      await file.put(content, 0)
      await blobs.commit(file, { path, digest, size: 700 })
    } finally {
      file.close()
    }
  }
  const remove = () => Promise.all(blobs.unnamed().map(unnamed => blobs.remove(unnamed)))
  return { blobs, scripted, digest, place, commit, remove, unused }
}

t.test('a content is removed, and its name is free after the next checkpoint', async t => {
  const { blobs, digest, place, remove, unused } = await openBlobs(t)
  t.equal(blobs.state(digest), 'absent')
  t.ok(await place())
  t.equal(blobs.state(digest), 'unused')
  t.equal(blobs.unnamedBytes, 700)
  t.strictSame(unused, [digest])
  t.strictSame(await remove(), [true])
  t.equal(blobs.state(digest), 'removed')
  t.equal(blobs.unnamedBytes, 0)
  t.notOk(await place(), 'an entry from before the checkpoint may name it')
  blobs.marked(blobs.removed())
  t.equal(blobs.state(digest), 'absent')
  t.ok(await place())
})

t.test('a mark from before a removal does not count for it', async t => {
  const { blobs, digest, place, remove } = await openBlobs(t)
  await place()
  await remove()
  const before = blobs.removed()
  blobs.marked(before)
  await place()
  await remove()
  blobs.marked(before)
  t.equal(blobs.state(digest), 'removed')
})

t.test('a content that the disk does not let go is served no more', async t => {
  const { blobs, scripted, digest, place, remove } = await openBlobs(t)
  await place()
  scripted.decide = call => (call === 'unlink' ? { code: 'EACCES' } : 'done')
  await t.rejects(remove(), { code: 'EACCES' })
  t.equal(blobs.state(digest), 'staying')
  t.notOk(blobs.has(digest))
  t.match(blobs.staying(), [{ digest, size: 700, why: { because: /permission/ } }])
  t.equal(blobs.unnamedBytes, 700, 'it takes room')
  scripted.decide = () => 'done'
  t.strictSame(await remove(), [true])
  t.strictSame(blobs.staying(), [])
  t.equal(blobs.unnamedBytes, 0)
})

t.test('a content that was found wrong has no file and takes no room', async t => {
  const { blobs, digest, place } = await openBlobs(t)
  await place()
  const discarded = blobs.discard(digest)
  t.equal(blobs.state(digest), 'wrong', 'at once')
  await discarded
  t.equal(blobs.state(digest), 'wrong')
  t.equal(blobs.unnamedBytes, 0)
  t.notOk(await place(), 'a finished file takes its place')
})

t.test('a mark that comes while a file is being removed does not lose the file', async t => {
  const { blobs, scripted, digest, place, remove } = await openBlobs(t)
  await place()
  scripted.decide = call => (call === 'unlink' ? { code: 'EACCES' } : 'done')
  const removal = remove()
  // The turn of the removal begins with the next microtask.
  await Promise.resolve()
  blobs.marked(blobs.removed())
  await t.rejects(removal, { code: 'EACCES' })
  t.equal(blobs.state(digest), 'staying')
  t.match(blobs.staying(), [{ digest, size: 700, why: { because: /permission/ } }])
  t.equal(blobs.unnamedBytes, 700, 'it takes room')
  scripted.decide = () => 'done'
  t.strictSame(await remove(), [true], 'and is tried again')
})

t.test('why a content stays is known until its file is gone', async t => {
  const { blobs, scripted, digest, place, remove } = await openBlobs(t)
  await place()
  scripted.decide = call => (['unlink', 'rm'].includes(call) ? { code: 'EACCES' } : 'done')
  await t.rejects(remove(), { code: 'EACCES' })
  await t.rejects(blobs.discard(digest), { code: 'EACCES' })
  t.match(blobs.staying(), [{ why: { because: /permission/ } }])
})

t.test('a content whose name the disk does not flush is known all the same', async t => {
  const { blobs, scripted, digest, place, remove, commit } = await openBlobs(t)
  await place()
  await remove()
  scripted.decide = (call, about) =>
    call === 'fdatasync' && !about.endsWith('.part') ? { code: 'EIO' } : 'done'
  await t.rejects(commit(), { code: 'EIO' })
  t.equal(blobs.state(digest), 'unused')
  t.equal(blobs.unnamedBytes, 700, 'it takes room')
  t.ok(blobs.fresh.has(digest), 'and the next checkpoint flushes it')
  scripted.decide = () => 'done'
  t.strictSame(await remove(), [true], 'without an entry it goes')
})
