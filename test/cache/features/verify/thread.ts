import { readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import type { Progress, WrongFile } from '../../../../lib/cache/features/verify/report.ts'
import { verifyInThread } from '../../../../lib/cache/features/verify/thread.ts'
import { Layout } from '../../../../lib/cache/store/disk/disk.ts'
import { Archive, noArchive } from '../../../fixtures/archive/archive.ts'
import { config } from '../../../fixtures/cache/cache-config.ts'
import { site, stored } from '../../../fixtures/features/verify/verified.ts'
import { createMemoryLog } from '../../../fixtures/log/memory-log.ts'
import { bytesOf, keep, opened } from '../../../fixtures/store/opened.ts'

const never = new AbortController().signal
const { archives, suites } = config('suites:\n  keyrings: []')
const settings = { archives, suites }

t.test('an archive as archives are made, checked in a thread', { skip: noArchive }, async t => {
  const archive = await Archive.create()
  t.teardown(() => archive.close())
  const files = new Map<string, Buffer>()
  for (const one of await readdir(archive.root, { recursive: true, withFileTypes: true })) {
    const path = join(one.parentPath, one.name)
    const name = path.slice(archive.root.length + 1).replaceAll('%', '%25')
    if (one.isFile()) files.set(name, await readFile(path))
  }
  const { directory, spoil } = await stored(t, files)
  const log = createMemoryLog()
  const progress: Progress[] = []
  const told: WrongFile[] = []
  const options = {
    directory,
    rate: 0,
    settings,
    signal: never,
    log,
    onProgress: (one: Progress) => progress.push(one),
    onWrong: (one: WrongFile) => told.push(one),
  }
  const report = await verifyInThread(options)
  t.match(report, { wrong: [], unread: [], files: files.size, repositories: { length: 3 } })
  t.same(log.lines, [])
  t.ok(progress.length > 0)
  t.strictSame(told, [])
  const packages = [...files.keys()].filter(path => /\.(deb|dsc|tar\.gz)$/.test(path))
  t.ok(packages.length >= 8)
  t.equal(
    report.unchecked['no-index'],
    [...files.keys()].filter(p => /Release(\.gpg)?$/.test(p)).length,
  )

  const spoilt = ['debian/pool/main/a/alpha/alpha_1.0_amd64.deb', 'flat/Packages.xz']
  for (const path of spoilt) await spoil(path, content => content.subarray(1))
  const again = await verifyInThread(options)
  t.strictSame(told, again.wrong)
  t.ok(again.wrong.every(({ because }) => because === 'content'))
  t.ok(spoilt.every(path => again.wrong.some(({ key }) => key === `${site}/${path}`)))
})

t.test('a check can be broken off, and one that fails says why', async t => {
  const { store, directory } = await opened(t)
  await keep(store, 'http://archive.example.org/a', bytesOf(2_000_000))
  const log = createMemoryLog()
  const onWrong = () => undefined
  const stop = new AbortController()
  const slow = verifyInThread({
    directory,
    rate: 1000,
    settings,
    signal: stop.signal,
    log,
    onWrong,
  })
  stop.abort(new Error('enough'))
  await t.rejects(slow, { message: 'enough' })
  await t.rejects(
    verifyInThread({ directory, rate: 0, settings, signal: stop.signal, log, onWrong }),
    {
      message: 'enough',
    },
  )
  const newer = t.testdir({ v99: {} })
  await t.rejects(
    verifyInThread({ directory: newer, rate: 0, settings, signal: never, log, onWrong }),
    {
      message: /newer cachesvc/,
    },
  )
})

t.test('a file that is no entry is told and passed by', async t => {
  const { store, directory } = await opened(t)
  await keep(store, 'http://archive.example.org/a', bytesOf(10))
  await store.close()
  const path = new Layout(directory).log
  await writeFile(path, (await readFile(path)).fill('?', 100, 110))
  const log = createMemoryLog()
  const report = await verifyInThread({
    directory,
    rate: 0,
    settings,
    signal: never,
    log,
    onWrong: () => undefined,
  })
  t.match(report, { files: 0, wrong: [] })
  t.match(log.lines, [{ level: 'warn', message: /damaged/ }])
})
