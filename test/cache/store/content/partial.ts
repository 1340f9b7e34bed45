import { mkdir, readdir, readFile, truncate, utimes, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { Layout } from '../../../../lib/cache/store/disk/disk.ts'
import type { Store } from '../../../../lib/cache/store/store.ts'
import { scriptedFiles } from '../../../fixtures/store/files.ts'
import { hand } from '../../../fixtures/store/growing.ts'
import {
  bytesOf,
  contentBytes,
  entryOf,
  opened,
  pour,
  sha256,
  until,
} from '../../../fixtures/store/opened.ts'

const key = 'http://archive.example.org/pool/large_1_all.deb'
const fields = { ETag: '"1"', 'Last-Modified': 'Wed, 01 Jan 2025 00:00:00 GMT' }
const MiB = 1024 * 1024
const content = bytesOf(20 * MiB)
const day = 86_400_000

/** A directory as a crash in the middle of a download leaves it: 12 of 20 MiB are certain. */
async function broken(t: Parameters<typeof opened>[0]): Promise<string> {
  const scripted = scriptedFiles()
  const directory = t.testdir({})
  const { store, clock } = await opened(t, {
    directory: join(directory, 'first'),
    files: scripted.files,
  })
  const given = Object.entries(fields)
  const download = store.download({ key, fields: given, length: content.length })
  await pour(download, content.subarray(0, 12 * MiB))
  clock.advance(5_000)
  const layout = new Layout(join(directory, 'first'))
  await until(async () => (await readdir(layout.temporary)).some(name => name.endsWith('.json')))
  await pour(download, content.subarray(12 * MiB, 15 * MiB))
  // As good as dead: nothing it does from now on reaches the disk.
  await until(async () => (await readdir(layout.temporary)).length === 2)
  const files = new Map<string, Buffer>()
  for (const name of await readdir(layout.temporary)) {
    files.set(name, await readFile(join(layout.temporary, name)))
  }
  await store.close()
  const { store: empty, directory: second } = await opened(t, {
    directory: join(directory, 'second'),
  })
  await empty.close()
  for (const [name, bytes] of files)
    await writeFile(join(new Layout(second).temporary, name), bytes)
  return second
}

async function temporary(directory: string): Promise<readonly string[]> {
  const names = await readdir(new Layout(directory).temporary)
  return names.map(name => name.replace(/^[0-9a-f]+/, '')).sort()
}

t.test('a large download that a crash broke off goes on where it is certain', async t => {
  const directory = await broken(t)
  const { store, log } = await opened(t, { directory })
  t.strictSame(log.lines, [], 'it is no leftover')
  t.equal(store.resumable('http://archive.example.org/other'), undefined)
  const resumable = store.resumable(key)
  t.match(resumable, { size: 12 * MiB, length: content.length, fields })
  const download = await resumable?.resume()
  if (download === undefined) throw new Error('it cannot be resumed')
  t.equal(store.resumable(key), undefined, 'once')
  t.equal(download.size, 12 * MiB)
  t.equal(download.digestSoFar(), sha256(content.subarray(0, 12 * MiB)))
  const [all, part] = [hand(download).takeAll(), hand(download, 11 * MiB, 13 * MiB).takeAll()]
  await pour(download, content.subarray(12 * MiB))
  const { digest, kept } = download.complete()
  t.equal(digest, sha256(content))
  t.ok((await all).equals(content))
  t.ok((await part).equals(content.subarray(11 * MiB, 13 * MiB + 1)))
  const entry = entryOf(key, content)
  store.put(entry)
  t.strictSame(await kept, { stored: true })
  t.ok((await contentBytes(await store.content(entry)))?.equals(content))
  await until(async () => (await temporary(directory)).length === 0)
})

t.test('what is expected is expected of the whole', async t => {
  const directory = await broken(t)
  const { store } = await opened(t, { directory })
  const hex = sha256(Buffer.from('other'))
  const download = await store.resumable(key)?.resume({ digest: { algorithm: 'sha256', hex } })
  if (download === undefined) throw new Error('it cannot be resumed')
  await pour(download, content.subarray(12 * MiB))
  t.throws(() => download.complete(), { code: 'wrong-digest' })
  await until(async () => (await temporary(directory)).length === 0)
})

t.test('bytes that are not what was written are not gone on with', async t => {
  const spoil: ReadonlyArray<readonly [string, (path: string) => Promise<unknown>]> = [
    [
      'a changed byte',
      async path => {
        const bytes = await readFile(path)
        bytes[5 * MiB] = ~(bytes[5 * MiB] ?? 0) & 0xff
        await writeFile(path, bytes)
      },
    ],
    ['a shorter file', path => truncate(path, 12 * MiB - 1)],
    ['an empty file', path => truncate(path, 0)],
  ]
  for (const [what, act] of spoil) {
    const directory = await broken(t)
    const layout = new Layout(directory)
    const [part = ''] = (await readdir(layout.temporary)).filter(name => name.endsWith('.part'))
    await act(join(layout.temporary, part))
    const { store } = await opened(t, { directory })
    t.equal(await store.resumable(key)?.resume(), undefined, what)
    t.strictSame(await temporary(directory), [])
    await store.close()
  }
})

t.test('a torn note, a file without one, and everything else goes at the start', async t => {
  const directory = await broken(t)
  const layout = new Layout(directory)
  const [note = ''] = (await readdir(layout.temporary)).filter(name => name.endsWith('.json'))
  const path = join(layout.temporary, note)
  await writeFile(path, (await readFile(path)).subarray(0, -9))
  await writeFile(join(layout.temporary, 'alone.json'), await readFile(path))
  await writeFile(join(layout.temporary, 'alone.part'), 'x')
  await writeFile(join(layout.temporary, 'folder.part'), 'x')
  await mkdir(join(layout.temporary, 'folder.json'))
  const { store, log } = await opened(t, { directory })
  t.equal(store.resumable(key), undefined)
  t.strictSame(await temporary(directory), [])
  t.match(log.lines, [{ facts: { removed: 6 } }])
})

t.test('what is fetched anew makes the beginning of it void', async t => {
  const directory = await broken(t)
  const { store } = await opened(t, { directory })
  const resumable = store.resumable(key)
  store.download({ key, fields: Object.entries(fields) }).discard(new Error('enough'))
  t.equal(store.resumable(key), undefined)
  t.equal(await resumable?.resume(), undefined)
  await until(async () => (await temporary(directory)).length === 0)
})

t.test('one that is not taken up goes after a day', async t => {
  const directory = await broken(t)
  const layout = new Layout(directory)
  const { store, clock } = await opened(t, { directory })
  const sweep = () => store.sweep({ unusedDays: 0, now: clock.now() })
  t.match(await sweep(), { leftoversRemoved: 0 })
  const old = new Date(clock.now() - 2 * day)
  for (const name of await readdir(layout.temporary))
    await utimes(join(layout.temporary, name), old, old)
  t.match(await sweep(), { leftoversRemoved: 2 })
  t.equal(await store.resumable(key)?.resume(), undefined)
})

t.test('small downloads, nameless ones, and those that are over leave no note', async t => {
  const { store, clock, directory } = await opened(t)
  const notes = async () => (await temporary(directory)).filter(name => name === '.json').length
  const begin = async (of: Parameters<Store['download']>[0], size: number) => {
    const download = store.download(of)
    await pour(download, content.subarray(0, size))
    clock.advance(5_000)
    await store.checkpoint()
    return download
  }
  const given = Object.entries(fields)
  const small = await begin({ key, fields: given }, 3 * MiB)
  const nameless = await begin({ key }, 9 * MiB)
  t.equal(await notes(), 0)
  const large = await begin({ key: `${key}2`, fields: given }, 9 * MiB)
  t.equal(await notes(), 1)
  t.match(await large.complete().kept, { stored: true })
  for (const one of [small, nameless]) one.discard(new Error('enough'))
  await until(async () => (await temporary(directory)).length === 0)
})

t.test('what cannot be gone on with is removed', async t => {
  const scripted = scriptedFiles()
  const cases: ReadonlyArray<readonly [code: string, size: number]> = [
    ['wrong-size', content.length - 1],
    ['EIO', content.length],
  ]
  for (const [code, size] of cases) {
    const directory = await broken(t)
    const { store } = await opened(t, { directory, files: scripted.files })
    scripted.decide = (call, about) =>
      code === 'EIO' && call === 'readv' && about.endsWith('.part') ? { code } : 'done'
    await t.rejects(store.resumable(key)?.resume({ size }) ?? raise(), { code })
    t.strictSame(await temporary(directory), [], code)
    await store.close()
  }
})

t.test('a sweep leaves alone what is just being read again', async t => {
  const directory = await broken(t)
  const layout = new Layout(directory)
  const scripted = scriptedFiles()
  const { store, clock } = await opened(t, { directory, files: scripted.files })
  const old = new Date(clock.now() - 2 * day)
  for (const name of await readdir(layout.temporary))
    await utimes(join(layout.temporary, name), old, old)
  scripted.decide = (call, about) => (call === 'readv' && about.endsWith('.part') ? 'hang' : 'done')
  const resumed = store.resumable(key)?.resume()
  t.match(await store.sweep({ unusedDays: 0, now: clock.now() }), { leftoversRemoved: 0 })
  scripted.decide = () => 'done'
  scripted.release()
  t.match(await resumed, { size: 12 * MiB })
})

function raise(): never {
  throw new Error('it is not there')
}
