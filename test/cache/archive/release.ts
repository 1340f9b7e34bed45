import t from 'tap'
import { readRelease, unframe } from '../../../lib/cache/archive/release.ts'

const a64 = 'a'.repeat(64)
const b64 = 'b'.repeat(64)
const c128 = 'c'.repeat(128)

const text = `Origin: Test
Label: Test
Suite: stable
Codename: trixie
Date: Sat, 01 Feb 2025 10:00:00 UTC
Valid-Until: Sat, 08 Feb 2025 10:00:00 UTC
Acquire-By-Hash: yes
Architectures: amd64 arm64
Components: main contrib
MD5Sum:
 ${'d'.repeat(32)}       12 main/binary-amd64/Packages.xz
SHA256:
 ${a64}       12 main/binary-amd64/Packages.xz
 ${b64.toUpperCase()} 7 ./Packages
 ${b64} 7 ../climbs
 ${b64} 7 /absolute
 ${b64} x nonsense
 tooshort 7 short
SHA512:
 ${c128} 12 main/binary-amd64/Packages.xz
`

const signed = (body: string) => `-----BEGIN PGP SIGNED MESSAGE-----
Hash: SHA512

${body}-----BEGIN PGP SIGNATURE-----

iQ==
-----END PGP SIGNATURE-----
`

t.test('what a Release file says', async t => {
  const { release } = readRelease(Buffer.from(text))
  t.match(release, {
    suite: 'stable',
    date: Date.UTC(2025, 1, 1, 10),
  })
  t.strictSame(
    [...(release?.files ?? [])],
    [
      [
        'main/binary-amd64/Packages.xz',
        {
          path: 'main/binary-amd64/Packages.xz',
          size: 12,
          digests: { sha512: c128, sha256: a64, md5: 'd'.repeat(32) },
        },
      ],
      ['Packages', { path: 'Packages', size: 7, digests: { sha256: b64 } }],
    ],
  )
  t.strictSame(readRelease(Buffer.from(signed(text))).release, release)
  t.strictSame(readRelease(Buffer.from(signed(text).replaceAll('\n', '\r\n'))).release, release)
})

t.test('a weaker list that contradicts a stronger one is not believed', async t => {
  const lists = `SHA1:\n ${'e'.repeat(40)} 13 x\nSHA256:\n ${a64} 12 x\n ${b64} 12 x\n`
  const { release } = readRelease(Buffer.from(lists))
  t.strictSame(release?.files.get('x'), { path: 'x', size: 12, digests: { sha256: a64 } })
})

t.test('what is no Release file is told', async t => {
  const table: ReadonlyArray<readonly [string, RegExp]> = [
    ['', /empty/],
    ['<html>\n<body>Log in\n', /not a list of fields/],
    ['Foo: bar\n', /none of the fields/],
    ['Suite: a\nSuite: b\n', /not a list of fields/],
    [signed(text).replace('\n\nOrigin', '\nOrigin'), /comes before the signed text/],
  ]
  for (const [content, because] of table)
    t.match(readRelease(Buffer.from(content)).because, because)
  t.match(readRelease(Buffer.alloc(40 << 20, 'x')).because, /too long/)
})

t.test('framing: only what was signed counts', async t => {
  const body = 'A: b\n- - dashes\n- -----BEGIN x\nC: d\n'
  const good = unframe(`Evil: 1\n${signed(body)}Evil: 2\n`)
  t.match(good, { text: /^A: b\n- dashes\n-----BEGIN x\nC: d\n$/ })
  t.match(good, { signature: /^-----BEGIN PGP SIGNATURE-----\n\niQ==\n-----END/ })
  const twice = unframe(signed('A: b\n') + signed('A: c\n'))
  t.match(twice, { text: /^A: b\n$/ }, 'the first message is the message')
  t.strictSame(unframe('A: b\n'), { text: 'A: b\n' })
  const wrong: ReadonlyArray<readonly [string, RegExp]> = [
    [signed('A: b\n-C: d\n'), /dash/],
    [signed('A: b\n-----BEGIN PGP SIGNED MESSAGE-----\n'), /dash/],
    [signed('').replace('Hash: SHA512', 'Hash: SHA512\nComment: x'), /other than Hash/],
    [signed('A: b\n').replace('Hash: SHA512\n\n', 'Hash: SHA512\nSuite: evil\n\n'), /other than/],
    [signed('A: b\n').replace(/-----BEGIN PGP SIGNATURE.*/s, ''), /missing/],
    [signed('A: b\n').replace('-----END PGP SIGNATURE-----', ''), /no end/],
    ['-----BEGIN PGP SIGNED MESSAGE-----', /other than Hash/],
  ]
  for (const [content, because] of wrong) {
    t.match(unframe(content), { because }, content)
  }
})

t.test('a line of blanks is read in one pass', async t => {
  // It takes hours when each blank is tried as the first of the last ones.
  const blanks = ' '.repeat(4 << 20)
  t.match(unframe(`${blanks}x`), { text: `${blanks}x` })
  const { release } = readRelease(Buffer.from(`SHA256:\n ${a64} 1${blanks}x\ry\n`))
  t.equal(release?.files.size, 0)
})
