/**
 * Bundles: what is exported from one store and imported into another is served there without the origin.
 */
import { rmSync } from 'node:fs'
import { mkdir, readdir, readFile, readlink, rm, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import t, { type Test } from 'tap'
import { systemClock } from '../../../../lib/async/clock.ts'
import { storeContent } from '../../../../lib/cache/features/bundle/adopt.ts'
import { exportBundle } from '../../../../lib/cache/features/bundle/export.ts'
import { importBundle } from '../../../../lib/cache/features/bundle/import-bundle.ts'
import { type Choice, chooseFiles } from '../../../../lib/cache/features/bundle/indexed.ts'
import { openSink } from '../../../../lib/cache/features/bundle/sink.ts'
import { openStore, openStoreForReading, type Store } from '../../../../lib/cache/store/store.ts'
import { Failure } from '../../../../lib/errors.ts'
import { silentLog as log } from '../../../../lib/log/log.ts'
import { tinyArchive } from '../../../fixtures/archive/tiny-archive.ts'
import { TestCache } from '../../../fixtures/cache/cache.ts'
import { file, ScriptedOrigin } from '../../../fixtures/http/scripted-origin.ts'
import { command } from '../../../fixtures/process/command.ts'

const clock = systemClock
const everything: Choice = { archives: [], suites: [] }

/** A cache that has everything of two suites. */
async function filled(t: Test) {
  const origin = await ScriptedOrigin.listen(t)
  const cache = await TestCache.start(t, { origins: [origin] })
  const packages = {
    stable: { 'pool/main/a_1_all.deb': '!<arch>\na', 'pool/main/b_1_all.deb': '!<arch>\nbb' },
    testing: { 'pool/main/b_2_all.deb': '!<arch>\nccc' },
  }
  const files = new Map([
    ...tinyArchive({ base: 'dists/stable', packages: packages.stable }),
    ...tinyArchive({ base: 'dists/testing', packages: packages.testing, byHash: true }),
  ])
  for (const [path, content] of files) {
    const url = `/debian/${path}`
    origin.at(url, file({ content, lastModified: 'Wed, 01 Jan 2025 00:00:00 GMT' }))
    await cache.warm(origin.url(url))
  }
  // What was adopted is kept under the names that digests give it, too.
  await cache.until(async () => (await cache.metric('cachesvc_suites_being_adopted')) === 0)
  const urls = await cache.stored()
  return { origin, cache, files, urls }
}

async function write(directory: string, path: string, choice = everything) {
  const store = await openStoreForReading({ directory, clock, log })
  const { chosen } = await chooseFiles(store, choice)
  const sink = await openSink(path, clock.now())
  const given = { store, sink, now: clock.now(), by: 'test', chosen, onRead: () => undefined }
  const exported = await exportBundle(given)
  await sink.finish()
  await store.close()
  return exported
}

async function read(path: string, directory: string, dryRun = false) {
  const store = await openStore({ directory, clock, log, memory: 0 })
  const parts = { store, records: [], dryRun, onRead: () => undefined }
  try {
    return await importBundle(path, !path.endsWith('.tar'), parts)
  } finally {
    await store.close()
  }
}

t.test('everything exported is served elsewhere, with the origin away', async t => {
  const { origin, cache, files, urls } = await filled(t)
  const outside = t.testdir({})
  for (const name of ['bundle.tar', 'bundle']) {
    const path = join(outside, name)
    t.match(await write(cache.directory, path), { files: urls.length, leftOut: [] }, name)
    await t.rejects(write(cache.directory, path), { code: 'bundle-exists' })
    const store = join(outside, `${name}.store`)
    t.match(await read(path, store, true), { files: urls.length }, 'tried')
    t.match(await read(path, store), { files: urls.length, known: 0, leftOut: [] })
    t.match(await read(path, store), { files: 0, known: urls.length, leftOut: [] }, 'again')
  }
  t.strictSame((await readdir(outside)).sort(), [
    ...['bundle', 'bundle.store', 'bundle.tar', 'bundle.tar.store'],
  ])
  await origin.close()
  for (const offline of [false, true]) {
    const directory = join(outside, offline ? 'bundle.store' : 'bundle.tar.store')
    const there = await TestCache.start(t, { origins: [origin], directory, settings: { offline } })
    for (const [path, content] of files) {
      const fields = { 'Cache-Control': 'max-age=0' }
      const answer = await there.get(origin.url(`/debian/${path}`), fields)
      t.equal(answer.status, 200, path)
      t.ok(answer.content.equals(content), path)
      t.equal(answer.fields.get('Last-Modified'), 'Wed, 01 Jan 2025 00:00:00 GMT')
    }
    t.strictSame(await there.stored(), urls)
    await there.stop()
  }
})

t.test('an archive or a suite alone, with the packages its indexes name', async t => {
  const { origin, cache, urls } = await filled(t)
  const outside = t.testdir({})
  const exported = async (name: string, choice: Partial<Choice>) => {
    const path = join(outside, name)
    const { files } = await write(cache.directory, path, { ...everything, ...choice })
    if (files === 0) return []
    const lines = (await readFile(join(path, 'manifest/000001.jsonl'), 'utf8')).trimEnd()
    return lines
      .split('\n')
      .map(line => JSON.parse(line).url)
      .sort()
  }
  const of = (...parts: readonly string[]) =>
    urls.filter(url => parts.some(part => url.includes(part)))
  const host = `127.0.0.1:${origin.port}`
  t.strictSame(await exported('all', { archives: [host] }), urls)
  t.strictSame(await exported('prefix', { archives: ['x.example.org', `${host}/debian/`] }), urls)
  t.strictSame(await exported('other', { archives: [`${host}/deb`] }), [])
  t.strictSame(
    await exported('stable', { suites: ['stable'] }),
    of('/dists/stable/', 'a_1_all', 'b_1_all'),
  )
  t.strictSame(
    await exported('testing', { suites: ['testing'], archives: [host] }),
    of('/dists/testing/', 'b_2_all'),
    'also by indexes that are kept by hash alone',
  )
})

t.test('a bundle that is damaged or not whole gives what is right in it', async t => {
  const { cache, urls } = await filled(t)
  const outside = t.testdir({})
  const bundle = join(outside, 'bundle')
  await write(cache.directory, bundle)
  const all = await readdir(join(bundle, 'sha256'), { recursive: true })
  const [wrong = '', gone = ''] = all.filter(name => name.includes('/')).sort()
  const { length } = await readFile(join(bundle, 'sha256', wrong))
  await writeFile(join(bundle, 'sha256', wrong), Buffer.alloc(length, 'x'))
  await rm(join(bundle, 'sha256', gone))
  const manifest = join(bundle, 'manifest/000001.jsonl')
  const text = await readFile(manifest, 'utf8')
  await writeFile(manifest, `${text}nonsense\n{"url":"x"}\n`)
  const store = join(outside, 'store')
  const { files: imported, leftOut } = await read(bundle, store)
  const of = (reason: string) => leftOut.filter(one => one.reason === reason)
  t.ok(of('other-content').every(({ because }) => /sha256 is .* should be/.test(because ?? '')))
  t.ok(of('incomplete').every(({ because }) => because === 'the bundle lacks its content'))
  // A content can have several names.
  const lost = [of('other-content').length, of('incomplete').length]
  t.ok(
    lost.every(names => names > 0),
    lost.join(),
  )
  t.match(of('unreadable'), [{ because: /not JSON/ }, { because: /not an entry/ }])
  t.equal(imported, urls.length - lost.reduce((sum, names) => sum + names, 0))

  await writeFile(join(bundle, 'cachesvc-bundle.json'), '{"version":2}')
  await t.rejects(read(bundle, store), { message: /newer cachesvc \(format 2/ })
  await writeFile(join(outside, 'x.tar'), 'no archive')
  await t.rejects(read(join(outside, 'x.tar'), store), { message: /x\.tar cannot be imported/ })
})

t.test('files of a bundle are opened when they are read', async t => {
  const { cache } = await filled(t)
  const outside = t.testdir({})
  const bundle = join(outside, 'bundle')
  const { files } = await write(cache.directory, bundle)
  await writeFile(join(bundle, 'manifest/notes.txt'), 'not of the bundle')
  const opened = async (): Promise<number> => {
    const links = (await readdir('/proc/self/fd')).map(name => readlink(`/proc/self/fd/${name}`))
    const paths = await Promise.allSettled(links)
    return paths.filter(one => one.status === 'fulfilled' && one.value.startsWith(bundle)).length
  }
  t.match(await read(bundle, join(outside, 'store'), true), { files, leftOut: [] })
  t.equal(await opened(), 0, 'a trial opens no content')
  const full = {
    read: async () => undefined,
    put: () => ({ stored: false }) as never,
    download: () => ({ because: 'no room', discard: () => undefined }) as never,
  }
  const parts = { store: full, records: [], dryRun: false, onRead: () => undefined }
  const { leftOut } = await importBundle(bundle, true, parts)
  t.ok(leftOut.length > 0 && leftOut.every(({ because }) => because === 'no room'))
  t.equal(await opened(), 0, 'a store that refuses opens none')
})

t.test('a content or a part of the manifest that cannot be read', async t => {
  const { cache } = await filled(t)
  const outside = t.testdir({})
  const bundle = join(outside, 'bundle')
  const { files } = await write(cache.directory, bundle)
  const manifest = join(bundle, 'manifest')
  await mkdir(join(manifest, '000002.jsonl'))
  await command('mkfifo', [join(manifest, '000003.jsonl')])
  const { files: imported, leftOut } = await read(bundle, join(outside, 'store'))
  t.equal(imported, files)
  t.match(leftOut, [
    { name: 'manifest/000002.jsonl', reason: 'unreadable', because: /regular file/ },
    { name: 'manifest/000003.jsonl', reason: 'unreadable', because: /regular file/ },
  ])

  const store = await openStore({ directory: join(outside, 'other'), clock, log, memory: 0 })
  const vanishing: Pick<Store, 'download' | 'read' | 'put'> = {
    read: key => store.read(key),
    put: entry => store.put(entry),
    download: about => {
      rmSync(join(bundle, 'sha256'), { recursive: true, force: true })
      return store.download(about)
    },
  }
  const parts = { store: vanishing, records: [], dryRun: false, onRead: () => undefined }
  const late = await importBundle(bundle, true, parts)
  await store.close()
  t.equal(late.files, 0)
  t.match(late.leftOut[0], { reason: 'not-stored', because: /no such file/i })
})

t.test('what another machine wrote sets no fields that an origin could not set', async t => {
  const { cache } = await filled(t)
  const outside = t.testdir({})
  const bundle = join(outside, 'bundle')
  await write(cache.directory, bundle)
  const manifest = join(bundle, 'manifest/000001.jsonl')
  const [line = ''] = (await readFile(manifest, 'utf8')).split('\n')
  const entry = JSON.parse(line)
  const fields = [
    ['Set-Cookie', 'a=b'],
    ['Content-Length', '7'],
    ['X-Fine', '1'],
  ]
  await writeFile(
    manifest,
    [
      { ...entry, fields, verified: { by: 'index', suite: 'stable', signer: 'ab' } },
      { ...entry, fields: [['X-A', 'b\r\nX-C: d']] },
      { ...entry, url: 'file:///etc/passwd' },
    ]
      .map(one => `${JSON.stringify(one)}\n`)
      .join(''),
  )
  const store = join(outside, 'store')
  t.match(await read(bundle, store), { files: 1, leftOut: [{}, {}] })
  const reader = await openStoreForReading({ directory: store, clock, log })
  const stored = await reader.get(entry.url)
  t.strictSame(stored?.fields, [['X-Fine', '1']])
  t.equal(stored?.verified, undefined, 'it cannot say that it was verified')
  await reader.close()
})

t.test('what is stored and newer stays', async t => {
  const { origin, cache, urls } = await filled(t)
  const bundle = join(t.testdir({}), 'bundle.tar')
  await write(cache.directory, bundle)
  await t.rejects(read(bundle, cache.directory), { code: 'directory-in-use' })
  const release = '/debian/dists/stable/Release'
  origin.at(release, file({ content: 'newer', lastModified: 'Thu, 02 Jan 2025 00:00:00 GMT' }))
  await cache.warm(origin.url(release), { 'Cache-Control': 'max-age=0' })
  await cache.stop()
  t.match(await read(bundle, cache.directory), { files: 0, known: urls.length })
})

t.test('an export follows no link and removes nothing that stands beside it', async t => {
  const { cache } = await filled(t)
  const outside = t.testdir({ precious: 'precious', 'bundle.part': { mine: 'mine' } })
  const precious = join(outside, 'precious')
  await symlink(precious, join(outside, 'bundle.tar.part'))
  await write(cache.directory, join(outside, 'bundle.tar'))
  await write(cache.directory, join(outside, 'bundle'))
  t.equal(await readFile(precious, 'utf8'), 'precious')
  t.equal(await readFile(join(outside, 'bundle.part', 'mine'), 'utf8'), 'mine')
  const given = ['bundle', 'bundle.part', 'bundle.tar', 'bundle.tar.part', 'precious']
  t.strictSame((await readdir(outside)).sort(), given, 'no temporary name is left')
})

t.test('whether a content is another one does not depend on the words of its failure', async t => {
  const wrong = new Failure('other words', { code: 'wrong-digest' })
  const full = new Failure('it should be stored elsewhere', { code: 'full' })
  for (const [failure, reason] of [
    [wrong, 'other-content'],
    [full, 'not-stored'],
  ] as const) {
    const download = {
      because: undefined,
      take: () => true,
      complete: () => {
        throw failure
      },
      discard: () => undefined,
    }
    const store = { download: () => download } as unknown as Store
    const wanted = { digest: 'ab'.repeat(32), size: 1, onRead: () => undefined }
    const kept = await storeContent(store, wanted, Readable.from([Buffer.from('x')]))
    t.match(kept, { stored: false, reason })
  }
})
