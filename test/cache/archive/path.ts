import t from 'tap'
import { classify, type Kind } from '../../../lib/cache/archive/path.ts'
import { cpuTimeOf } from '../../fixtures/time/cpu-time.ts'

const hex = (digits: number) => '0123456789abcdef'.repeat(8).slice(0, digits)

const table: ReadonlyArray<readonly [kind: Kind, immutable: boolean, paths: readonly string[]]> = [
  [
    'release',
    false,
    [
      '/debian/dists/stable/InRelease',
      '/debian/dists/stable/Release',
      '/debian/dists/stable/Release.gpg',
      '/debian/dists/stable/main/binary-amd64/Release',
      '/r/./InRelease',
      '/InRelease',
      '/r//./InRelease',
      '/r/In%52elease',
      '/pool/InRelease',
    ],
  ],
  [
    'index',
    false,
    [
      '/debian/dists/stable/main/binary-amd64/Packages',
      '/debian/dists/stable/main/binary-amd64/Packages.gz',
      '/debian/dists/stable/main/binary-amd64/Packages.xz',
      '/debian/dists/stable/main/source/Sources.zst',
      '/Packages.gz',
      '/r/./Packages.lzma',
      '/r/Packages.bz2',
      '/r/Packages.lz4',
      '/pool/Packages.gz',
      '/debian/dists/stable/main/Contents-amd64.gz',
      '/debian/dists/stable/Contents-udeb-amd64.gz',
      '/debian/dists/stable/main/Contents-source.gz',
      '/r/Contents.gz',
      '/debian/dists/stable/main/i18n/Translation-en.xz',
      '/debian/dists/stable/main/i18n/Translation-pt_BR',
      '/debian/dists/stable/main/i18n/Translation-sr@latin.bz2',
      '/debian/dists/stable/main/i18n/Index',
      '/debian/dists/stable/main/dep11/Components-amd64.yml.gz',
      '/debian/dists/stable/main/dep11/CID-Index-amd64.json.gz',
      '/debian/dists/stable/main/dep11/icons-64x64.tar.gz',
      '/debian/dists/stable/main/dep11/icons-128x128@2.tar.xz',
      '/ubuntu/dists/noble/main/cnf/Commands-amd64.xz',
      '/debian/dists/sid/main/binary-amd64/Packages.diff/Index',
      '/debian/dists/sid/main/Contents-amd64.diff/Index',
    ],
  ],
  [
    'pdiff',
    false,
    [
      '/debian/dists/sid/main/binary-amd64/Packages.diff/2025-05-20-0812.33.gz',
      '/debian/dists/sid/main/binary-amd64/Packages.diff/T-2025-05-20-0812.33-F-2025-05-19-2012.10.gz',
      '/debian/dists/sid/main/source/Sources.diff/anything',
    ],
  ],
  [
    'pdiff',
    true,
    [`/debian/dists/sid/main/binary-amd64/Packages.diff/2025-05-20-0812.33-${hex(40)}.gz`],
  ],
  [
    'pool',
    true,
    [
      '/debian/pool/main/a/apt/apt_2.6.1_amd64.deb',
      '/r/pool/main/pkg2_1.0%2bb%7e2_amd64.deb',
      '/debian/pool/main/g/gcc/g%2b%2b_12.2.0-3_amd64.deb',
      '/debian/pool/main/d/d-i/kernel-di_1.2_amd64.udeb',
      '/ubuntu/pool/main/a/apt/apt-dbgsym_2.6.1_amd64.ddeb',
      '/debian/pool/main/a/apt/apt_2.6.1.dsc',
      '/debian/pool/main/a/apt/apt_2.6.1.tar.xz',
      '/debian/pool/main/x/x/x_1.0.orig.tar.gz',
      '/debian/pool/main/x/x/x_1.0.orig.tar.gz.asc',
      '/debian/pool/main/x/x/x_1.0.orig-docs.tar.bz2',
      '/debian/pool/main/x/x/x_1.0-1.debian.tar.xz',
      '/debian/pool/main/x/x/x_1.0-1.diff.gz',
      '/r/pool/foo-1.2.3.deb',
      '/r/pool/foo-1.2.3-x86_64.deb',
      '/r/pool/foo_1.2.3_x86_64.deb',
      '/r/pool/foo-20250520.deb',
      '/r/pool/linux-image-latest_6.1_amd64.deb',
      '/r/pool/foo_10_amd64.deb',
      '/r/pool/foo_0~latest2_amd64.deb',
      '/r/pool/foo_v1.2_amd64.deb',
      '/r/pool/tool-1.2.tar.zst',
      `/r/pool/ab/${hex(64)}.deb`,
      // Outside the pool the name must carry a version.
      '/r/./foo_1.0-1_all.deb',
      '/foo_1:2.0_amd64.deb',
      '/foo_1%3a2.0_amd64.deb',
      '/foo_1%253a2.0_amd64.deb',
      '/r/Foo_1.0_kfreebsd-amd64.deb',
      '/r/x_1.0.dsc',
      '/r/x_1.0.orig.tar.xz',
      '/r/x_1.0-1.debian.tar.xz',
      '/r/x_1.0-1.diff.gz',
      '/r/x_1.0.tar.xz',
    ],
  ],
  [
    'other',
    false,
    [
      '/',
      '',
      '/debian/',
      '/debian/pool/main/a/apt/',
      '/debian/pool/main/a/apt/index.html',
      '/r/pool/foo_latest_amd64.deb',
      '/r/pool/foo_current_i386.deb',
      '/r/pool/foo.deb',
      '/r/pool/foo-latest.tar.gz',
      '/r/pool/app-365_amd64.deb',
      '/r/pool/foo-latest-x86_64.deb',
      '/r/pool/foo_x86_64.deb',
      '/r/pool/foo-x86_64.deb',
      '/r/pool/foo_x86-64_all.deb',
      '/r/pool/driver_64bit_all.deb',
      '/r/pool/driver_32-bit_all.deb',
      '/r/pool/driver-64bit.deb',
      '/r/pool/steam-1-latest.deb',
      '/r/pool/foo_10-latest_amd64.deb',
      '/r/pool/foo-1.2-latest.tar.gz',
      '/r/pool/foo_1.2.latest_amd64.deb',
      '/r/pool/driver_64bit.tar.xz',
      '/r/foo_10-latest_amd64.deb',
      '/r/driver_64bit_all.deb',
      '/r/foo-x86_64_all.deb',
      '/r/pool/x_1.0-1_amd64.changes',
      '/r/pool/x_1.0-1_amd64.buildinfo',
      '/direct/foo-stable_current_amd64.deb',
      '/direct/foo-1.2.3.deb',
      '/direct/foo_1.0.deb',
      '/downloads/tool-1.2.tar.gz',
      '/changelogs/main/a/apt/apt_2.6.1_changelog',
      '/changelogs/pool/main/a/apt/apt_2.6.1/changelog',
      '/r/pool.deb/readme',
      '/r/Release.asc',
      '/r/Releases',
      '/r/packages.gz',
      '/r/Packages.zip',
      '/r/InRelease/',
      '/pool/x_1.0_all.deb/',
      '/by-hash/SHA256/',
      '/r/Index',
      '/r/Contents-of-book.pdf',
      '/r/Translation-en.txt',
      '/repo.asc',
    ],
  ],
]

