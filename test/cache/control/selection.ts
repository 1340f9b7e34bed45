import { stat } from 'node:fs/promises'
import t from 'tap'
import { proposal, refresh, remove, selectionOf } from '../../../lib/cache/control/selection.ts'
import { compilePolicy } from '../../../lib/cache/policy/policy.ts'
import { ownIdentity, routeRules } from '../../../lib/cache/policy/routing.ts'
import { neverConfirmed } from '../../../lib/cache/store/entry.ts'
import { configOf } from '../../fixtures/cache/cache.ts'
import { scriptedFiles } from '../../fixtures/store/files.ts'
import { entryOf, keep, opened, sha256 } from '../../fixtures/store/opened.ts'

const config = configOf(
  { remap: [{ from: 'old.example.org', to: 'archive.example.org/pub' }] },
  '/srv/none',
)
const rules = {
  config,
  policy: compilePolicy(config, ownIdentity(config, [])),
  routes: routeRules(config),
  confinements: [],
}
const chosen = (text: string) => {
  const found = selectionOf(text, rules)
  if (typeof found === 'string') throw new Error(found)
  return found
}

t.test('a URL means one file, in every spelling and by the name it is fetched under', t => {
  const key = 'http://archive.example.org/pub/a%2Bb_1_all.deb'
  const table: ReadonlyArray<readonly [text: string, meant: boolean]> = [
    [key, true],
    ['http://ARCHIVE.example.org:80/pub//./a+b_1_all.deb', true],
    ['archive.example.org/pub/a+b_1_all.deb', true],
    ['http://old.example.org/a+b_1_all.deb', true],
    ['https://archive.example.org/pub/a+b_1_all.deb', false],
    ['http://archive.example.org/pub/', false],
    ['http://archive.example.org/pub/a', false],
  ]
  for (const [text, meant] of table) t.equal(chosen(text)(key), meant, text)
  t.match(selectionOf('foo bar', rules), /visible ASCII/)
  t.end()
})

t.test('a pattern fits whole URLs, and an asterisk any text', t => {
  const key = 'http://archive.example.org/debian/pool/main/h/hello_1_all.deb'
  const table: ReadonlyArray<readonly [text: string, meant: boolean]> = [
    ['*', true],
    ['http://archive.example.org/*', true],
    ['archive.example.org/debian/*', true],
    ['example.org/*', false],
    ['*/hello_*', true],
    ['*/hello_*.deb', true],
    ['*hello_1_all.deb*', true],
    ['*/pool/*/pool/*', false],
    ['*.deb*.deb', false],
    ['hello*', false],
    ['*hello', false],
  ]
  for (const [text, meant] of table) t.equal(chosen(text)(key), meant, text)
  t.end()
})

t.test('files are removed, or marked for the next request, and each is counted once', async t => {
  const { store } = await opened(t)
  const removed: string[] = []
  const told = async (keys: readonly string[]): Promise<void> => void removed.push(...keys)
  for (const name of ['a', 'b', 'c']) {
    await keep(store, `http://archive.example.org/${name}`, Buffer.from(`${name}!!`))
  }
  const digest = sha256(Buffer.from('a!!'))
  t.ok(store.has(digest))
  t.strictSame(await remove(store, key => key.endsWith('/a'), told), {
    ...{ files: 1, bytes: 3 },
    left: { contents: 0, bytes: 0 },
  })
  t.notOk(
    store.has(digest),
    'the content is gone with it, and answers no request under another name',
  )
  t.strictSame(removed, ['http://archive.example.org/a'])
  t.equal(await store.get('http://archive.example.org/a'), undefined)
  t.strictSame(await refresh(store, () => true), { files: 2, bytes: 6 })
  t.equal((await store.get('http://archive.example.org/b'))?.validated, neverConfirmed)
  t.strictSame(await refresh(store, () => true), { files: 0, bytes: 0 }, 'they are marked already')
  t.match(await remove(store, () => false, told), { files: 0, bytes: 0 })
})

