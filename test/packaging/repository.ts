/**
 * The packages that bring their own Node.js, and the apt repository of all of them, which apt reads through cachesvc.
 */
import { createHash } from 'node:crypto'
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { packageRoot, packageVersion } from '../../lib/package.ts'
import { buildVersion } from '../../tools/packaging/build-version.ts'
import { debianVersion } from '../../tools/packaging/debian-package.ts'
import { Apt, noApt } from '../fixtures/archive/apt.ts'
import { ArchiveOrigin } from '../fixtures/archive/archive-origin.ts'
import { noOverlay, overlayRoot } from '../fixtures/archive/overlay-root.ts'
import { architecture, fastCompression } from '../fixtures/archive/package-file.ts'
import { noSigningKey } from '../fixtures/archive/signing-key.ts'
import { directoryFor, report } from '../fixtures/cache/lab.ts'
import { noProxy, ProxyProcess } from '../fixtures/cache/proxy-process.ts'
import { nodeVersion, packNode, writePin } from '../fixtures/process/carried-node.ts'
import { attempt, command, lacking } from '../fixtures/process/command.ts'

t.setTimeout(900_000)

const { version } = buildVersion(packageVersion(), packageRoot())
const slim = debianVersion(version)
const carrying = `${slim}+node${nodeVersion}`

/** Stands for Node.js: the one of this machine, moved to where no program looks for it. */
const program = '#!/bin/sh\nexec /opt/moved-node "$@"\n'

function build(
  directory: string,
  pin: string,
  architectures: string,
  environment: Readonly<Record<string, string>> = {},
) {
  const built = join(packageRoot(), 'dist/tools/package-deb.js')
  const options = [`--with-node=${architectures}`, `--node-pin=${pin}`, directory]
  const line = ['--experimental-import-meta-resolve', built, ...options]
  const env = {
    ...fastCompression,
    npm_config_cache: join(directory, '../npm'),
    npm_config_offline: 'true',
    SOURCE_DATE_EPOCH: '1790000000',
    ...environment,
  }
  return attempt(process.execPath, line, { env, deadline: 400_000 })
}

const noBuild = lacking('ar', 'dpkg-deb', 'npm', 'tar')

