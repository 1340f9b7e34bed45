import { rm, writeFile } from 'node:fs/promises'
import { gzipSync } from 'node:zlib'
import t from 'tap'
import { reportText } from '../../../../lib/cache/features/verify/report.ts'
import { Layout } from '../../../../lib/cache/store/disk/disk.ts'
import {
  type Files,
  hexOf,
  releaseOf,
  type TinyOptions,
  tinyArchive,
} from '../../../fixtures/archive/tiny-archive.ts'
import { flipped, site, stored } from '../../../fixtures/features/verify/verified.ts'
import { keep, sha256 } from '../../../fixtures/store/opened.ts'

const alpha = 'pool/a/alpha_1_all.deb'
const beta = 'pool/b/beta_1+b~1_all.deb'
const packages = { [alpha]: 'the content of alpha', [beta]: 'the content of beta' }
const stable: TinyOptions = { base: 'dists/stable', packages }

t.test('a store in which everything is right', async t => {
  const table: ReadonlyArray<readonly [string, TinyOptions, number]> = [
    ['plain names', stable, 4],
    ['by hash', { ...stable, byHash: true }, 4],
    ['SHA-512 alone', { ...stable, release: ['SHA512'], index: ['SHA512'] }, 4],
    ['both', { ...stable, release: ['SHA256', 'SHA512'], index: ['SHA256', 'SHA512'] }, 4],
    ['a nested suite', { base: 'dists/jessie/updates', packages }, 4],
    ['a flat repository', { base: '', packages, directory: '' }, 4],
    ['a flat repository below', { base: 'flat', root: 'flat', packages, directory: '' }, 4],
    ['flat, paths from above', { base: 'flat/sub', root: 'flat', packages, directory: '' }, 4],
    ['MD5 alone', { ...stable, release: ['MD5Sum'] }, 0],
    ['MD5 in the index', { ...stable, index: ['MD5sum'] }, 2],
  ]
  for (const [name, options, confirmed] of table) {
    const { check } = await stored(t, tinyArchive(options))
    const report = await check()
    t.strictSame(report.wrong, [], name)
    t.equal(report.confirmed, confirmed, name)
    t.match(report, { files: 5, contents: 5, unread: [] }, name)
  }
})

t.test('escapes, a colon and a percent sign in names', async t => {
  const names = ['pool/c/c_1:3.0_all.deb', 'pool/d/d_1%3a3_all.deb', 'pool/e/e_1+2_all.deb']
  const files = tinyArchive({ ...stable, packages: Object.fromEntries(names.map(n => [n, n])) })
  const { store, put, check, wrong } = await stored(t, new Map())
  for (const [path, content] of files) {
    const escaped = path.replaceAll('%', '%25').replaceAll('+', '%2B')
    await keep(store, `${site}/${escaped}`, content)
  }
  t.equal((await check()).confirmed, 5)
  await put(new Map([['pool/c/c_1%3A3.0_all.deb', Buffer.from('other')]]))
  t.strictSame(await wrong(), ['pool/c/c_1%3A3.0_all.deb package'], 'another spelling, too')
})

t.test('bits that turned over, bytes that are gone', async t => {
  const index = 'dists/stable/main/binary-all/Packages'
  for (const path of [alpha, index, 'dists/stable/Release']) {
    const { spoil, check } = await stored(t, tinyArchive(stable))
    await spoil(path, flipped)
    t.match((await check()).wrong, [
      { key: `${site}/${path}`, because: 'content', sentence: /hash/ },
    ])
  }
  const { spoil, entry, directory, wrong, check } = await stored(t, tinyArchive(stable))
  await spoil(alpha, content => content.subarray(0, 5))
  await rm(new Layout(directory).blob((await entry(beta)).digest))
  t.strictSame(await wrong(), [`${alpha} content`, `${beta} content`])
  t.match((await check()).wrong.map(({ sentence }) => sentence).sort(), [
    'it has 5 bytes instead of 20',
    'it is missing',
  ])
})

t.test('one bad content, several names: all are told', async t => {
  const other = 'other/alpha.deb'
  const { put, spoil, wrong } = await stored(t, tinyArchive(stable))
  await put(new Map([[other, Buffer.from(packages[alpha] ?? '')]]))
  await spoil(alpha, flipped)
  t.strictSame(await wrong(), [`${other} content`, `${alpha} content`])
})

t.test('a package that is not what the index names', async t => {
  const { put, check, wrong } = await stored(t, tinyArchive(stable))
  await put(new Map([[alpha, Buffer.from('the content of')]]))
  t.strictSame(await wrong(), [`${alpha} package`])
  t.match((await check()).wrong, [
    {
      sentence: 'it has 14 bytes and should have 20',
      according: `${site}/dists/stable/main/binary-all/Packages`,
    },
  ])
  await put(new Map([[alpha, Buffer.from('the content of omega')]]))
  t.match((await check()).wrong, [{ sentence: /^its SHA-256 is .* and should be / }])
  const sha512 = tinyArchive({ ...stable, index: ['SHA512'] }).set(alpha, Buffer.alloc(20))
  t.strictSame(await (await stored(t, sha512)).wrong(), [`${alpha} package`], 'by SHA-512 alone')
})

