/**
 * Denied packages in a running service: cached or not, whichever way they are asked for, by the files of now.
 */
import { rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { changingArchive } from '../../../fixtures/archive/changing-archive.ts'
import { TestCache } from '../../../fixtures/cache/cache.ts'
import type { RawResponse } from '../../../fixtures/http/raw-client.ts'
import { file, ScriptedOrigin } from '../../../fixtures/http/scripted-origin.ts'
import { ManualClock } from '../../../fixtures/time/manual-clock.ts'

const pool = '/debian/pool/main/x/xz-utils'
const bad = `${pool}/xz-utils_5.6.0-0.2_amd64.deb`
const good = `${pool}/xz-utils_5.6.2-1_amd64.deb`

const row =
  '- {package: xz-utils, versions: ">= 5.6.0, << 5.6.1", reason: CVE-2024-3094, until: 2026-03-20}\n'

/** A cache with a list, before an origin that has any package. */
async function denying(t: Test, text = row) {
  const origin = await ScriptedOrigin.listen(t)
  const clock = new ManualClock(Date.parse('2026-03-14T12:00:00Z'))
  const path = join(t.testdir(), 'deny.yaml')
  await writeFile(path, text)
  const settings = { deny: path }
  const cache = await TestCache.start(t, { origins: [origin], clock, settings })
  const get = async (path: string) => {
    origin.at(path.replace(/\?.*/, ''), file({ content: 'a package', etag: '"1"' }))
    const { status, reason, text } = await cache.get(origin.url(path))
    await cache.quiet()
    return { status, reason, text }
  }
  return { origin, clock, path, cache, get, settings }
}

t.test('a denied version is 403 with the reason in the phrase, stored or not', async t => {
  const { get, cache, origin, clock, path } = await denying(t, '')
  t.equal((await get(bad)).status, 200, 'before')
  await writeFile(path, row)
  const until = clock.now() + 1000
  // Within a second of the change; the thread that reads it has true time.
  await cache.until(
    async () => (await cache.get(origin.url(bad))).status === 403,
    () => clock.now() < until,
  )
  t.match(await get(bad), {
    reason: /^xz-utils 5\.6\.0-0\.2 is denied by this proxy: CVE-2024-3094$/,
    text: /CVE-2024-3094/,
  })
  t.equal((await get(good)).status, 200, 'another version')
  t.ok(
    (await cache.stored()).some(key => key.endsWith(bad)),
    'nothing is deleted',
  )
  t.equal((await cache.head(origin.url(bad))).status, 403)
  t.ok(((await cache.metric('cachesvc_denied_requests_total')) ?? 0) >= 2)
  t.equal(await cache.metric('cachesvc_deny_rows'), 1)
  const [first] = await cache.explain({ url: origin.url(bad) })
  t.match(first, { fate: 'refused', because: 'deny', answer: /CVE-2024-3094/ })
  t.match((await cache.get('/_cachesvc/cache')).text, /Denied packages[\s\S]*CVE-2024-3094/)
  t.match(JSON.stringify(await cache.command({ do: 'status', json: true })), /xz-utils >= 5\.6\.0/)
  clock.set(Date.parse('2026-03-21T00:00:00Z'))
  t.equal((await get(bad)).status, 200, 'after the last day of the row')
})

t.test('no spelling of a name leads around it, and no other way to ask', async t => {
  const { get, cache, origin } = await denying(t)
  for (const path of [
    `${bad}?x=1`,
    `${bad}?/${good}`,
    bad.replace('xz-', 'xz%2D').replace('_5', '%5f5'),
    bad.replace('/xz-utils_', '%2Fxz-utils_'),
    bad.replace('_5', '_0%3a5'),
    bad.replace('_5', '_0%253a5'),
    bad.replace('_5', '_0:5'),
    '/flat/xz-utils_5.6.0-0.2_all.deb',
    '/x/xz-utils_5.6.0-0.2.dsc',
    '/x/xz-utils.deb',
    '/x/xz-utils_latest_amd64.deb',
  ])
    t.equal((await get(path)).status, 403, path)
  for (const path of [
    bad.replace('_5', '_1%3a5'),
    `${pool}/xz-utils-doc_5.6.0-0.2_all.deb`,
    `${pool}/liblzma5_5.6.0-0.2_amd64.deb`,
    '/x/xz-utils_5.6.0.orig.tar.xz',
  ])
    t.not((await get(path)).status, 403, path)
  const place = `127.0.0.1:${origin.port}${bad}`
  for (const path of [
    `/${place}`,
    `/_cachesvc/snapshot/2026-03-13/${place}`,
    `/_cachesvc/build/b/${place}`,
  ])
    t.equal((await cache.get(path)).status, 403, path)
})

t.test('whatever a request has with it, with any answer that is near, and offline', async t => {
  const { get, cache, origin, path, settings } = await denying(t, '')
  t.equal((await get(bad)).status, 200)
  await writeFile(path, row)
  const ask = async (fields: Readonly<Record<string, string>>) =>
    (await cache.get(origin.url(bad), fields)).status
  for (const more of [{}, { offline: true }, { passthrough_domains: ['127.0.0.1'] }]) {
    t.strictSame(await cache.reload({ ...settings, ...more }), [])
    await cache.until(async () => (await ask({})) === 403)
    for (const fields of [
      { Range: 'bytes=0-1' },
      { 'If-None-Match': '"1"' },
      { 'Cache-Control': 'no-cache' },
      { 'Cache-Control': 'only-if-cached' },
      { Accept: 'text/html', Cookie: 'a=b' },
      { Authorization: 'Basic eA==' },
    ])
      t.equal(await ask(fields), 403, JSON.stringify([more, fields]))
  }
})

t.test('a build does not give what it has recorded', async t => {
  const { cache, origin, path, get, settings } = await denying(t, '')
  await cache.command({ do: 'build', act: 'record', name: 'b' })
  await get(bad)
  const of = `/_cachesvc/build/b/127.0.0.1:${origin.port}${bad}`
  t.equal((await cache.get(of)).status, 200)
  await cache.command({ do: 'build', act: 'lock', name: 'b' })
  await writeFile(path, row)
  t.strictSame(await cache.reload(settings), [])
  await cache.until(async () => (await cache.get(of)).status === 403)
})

t.test('a file that cannot be used: the earlier list stays, with one warning', async t => {
  const { cache, origin, path, get, clock } = await denying(t)
  const warnings = () =>
    cache.log.lines.filter(({ message }) => /earlier list of denied packages/.test(message))
  await writeFile(path, '- package: xz-utils\n  versions: ">> x"\n')
  await cache.until(() => warnings().length > 0)
  t.match(warnings(), [{ facts: { because: /deny\.yaml:2:13: .*versions/ } }])
  clock.advance(60_000)
  t.equal((await get(bad)).status, 403)
  t.match(
    (await cache.get('/_cachesvc/cache')).text,
    /an earlier list of denied packages is in force/,
  )
  await rm(path)
  await cache.until(() => warnings().length > 1)
  t.match(warnings()[1], { facts: { because: /there is no such file/ } })
  t.equal((await get(bad)).status, 403)
  await writeFile(path, '[]')
  await cache.until(async () => (await cache.get(origin.url(bad))).status === 200)
  t.equal(warnings().length, 2)
  await writeFile(path, 'x: 1')
  await t.rejects(TestCache.start(t, { settings: { deny: path } }), /^deny: .*expected a list/)
})

t.test('all packages of a source, and one architecture', async t => {
  const { get } = await denying(
    t,
    '- {package: xz-utils, source: true, architecture: amd64, reason: all of it}',
  )
  t.equal((await get(`${pool}/liblzma5_5.6.0-0.2_amd64.deb`)).status, 403)
  t.equal((await get(`${pool}/liblzma5_5.6.0-0.2_arm64.deb`)).status, 200)
  t.equal((await get('/debian/pool/main/l/lib/xz-utils_5.6.0-0.2_amd64.deb')).status, 200)
})

/** An archive whose index names the packages of two sources, with their versions, for a client that has updated. */
async function indexed(t: Test, rows: unknown): Promise<(path: string) => Promise<RawResponse>> {
  const path = join(t.testdir(), 'deny.json')
  await writeFile(path, JSON.stringify(rows))
  const archive = await changingArchive(t, { settings: { deny: path } })
  const packages = Object.fromEntries(
    ['9.1-1', '9.2-2', '2013-1'].map(version => [`pool/ssh/ssh_${version}_all.deb`, version]),
  )
  const epoch = (version: string) => (version === '2013-1' ? version : `1:${version}`)
  const first = (path: string) => {
    const version = packages[path]
    if (version === undefined) return 'Package: p\nVersion: 1\n'
    return `Package: ssh\nSource: openssh (1)\nVersion: ${epoch(version)}\n`
  }
  archive.serve(await archive.ofDay(1, { packages, first }))
  await archive.update()
  return path => archive.get(`debian/pool/${path}`)
}

t.test('an index says the epoch that the name of a file lacks', async t => {
  const get = await indexed(t, [
    { package: 'ssh', versions: '<< 1:9.2-2', reason: 'x' },
    { package: 'p', versions: '>= 1:1', reason: 'y' },
  ])
  t.match(await get('ssh/ssh_9.1-1_all.deb'), { status: 403, reason: /^ssh 9\.1-1 is/ })
  t.match(await get('ssh/ssh_2013-1_all.deb'), { status: 403, reason: /^ssh 2013-1 is/ })
  t.equal((await get('ssh/ssh_9.2-2_all.deb')).status, 200)
  t.equal((await get('main/p/p_1_all.deb')).status, 200, 'an epoch that it has not')
  const other = await get('ssh/ssh_9.2-9_all.deb')
  t.match(other, { status: 403, reason: /version is not known/ }, 'which no index names')
})

t.test('an advisory counts by the release of the suite, where its name says that', async t => {
  const releases = {
    stable: { status: 'resolved', fixed_version: '0' },
    sid: { status: 'resolved', fixed_version: '3' },
  }
  const get = await indexed(t, { p: { 'CVE-1': { releases } } })
  t.equal((await get('main/p/p_1_all.deb')).status, 200, 'a package of stable')
  t.equal((await get('main/p/p_2_all.deb')).status, 403, 'a package that no index names')
})
