/**
 * The record of what clients were given, over restarts, and what `cachesvc recall` finds in it.
 */
import { appendFile, readdir, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import type { Config } from '../../../../lib/cache/config/config.ts'
import {
  type GivenPackage,
  GivenRecord,
  givenPackages,
} from '../../../../lib/cache/features/deny/given-record.ts'
import { recall } from '../../../../lib/cache/features/deny/recall.ts'
import { TestCache } from '../../../fixtures/cache/cache.ts'
import { file, ScriptedOrigin } from '../../../fixtures/http/scripted-origin.ts'
import { createMemoryLog } from '../../../fixtures/log/memory-log.ts'
import { ManualClock } from '../../../fixtures/time/manual-clock.ts'

const day = 24 * 3600 * 1000
const now = Date.parse('2026-03-14T12:00:00Z')

async function recordOf(directory: string): Promise<readonly GivenPackage[]> {
  const found: GivenPackage[] = []
  for await (const one of givenPackages(directory)) found.push(one)
  return found
}

async function cacheWith(t: Test, settings: object = {}) {
  const origin = await ScriptedOrigin.listen(t)
  const clock = new ManualClock(now)
  const cache = await TestCache.start(t, { origins: [origin], clock, settings: { ...settings } })
  const at = (path: string) => {
    origin.at(path, file({ content: 'a package', etag: '"1"' }))
    return origin.url(path)
  }
  const ask = async (n: number, path: string, line = 'GET', fields = '') => {
    const client = await cache.client({ localAddress: `127.0.0.${n}` })
    await client.write(`${line} ${at(path)} HTTP/1.1\r\nHost: ${origin.host}\r\n${fields}\r\n`)
    const answer = await client.response({ to: line })
    await cache.quiet()
    return answer
  }
  const clients = async () =>
    (await recordOf(cache.directory)).map(({ client, file }) => `${client} ${file}`).sort()
  return { cache, clock, ask, clients }
}

const bad = '/debian/pool/main/x/xz-utils/xz-utils_5.6.0-0.2_amd64.deb'
const tail = 'xz-utils/xz-utils_5.6.0-0.2_amd64.deb'

t.test('who was given a package, a hit or a miss, whole or in parts', async t => {
  const { cache, clock, ask, clients } = await cacheWith(t)
  for (const n of [2, 3, 3]) t.equal((await ask(n, bad)).status, 200)
  t.equal((await ask(4, bad, 'GET', 'Range: bytes=2-\r\n')).status, 206)
  t.equal((await ask(5, bad, 'HEAD')).status, 200)
  t.equal((await ask(6, bad, 'GET', 'If-None-Match: "1"\r\n')).status, 304)
  t.equal((await ask(7, '/debian/dists/stable/InRelease')).status, 200)
  t.strictSame(await clients(), [], 'not at once')
  clock.advance(1000)
  await cache.until(async () => (await clients()).length > 0)
  t.strictSame(
    await clients(),
    [2, 3, 4].map(n => `127.0.0.${n} ${tail}`),
  )
  clock.advance(day)
  await ask(2, `${bad}?x=/a/b_1_all.deb`)
  await cache.restart()
  await ask(8, bad)
  await cache.stop()
  t.strictSame(
    await clients(),
    [2, 2, 3, 4, 8].map(n => `127.0.0.${n} ${tail}`),
    'again each day',
  )
})

t.test('what a build gives is recorded as well', async t => {
  const { cache, clock, ask, clients } = await cacheWith(t)
  await cache.command({ do: 'build', act: 'record', name: 'b' })
  const inBuild = `Proxy-Authorization: Basic ${Buffer.from('build:b').toString('base64')}\r\n`
  await ask(2, bad, 'GET', inBuild)
  await cache.command({ do: 'build', act: 'lock', name: 'b' })
  await ask(3, bad, 'GET', inBuild)
  clock.advance(1000)
  await cache.until(async () => (await clients()).length === 2)
})

t.test('recall false: nothing is recorded, and what was is deleted', async t => {
  const { cache, clock, ask, clients } = await cacheWith(t)
  await ask(2, bad)
  clock.advance(1000)
  await cache.until(async () => (await clients()).length > 0)
  t.strictSame(await cache.reload({ statistics: { recall: false } }), [])
  await cache.until(async () => !(await readdir(cache.directory)).includes('given'))
  await ask(3, bad)
  await cache.restart()
  t.strictSame(await clients(), [])
})

/** An exchange in which a client was given a file. */
function exchange(client: string, file: string) {
  const facts = { kind: 'pool', key: `http://a.example.org/${file}`, outcome: 'hit' }
  const request = { method: 'GET', client: { address: client, port: 1 } }
  const response = { status: 200, facts }
  return { request, response, complete: true } as unknown as Parameters<GivenRecord['note']>[0]
}

t.test('files of ninety days and of a bounded size, and a line that a crash has torn', async t => {
  const cacheDirectory = t.testdir({
    given: {
      '2025-12-14.v1': '1765713600 127.0.0.1 a/a_1_all.deb\n',
      '2025-12-13.v1': '1765627200 127.0.0.1 old/old_1_all.deb\n',
      '2026-03-14.v1': '1773486000 127.0.0.1 a/a_2_all.deb\n177348600',
      'notes.txt': 'of somebody else',
    },
  })
  const clock = new ManualClock(now)
  const log = createMemoryLog()
  const parts = { cacheDirectory, clock, log, isOn: () => true }
  const record = new GivenRecord(parts)
  record.note(exchange('127.0.0.9', 'a/a_3_all.deb'))
  await record.close()
  const files = (await recordOf(cacheDirectory)).map(({ file }) => file)
  t.strictSame(files, ['a/a_2_all.deb', 'a/a_3_all.deb', 'a/a_1_all.deb'])
  const directory = join(cacheDirectory, 'given')
  await writeFile(join(directory, '2026-02-01.v1'), Buffer.alloc(129 * 1024 * 1024))
  const next = new GivenRecord(parts)
  await next.close()
  t.strictSame(await readdir(directory), ['2026-03-14.v1', 'notes.txt'], 'the oldest go first')
})

t.test('a disk that fails costs no line that fits in memory, and one warning', async t => {
  const cacheDirectory = t.testdir({ given: 'a file' })
  const clock = new ManualClock(now)
  const log = createMemoryLog()
  const record = new GivenRecord({ cacheDirectory, clock, log, isOn: () => true })
  for (let n = 0; n < 3; n += 1) {
    record.note(exchange('127.0.0.9', `a/a_${n}_all.deb`))
    await record.flush()
  }
  t.equal(log.lines.filter(({ message }) => /cannot record/.test(message)).length, 1)
  await record.close()
})

t.test('a file that cannot be read costs its own lines', async t => {
  const cacheDirectory = t.testdir({
    given: { '2026-03-14.v1': '1773486000 127.0.0.1 a/a_2_all.deb\n', '2026-03-13.v1': {} },
  })
  t.match(await recordOf(cacheDirectory), [{ file: 'a/a_2_all.deb' }])
})

t.test('a write that breaks off costs no line', async t => {
  const cacheDirectory = t.testdir()
  const clock = new ManualClock(now)
  const record = new GivenRecord({
    cacheDirectory,
    clock,
    log: createMemoryLog(),
    isOn: () => true,
  })
  record.note(exchange('127.0.0.9', 'a/a_1_all.deb'))
  await record.flush()
  // The disk was full within a line.
  await appendFile(join(cacheDirectory, 'given/2026-03-14.v1'), '\n1773489600 127.0.0.9 a/a_2_a')
  record.note(exchange('127.0.0.9', 'a/a_2_all.deb'))
  await record.close()
  const files = (await recordOf(cacheDirectory)).map(({ file }) => file)
  t.strictSame(files, ['a/a_1_all.deb', 'a/a_2_a', 'a/a_2_all.deb'])
})

t.test('clients cannot make the record of a day larger than all may be', async t => {
  const cacheDirectory = t.testdir({
    given: {
      '2026-03-13.v1': 'x'.repeat(1000),
      '2026-03-14.v1': Buffer.alloc(128 * 1024 * 1024 - 500, '\n'),
    },
  })
  const clock = new ManualClock(now)
  const log = createMemoryLog()
  const record = new GivenRecord({ cacheDirectory, clock, log, isOn: () => true })
  await record.flush()
  const path = join(cacheDirectory, 'given/2026-03-14.v1')
  for (let n = 0; n < 20; n += 1) {
    record.note(exchange(`127.0.0.${n}`, 'a/a_1_all.deb'))
    await record.flush()
  }
  await record.close()
  t.strictSame(await readdir(join(cacheDirectory, 'given')), ['2026-03-14.v1'])
  t.ok((await stat(path)).size <= 128 * 1024 * 1024)
  t.equal(log.lines.filter(({ message }) => /cannot record/.test(message)).length, 1)
})

t.test('every file is recorded that a row can deny, and no other', async t => {
  const { cache, ask, clients } = await cacheWith(t)
  for (const path of ['/x/xz-utils.deb', '/x/a_latest_all.deb', '/x/a_1.dsc', '/x/a_1.orig.tar.xz'])
    t.equal((await ask(2, path)).status, 200)
  await cache.stop()
  t.strictSame(
    await clients(),
    ['a_1.dsc', 'a_latest_all.deb', 'xz-utils.deb'].map(name => `127.0.0.2 x/${name}`),
  )
})

t.test('the version of a source means what was only built again from it', async t => {
  const cacheDirectory = t.testdir({
    given: { '2026-03-14.v1': '\n1773486000 127.0.0.1 xz-utils/liblzma5_5.6.0-0.2%2Bb1_amd64.deb' },
  })
  const parts = { cacheDirectory, statistics: { recall: true } as Config['statistics'] }
  const lines: string[] = []
  t.capture(process.stdout, 'write', (...written: unknown[]) => {
    lines.push(String(written[0]))
    for (const one of written) if (typeof one === 'function') one()
    return true
  })
  for (const name of ['xz-utils', 'liblzma5'])
    await recall(parts, { name, versions: '5.6.0-0.2', json: true })
  t.match(lines.join(''), /^\[[^\]]*liblzma5[^\]]*\]\s*\[\s*\]\s*$/)
})
