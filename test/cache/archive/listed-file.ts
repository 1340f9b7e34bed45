import t from 'tap'
import { indexedFiles, type PackageIndex } from '../../../lib/cache/archive/listed-file.ts'

const a = 'a'.repeat(64)
const b = 'b'.repeat(64)
const md5 = 'd'.repeat(32)

async function filesOf(kind: PackageIndex, text: string) {
  const found = []
  const once = async function* () {
    yield Buffer.from(text)
  }
  for await (const file of indexedFiles(kind, once())) found.push(file)
  return found
}

t.test('Packages: one file a stanza', async t => {
  const text = `Package: alpha
Filename: pool/main/a/alpha/alpha_1.0_amd64.deb
Size: 12
MD5sum: ${md5}
SHA256: ${a}

Package: flat
Filename: ./flat_1:2+b~3_all.deb
Size: 7
SHA256: ${b}

Package: weak
Filename: weak.deb
Size: 7
MD5sum: ${md5}

Package: climbs
Filename: ../../etc/passwd
Size: 7
SHA256: ${b}

Package: sizeless
Filename: x.deb
Size: -7
SHA256: ${b}

Package: twice
Filename: x.deb
Size: 7
SHA256: ${b}
SHA256: ${a}

Package: nothing
`
  t.strictSame(await filesOf('Packages', text), [
    {
      path: 'pool/main/a/alpha/alpha_1.0_amd64.deb',
      size: 12,
      digests: { sha256: a, md5 },
    },
    { path: 'flat_1:2+b~3_all.deb', size: 7, digests: { sha256: b } },
    { path: 'weak.deb', size: 7, digests: { md5 } },
  ])
})

t.test('Sources: every file of every stanza, with its directory', async t => {
  const text = `Package: alpha
Directory: pool/main/a/alpha
Files:
 ${md5} 5 alpha_1.0.dsc
 ${md5} 6 alpha_1.0.tar.gz
Checksums-Sha256:
 ${a} 5 alpha_1.0.dsc
 ${b} 6 alpha_1.0.tar.gz

Package: flat
Directory: .
Checksums-Sha256:
 ${a} 5 flat.dsc

Package: beside
Checksums-Sha256:
 ${a} 5 beside.dsc

Package: climbs
Directory: ..
Checksums-Sha256:
 ${a} 5 x.dsc
`
  t.strictSame(
    (await filesOf('Sources', text)).map(({ path, digests }) => [path, Object.keys(digests)]),
    [
      ['pool/main/a/alpha/alpha_1.0.dsc', ['sha256', 'md5']],
      ['pool/main/a/alpha/alpha_1.0.tar.gz', ['sha256', 'md5']],
      ['flat.dsc', ['sha256']],
      ['beside.dsc', ['sha256']],
    ],
  )
})

t.test('garbage is no files', async t => {
  for (const text of ['', '\0\0\0', 'x'.repeat(1000), ':\n:\n', 'Filename:\nSize:\n']) {
    t.strictSame(await filesOf('Packages', text), [])
    t.strictSame(await filesOf('Sources', text), [])
  }
})

t.test('a size has at most as many digits as a table can hold', async t => {
  const text = (size: string) => `Filename: x.deb\nSize: ${size}\nSHA256: ${a}\n`
  const sizes = async (size: string) => (await filesOf('Packages', text(size))).map(one => one.size)
  t.strictSame(await sizes('9'.repeat(14)), [99_999_999_999_999])
  t.strictSame(await sizes('9'.repeat(15)), [])
})
