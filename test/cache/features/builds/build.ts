/**
 * Builds as values: what a request gets within one, names, the user of a proxy's URL, URLs.
 */
import t from 'tap'
import {
  type Build,
  contentsOf,
  decideInBuild,
  isBuildName,
  recordedUrl,
} from '../../../../lib/cache/features/builds/build.ts'
import { buildNamedByProxyUser } from '../../../../lib/cache/request/destination.ts'
import { canonicalUri, isKeepingKey, keepingKey } from '../../../../lib/cache/store/key.ts'
import { Fields } from '../../../../lib/http/message/field.ts'
import { parseUri } from '../../../../lib/http/message/target.ts'

const digest = 'a'.repeat(64)
const lastModified = 'Wed, 01 Jan 2025 00:00:00 GMT'
const url = (path: string) => `http://archive.example.org/debian/${path}`
const recorded: Build = {
  name: 'base',
  begun: 0,
  locked: undefined,
  interrupted: false,
  answers: new Map([
    [url('a'), { digest, size: 5, lastModified, fields: [] }],
    [url('same'), { digest, size: 5, lastModified, fields: [] }],
    [url('none'), { status: 404 }],
  ]),
  lacking: new Map([[url('late'), 'it was answered 503 (ORIGIN_TIMEOUT)']]),
}
const locked: Build = { ...recorded, locked: 1 }

t.test('what a request gets', async t => {
  const cases = [
    [recorded, 'a', 'yes', 'file', undefined],
    [recorded, 'none', 'yes', 'status', undefined],
    [recorded, 'new', 'yes', 'record', undefined],
    [recorded, 'late', 'yes', 'record', undefined],
    [recorded, 'a', 'no', 'file', undefined],
    [recorded, 'new', 'no', 'refuse', /debian\/new is missing .* may not add .* builds\.clients/],
    [locked, 'a', 'yes', 'file', undefined],
    [locked, 'none', 'no', 'status', undefined],
    [locked, 'new', 'yes', 'refuse', /debian\/new is missing in the build base: .* never recorded/],
    [locked, 'late', 'yes', 'refuse', /debian\/late is missing .* not recorded: .* 503/],
    [recorded, 'new', 'locking', 'refuse', /not recorded, and the build is being locked/],
    [recorded, 'a', 'locking', 'file', undefined],
  ] as const
  for (const [build, path, mayRecord, use, sentence] of cases) {
    const decision = decideInBuild(build, url(path), mayRecord)
    const name = `${build.locked === undefined ? 'recorded' : 'locked'} ${path} ${mayRecord}`
    t.equal(decision.use, use, name)
    if (sentence && decision.use === 'refuse') t.match(decision.sentence, sentence, name)
  }
})

t.test('a locked build knows an index by its hash in the directory of its name', async t => {
  const hash = 'c'.repeat(64)
  const by = (directory: string, algorithm = 'SHA256', hex = hash) =>
    url(`${directory}by-hash/${algorithm}/${hex}`)
  const indexed: Build = {
    ...locked,
    answers: new Map([
      [url('dists/sid/Release'), { status: 404 }],
      [url('dists/sid/main/Packages.xz'), { digest: hash, size: 5, lastModified, fields: [] }],
    ]),
  }
  const use = (asked: string, build = indexed) => decideInBuild(build, asked, 'yes')
  t.match(use(by('dists/sid/main/')), { use: 'file', file: { digest: hash } })
  t.match(use(by('dists/sid/')), { use: 'file' }, 'from a directory above')
  for (const other of [
    by('dists/sid/contrib/'),
    by('dists/sid/main/', 'SHA256', 'd'.repeat(64)),
    by('dists/sid/main/', 'MD5Sum', 'c'.repeat(32)),
  ]) {
    t.equal(use(other).use, 'refuse', other)
  }
  t.equal(use(by('dists/sid/main/'), { ...indexed, locked: undefined }).use, 'record')
})

t.test('names are those of files, and stand in URLs as they are', async t => {
  for (const name of ['a', 'Base-1.2_x', '2026', 'x'.repeat(64)]) t.ok(isBuildName(name), name)
  const hostile = [
    '',
    '.',
    '..',
    '../x',
    'a/b',
    'a%2fb',
    '-a',
    '_a',
    '.a',
    'a b',
    'a\n',
    'é',
    'a\0b',
  ]
  for (const name of [...hostile, 'x'.repeat(65), 'a:b', 'a?b']) t.notOk(isBuildName(name), name)
})

t.test('the user of the proxy’s URL names a build when it is called so', async t => {
  const of = (value: string) => buildNamedByProxyUser(Fields.of(['Proxy-Authorization', value]))
  const basic = (text: string) => `Basic ${Buffer.from(text, 'latin1').toString('base64')}`
  t.equal(buildNamedByProxyUser(Fields.empty), undefined)
  t.equal(of(basic('build:base')), 'base')
  t.equal(of(basic('build:base').replace('Basic', 'bAsIc')), 'base')
  t.equal(of(basic('build:a:b')), 'a:b', 'which is no name, and refused as such')
  t.equal(of(basic('build:')), '')
  for (const other of [
    basic('alice:secret'),
    basic('builder:base'),
    basic('base'),
    'Bearer x',
    '',
  ]) {
    t.equal(of(other), undefined, other)
  }
  t.equal(of(basic(`build:${'x'.repeat(1000)}`)), undefined, 'no name is so long')
})

t.test('URLs are canonical, and without credentials', async t => {
  const cases = [
    ['http://Archive.example.org//debian/./a%7E1', 'http://archive.example.org/debian/a~1'],
    ['http://user:secret@archive.example.org/a', 'http://archive.example.org/a'],
    ['https://archive.example.org:443/a?b', 'https://archive.example.org/a?b'],
  ] as const
  for (const [asked, canonical] of cases) {
    const uri = parseUri(asked)
    t.equal('problem' in uri ? uri.problem : recordedUrl(uri), canonical)
  }
})

t.test('contents count once, and no request has the key that keeps one', async t => {
  t.strictSame([...contentsOf([recorded, locked])], [[digest, 5]])
  const key = keepingKey(digest)
  t.ok(isKeepingKey(key))
  const uri = parseUri(key)
  t.notOk('problem' in uri)
  if (!('problem' in uri)) t.not(canonicalUri(uri)?.path, uri.path)
})