t.test('files that may not be removed are counted, served no more, and tried again', async t => {
  const scripted = scriptedFiles()
  const { store, clock, directory } = await opened(t, { files: scripted.files })
  const told = async (): Promise<void> => undefined
  for (const name of ['a', 'b']) {
    await keep(store, `http://archive.example.org/${name}`, Buffer.from(`${name}!!`))
  }
  const why = { because: 'permission denied', owner: (await stat(directory)).uid }
  const kept = { contents: 2, bytes: 6, why }
  scripted.decide = call => (call === 'unlink' ? { code: 'EACCES' } : 'done')
  t.strictSame(await remove(store, () => true, told), { files: 2, bytes: 6, left: kept })
  t.notOk(store.has(sha256(Buffer.from('a!!'))), 'no request is answered from it')
  t.strictSame(store.unremovable, kept)
  t.strictSame(store.health(), { writable: true }, 'the disk is well')
  t.strictSame(await remove(store, () => true, told), {
    files: 0,
    bytes: 0,
    left: { contents: 0, bytes: 0 },
  })
  scripted.decide = () => 'done'
  clock.advance(61_000)
  await store.sweep({ now: clock.now() })
  t.strictSame(store.unremovable, { contents: 0, bytes: 0 })
})

t.test('a file that may not even be read is removed with the others, or counted', async t => {
  const scripted = scriptedFiles()
  const { store, clock, directory } = await opened(t, { files: scripted.files })
  for (const name of ['a', 'b']) {
    await keep(store, `http://archive.example.org/${name}`, Buffer.from(`${name}!!`))
  }
  await store.checkpoint()
  // Entries of before name it again, so that the next checkpoint flushes it; by then the file is root's.
  store.put(entryOf('http://archive.example.org/a2', Buffer.from('a!!')))
  await keep(store, 'http://archive.example.org/c', Buffer.from('c!!'))
  scripted.decide = (call, path) =>
    ['open', 'unlink', 'lstat'].includes(call) && path.includes('/blobs/')
      ? { code: 'EACCES' }
      : 'done'
  const { files, left } = await remove(
    store,
    () => true,
    async () => undefined,
  )
  t.equal(files, 4)
  const owner = (await stat(directory)).uid
  t.match(left, { contents: 3, bytes: 9, why: { because: 'permission denied', owner } })
  t.strictSame(store.health(), { writable: true })
  t.notOk(store.has(sha256(Buffer.from('a!!'))))
  scripted.decide = () => 'done'
  clock.advance(61_000)
  await store.sweep({ now: clock.now() })
  t.equal(store.unremovable.contents, 0, 'tried again')
})

t.test('nothing is served of what a failing disk does not let go', async t => {
  const scripted = scriptedFiles()
  const { store, clock } = await opened(t, { files: scripted.files })
  await keep(store, 'http://archive.example.org/a', Buffer.from('a!!'))
  scripted.decide = call => (call === 'fdatasync' || call === 'writev' ? { code: 'EIO' } : 'done')
  const { files, left } = await remove(
    store,
    () => true,
    async () => undefined,
  )
  t.equal(files, 1)
  t.match(left, {
    contents: 1,
    bytes: 3,
    why: { because: 'the disk reports an input/output error' },
  })
  t.notOk(store.has(sha256(Buffer.from('a!!'))), 'also not under another name')
  t.match(store.health(), { writable: false })
  scripted.decide = () => 'done'
  clock.advance(61_000)
  await store.sweep({ now: clock.now() })
  t.equal(store.unremovable.contents, 0)
})

t.test('what is to be refreshed makes room in the same order as before', async t => {
  const { store, clock } = await opened(t)
  const used = async () => {
    const times: Record<string, number> = {}
    for await (const some of store.list()) {
      for (const { key, lastUsed } of some) times[key] = lastUsed
    }
    return times
  }
  for (const name of ['a', 'b', 'c']) {
    await keep(store, `http://archive.example.org/${name}`, Buffer.from(`${name}!!`))
    clock.advance(60_000)
  }
  const before = await used()
  t.equal(new Set(Object.values(before)).size, 3)
  await refresh(store, () => true)
  t.strictSame(await used(), before)
})

t.test('a text that means no file gets a pattern proposed, when one fits', async t => {
  const { store } = await opened(t)
  for (const name of ['gcc-12_1_amd64.deb', 'libgcc-s1_1_amd64.deb', "it's"]) {
    await keep(store, `http://archive.example.org/${name}`, Buffer.from(name))
  }
  const said = "2 files would be meant by *gcc*: cachesvc remove '*gcc*'"
  for (const text of ['gcc', 'gcc*', '*gcc']) t.equal(await proposal(store, text, 'remove'), said)
  t.equal(
    await proposal(store, "it's", 'refresh'),
    "1 file would be meant by *it's*: cachesvc refresh '*it'\\''s*'",
  )
  for (const text of ['vim', '*gcc*', '*', '']) {
    t.equal(await proposal(store, text, 'remove'), undefined, text)
  }
})
