/**
 * Packages from the directories of apt-cacher-ng and apt: what is taken over, under which URL, and what is not.
 */
import { mkdir, symlink, utimes, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import t, { type Test } from 'tap'
import { importTree } from '../../../../lib/cache/features/bundle/import-tree.ts'
import { compilePolicy } from '../../../../lib/cache/policy/policy.ts'
import { ownIdentity, routeRules } from '../../../../lib/cache/policy/routing.ts'
import type { FileLayer } from '../../../../lib/cache/store/disk/disk.ts'
import { hexOf, tinyArchive } from '../../../fixtures/archive/tiny-archive.ts'
import { configOf, type Settings } from '../../../fixtures/cache/cache.ts'
import { command } from '../../../fixtures/process/command.ts'
import { scriptedFiles } from '../../../fixtures/store/files.ts'
import { keep, opened } from '../../../fixtures/store/opened.ts'

const host = 'archive.example.org'
const modified = Date.UTC(2025, 0, 1) / 1000

interface Placed {
  readonly content: string | Buffer
  /** X-Original-Source and Content-Length of the head beside it; no head when undefined. */
  readonly source?: string
  readonly length?: number
  readonly status?: string
}

async function tree(t: Test, files: Readonly<Record<string, Placed>>) {
  const directory = join(t.testdir({ tree: {} }), 'tree')
  for (const [path, { content, source, length, status = '200 OK' }] of Object.entries(files)) {
    const at = join(directory, path)
    await mkdir(dirname(at), { recursive: true })
    await writeFile(at, content)
    await utimes(at, modified, modified)
    if (source === undefined && length === undefined) continue
    const lines = [
      `HTTP/1.1 ${status}`,
      `Content-Length: ${length ?? content.length}`,
      ...(source === undefined ? [] : [`X-Original-Source: ${source}`]),
    ]
    await writeFile(`${at}.head`, `${lines.join('\r\n')}\r\n\r\n`)
  }
  return directory
}

/** The parts of an import into a store beside the directory. */
async function taken(
  t: Test,
  directory: string,
  { files, ...settings }: Settings & { readonly files?: FileLayer } = { domains: [host] },
) {
  const { store, clock } = await opened(t, {
    directory: join(dirname(directory), 'store'),
    ...(files && { files }),
  })
  const config = configOf(settings, '/srv/none')
  const policy = compilePolicy(config, ownIdentity(config, []))
  const rules = { config, policy, routes: routeRules(config), confinements: [] }
  const run = (dryRun = false) =>
    importTree({
      ...{ directory, store, rules, now: clock.now(), dryRun },
      ...{ onFound: () => undefined, onRead: () => undefined },
    })
  const stored = async () => {
    const keys: string[] = []
    for await (const { key } of store.entries()) keys.push(key)
    return keys.sort()
  }
  return { store, run, stored }
}

const deb = '!<arch>\nhello'

t.test('the cache of apt-cacher-ng, by the place of its files', async t => {
  const pool = 'debian/pool/main/h'
  const url = `http://${host}/${pool}`
  const directory = await tree(t, {
    [`${host}/${pool}/a+b_1~2_all.deb`]: { content: deb, source: `${url}/a+b_1~2_all.deb` },
    [`debrep/pool/main/c_1_all.deb`]: {
      content: `${deb}c`,
      source: `http://${host}/debian/pool/main/c_1_all.deb`,
    },
    [`${host}/${pool}/without-source_1_all.deb`]: { content: `${deb}d`, length: deb.length + 1 },
    [`${host}/${pool}/short_1_all.deb`]: { content: deb, length: 99, source: `${url}/x` },
    [`${host}/${pool}/no-head_1_all.deb`]: { content: `${deb}e` },
    [`${host}/${pool}/page_1_all.deb`]: {
      content: '<html>login</html>',
      source: `${url}/page_1_all.deb`,
    },
    [`${host}/${pool}/error_1_all.deb`]: {
      ...{ content: 'x', length: 1, status: '404 Not Found' },
    },
    [`debrep/pool/main/lies_1_all.deb`]: {
      content: `${deb}f`,
      source: `http://${host}/debian/pool/main/other_1_all.deb`,
    },
    [`other.example.com/pool/g_1_all.deb`]: { content: `${deb}g`, length: deb.length + 1 },
    [`${host}/debian/dists/stable/InRelease`]: { content: 'Suite: stable\n', length: 14 },
    [`${host}/debian/dists/stable/main/by-hash/SHA256/${hexOf('SHA256', 'index')}`]: {
      content: 'index',
    },
    [`${host}/debian/dists/stable/main/by-hash/SHA256/${hexOf('SHA256', 'other')}`]: {
      content: 'wrong',
    },
    '_xstore/rsnap/whatever': { content: 'x' },
    'stray.deb': { content: deb.slice(0, 9) },
  })
  await symlink('/etc/passwd', join(directory, host, 'link_1_all.deb'))
  const { store, run, stored } = await taken(t, directory)
  const expected = [
    `http://${host}/debian/dists/stable/main/by-hash/SHA256/${hexOf('SHA256', 'index')}`,
    `http://${host}/debian/pool/main/c_1_all.deb`,
    `http://${host}/${pool}/a%2Bb_1~2_all.deb`,
    `http://${host}/${pool}/without-source_1_all.deb`,
  ]
  t.match(await run(true), { files: 4 })
  t.strictSame(await stored(), [], 'a trial changes nothing')
  const { files, known, leftOut } = await run()
  t.strictSame([files, known], [4, 0])
  t.strictSame(await stored(), expected)
  t.match(await store.get(expected[2] ?? ''), {
    size: deb.length,
    digest: hexOf('SHA256', deb),
    lastModified: 'Wed, 01 Jan 2025 00:00:00 GMT',
  })
  const reasons = Object.fromEntries(
    leftOut.map(({ name, reason }) => [name.split('/').at(-1), reason]),
  )
  t.strictSame(reasons, {
    'short_1_all.deb': 'incomplete',
    'no-head_1_all.deb': 'incomplete',
    'error_1_all.deb': 'incomplete',
    'page_1_all.deb': 'other-content',
    [hexOf('SHA256', 'other')]: 'other-content',
    'lies_1_all.deb': 'not-named',
    'stray.deb': 'not-named',
    'g_1_all.deb': 'refused',
    InRelease: 'changing',
    'link_1_all.deb': 'not-a-file',
  })
  t.match(await run(), { files: 0, known: 4 })
})

t.test('a file of which the disk cannot read the entry is left as it is', async t => {
  const key = `http://${host}/pool/a_1_all.deb`
  const path = `${host}/pool/a_1_all.deb`
  const directory = await tree(t, { [path]: { content: deb, source: key } })
  const before = await taken(t, directory)
  await keep(before.store, key, Buffer.from(deb))
  await before.store.close()
  const { files, ...scripted } = unreadableEntries()
  const { run, store } = await taken(t, directory, { domains: [host], files })
  scripted.fail()
  t.match(await run(), { files: 0, known: 0, leftOut: [{ name: path, reason: 'not-stored' }] })
  scripted.mend()
  t.match(await store.get(key), { fields: [['Content-Type', /package/]] })
})

function unreadableEntries() {
  const scripted = scriptedFiles()
  return {
    files: scripted.files,
    fail: (): void => {
      scripted.decide = (call, about) =>
        call === 'readv' && about.includes('entries.log') ? { code: 'EIO' } : 'done'
    },
    mend: (): void => {
      scripted.decide = () => 'done'
    },
  }
}

t.test('a head that is no plain file is none', async t => {
  const path = `${host}/pool/a_1_all.deb`
  const directory = await tree(t, { [path]: { content: deb } })
  await command('mkfifo', [join(directory, `${path}.head`)])
  const { run } = await taken(t, directory)
  t.match((await run()).leftOut, [{ name: path, reason: 'incomplete' }])
})

t.test('an index decides by digest, whatever a file is called and wherever it lies', async t => {
  const packages = { 'pool/main/a_1_all.deb': deb, 'pool/main/b_1_all.deb': `${deb}b` }
  const files = tinyArchive({ base: 'dists/stable', packages })
  const directory = await tree(t, {
    'renamed.bin': { content: deb },
    'sub/other_9_all.deb': { content: `${deb}x` },
    'partial/b_1_all.deb': { content: `${deb}b` },
    [`${host}/debian/pool/main/b_1_all.deb`]: { content: `${deb}!`, length: deb.length + 1 },
  })
  const { store, run, stored } = await taken(t, directory)
  for (const [path, content] of files) {
    if (path.startsWith('dists/')) await keep(store, `http://${host}/debian/${path}`, content)
  }
  const before = await stored()
  const { leftOut } = await run()
  t.strictSame(
    (await stored()).filter(key => !before.includes(key)),
    [`http://${host}/debian/pool/main/a_1_all.deb`],
  )
  t.match(
    leftOut.sort((a, b) => (a.name < b.name ? -1 : 1)),
    [
      { name: `${host}/debian/pool/main/b_1_all.deb`, reason: 'other-content' },
      { name: 'partial/b_1_all.deb', reason: 'incomplete' },
      { name: 'sub/other_9_all.deb', reason: 'not-named' },
    ],
  )
})

t.test('indexes of the directory count, and files go where requests are routed', async t => {
  const files = tinyArchive({ base: 'dists/stable', packages: { 'pool/main/a_1_all.deb': deb } })
  const index = files.get('dists/stable/main/binary-all/Packages.gz') ?? Buffer.alloc(0)
  const directory = await tree(t, {
    [`old.example.org/dists/stable/main/binary-all/Packages.gz`]: {
      ...{ content: index, length: index.length },
    },
    'a_1_all.deb': { content: deb },
  })
  const { run, stored } = await taken(t, directory, {
    domains: [host, 'old.example.org'],
    remap: [{ from: 'old.example.org', to: `${host}/debian` }],
  })
  t.match(await run(), { files: 1 })
  t.strictSame(await stored(), [`http://${host}/debian/pool/main/a_1_all.deb`])
})

t.test('paths of a flat repository may begin above the directory of its index', async t => {
  for (const prefix of ['', 'binary/']) {
    const packages = { [`${prefix}a_1_all.deb`]: deb, [`${prefix}b_1_all.deb`]: `${deb}b` }
    const files = tinyArchive({ base: '', directory: '', packages })
    const index = files.get('Packages.gz') ?? Buffer.alloc(0)
    const directory = await tree(t, {
      [`${host}/debian/binary/Packages.gz`]: { content: index, length: index.length },
      'a_1_all.deb': { content: deb },
    })
    const { run, stored } = await taken(t, directory)
    t.match(await run(), { files: 1 })
    t.strictSame(await stored(), [`http://${host}/debian/binary/a_1_all.deb`], prefix)
  }
})

t.test('what does not fit into the quota is left out', async t => {
  const directory = await tree(t, {
    [`${host}/debian/pool/main/a_1_all.deb`]: {
      ...{ content: `${deb}${'x'.repeat(5000)}`, length: deb.length + 5000 },
    },
  })
  const { store, run } = await taken(t, directory)
  store.retain({ size: 1000, free: 0, objectSize: 0, versions: 0, unusedDays: 0 })
  t.match(await run(), {
    files: 0,
    leftOut: [{ reason: 'not-stored', because: /half|quota|large/ }],
  })
})