for (const [kind, immutable, paths] of table) {
  t.test('files of other package managers', async t => {
    const theirs = [
      '/fedora/repodata/repomd.xml',
      '/fedora/repodata/931d-primary.xml.gz',
      '/fedora/Packages/h/hello-1-1.noarch.rpm',
      '/fedora/drpms/hello-1-2.noarch.drpm',
      '/alpine/main/x86_64/APKINDEX.tar.gz',
      '/alpine/main/x86_64/hello-1-r0.apk',
      '/arch/core/os/x86_64/core.db',
      '/arch/core/os/x86_64/core.db.tar.gz',
      '/arch/core/os/x86_64/core.files.sig',
      '/arch/core/os/x86_64/hello-1-1-any.pkg.tar.zst',
      '/arch/core/os/x86_64/hello-1-1-any.pkg.tar.zst.sig',
    ]
    for (const path of theirs)
      t.strictSame(classify(path), { kind: 'other', immutable: false, foreign: true }, path)
    for (const path of ['/repodata', '/x/hello.rpm.txt', '/db', '/x/hello.tar.zst', '/x/apk'])
      t.strictSame(classify(path), { kind: 'other', immutable: false }, path)
  })

  t.test(`${immutable ? 'immutable' : 'changing'} ${kind}`, async t => {
    for (const path of paths) {
      const detached = /\/Release(\.gpg)?$/.test(path) && { detached: true }
      t.strictSame(classify(path), { kind, immutable, ...detached }, path)
    }
  })
}

