import { readFile, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { Disk, DiskHung } from '../../../../lib/cache/store/disk/disk.ts'
import { scriptedFiles } from '../../../fixtures/store/files.ts'
import { openBelow, until } from '../../../fixtures/store/opened.ts'
import { ManualClock } from '../../../fixtures/time/manual-clock.ts'

function made(t: Test) {
  const directory = t.testdir({ there: 'hello world' })
  const clock = new ManualClock(0)
  const scripted = scriptedFiles()
  const disk = new Disk({ clock, files: scripted.files })
  return { directory, clock, scripted, disk, there: join(directory, 'there') }
}

t.test('files are written, read, renamed and removed', async t => {
  const { directory, disk } = made(t)
  const path = join(directory, 'new')
  const file = await disk.open(path, 'creating')
  await file.put(Buffer.from('0123456789'), 0)
  await file.sync()
  t.equal((await file.look()).size, 10)
  t.equal(String(await file.bytes(3, 4)), '3456')
  t.equal(String(await file.bytes(8, 4)), '89', 'fewer at the end')
  await file.truncate(5)
  await t.rejects(disk.open(path, 'creating'), { code: 'EEXIST' })
  const moved = join(directory, 'deep', 'er', 'moved')
  await disk.rename(path, moved)
  t.equal(await readFile(moved, 'utf8'), '01234')
  await disk.syncDirectory(directory)
  t.ok(await disk.remove(moved))
  t.notOk(await disk.remove(moved))
  t.equal(await disk.look(moved), undefined)
  t.strictSame(await disk.names(join(directory, 'nowhere')), [])
  await disk.removeTree(join(directory, 'deep'))
  t.strictSame(await disk.names(directory), ['there'])
  t.ok((await disk.space(directory)).blocks > 0)
  file.close()
  file.close()
  await until(async () => (await openBelow(directory)).length === 0)
})

t.test('a directory that the kernel does not make is refused at once', async t => {
  const { disk } = made(t)
  for (const path of ['/proc/cache', '/proc/cache/v2/blobs', '/sys/cache']) {
    await t.rejects(disk.makeDirectory(path), { code: 'ENOENT' }, path)
  }
})

t.test('links are not followed', async t => {
  const { directory, disk, there } = made(t)
  await symlink(there, join(directory, 'link'))
  await t.rejects(disk.open(join(directory, 'link'), 'reading'), { code: 'ELOOP' })
})

t.test('a write that takes a part is continued', async t => {
  const { directory, disk, scripted } = made(t)
  scripted.decide = call => (call === 'writev' ? { part: 3 } : 'done')
  const file = await disk.open(join(directory, 'new'), 'creating')
  await file.put(Buffer.from('0123456789'), 0)
  t.equal(await readFile(join(directory, 'new'), 'utf8'), '0123456789')
  scripted.decide = call => (call === 'writev' ? { part: 0 } : 'done')
  await t.rejects(file.put(Buffer.from('x'), 0), { message: 'the disk took no bytes' })
  file.close()
})

t.test('errors of the file system are the caller’s', async t => {
  const { disk, scripted, there, directory } = made(t)
  for (const code of ['EIO', 'ENOSPC', 'ESTALE', 'EMFILE']) {
    scripted.decide = () => ({ code })
    await t.rejects(disk.open(there, 'reading'), { code })
    await t.rejects(disk.look(there), { code })
    await t.rejects(disk.names(directory), { code })
    await t.rejects(disk.remove(there), { code })
    await t.rejects(disk.rename(there, `${there}2`), { code })
  }
})

t.test(
  'a file that is opened too late is closed, and a read that hangs keeps its memory',
  async t => {
    const { disk, scripted, there, clock, directory } = made(t)
    const file = await disk.open(there, 'reading')
    scripted.decide = call => (call === 'open' || call === 'readv' ? 'hang' : 'done')
    const opening = t.rejects(disk.open(there, 'reading'), { code: 'disk-hung' })
    const said: string[] = []
    const into = Buffer.alloc(5)
    file.read(
      [into],
      6,
      error => said.push(error instanceof DiskHung ? 'hung' : 'read'),
      () => said.push('over'),
    )
    await until(() => {
      clock.advance(1_000)
      return disk.hung
    })
    await opening
    t.ok(disk.hung)
    t.strictSame(said, ['hung'])
    await t.rejects(disk.look(there), { code: 'disk-hung' })
    file.close()
    t.notOk(
      scripted.calls.some(call => call.startsWith('close')),
      'not while it is being read',
    )
    scripted.release()
    await until(() => said.length === 2)
    t.equal(String(into), 'world', 'and only then is the memory free')
    await until(async () => (await openBelow(directory)).length === 0)
    t.notOk(disk.hung)
    t.equal((await disk.look(there))?.size, 11)
  },
)

t.test('a directory takes no file’s place', async t => {
  const { disk, directory, there } = made(t)
  await writeFile(join(directory, 'other'), '')
  await t.rejects(disk.rename(there, directory))
  t.equal((await disk.look(there))?.size, 11)
})