t.test('packages with their own Node.js', { skip: noBuild }, async t => {
  const work = directoryFor(t)
  const pin = await packNode(work, program)
  const debs = join(work, 'debs')
  const made = await build(debs, pin, architecture)
  t.equal(made.code, 0, made.stderr)
  const names = ['cachesvc', 'authproxy'].flatMap(name => [
    `${name}_${slim}_all.deb`,
    `${name}_${carrying}_${architecture}.deb`,
  ])
  t.strictSame((await readdir(debs)).sort(), names.sort())

  await t.test('are the same when they are built again', async t => {
    const again = join(work, 'again')
    t.equal((await build(again, pin, '')).code, 0)
    const digests = async (directory: string) => {
      const names = (await readdir(again)).sort()
      const contents = await Promise.all(names.map(name => readFile(join(directory, name))))
      return contents.map(content => createHash('sha256').update(content).digest('hex'))
    }
    t.strictSame(await digests(again), await digests(debs))
  })

  await t.test('are packed by zstd where they carry Node.js, and by xz where not', async t => {
    for (const name of names) {
      const { stdout } = await attempt('ar', ['t', join(debs, name)])
      t.match(`${stdout}`, `data.tar.${name.endsWith('_all.deb') ? 'xz' : 'zst'}\n`)
    }
  })

  await t.test('have their names only when they are whole', async t => {
    const programs = join(work, 'programs')
    await mkdir(programs)
    const fails = '#!/bin/sh\nfor file; do :; done\necho half >"$file"\nexit 1\n'
    await writeFile(join(programs, 'dpkg-deb'), fails, { mode: 0o755 })
    const output = join(work, 'broken')
    const path = `${programs}:${process.env['PATH']}`
    t.not((await build(output, pin, '', { PATH: path })).code, 0)
    t.strictSame(
      (await readdir(output)).filter(name => name.endsWith('.deb')),
      [],
    )
  })

  await t.test('take no Node.js of another digest', async t => {
    const pinned = { name: join(work, 'node.tgz'), integrity: 'sha512-AAAA' }
    const wrong = await writePin(work, 'wrong.json', pinned)
    const { code, stderr } = await build(join(work, 'wrong'), wrong, 'amd64')
    t.equal(code, 1)
    t.match(
      stderr,
      /node\.tgz has the digest sha512-.*; the pin says sha512-AAAA\. Nothing of it is used\./,
    )
    const { code: unknown, stderr: said } = await build(join(work, 'wrong'), pin, 'mips')
    t.equal(unknown, 1)
    t.match(said, '--with-node=mips: there are amd64 and arm64')
  })

  const noInstall = lacking('dpkg', 'systemd-sysusers', 'deb-systemd-helper') || (await noOverlay())
  await t.test('run where there is none', { skip: noInstall }, async t => {
    const root = await overlayRoot(t, work)
    const script = `set -e
      rm -rf /etc/cachesvc /var/cache/cachesvc /etc/authproxy /var/lib/authproxy
      mkdir -p /opt; mv ${process.execPath} /opt/moved-node
      while node=$(command -v node || command -v nodejs); do rm -f "$node"; done
      dpkg -i --force-depends ${debs}/*_${architecture}.deb >/dev/null
      cachesvc --version; authproxy --version
      dpkg-query --show --showformat='\${Depends}\n' cachesvc authproxy
      cat /usr/share/doc/cachesvc/node.LICENSE /usr/share/doc/authproxy/node.LICENSE
      grep '^Node.js' /usr/share/doc/cachesvc/copyright`
    const { stdout, stderr } = await root.run('sh', '-c', script)
    const depends = 'libc6 (>= 2.28), libstdc++6 (>= 8), systemd | systemd-standalone-sysusers\n'
    const expected = [
      `cachesvc ${version}\nauthproxy ${version}\n`,
      depends.repeat(2),
      'The licence of Node.js\n'.repeat(2),
      `Node.js ${nodeVersion}: /usr/share/doc/cachesvc/node.LICENSE\n`,
    ]
    t.equal(`${stdout}`, expected.join(''), stderr)
  })

  const noService = noApt || noSigningKey || noProxy || lacking('gpg', 'gpgconf')
  await t.test('apt reads their repository through cachesvc', { skip: noService }, async t => {
    const repository = join(work, 'repository')
    const publish = async (...debs: readonly string[]) => {
      const built = join(packageRoot(), 'dist/tools/package-repository.js')
      await command(process.execPath, [built, repository, ...debs], { deadline: 120_000 })
    }
    await publish(...names.map(name => join(debs, name)))
    const origin = await ArchiveOrigin.start({ root: repository })
    t.teardown(() => origin.close())
    const proxy = await ProxyProcess.start({
      directory: join(work, 'proxy'),
      domains: [`127.0.0.1:${origin.port}`],
    })
    t.teardown(() => proxy.stop())
    const client = async (name: string, ...components: readonly string[]) => {
      const apt = await Apt.create({
        directory: join(work, name),
        keyring: join(repository, 'cachesvc.asc'),
        sources: [{ uri: `http://127.0.0.1:${origin.port}/`, suite: 'stable', components }],
        proxy: proxy.url,
      })
      const update = await apt.update()
      t.strictSame([update.code, update.warnings, update.errors], [0, [], []], report(update))
      const fetched = await apt.run('apt-get', 'download', 'cachesvc', 'authproxy')
      t.equal(fetched.code, 0, report(fetched))
      return (await readdir(apt.work)).sort()
    }
    const carried = ['authproxy', 'cachesvc'].map(name => `${name}_${carrying}_${architecture}.deb`)
    t.strictSame(await client('first', 'main', 'slim'), carried, 'apt takes those with Node.js')
    t.strictSame(
      await client('slim', 'slim'),
      ['authproxy', 'cachesvc'].map(name => `${name}_${slim}_all.deb`),
    )
    origin.forget()
    t.strictSame(await client('second', 'main'), carried)
    t.strictSame(origin.seen(/\/pool\//), [], 'from the store')
  })
})
