import { chown, readdir, readFile, stat, writeFile } from 'node:fs/promises'
import t from 'tap'
import type { RequestHandler } from '../../../../lib/admin-socket.ts'
import { systemClock } from '../../../../lib/async/clock.ts'
import {
  Evictor,
  evictFrom,
  readEvictRequest,
} from '../../../../lib/cache/features/verify/remove-wrong.ts'
import type { WrongFile } from '../../../../lib/cache/features/verify/report.ts'
import { VerificationSchedule } from '../../../../lib/cache/features/verify/schedule.ts'
import { Layout } from '../../../../lib/cache/store/disk/disk.ts'
import { config } from '../../../fixtures/cache/cache-config.ts'
import { createMemoryLog } from '../../../fixtures/log/memory-log.ts'
import { bytesOf, contentBytes, keep, opened } from '../../../fixtures/store/opened.ts'

const key = 'http://archive.example.org/pool/a_1_all.deb'
const clock = systemClock

const wrongOf = (digest: string, because: WrongFile['because'] = 'content'): WrongFile => ({
  key,
  digest,
  because,
  sentence: 'it is spoilt',
})

t.test('content that is bad goes from disk, memory and open files at once', async t => {
  for (const size of [1000, 900_000]) {
    const { store, directory } = await opened(t)
    const entry = await keep(store, key, bytesOf(size))
    const twin = await keep(
      store,
      `${key}.twin`,
      (await contentBytes(await store.content(entry))) ?? Buffer.alloc(0),
    )
    for (let i = 0; i < 3; i += 1) await contentBytes(await store.content(entry))
    const path = new Layout(directory).blob(entry.digest)
    const bad = await readFile(path)
    bad.writeUInt8(bad.readUInt8(5) ^ 1, 5)
    await writeFile(path, bad)
    const log = createMemoryLog()
    t.strictSame(await evictFrom(store, wrongOf(entry.digest), log), { evicted: true })
    t.match(log.lines, [
      {
        level: 'warn',
        message: 'repository-verification warning',
        facts: { key, because: 'content', sentence: 'it is spoilt', evicted: true },
      },
    ])
    t.equal(await store.get(key), undefined)
    await t.rejects(stat(path), { code: 'ENOENT' })
    t.equal(await store.content(twin), undefined, 'another name for it is a miss')
    t.equal(await store.get(twin.key), undefined)
    const { bytes, objects } = store.usage()
    t.strictSame([bytes, objects], [0, 0])
    await keep(store, key, bytesOf(size))
    t.ok(await store.get(key), 'and it can be stored again')
  }
})

t.test('an index that is wrong goes; its content stays for those who name it rightly', async t => {
  const { store } = await opened(t)
  const content = bytesOf(100)
  const { digest } = await keep(store, key, content)
  const other = await keep(store, `${key}.other`, content)
  await evictFrom(store, wrongOf(digest, 'index'), createMemoryLog())
  t.equal(await store.get(key), undefined)
  t.strictSame(await contentBytes(await store.content(other)), content)
})

t.test('what was replaced meanwhile stays', async t => {
  const { store } = await opened(t)
  const old = await keep(store, key, bytesOf(100))
  const young = await keep(store, key, bytesOf(100))
  const fate = await evictFrom(store, wrongOf(old.digest), createMemoryLog())
  t.strictSame(fate, { evicted: false, because: 'it was replaced meanwhile' })
  t.strictSame(await store.get(key), young)
})

const asRoot = { skip: process.geteuid?.() === 0 ? false : 'needs root, to give files away' }

t.test('root leaves a store alone that belongs to another user', asRoot, async t => {
  const { store, directory } = await opened(t)
  const { digest } = await keep(store, key, bytesOf(100))
  await store.close()
  await chown(directory, 12_345, 12_345)
  const before = await readdir(directory, { recursive: true })
  const evictor = new Evictor({ directory, clock, log: createMemoryLog() })
  t.match(await evictor.evict(wrongOf(digest)), {
    evicted: false,
    because: /belongs to the user 12345: .*sudo -u '#12345'/,
  })
  t.strictSame(await readdir(directory, { recursive: true }), before)
})

t.test('beside an owner, the owner removes', async t => {
  const { store, directory } = await opened(t)
  const { digest } = await keep(store, key, bytesOf(100))
  const log = createMemoryLog()
  let warnings = 0
  const verification = await VerificationSchedule.start({
    directory,
    store,
    clock,
    log,
    settings: () => config('verification:\n  interval: 0s'),
    onWarning: () => {
      warnings += 1
    },
  })
  t.teardown(() => verification.close())
  const answer: RequestHandler = async request => {
    const wrong = readEvictRequest(request)
    return wrong && verification.evict(wrong)
  }
  store.answerCommands(answer)
  const evictor = new Evictor({ directory, clock, log: createMemoryLog() })
  const wrong = wrongOf(digest)
  t.strictSame(await evictor.evict(wrong), { evicted: true })
  t.equal(await store.get(key), undefined, 'also in the memory of the owner')
  t.equal(warnings, 1)
  t.match(log.lines, [{ message: 'repository-verification warning' }])
})

t.test('without an owner, the lock is taken for the removal alone', async t => {
  const { store, directory } = await opened(t)
  const wrong = wrongOf((await keep(store, key, bytesOf(100))).digest)
  await store.close()
  const evictor = new Evictor({ directory, clock, log: createMemoryLog() })
  const absent = { ...wrong, key: `${key}.absent` }
  t.strictSame(await Promise.all([wrong, absent].map(one => evictor.evict(one))), [
    { evicted: true },
    { evicted: true },
  ])
  const again = await opened(t, { directory })
  t.equal(await again.store.get(key), undefined)
})

t.test('an owner that cannot be asked keeps its files', { timeout: 120_000 }, async t => {
  const { store, directory } = await opened(t)
  const wrong = wrongOf((await keep(store, key, bytesOf(100))).digest)
  const evictor = new Evictor({ directory, clock, log: createMemoryLog() })
  t.match(await evictor.evict(wrong), { evicted: false, because: /in use by process/ })
  t.ok(await store.get(key))
  store.answerCommands(async () => 'what?')
  t.match(await evictor.evict(wrong), { evicted: false, because: /cannot do that/ })
})

t.test('a request is taken only when it is well-formed', async t => {
  const wrong = wrongOf('a'.repeat(64))
  t.strictSame(readEvictRequest({ do: 'evict', wrong }), wrong)
  const table: readonly unknown[] = [
    undefined,
    'evict',
    { do: 'evict' },
    { do: 'other', wrong },
    { do: 'evict', wrong: { ...wrong, key: 5 } },
    { do: 'evict', wrong: { ...wrong, digest: '../../etc/passwd' } },
    { do: 'evict', wrong: { ...wrong, because: 'spite' } },
    { do: 'evict', wrong: { ...wrong, sentence: undefined } },
  ]
  for (const request of table)
    t.equal(readEvictRequest(request), undefined, JSON.stringify(request))
})