t.test('a flat repository and a nested suite with a wrong package', async t => {
  const table: ReadonlyArray<readonly [TinyOptions, string]> = [
    [{ base: 'dists/jessie/updates', packages }, ''],
    [{ base: '', packages, directory: '' }, ''],
    [{ base: 'flat/sub', root: 'flat', packages, directory: '' }, 'flat/'],
  ]
  for (const [options, root] of table) {
    const files = tinyArchive(options).set(`${root}${alpha}`, Buffer.from('wrong'))
    t.strictSame(await (await stored(t, files)).wrong(), [`${root}${alpha} package`], options.base)
  }
})

t.test('an index that is older than its Release file, or another', async t => {
  const next = tinyArchive({ ...stable, packages: { [beta]: 'the content of beta' } })
  const release: Files = new Map([...next].filter(([path]) => path.endsWith('Release')))
  const { put, wrong, check, store, entry } = await stored(t, tinyArchive(stable))
  await put(release)
  const index = 'dists/stable/main/binary-all/Packages'
  t.strictSame(await wrong(), [`${index} index`, `${index}.gz index`])
  const known = await entry('dists/stable/Release')
  await store.put({ ...known, stored: known.stored + 1000, validated: known.validated + 1000 })
  t.strictSame(await wrong(), [`${index} stale-index`, `${index}.gz stale-index`])
  t.match(await check(), {
    repositories: [
      { release: `${site}/dists/stable/Release`, suite: 'tiny', indexes: 2, indexesRight: 0 },
    ],
    unchecked: { 'no-index': 3 },
  })
})

t.test('the younger of two Release files speaks', async t => {
  const files = tinyArchive({ ...stable, date: 'Sat, 01 Feb 2025 10:00:00 UTC' })
  const old = releaseOf(
    [['main/binary-all/Packages', Buffer.from('old')]],
    ['SHA256'],
    'Fri, 31 Jan 2025 10:00:00 UTC',
  )
  const young = releaseOf(
    [['main/binary-all/Packages', Buffer.from('y')]],
    ['SHA256'],
    'Sun, 02 Feb 2025 10:00:00 UTC',
  )
  const index = 'dists/stable/main/binary-all/Packages'
  t.strictSame(
    await (await stored(t, new Map(files).set('dists/stable/InRelease', old))).wrong(),
    [],
  )
  const { wrong } = await stored(t, new Map(files).set('dists/stable/InRelease', young))
  t.strictSame(await wrong(), [`${index} index`])
})

t.test('by-hash files are what their names say', async t => {
  const content = Buffer.from('an index')
  const directory = 'dists/stable/main/binary-all/by-hash'
  const files: Files = new Map()
  for (const [field, name] of [
    ['SHA256', 'sha256'],
    ['SHA512', 'sha512'],
    ['SHA1', 'sha1'],
    ['MD5Sum', 'md5'],
  ] as const) {
    files.set(`${directory}/${field}/${hexOf(name, content)}`, content)
    files.set(`${directory}/${field}/${hexOf(name, 'other')}`, Buffer.from(`not ${name}`))
  }
  const { wrong, check } = await stored(t, files)
  t.strictSame(
    await wrong(),
    [
      `${directory}/MD5Sum/${hexOf('md5', 'other')} by-hash`,
      `${directory}/SHA1/${hexOf('sha1', 'other')} by-hash`,
      `${directory}/SHA256/${hexOf('sha256', 'other')} by-hash`,
      `${directory}/SHA512/${hexOf('sha512', 'other')} by-hash`,
    ].sort(),
  )
  t.match(await check(), { confirmed: 4, files: 8, contents: 5 })
})

t.test('of several indexes one that agrees is enough, and signed ones come first', async t => {
  const mine = { base: 'dists/one', packages: { [alpha]: 'old' } }
  const other = { base: 'dists/two', packages: { [alpha]: 'new' } }
  const both = new Map([...tinyArchive(mine), ...tinyArchive(other)])
  t.strictSame(await (await stored(t, both)).wrong(), [])
  const unsigned = [...tinyArchive(mine)].filter(([path]) => !path.endsWith('Release'))
  const signed = new Map([...unsigned, ...tinyArchive(other)])
  t.strictSame(await (await stored(t, signed)).wrong(), [])
  const against = new Map(signed).set(alpha, Buffer.from('old'))
  t.strictSame(await (await stored(t, against)).wrong(), [`${alpha} package`])
})

t.test('an archive without a Release file is held against its index', async t => {
  const files = tinyArchive({ base: '', packages, directory: '' })
  files.delete('Release')
  t.match(await (await stored(t, files)).check(), {
    wrong: [],
    confirmed: 2,
    unchecked: { 'no-index': 2 },
  })
  files.set(alpha, Buffer.from('x'))
  t.strictSame(await (await stored(t, files)).wrong(), [`${alpha} package`])
})

