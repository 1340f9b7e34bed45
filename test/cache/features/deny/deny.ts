/**
 * Denied packages in a running service: cached or not, whichever way they are asked for, by the files of now.
 */
import { rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import {
  type ChangingArchive,
  changingArchive,
} from '../../../fixtures/archive/changing-archive.ts'
import { hexOf } from '../../../fixtures/archive/tiny-archive.ts'
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
    // Servers of artifacts take the rest of such a segment for parameters.
    `${bad};a=b`,
    `${bad};a=b/`,
    bad.replace('xz-utils/', 'xz-utils;a=b/'),
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

t.test('no spelling of a directory leads around the row of a source', async t => {
  const { get } = await denying(t, '- {package: xz-utils, source: true, reason: all of it}')
  const file = 'liblzma5_5.6.0-0.2_amd64.deb'
  for (const tail of ['x%2F..%2F', '.%2F', '%2F', '%2F.%2F%2F'].map(way => `${way}${file}`))
    t.equal((await get(`${pool}/${tail}`)).status, 403, tail)
  // Some servers send a client from such a path to the file.
  for (const tail of ['/', '//', '/.', '%2F', '%2F.', '/x/..'].map(end => `${file}${end}`))
    t.equal((await get(`${pool}/${tail}`)).status, 403, tail)
})

t.test('a row of one architecture means files that do not say theirs', async t => {
  const { get } = await denying(t, '- {package: xz-utils, architecture: amd64, reason: x}')
  t.equal((await get('/x/xz-utils.deb')).status, 403)
  t.equal((await get('/x/xz-utils_5.6.0-0.2_arm64.deb')).status, 200)
})

t.test('the row of a source means packages that were only built again', async t => {
  const text = '- {package: xz-utils, source: true, versions: "<= 5.6.0-0.2", reason: x}'
  const { get } = await denying(t, text)
  t.equal((await get(`${pool}/liblzma5_5.6.0-0.2+b1_amd64.deb`)).status, 403)
  t.equal((await get(`${pool}/liblzma5_5.6.0-0.2%2Bdeb12u1_amd64.deb`)).status, 200)
})

t.test('a reason is one line, whatever it has', async t => {
  const reason = '"a\\r\\nSet-Cookie: a=b\\e[2J\\u202e \u00fc"'
  const { get } = await denying(t, `- {package: xz-utils, reason: ${reason}}`)
  t.match(await get(bad), { status: 403, reason: /: a\?\?Set-Cookie: a=b\?\[2J\? \?$/ })
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
async function indexed(
  t: Test,
  rows: unknown,
  more: Readonly<Record<string, string>> = {},
  suite = 'stable',
  use: (archive: ChangingArchive) => Promise<void> = async () => undefined,
): Promise<(path: string) => Promise<RawResponse>> {
  const path = join(t.testdir(), 'deny.json')
  await writeFile(path, JSON.stringify(rows))
  const archive = await changingArchive(t, { settings: { deny: path } })
  const packages: Readonly<Record<string, string>> = {
    'pool/ssh/ssh_9.1-1_all.deb': '1:9.1-1',
    'pool/ssh/ssh_9.2-2_all.deb': '1:9.2-2',
    'pool/ssh/ssh_2013-1_all.deb': '2013-1',
    ...more,
  }
  const first = (path: string) => {
    const version = packages[path]
    if (version === undefined) return 'Package: p\nVersion: 1\n'
    return `Package: ssh\nSource: openssh (1)\nVersion: ${version}\n`
  }
  const files = await archive.ofDay(1, { packages, first })
  const inSuite = (path: string) => path.replace('dists/stable', `dists/${suite}`)
  const moved = [...files].map(
    ([path, content]) => [inSuite(path.replace('/./', '/')), content] as const,
  )
  archive.serve(new Map(moved))
  await archive.get(inSuite(archive.release))
  await archive.get(inSuite(archive.index))
  await archive.settle()
  await use(archive)
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

t.test('an index that cannot be read is told of once, not by each request', async t => {
  let log: TestCache['log'] | undefined
  const get = await indexed(
    t,
    [{ package: 'ssh', versions: '<< 1:9.2-2', reason: 'x' }],
    {},
    'stable',
    async ({ cache }) => {
      log = cache.log
      const stored = await cache.files()
      for (const path of stored.filter(name => name.includes('/blobs/')))
        await writeFile(path, Buffer.from('1f8b0800', 'hex'))
    },
  )
  for (const version of ['9.2-2', '9.2-2', '9.2-3', '9.2-4']) {
    t.match(await get(`ssh/ssh_${version}_all.deb`), { status: 403, reason: /is not known/ })
  }
  t.equal(JSON.stringify(log?.lines).split('cannot read the versions').length - 1, 1)
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

t.test('an index says of which package a file is, where its name does not', async t => {
  const get = await indexed(t, [{ package: 'ssh', versions: '<< 1:9.2-2', reason: 'x' }], {
    'pool/ssh/ssh-9.1-1-amd64.deb': '1:9.1-1',
    'pool/ssh/0123456789abcdef0123456789abcdef.deb': '1:9.1-1',
    'pool/ssh/ssh-9.2-2-amd64.deb': '1:9.2-2',
    './pool/ssh/ssh_9.1-0_all.deb': '1:9.1-0',
    './pool/ssh/ssh_9.3-0_all.deb': '1:9.3-0',
  })
  t.match(await get('ssh/ssh-9.1-1-amd64.deb'), { status: 403, reason: /^ssh 1:9\.1-1 is/ })
  t.equal((await get('ssh/0123456789abcdef0123456789abcdef.deb')).status, 403)
  t.equal((await get('ssh/ssh-9.2-2-amd64.deb')).status, 200)
  t.equal((await get('ssh/ssh_9.3-0_all.deb')).status, 200, 'a path that begins with a dot')
  t.equal((await get('ssh/ssh_9.1-0_all.deb')).status, 403)
  t.equal((await get('ssh/other-9.2-2-amd64.deb')).status, 404)
})

t.test('an advisory for releases of one distribution says nothing of another', async t => {
  const affected = [{ package: { ecosystem: 'Debian:12', name: 'p' }, versions: ['1'] }]
  for (const [suite, status] of [
    ['jammy', 200],
    ['bookworm', 403],
    ['stable', 403],
  ] as const) {
    const get = await indexed(t, { id: 'DSA-1', affected }, {}, suite)
    t.equal((await get('main/p/p_1_all.deb')).status, status, suite)
  }
})

t.test('the index of sources says the epoch of a .dsc', async t => {
  const path = join(t.testdir(), 'deny.yaml')
  await writeFile(path, '- {package: ssh, source: true, versions: "<< 1:9.2-2", reason: x}')
  const archive = await changingArchive(t, { settings: { deny: path } })
  const { release, suite } = archive
  const files = await archive.ofDay(1)
  const content = 'Format: 3.0'
  const stanzas = ['9.1-1', '9.2-2'].map(version => {
    const name = `ssh_${version}.dsc`
    files.set(`debian/pool/ssh/${name}`, Buffer.from(content))
    const digest = `${hexOf('sha256', content)} ${content.length} ${name}`
    return `Package: ssh\nVersion: 1:${version}\nArchitecture: any\nDirectory: pool/ssh\nChecksums-Sha256:\n ${digest}\n`
  })
  const sources = Buffer.from(stanzas.join('\n'))
  const index = 'main/source/Sources'
  const line = ` ${hexOf('sha256', sources)} ${sources.length} ${index}\n`
  files.set(release, Buffer.concat([files.get(release) ?? Buffer.alloc(0), Buffer.from(line)]))
  files.set(`${suite}/${index}`, sources)
  archive.serve(files)
  for (const path of [release, archive.index, `${suite}/${index}`]) await archive.get(path)
  await archive.settle()
  t.match(await archive.get('debian/pool/ssh/ssh_9.1-1.dsc'), { status: 403, reason: /x$/ })
  t.equal((await archive.get('debian/pool/ssh/ssh_9.2-2.dsc')).status, 200)
})

t.test('no spelling hides the release of a package', async t => {
  const releases = { stable: { status: 'open' }, sid: { status: 'resolved', fixed_version: '1' } }
  const get = await indexed(t, { p: { 'CVE-1': { releases } } })
  const file = 'main/p/p_1_all.deb'
  const ways = ['', '?x=1', '/', '/?x', '%2F', ';a=b'].map(end => `${file}${end}`)
  for (const path of [...ways, 'main/x%2F..%2Fp/p_1_all.deb', 'main;a=b/p/p_1_all.deb'])
    t.equal((await get(path)).status, 403, path)
})

t.test('a row of many versions is one line of the page', async t => {
  const versions = JSON.stringify(Array.from({ length: 5000 }, (_, n) => `9.${n}`))
  const { cache } = await denying(t, `- {package: p, versions: ${versions}, reason: x}`)
  const { text } = await cache.get('/_cachesvc/cache')
  t.match(text, /= 9\.0; = 9\.1;[^<]{0,200}; …: x/)
  t.notMatch(text, /9\.4999/)
})
