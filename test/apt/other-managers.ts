/**
 * Real dnf and pacman through the cache: a second machine is served from the store, a repository that moves on reaches clients whole, a
 * package that is built anew under its name too, and what is stored is served while the origin is away.
 */
import { copyFile, mkdir, readdir, rm, utimes, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import process from 'node:process'
import t from 'tap'
import { ArchiveOrigin } from '../fixtures/archive/archive-origin.ts'
import { directoryFor, type LabTest } from '../fixtures/cache/lab.ts'
import { noProxy, ProxyProcess, peerUnderTest } from '../fixtures/cache/proxy-process.ts'
import {
  attempt,
  type CommandOptions,
  type CommandResult,
  command,
  lacking,
} from '../fixtures/process/command.ts'

const skip = noProxy || (peerUnderTest && 'SKIPPED: tested for cachesvc')

t.setTimeout(600_000)

interface Manager {
  /** Builds `hello` of this version and content, and the metadata. */
  readonly publish: (root: string, version: string, content: string) => Promise<unknown>
  /** Downloads `hello` on a machine that has nothing. */
  readonly download: (place: string, origin: string, proxy: string) => Promise<CommandResult>
  /** The name of its package file. */
  readonly fileName: (version: string) => string
}

const said = ({ stdout, stderr }: CommandResult) => `${stdout}${stderr}`

const isRoot = process.getuid?.() === 0

/** Both managers refuse to download for an ordinary user, even into directories of the user's own. */
function asIfRoot(program: string, words: readonly string[], options: CommandOptions = {}) {
  return isRoot
    ? attempt(program, words, options)
    : attempt('fakeroot', [program, ...words], options)
}

const dnf: Manager = {
  fileName: version => `hello-${version}-1.noarch.rpm`,
  async publish(root, version, content) {
    const spec = `Name: hello
Version: ${version}
Release: 1
Summary: x
License: MIT
BuildArch: noarch
%description
x
%install
mkdir -p %{buildroot}/usr/share/hello
echo '${content}' >%{buildroot}/usr/share/hello/content
%files
/usr/share/hello/content
`
    const work = `${root}.work`
    await mkdir(work, { recursive: true })
    await writeFile(join(work, 'hello.spec'), spec)
    const places = ['--define', `_topdir ${work}`, '--define', `_rpmdir ${work}`]
    await command('rpmbuild', ['-bb', '--quiet', ...places, join(work, 'hello.spec')])
    const name = this.fileName(version)
    await copyFile(join(work, 'noarch', name), join(root, name))
    await command('createrepo_c', ['--quiet', root])
  },
  async download(place, origin, proxy) {
    for (const name of ['root', 'log']) await mkdir(join(place, name), { recursive: true })
    const lines = [
      '[t]',
      'name=t',
      `baseurl=${origin}/`,
      'gpgcheck=0',
      `proxy=${proxy}`,
      'retries=1',
    ]
    await writeFile(join(place, 't.repo'), `${lines.join('\n')}\n`)
    const own = { reposdir: place, cachedir: `${place}/cache`, persistdir: `${place}/persist` }
    const options = { ...own, logdir: `${place}/log`, pluginpath: `${place}/none` }
    return asIfRoot('dnf', [
      ...['--assumeyes', '--releasever=1', `--installroot=${place}/root`],
      ...Object.entries(options).map(([name, value]) => `--setopt=${name}=${value}`),
      ...['install', '--downloadonly', 'hello'],
    ])
  },
}

const pacman: Manager = {
  fileName: version => `hello-${version}-1-any.pkg.tar.gz`,
  async publish(root, version, content) {
    const work = `${root}.work`
    await mkdir(join(work, 'usr/share/hello'), { recursive: true })
    const facts = [
      'pkgname = hello',
      `pkgver = ${version}-1`,
      'pkgdesc = x',
      'arch = any',
      'size = 1',
    ]
    await writeFile(join(work, '.PKGINFO'), `${facts.join('\n')}\n`)
    await writeFile(join(work, 'usr/share/hello/content'), content)
    const file = join(root, this.fileName(version))
    await command('bsdtar', ['-czf', file, '-C', work, '.PKGINFO', 'usr'])
    await command('repo-add', ['--quiet', join(root, 't.db.tar.gz'), file])
  },
  async download(place, origin, proxy) {
    await mkdir(join(place, 'db'), { recursive: true })
    const lines = [
      '[options]',
      'Architecture = x86_64',
      'SigLevel = Never',
      '[t]',
      `Server = ${origin}`,
    ]
    await writeFile(join(place, 'pacman.conf'), `${lines.join('\n')}\n`)
    const places = ['--root', place, '--dbpath', `${place}/db`, '--cachedir', `${place}/cache`]
    const options = ['--config', `${place}/pacman.conf`, '--logfile', `${place}/log`, ...places]
    const words = ['--sync', '--refresh', '--downloadonly', '--noconfirm', ...options, 'hello']
    return asIfRoot('pacman', words, { env: { http_proxy: proxy } })
  },
}

async function lab(t: LabTest, manager: Manager) {
  const directory = directoryFor(t)
  const root = join(directory, 'repo')
  await mkdir(root, { recursive: true })
  const origin = await ArchiveOrigin.start({ root })
  t.teardown(() => origin.close())
  const proxy = await ProxyProcess.start({
    directory: join(directory, 'proxy'),
    domains: [origin.authority],
    settings: { freshness: { floor: '0s' }, timeouts: { connect: '1s' } },
  })
  t.teardown(() => proxy.stop())
  let machines = 0
  /** Downloads on another machine, and names what it has then. */
  const download = async () => {
    machines += 1
    const place = join(directory, `machine-${machines}`)
    await mkdir(place)
    const result = await manager.download(place, origin.url, proxy.url)
    const files = await readdir(place, { recursive: true })
    const packages = files.filter(file => /\.(rpm|pkg\.tar\.gz)$/.test(file))
    return { ...result, packages: packages.map(file => file.split('/').at(-1)), text: said(result) }
  }
  let moment = Date.parse('2025-01-01T00:00:00Z')
  /** Publishes files of a year ago, which a cache may take for lasting ones. */
  const publish = async (version: string, content: string) => {
    await manager.publish(root, version, content)
    moment += 60_000
    for (const file of await readdir(root, { recursive: true }))
      await utimes(join(root, file), moment / 1000, moment / 1000)
  }
  return { root, origin, publish, download }
}

for (const [name, manager, ...needs] of [
  ['dnf', dnf, 'rpmbuild', 'createrepo_c'],
  ['pacman', pacman, 'repo-add', 'makepkg', 'bsdtar'],
] as const) {
  t.test(
    `${name} through the cache`,
    { skip: skip || lacking(name, ...needs, ...(isRoot ? [] : ['fakeroot'])) },
    async t => {
      const { root, origin, publish, download } = await lab(t, manager)
      const sent = () => origin.requests.filter(({ status }) => status === 200).length
      await publish('1.0', 'one')
      const first = await download()
      t.strictSame([first.code, first.packages], [0, [manager.fileName('1.0')]], first.text)

      await t.test(
        'a second machine is served from the store, which the origin confirms',
        async t => {
          origin.forget()
          const second = await download()
          t.strictSame([second.code, second.packages], [0, first.packages], second.text)
          t.equal(sent(), 0, 'no content came from the origin')
          t.ok(origin.requests.some(({ status }) => status === 304))
        },
      )

      await t.test('a repository that moves on reaches a client whole', async t => {
        await publish('1.1', 'two')
        await rm(join(root, manager.fileName('1.0')))
        const moved = await download()
        t.strictSame([moved.code, moved.packages], [0, [manager.fileName('1.1')]], moved.text)
      })

      await t.test('so does a package that was built anew under its name', async t => {
        await publish('1.1', 'another content')
        const anew = await download()
        t.strictSame([anew.code, anew.packages], [0, [manager.fileName('1.1')]], anew.text)
      })

      await t.test('and what is stored is served while the origin is away', async t => {
        await origin.goAway()
        const away = await download()
        t.strictSame([away.code, away.packages], [0, [manager.fileName('1.1')]], away.text)
      })
    },
  )
}
