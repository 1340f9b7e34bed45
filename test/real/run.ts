/**
 * Real apt, real archives: the sources of this machine, through the proxy, with a state of their own.
 *
 *   test/real/run                        everything
 *   REAL_PACKAGES="git vim" test/real/run   other packages than the desktop found by itself
 *   CACHESVC_TEST_PROXY=apt-cacher-ng test/real/run   the same through a peer
 *
 * cold      nothing stored: update and install --download-only
 * warm      another machine: not one package may be fetched from the archive
 * again     the second machine updates once more: revalidations alone
 * refused   every request to an archive is refused: a third machine updates and installs all the same
 * silent    every request to an archive is accepted and never answered: a fourth one does, too
 *
 * The archive is made unreachable honestly: the proxy starts again over its cache with `parent_proxy` set to a port where
 * nobody listens, or where somebody listens and says nothing, so no request of its can reach anything.
 */
import { once } from 'node:events'
import { chmod, mkdtemp, readdir, rm } from 'node:fs/promises'
import { createServer, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { Apt } from '../fixtures/archive/apt.ts'
import {
  addresses,
  hosts,
  neededSettings,
  originHabits,
  secureSourceFiles,
  sourceFiles,
  withSources,
} from '../fixtures/archive/machine-sources.ts'
import { Ledger } from '../fixtures/archive/real-ledger.ts'
import { report } from '../fixtures/cache/lab.ts'
import { noProxy, ProxyProcess, peerUnderTest } from '../fixtures/cache/proxy-process.ts'
import { attempt, lacking } from '../fixtures/process/command.ts'
import { freePort, isFree } from '../fixtures/process/ports.ts'

const { CACHESVC_REAL, REAL_PACKAGES } = process.env
const skip =
  (CACHESVC_REAL === undefined && 'SKIPPED: it uses the network; run test/real/run') || noProxy

/** Metapackages with many dependencies, the first that fits is taken. */
const candidates = REAL_PACKAGES?.split(' ') ?? ['xfce4', 'lxqt-core', 'openbox', 'build-essential']
const least = 80
const most = 150e6

t.setTimeout(skip === false ? 900_000 : 30_000)

t.test('the archives of this machine', { skip }, async t => {
  const directory = await mkdtemp(join(tmpdir(), 'real-'))
  t.teardown(() => rm(directory, { recursive: true, force: true }))
  // squid drops root's rights and has to get to its own directory below.
  await chmod(directory, 0o755)
  const files = await sourceFiles('http')
  const secure = await secureSourceFiles()
  const settings = await neededSettings()
  const domains = [...hosts(files), ...hosts(secure)]
  const port = (await isFree(3142)) ? 3142 : await freePort()
  let proxy = await ProxyProcess.start({ directory: join(directory, 'proxy'), domains, port })
  t.teardown(() => proxy.stop())
  const ledger = new Ledger(proxy.port)
  const aptAt = (name: string, sources = files) =>
    Apt.create({
      directory: join(directory, name),
      keyring: '',
      sources: [],
      files: sources,
      settings,
      proxy: proxy.url,
      deadline: 300_000,
    })

  let packages: readonly string[] = []
  await t.test('cold', async t => {
    const apt = await aptAt('cold')
    const update = await ledger.take('cold', 'update', () => apt.update())
    t.strictSame([update.code, update.errors], [0, []], report(update))
    packages = await choose(apt)
    const install = await ledger.take('cold', 'install', () => download(apt, packages))
    t.equal(install.code, 0, report(install))
    const count = (await apt.downloaded()).length
    t.ok(count >= least || REAL_PACKAGES !== undefined, `${count} packages`)
  })

  const installs = async (t: Test, name: string) => {
    const apt = await aptAt(name)
    const update = await ledger.take(name, 'update', () => apt.update())
    t.strictSame([update.code, update.errors], [0, []], report(update))
    t.notMatch(update.output, /Failed to fetch/)
    const install = await ledger.take(name, 'install', () => download(apt, packages))
    t.strictSame([install.code, install.errors], [0, []], report(install))
    t.equal((await apt.downloaded()).length, (await (await aptAt('cold')).downloaded()).length)
    return ledger.last
  }

  await t.test('warm', async t => {
    const { misses } = await installs(t, 'warm')
    t.equal(misses, 0, 'no package came from the archive', { skip: peerUnderTest })
  })

  await t.test('again', async t => {
    const apt = await aptAt('warm')
    const update = await ledger.take('again', 'update', () => apt.update())
    t.strictSame([update.code, update.errors], [0, []], report(update))
  })

  await t.test('sources of a package', async t => {
    const apt = await aptAt('sources', withSources(files))
    const update = await ledger.take('source', 'update', () => apt.update())
    t.equal(update.code, 0, report(update))
    const source = await ledger.take('source', 'source', () => apt.source('hello'))
    t.equal(source.code, 0, report(source))
  })

  const noSecure = Object.keys(secure).length === 0 && 'SKIPPED: no archive here answers https'
  await t.test('https sources through a tunnel', { skip: noSecure }, async t => {
    const apt = await aptAt('secure', secure)
    const update = await ledger.take('https', 'update', () => apt.update())
    t.ok(ledger.last.tunnel > 0, 'the proxy saw tunnels', { skip: peerUnderTest })
    t.strictSame([update.code, update.errors], [0, []], report(update))
  })

  const noRoot =
    lacking('debootstrap', 'wget') || (process.getuid?.() !== 0 && 'SKIPPED: wants root')
  await t.test('debootstrap', { skip: noRoot }, async t => {
    const place = join(directory, 'system')
    const [archive] = addresses(files)
    const suite = /^Suites:\s*(\S+)/m.exec(Object.values(files).join('\n'))?.[1] ?? 'stable'
    const args = ['--variant=minbase', '--download-only', suite, place, archive?.href ?? '']
    const result = await ledger.take('debootstrap', 'download', () =>
      attempt('debootstrap', args, { env: { http_proxy: proxy.url }, deadline: 300_000 }),
    )
    t.equal(result.code, 0, { output: result.stderr })
    const names = await readdir(join(place, 'var/cache/apt/archives'))
    t.ok(names.filter(name => name.endsWith('.deb')).length > 40)
  })

  const noDetector = lacking('auto-apt-proxy') || (port !== 3142 && 'SKIPPED: port 3142 is taken')
  await t.test('auto-apt-proxy', { skip: noDetector }, async t => {
    const env = { TMPDIR: directory, AUTO_APT_PROXY_NO_CACHE: '1' }
    const { stdout } = await attempt('auto-apt-proxy', [], { env })
    t.equal(stdout.toString().trim(), proxy.url)
  })

  await t.test('the archive refuses every connection', { skip: peerUnderTest }, async t => {
    proxy = await proxy.restart({ parent_proxy: `http://127.0.0.1:${await freePort()}` })
    await installs(t, 'refused')
  })

  await t.test('the archive never answers', { skip: peerUnderTest }, async t => {
    const sockets = new Set<Socket>()
    const silent = createServer(socket => sockets.add(socket.on('error', () => {})))
    const nowhere = await freePort()
    silent.listen(nowhere, '127.0.0.1')
    await once(silent, 'listening')
    t.teardown(() => {
      silent.close()
      for (const socket of sockets) socket.destroy()
    })
    proxy = await proxy.restart({ parent_proxy: `http://127.0.0.1:${nowhere}` })
    await installs(t, 'silent')
    await proxy.stop()
  })

  for (const [i, url] of addresses(files).entries()) {
    const suite = /^Suites:\s*(\S+)/m.exec(Object.values(files)[i] ?? '')?.[1]
    if (suite === undefined) continue
    const habits = await originHabits(
      new URL(`${url.href.replace(/\/?$/, '/')}dists/${suite}/InRelease`),
    )
    t.comment(`source ${i + 1} of this machine sends ${habits}`)
  }
  for (const line of ledger.table()) t.comment(line)
})

/** The first candidate of a bearable size that pulls in enough packages. */
async function choose(apt: Apt): Promise<readonly string[]> {
  if (REAL_PACKAGES !== undefined) return candidates
  for (const name of candidates) {
    const plan = await apt.run(
      'apt-get',
      'install',
      '--print-uris',
      '-qq',
      '--yes',
      '--no-install-recommends',
      name,
    )
    const sizes = [...plan.output.matchAll(/^'\S+' \S+ (\d+) /gm)].map(([, size]) => Number(size))
    const total = sizes.reduce((sum, size) => sum + size, 0)
    if (sizes.length >= least && total <= most) return [name]
  }
  throw new Error(`none of ${candidates.join(', ')} has ${least} packages in ${most / 1e6} MB here`)
}

function download(apt: Apt, names: readonly string[]) {
  return apt.download('--no-install-recommends', ...names)
}