t.test('an archive without a Release file, with an escape in its directory', async t => {
  const files = tinyArchive({ base: '', packages: { 'a_1_all.deb': 'a' }, directory: '' })
  files.delete('Release')
  const { put, check } = await stored(t, new Map())
  await put(files, `${site}/c%2B%2B`)
  t.equal((await check()).confirmed, 1)
})

t.test('what is garbage is told, and stops nothing', async t => {
  const bomb = gzipSync(Buffer.alloc(300 << 20))
  const bz2 = Buffer.from('BZh9 is no beginning of a block')
  const indexes = [
    ['one/Packages.gz', bomb],
    ['two/Packages.bz2', bz2],
    ['three/Packages.gz', Buffer.from('1f8b0000', 'hex')],
    ['four/Packages', Buffer.alloc(100_000, 'x')],
    ['five/Sources.xz', Buffer.from('fd377a585a000000', 'hex')],
  ] as const
  const files: Files = new Map(
    [...indexes].map(([path, content]) => [`dists/odd/${path}`, content]),
  )
  files.set('dists/odd/Release', releaseOf(indexes))
  files.set('dists/portal/InRelease', Buffer.from('<html>Please log in</html>\n'))
  files.set('dists/empty/InRelease', Buffer.alloc(0))
  for (const [path, content] of tinyArchive(stable)) files.set(path, content)
  const { check } = await stored(t, files)
  const report = await check()
  t.strictSame(
    report.wrong.map(({ key, because }) => [key.replace(`${site}/`, ''), because]).sort(),
    [
      ['dists/empty/InRelease', 'release'],
      ['dists/portal/InRelease', 'release'],
    ],
  )
  t.match(report.unread.map(({ key, because }) => `${key} ${because}`).sort(), [
    /five.*unpacked/,
    /one.*more than/,
    /three.*unpacked/,
    /two.*packed with bzip2, which is not read/,
  ])
  t.equal(report.unread.length, 4)
})

t.test('of one index in two packings the readable one is read', async t => {
  const files = tinyArchive({ ...stable, packings: ['.gz'] })
  const gz = files.get('dists/stable/main/binary-all/Packages.gz')
  const bz2 = Buffer.from('BZh9 is no beginning of a block')
  if (gz === undefined) throw new Error('no index')
  files.set('dists/stable/main/binary-all/Packages.bz2', bz2)
  const names = ['main/binary-all/Packages.gz', 'main/binary-all/Packages.bz2'] as const
  files.set(
    'dists/stable/Release',
    releaseOf([
      [names[0], gz],
      [names[1], bz2],
    ]),
  )
  t.match(await (await stored(t, files)).check(), { wrong: [], unread: [], confirmed: 4 })
})

t.test('what cannot be looked at, and what changed meanwhile, is not wrong', async t => {
  const { store, entry, directory, check } = await stored(t, tinyArchive(stable))
  const digest = (await entry(alpha)).digest
  const path = new Layout(directory).blob(digest)
  const { examine } = store
  store.examine = (name, examination) =>
    name === digest
      ? Promise.resolve({ found: 'unknown', because: 'too many open files' })
      : examine.call(store, name, examination)
  t.match(await check(), {
    wrong: [],
    unchecked: { unreadable: 1 },
    unreadableBecause: 'too many open files',
  })
  store.examine = async (name, examination) => {
    // The daemon replaces the file between the listing and the reading.
    if (name === digest) await keep(store, `${site}/${alpha}`, Buffer.from('newer'))
    return examine.call(store, name, examination)
  }
  await writeFile(path, 'spoilt')
  t.match(await check(), { wrong: [], unchecked: { changed: 1 } })
  t.equal((await entry(alpha)).digest, sha256(Buffer.from('newer')))
})

t.test('two indexes of one suite that contradict each other about a file', async t => {
  const [base, path] = ['dists/stable', 'pool/t/tool_1_all.deb']
  const one = tinyArchive({ base, packages: { [path]: 'right' }, directory: 'main/binary-i386' })
  const other = tinyArchive({ base, packages: { [path]: 'other' }, directory: 'main/binary-amd64' })
  const indexes = [...one, ...other].filter(([name]) => name.endsWith('/Packages.gz'))
  const listed = indexes.map(([name, content]) => [name.slice(base.length + 1), content] as const)
  const files = new Map([...indexes, [path, Buffer.from('right')] as const])
  files.set(`${base}/Release`, releaseOf(listed))
  const report = await (await stored(t, files)).check()
  t.strictSame(report.wrong, [], 'one index that agrees with the file is enough')
  t.strictSame(report.contradictions, [
    {
      key: `${site}/${path}`,
      indexes: [
        `${site}/${base}/main/binary-i386/Packages.gz`,
        `${site}/${base}/main/binary-amd64/Packages.gz`,
      ],
    },
  ])
  const text = reportText(report, () => '')
  t.match(text, /tool_1_all.deb: .*i386.* and .*amd64.* name different contents for it/)
})
