/**
 * New systems made through the proxy: mmdebstrap (apt inside) and debootstrap (wget inside, which escapes nothing).
 */
import { readdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import type { PackageSpec } from '../fixtures/archive/package-file.ts'
import { noLab, setUp } from '../fixtures/cache/lab.ts'
import { attempt, lacking } from '../fixtures/process/command.ts'

const packages: readonly PackageSpec[] = [
  { name: 'base', version: '2:1.0+b~1', essential: true, size: 50_000 },
  { name: 'shell++', version: '5.0~rc1+x', essential: true, depends: 'base' },
  { name: 'extra', version: '1.0' },
]
const isRoot = process.getuid?.() === 0
const notRoot = !isRoot && 'SKIPPED: debootstrap wants root'
/** For other users mmdebstrap makes a user namespace, by a program of the package uidmap. */
const noMmdebstrap = lacking('mmdebstrap', ...(isRoot ? [] : ['newuidmap']))

t.setTimeout(600_000)

t.test('bootstrapping', { skip: noLab }, async t => {
  const lab = await setUp(t, { packages })
  const source = `${lab.origin.url}/debian`

  for (const state of ['cold', 'warm']) {
    await t.test(`mmdebstrap, ${state}`, { skip: noMmdebstrap }, async t => {
      lab.origin.forget()
      const directory = join(t.testdir(), 'system')
      const result = await attempt('mmdebstrap', [
        '--variant=extract',
        '--architectures=amd64',
        '--include=base,shell++,extra',
        `--aptopt=Acquire::http::Proxy "${lab.proxy.url}"`,
        '--aptopt=APT::Sandbox::User ""',
        '--skip=check/qemu',
        'test',
        directory,
        `deb [signed-by=${lab.archive.keyring}] ${source} test main`,
      ])
      t.equal(result.code, 0, { stderr: result.stderr.split('\n') })
      t.strictSame((await readdir(join(directory, 'usr/share'))).sort(), [
        'base',
        'extra',
        'shell++',
      ])
      if (state === 'warm') t.strictSame(lab.origin.seen(/pool/), [])
    })
  }

  const skip = lacking('debootstrap', 'wget') || notRoot
  await t.test('debootstrap shares what mmdebstrap fetched', { skip }, async t => {
    lab.origin.forget()
    const place = t.testdir()
    const script = join(place, 'script')
    await writeFile(
      script,
      'mirror_style release\ndownload_style apt\nfinddebs_style from-indices\n' +
        'work_out_debs() { required="base shell++"; base="extra"; }\n',
    )
    const directory = join(place, 'system')
    const result = await attempt(
      'debootstrap',
      [
        '--download-only',
        '--arch=amd64',
        `--keyring=${lab.archive.keyring}`,
        'test',
        directory,
      ].concat([source, script]),
      { env: { http_proxy: lab.proxy.url } },
    )
    t.equal(result.code, 0, { output: (result.stdout + result.stderr).split('\n') })
    const names = await readdir(join(directory, 'var/cache/apt/archives'))
    t.equal(names.filter(name => name.endsWith('.deb')).length, 3)
    t.strictSame(lab.origin.seen(/pool/), [], 'though one escapes + and ~ and the other does not')
  })
})
