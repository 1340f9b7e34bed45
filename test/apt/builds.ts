/**
 * A new system is recorded and made again after the archive has moved on: mmdebstrap (apt inside), debootstrap (wget inside) and apt;
 * then from a bundle at another machine, without the archive.
 */
import { createHash } from 'node:crypto'
import { readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { Layout } from '../../lib/cache/store/disk/disk.ts'
import type { PackageSpec } from '../fixtures/archive/package-file.ts'
import { directoryFor, noLab, report, setUp } from '../fixtures/cache/lab.ts'
import { ProxyProcess, peerUnderTest } from '../fixtures/cache/proxy-process.ts'
import { attempt, command, lacking } from '../fixtures/process/command.ts'

const packagesOf = (version: string): readonly PackageSpec[] => [
  { name: 'base', version: `2:${version}+b~1`, essential: true, size: 50_000 },
  { name: 'shell++', version: `${version}~rc1+x`, essential: true, depends: 'base' },
  { name: 'extra', version },
]
const isRoot = process.getuid?.() === 0
const notRoot = !isRoot && 'SKIPPED: debootstrap wants root'
const skip =
  noLab ||
  (peerUnderTest && 'SKIPPED: builds are of cachesvc') ||
  lacking('mmdebstrap', 'debootstrap', 'wget') ||
  notRoot

t.setTimeout(900_000)

const program = join(import.meta.dirname, '../../bin/cachesvc.js')
const cachesvc = async (cache: string, ...words: readonly string[]) =>
  (await command(process.execPath, [program, '--cache-dir', cache, ...words])).toString()

t.test('a build is made again with the same packages', { skip }, async t => {
  const directory = directoryFor(t)
  const lab = await setUp(t, { directory, packages: packagesOf('1.0') })
  const cache = join(directory, 'proxy/cache')
  const host = lab.origin.url.replace('http://', '')
  const script = join(directory, 'script')
  await writeFile(
    script,
    'mirror_style release\ndownload_style apt\nfinddebs_style from-indices\n' +
      'work_out_debs() { required="base shell++"; base="extra"; }\n',
  )
  let runs = 0
  const place = () => {
    runs += 1
    return join(directory, `system-${runs}`)
  }

  /** SHA-256 of the packages that debootstrap fetched, by a prefix or with a proxy. */
  const debootstrap = async (source: string, proxy: string) => {
    const system = place()
    const words = ['--download-only', '--arch=amd64', `--keyring=${lab.archive.keyring}`]
    const { code, stdout, stderr } = await attempt(
      'debootstrap',
      [...words, 'test', system, source, script],
      // Without a proxy, debootstrap takes the DIRECT of apt's detection for the address of one.
      { env: { http_proxy: proxy } },
    )
    const packages: string[] = []
    const archives = join(system, 'var/cache/apt/archives')
    for (const name of (await readdir(archives).catch(() => [])).sort()) {
      if (!name.endsWith('.deb')) continue
      const content = await readFile(join(archives, name))
      packages.push(`${createHash('sha256').update(content).digest('hex')} ${name}`)
    }
    return { code, packages, said: `${stdout}${stderr}` }
  }

  /** The files of a tree that mmdebstrap made of the packages, with apt updating twice on the way. */
  const mmdebstrap = async (proxy: string) => {
    const system = place()
    const { code, stderr } = await attempt('mmdebstrap', [
      '--variant=extract',
      '--architectures=amd64',
      '--include=base,shell++,extra',
      `--aptopt=Acquire::http::Proxy "${proxy}"`,
      '--aptopt=APT::Sandbox::User ""',
      '--skip=check/qemu',
      'test',
      system,
      `deb [signed-by=${lab.archive.keyring}] ${lab.origin.url}/debian test main`,
    ])
    const tree = await attempt('sh', [
      '-c',
      `cd ${system}/usr/share && find . -type f -exec sha256sum {} + | sort`,
    ])
    return { code, tree: tree.stdout.toString(), said: stderr }
  }

  await cachesvc(cache, 'build', 'record', 'image')
  const asProxy = (url: string) => url.replace('http://', 'http://build:image@')
  const prefix = (url: string) => `${url}/_cachesvc/build/image/${host}/debian`
  const first = {
    debootstrap: await debootstrap(prefix(lab.proxy.url), lab.proxy.url),
    mmdebstrap: await mmdebstrap(asProxy(lab.proxy.url)),
  }
  t.equal(first.debootstrap.code, 0, first.debootstrap.said)
  t.equal(first.debootstrap.packages.length, 3)
  t.equal(first.mmdebstrap.code, 0, first.mmdebstrap.said)
  const apt = await lab.apt('recording', { proxy: asProxy(lab.proxy.url) })
  t.equal((await apt.update()).code, 0)
  t.match(await cachesvc(cache, 'build', 'lock', 'image'), /^locked: \d+ files/)

  await lab.archive.publish(packagesOf('1.1'))
  const today = await lab.apt('today')
  const update = await today.update()
  t.equal(update.code, 0, report(update))
  const changed = await debootstrap(`${lab.origin.url}/debian`, lab.proxy.url)
  t.notSame(changed.packages, first.debootstrap.packages, 'the archive has moved on')

  await t.test('after the archive has moved on', async t => {
    lab.origin.forget()
    const again = await debootstrap(prefix(lab.proxy.url), lab.proxy.url)
    t.strictSame(again.packages, first.debootstrap.packages, again.said)
    const byUser = await debootstrap(`${lab.origin.url}/debian`, asProxy(lab.proxy.url))
    t.strictSame(byUser.packages, first.debootstrap.packages, byUser.said)
    const tree = await mmdebstrap(asProxy(lab.proxy.url))
    t.equal(tree.tree, first.mmdebstrap.tree, tree.said)
    const machine = await lab.apt('again', { proxy: asProxy(lab.proxy.url) })
    const second = await machine.update()
    t.strictSame([second.code, second.errors], [0, []], report(second))
    t.strictSame(lab.origin.seen(), [], 'no origin was asked')
  })

  const bundle = join(directory, 'image.tar')
  await cachesvc(cache, 'build', 'export', 'image', bundle)

  await t.test('from the bundle at another machine, without the archive', async t => {
    const there = join(directory, 'there')
    t.match(await cachesvc(join(there, 'cache'), 'import', bundle), /the build image, \d+ answers/)
    await lab.origin.goAway()
    const offline = await ProxyProcess.start({
      directory: there,
      domains: [`127.0.0.1:${lab.origin.port}`],
      settings: { offline: true },
    })
    t.teardown(() => offline.stop())
    const again = await debootstrap(prefix(offline.url), offline.url)
    t.strictSame(again.packages, first.debootstrap.packages, again.said)
    const tree = await mmdebstrap(asProxy(offline.url))
    t.equal(tree.tree, first.mmdebstrap.tree, tree.said)
  })

  await t.test('one file removed is 409, and apt shows its name', async t => {
    const [line = ''] = first.debootstrap.packages.filter(one => one.includes('extra'))
    await rm(new Layout(cache).blob(line.slice(0, 64)))
    const url = `${lab.origin.url}/debian/pool/main/e/extra/extra_1.0_amd64.deb`
    const user = Buffer.from('build:image').toString('base64')
    lab.replace(await lab.proxy.restart())
    const { status, reason } = await lab.fetch(url, { 'Proxy-Authorization': `Basic ${user}` })
    t.equal(status, 409)
    t.match(reason, /extra_1\.0_amd64\.deb is missing: the build image has \d+ bytes/)
    const failed = await mmdebstrap(asProxy(lab.proxy.url))
    t.not(failed.code, 0)
    t.match(failed.said, /409 .*extra_1\.0_amd64\.deb is missing: the build image/)
  })
})
