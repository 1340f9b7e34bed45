import t from 'tap'
import { canonicalUri, entryName } from '../../../lib/cache/store/key.ts'
import { formatUri, type TargetUri } from '../../../lib/http/message/target.ts'

function cacheKey(uri: TargetUri): string | undefined {
  const canonical = canonicalUri(uri)
  return canonical && formatUri(canonical)
}

function http(path: string, rest: Partial<TargetUri> = {}): TargetUri {
  return { scheme: 'http', host: 'archive.example.org', port: 80, path, ...rest }
}

const paths: ReadonlyArray<readonly [asked: string, canonical: string | undefined]> = [
  ['/', '/'],
  ['', '/'],
  ['/debian/dists/sid/InRelease', '/debian/dists/sid/InRelease'],
  ['/Debian', '/Debian'],
  // unreserved characters and escapes
  ['/a%7eb', '/a~b'],
  ['/a~b', '/a~b'],
  ['/%41%2d%2E%5f', '/A-._'],
  ['/g%2b%2b_1%7e2.deb', '/g%2B%2B_1~2.deb'],
  ['/g++_1~2.deb', '/g%2B%2B_1~2.deb'],
  ['/a%3ab', '/a%3Ab'],
  ['/a:b', '/a:b'],
  ['/a%2fb', '/a%2Fb'],
  ['/a%2Fb', '/a%2Fb'],
  ['/a%2f..%2fb', '/a%2F..%2Fb'],
  ['/a%5cb', '/a%5Cb'],
  ['/a\\b', '/a%5Cb'],
  ['/a b', '/a%20b'],
  ['/a|b"<>^`{}', '/a%7Cb%22%3C%3E%5E%60%7B%7D'],
  ['/%e4', '/%E4'],
  ['/ä', '/%E4'],
  ['/€', '/%E2%82%AC'],
  ['/😀', '/%F0%9F%98%80'],
  ['/1%253a2', '/1%253a2'],
  ['/%2541', '/%2541'],
  // broken escapes stand for themselves
  ['/%', '/%25'],
  ['/%zz', '/%25zz'],
  ['/%4', '/%254'],
  ['/%%41', '/%25A'],
  ['/%%34%31', '/%2541'],
  // dot and empty segments
  ['/r/./InRelease', '/r/InRelease'],
  ['/r/%2e/InRelease', '/r/InRelease'],
  ['/r//InRelease', '/r/InRelease'],
  ['//r///InRelease', '/r/InRelease'],
  ['/r/.//./InRelease', '/r/InRelease'],
  ['/r/', '/r/'],
  ['/r//', '/r/'],
  ['/r/.', '/r/'],
  ['/r/./', '/r/'],
  ['/r/x/..', '/r/'],
  ['/r/x/../', '/r/'],
  ['/r/..', '/'],
  ['/.', '/'],
  ['//', '/'],
  ['/a/b/../c', '/a/c'],
  ['/a/b/%2e%2E/c', '/a/c'],
  ['/a/b/.%2e/c', '/a/c'],
  ['/a//../c', '/c'],
  ['/...', '/...'],
  ['/..a', '/..a'],
  // refused
  ['/..', undefined],
  ['/../etc/passwd', undefined],
  ['/%2e%2e/x', undefined],
  ['/a/../../x', undefined],
  ['/./../x', undefined],
  ['//../x', undefined],
  ['/a%00b', undefined],
  ['/a%0ab', undefined],
  ['/a%0Db', undefined],
  ['/a%1fb', undefined],
  ['/a%7Fb', undefined],
  ['/a\u0000b', undefined],
  ['/a\nb', undefined],
  ['/a\u007fb', undefined],
]

t.test('paths have one spelling, and that one stays', async t => {
  for (const [asked, canonical] of paths) {
    const key = cacheKey(http(asked))
    const expected = canonical === undefined ? undefined : `http://archive.example.org${canonical}`
    t.equal(key, expected, JSON.stringify(asked))
    if (canonical !== undefined) t.equal(cacheKey(http(canonical)), expected, `${canonical} stays`)
  }
})

t.test('scheme, host, port and user information', async t => {
  for (const [uri, key] of [
    [http('/x', { host: 'ARCHIVE.example.ORG' }), 'http://archive.example.org/x'],
    [http('/x', { port: 8080 }), 'http://archive.example.org:8080/x'],
    [http('/x', { scheme: 'https' }), 'https://archive.example.org:80/x'],
    [http('/x', { scheme: 'https', port: 443 }), 'https://archive.example.org/x'],
    [http('/x', { host: '2001:db8::1' }), 'http://[2001:db8::1]/x'],
    [http('/x', { host: '2001:DB8::1', port: 81 }), 'http://[2001:db8::1]:81/x'],
    [http('/x', { userinfo: 'bob:s%40crt' }), 'http://archive.example.org/x'],
  ] as const) {
    t.equal(cacheKey(uri), key)
  }
})

t.test('a query is part of the key; its plus is a space and stays', async t => {
  for (const [query, canonical] of [
    ['', '?'],
    ['a=1&b=2', '?a=1&b=2'],
    ['b=2&a=1', '?b=2&a=1'],
    ['a=%7e%2f/?', '?a=~%2F/?'],
    ['a+b', '?a+b'],
    ['a%2bb', '?a%2Bb'],
    ['a=../..//', '?a=../..//'],
    ['a"b', '?a%22b'],
    ['a[]=1', '?a%5B%5D=1'],
  ] as const) {
    t.equal(cacheKey(http('/x', { query })), `http://archive.example.org/x${canonical}`, query)
    const again = canonical.slice(1)
    t.equal(cacheKey(http('/x', { query: again })), `http://archive.example.org/x${canonical}`)
  }
  t.equal(cacheKey(http('/x', { query: 'a=%00' })), undefined)
  t.equal(cacheKey(http('/x', { query: 'a=%0d%0ab' })), undefined)
})

t.test('the canonical URI keeps what is no part of the key', async t => {
  t.strictSame(canonicalUri(http('/r/./x', { userinfo: 'bob:pw', query: 'a' })), {
    scheme: 'http',
    host: 'archive.example.org',
    port: 80,
    path: '/r/x',
    userinfo: 'bob:pw',
    query: 'a',
  })
})

t.test('random spellings: canonical twice is canonical once', async t => {
  // A small generator with a fixed seed: the same texts on every run.
  let state = 20250520
  const pieces = [
    '/',
    '.',
    '..',
    '%',
    '%2',
    '%2e',
    '%2F',
    '%25',
    '%7E',
    '+',
    '%2b',
    'a',
    '~',
    '?',
    ':',
    'é',
    ' ',
  ]
  for (let i = 0; i < 5_000; i += 1) {
    let path = '/'
    for (let j = 0; j < 8; j += 1) {
      state = (Math.imul(state, 1664525) + 1013904223) >>> 0
      path += pieces[(state >>> 8) % pieces.length]
    }
    const once = canonicalUri(http(path))
    if (once === undefined) continue
    const twice = canonicalUri(once)
    if (twice?.path !== once.path) t.fail(`${path} -> ${once.path} -> ${twice?.path}`)
    if (/\/\.{0,2}\//.test(once.path)) t.fail(`${path} -> ${once.path}`)
  }
  t.pass()
})

t.test('an entry is named by the SHA-256 of its key', async t => {
  t.equal(
    entryName('http://archive.example.org/'),
    '3b9e05b1e692ff34ca182f146237e11f3de068a51984f29aab73e0fec98959cb',
  )
})