t.test('a file below dists that is no index goes with its suite', async t => {
  for (const path of [
    '/debian/dists/stable/main/installer-amd64/current/images/netboot/mini.iso',
    '/debian/dists/stable/main/installer-amd64/20230607/images/SHA256SUMS',
    '/ubuntu/dists/noble/main/dist-upgrader-all/current/noble.tar.gz',
    '/ubuntu/dists/noble/main/dist-upgrader-all/current/noble.tar.gz.gpg',
  ]) {
    t.strictSame(classify(path), { kind: 'other', immutable: false, ofSuite: true }, path)
  }
})

t.test('by-hash names its digest', async t => {
  for (const [field, algorithm, digits] of [
    ['MD5Sum', 'md5', 32],
    ['SHA1', 'sha1', 40],
    ['SHA256', 'sha256', 64],
    ['SHA512', 'sha512', 128],
  ] as const) {
    for (const folder of ['/debian/dists/sid/main/binary-amd64', '/r/.', '', '/pool']) {
      t.strictSame(
        classify(`${folder}/by-hash/${field}/${hex(digits)}`),
        { kind: 'by-hash', immutable: true, digest: { algorithm, hex: hex(digits) } },
        `${folder} ${field}`,
      )
    }
  }
})

t.test('what only looks like by-hash is other', async t => {
  for (const path of [
    `/by-hash/SHA256/${hex(63)}`,
    `/by-hash/SHA256/${hex(40)}`,
    `/by-hash/SHA256/${hex(64).toUpperCase()}`,
    `/by-hash/SHA256/${hex(63)}g`,
    `/by-hash/SHA256/${hex(64)}.gz`,
    `/by-hash/sha256/${hex(64)}`,
    `/by-hash/SHA384/${hex(96)}`,
    `/by-hash/constructor/${hex(64)}`,
    `/by-hash/SHA256/${hex(64)}/more`,
    `/by-hash%2fSHA256%2f${hex(64)}`,
  ]) {
    t.strictSame(classify(path), { kind: 'other', immutable: false }, path)
  }
})

t.test('dated archives tell their moment', async t => {
  const snapshot = Date.UTC(2025, 4, 20, 8, 15, 59)
  t.strictSame(classify('/archive/debian/20250520T081559Z/dists/sid/InRelease'), {
    kind: 'release',
    immutable: false,
    snapshot,
  })
  t.strictSame(classify('/ubuntu/20250520T081559Z/pool/main/a/apt/apt_2.6.1_amd64.deb'), {
    kind: 'pool',
    immutable: true,
    snapshot,
  })
  for (const path of [
    '/archive/debian/20250520T081559Z', // nothing below: a redirect or a listing
    '/archive/debian/20251320T081559Z/x',
    '/archive/debian/20250520T081559/x',
    '/archive/debian/20250520/x',
    '/archive/debian/x20250520T081559Z/x',
  ]) {
    t.strictSame(classify(path), { kind: 'other', immutable: false }, path)
  }
})

t.test(
  'encodings are decoded once, broken ones stand for themselves, and nothing throws',
  async t => {
    t.equal(classify('/pool/a%2Fb_1.0_all.deb').kind, 'pool', 'an escaped slash parts nothing')
    t.equal(classify('/x%2fInRelease').kind, 'other')
    t.equal(classify('/%2549nRelease').kind, 'other', 'not decoded twice')
    for (const path of [
      '/%',
      '/%zz/%1',
      '/%ff%fe',
      '/%00',
      '/%E0%A4%A',
      '//',
      '/../..',
      '/\u0000',
    ]) {
      t.strictSame(classify(path), { kind: 'other', immutable: false }, JSON.stringify(path))
    }
  },
)

t.test('dot segments are resolved before judging', async t => {
  t.equal(classify('/pool/../foo-1.2.3.deb').kind, 'other')
  t.equal(classify('/pool/%2e%2e/foo-1.2.3.deb').kind, 'other')
  t.equal(classify('/x/Packages.diff/../Index').kind, 'other')
  t.equal(classify('/../InRelease').kind, 'release')
})

t.test('long hostile names are judged in a moment', async t => {
  const pieces = ['a', '1', '_1', '-', '.', '~', '%41', '.tar', 'a_1.', '0a', '/..', 'Translation-']
  const time = await cpuTimeOf(() => {
    for (const piece of pieces) {
      classify(`/pool/${piece.repeat(20_000)}`)
      classify(`/x/Packages.diff/2025-05-20-0812.33${piece.repeat(20_000)}`)
    }
  })
  t.ok(time < 8000, `${time} ms`)
})
