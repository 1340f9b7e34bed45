import { execFileSync } from 'node:child_process'
import { copyFile, mkdir, readFile, rm, stat, symlink, utimes, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import t from 'tap'
import { Layout } from '../../../../lib/cache/store/disk/layout.ts'
import { openStoreForReading } from '../../../../lib/cache/store/disk/reading.ts'
import { bytesOf, entryOf, keep, opened, until } from '../../../fixtures/store/opened.ts'

const key = 'http://archive.example.org/dists/stable/InRelease'
const hour = 3_600_000

async function all<Item>(items: AsyncIterable<Item>): Promise<Item[]> {
  const list: Item[] = []
  for await (const item of items) list.push(item)
  return list
}

t.test('an entry is there at once, after a restart, and gone when removed', async t => {
  const { store, directory } = await opened(t)
  t.equal(await store.get(key), undefined)
  const entry = await keep(store, key, bytesOf(10))
  t.strictSame(store.peek(key), entry)
  t.strictSame(await store.get(key), entry)
  await store.close()
  const { store: again } = await opened(t, { directory })
  t.equal(again.peek(key), undefined, 'not in memory yet')
  const both = await Promise.all([again.get(key), again.get(key)])
  t.strictSame(both, [entry, entry])
  t.strictSame(again.peek(key), entry)
  await again.remove(key)
  t.equal(again.peek(key), undefined)
  t.equal(await again.get(key), undefined)
  await again.remove(key)
})

t.test('the last of many writers of one key wins, in memory and on disk', async t => {
  const { store, directory } = await opened(t)
  const entry = await keep(store, key, bytesOf(10))
  const versions = Array.from({ length: 20 }, (_, n) => ({ ...entry, validated: n }))
  const kept = await Promise.all(versions.map(one => store.put(one)))
  t.ok(kept.every(one => one.stored))
  t.equal(store.peek(key)?.validated, 19)
  t.equal(JSON.parse(await readFile(new Layout(directory).entry(key), 'utf8')).validated, 19)
})

t.test('what is no entry of this key is removed, logged and absent', async t => {
  const { store, directory, log } = await opened(t)
  const path = new Layout(directory).entry(key)
  const good = new Layout(directory).entry('other')
  await keep(store, 'other', bytesOf(10))
  await mkdir(dirname(path), { recursive: true })
  const table: ReadonlyArray<readonly [because: RegExp, make: () => unknown]> = [
    [/not JSON/, () => writeFile(path, '')],
    [/not JSON/, () => writeFile(path, '{"version":1,"key":"http://ar')],
    [/its key is another/, () => copyFile(good, path)],
    [/too long/, () => writeFile(path, ' '.repeat(300_000))],
    [/a link/, () => symlink(good, path)],
    [/not a plain file/, () => execFileSync('mkfifo', [path])],
  ]
  for (const [because, make] of table) {
    await make()
    t.equal(await store.get(key), undefined, String(because))
    t.match(log.lines.at(-1), { level: 'warn', facts: { path, because } })
    await t.rejects(stat(path), { code: 'ENOENT' })
  }
  await mkdir(path)
  t.equal(await store.get(key), undefined, 'a directory stays, and is absent all the same')
})

t.test('entries that cannot be are not written', async t => {
  const { store } = await opened(t)
  const content = bytesOf(10)
  await keep(store, key, content)
  const malformed = { code: 'malformed-entry', fault: 'internal' }
  await t.rejects(store.put(entryOf('', content)), malformed)
  await t.rejects(store.put(entryOf(key, content, { fields: [['a', 'b\r\nc']] })), malformed)
  const long = entryOf(key, content, { fields: [['a', 'b'.repeat(300_000)]] })
  await t.rejects(store.put(long), { ...malformed, message: /too long/ })
  t.strictSame(await store.put(entryOf(key, bytesOf(11))), {
    stored: false,
    because: 'its content is not in the store',
  })
  t.strictSame(await store.get(key), entryOf(key, content), 'the old one stands')
})

t.test('a use is written down in batches and at most every six hours', async t => {
  const { store, directory, clock } = await opened(t)
  await keep(store, key, bytesOf(10))
  const path = new Layout(directory).entry(key)
  const used = async () => Math.round((await stat(path)).mtimeMs)
  const written = await used()
  clock.advance(5 * hour)
  store.touch(key)
  clock.advance(60_000)
  clock.advance(hour)
  store.touch(key)
  t.equal((await all(store.entries()))[0]?.lastUsed, clock.now(), 'known before it is written')
  t.equal(await used(), written, 'not yet on disk')
  const moment = clock.now()
  clock.advance(60_000)
  await until(async () => (await used()) === moment)
  await store.close()
})

t.test('uses not yet written down are written at the end', async t => {
  const { store, directory, clock } = await opened(t)
  await keep(store, key, bytesOf(10))
  clock.advance(7 * hour)
  store.touch(key)
  store.touch('http://archive.example.org/never-stored')
  await store.close()
  t.equal(Math.round((await stat(new Layout(directory).entry(key))).mtimeMs), clock.now())
})

t.test('a restart does not forget when an entry was used', async t => {
  const { store, directory, clock } = await opened(t)
  await keep(store, key, bytesOf(10))
  await store.close()
  const path = new Layout(directory).entry(key)
  const long = new Date(clock.now() - 100 * hour)
  await utimes(path, long, long)
  const { store: again } = await opened(t, { directory })
  await again.get(key)
  t.equal((await all(again.entries()))[0]?.lastUsed, long.getTime())
})

t.test('a walk meets every entry once and passes over what is none', async t => {
  const { store, directory, log } = await opened(t)
  const keys = Array.from({ length: 30 }, (_, n) => `${key}/${n}`)
  for (const one of keys) await keep(store, one, bytesOf(10))
  const layout = new Layout(directory)
  const stray = layout.entry('stray')
  await mkdir(dirname(stray), { recursive: true })
  await writeFile(stray, '{}')
  await writeFile(`${stray}.bak`, '{}')
  await copyFile(layout.entry(`${key}/0`), layout.entry(`${key}/1`))
  const found = await all(store.entries())
  t.strictSame(found.map(one => one.key).sort(), keys.filter(one => one !== `${key}/1`).sort())
  t.equal(log.lines.filter(line => line.level === 'warn').length, 2)
  await t.rejects(stat(stray), { code: 'ENOENT' })
  t.ok(await stat(`${stray}.bak`), 'what is not ours stays')
})

t.test('a directory where an entry should be stops no walk', async t => {
  const { store, directory, clock } = await opened(t)
  await keep(store, key, bytesOf(10))
  await mkdir(new Layout(directory).entry('odd'), { recursive: true })
  t.equal((await all(store.entries())).length, 1)
  t.match(await store.sweep({ unusedDays: 30, now: clock.now() }), { entriesKept: 1 })
})

t.test('a reader beside the owner sees everything and changes nothing', async t => {
  const { store, directory, clock, log } = await opened(t)
  const entry = await keep(store, key, bytesOf(10))
  const torn = new Layout(directory).entry('torn')
  await mkdir(dirname(torn), { recursive: true })
  await writeFile(torn, '{')
  const reader = await openStoreForReading({ directory, clock, log })
  t.strictSame(await reader.get(key), entry)
  t.equal(await reader.get('torn'), undefined)
  t.equal((await all(reader.entries())).length, 1)
  t.match(await reader.content(entry), { kind: 'bytes' })
  await reader.close()
  await rm(new Layout(directory).blob(entry.digest))
  const another = await openStoreForReading({ directory, clock, log })
  t.equal(await another.content(entry), undefined)
  await another.close()
  t.equal(await readFile(torn, 'utf8'), '{')
  t.ok(await stat(new Layout(directory).entry(key)))
})

t.test('a reader finds nothing where nothing is, and says so of what is no directory', async t => {
  const { clock, log } = await opened(t)
  const nowhere = await openStoreForReading({ directory: `${t.testdirName}/nowhere`, clock, log })
  t.equal(await nowhere.get('http://archive.example.org/a'), undefined)
  for await (const entry of nowhere.entries()) t.fail(entry.key)
  await nowhere.close()
  const directory = join(t.testdir({ file: '' }), 'file')
  await t.rejects(openStoreForReading({ directory, clock, log }), {
    message: `The cache directory ${directory} is not a directory`,
  })
})
