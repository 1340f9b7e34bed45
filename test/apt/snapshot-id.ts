/**
 * `apt --snapshot ID`, which apt 3 has, with the templates that `setup.sh --snapshots` writes. Runs in a root directory with apt 3
 * and node's machine around it: CACHESVC_APT3_ROOT names it, such as one that debootstrap made. Files below /tmp of it are written.
 */
import { cp, mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import process from 'node:process'
import t from 'tap'
import { Layout } from '../../lib/cache/store/disk/disk.ts'
import { updatedPackages } from '../fixtures/archive/archive.ts'
import { ArchiveOrigin } from '../fixtures/archive/archive-origin.ts'
import { directoryFor, noLab, setUp } from '../fixtures/cache/lab.ts'
import { attempt } from '../fixtures/process/command.ts'
import { freePort } from '../fixtures/process/ports.ts'

/** The host for which apt has a template of its own. */
const debian = ['deb', 'debian.org'].join('.')

/** The host of its dated archives. */
const dated = ['snapshot', 'debian.org'].join('.')

const day = 24 * 3600 * 1000
const root = process.env['CACHESVC_APT3_ROOT'] ?? ''
const skip = noLab || (root === '' && 'SKIPPED: CACHESVC_APT3_ROOT names no root with apt 3')

t.setTimeout(600_000)

/** The ID of a moment so many days ago, at the end of that day. */
function idOf(ago: number): { readonly id: string; readonly date: string } {
  const date = new Date(Date.now() - ago * day).toISOString().slice(0, 10)
  return { date, id: `${date.replaceAll('-', '')}T235959Z` }
}

t.test('apt --snapshot, of a vendor and of an official service', { skip }, async t => {
  const directory = directoryFor(t)
  const [livePort, frozenPort] = [await freePort(), await freePort()]
  const lab = await setUp(t, {
    directory,
    otherPorts: [livePort, frozenPort],
    origin: { port: livePort },
    settings: {
      domains: [...[debian, dated], ...[livePort, frozenPort].map(port => `127.0.0.1:${port}`)],
      suites: { snapshot_days: 30 },
      remap: [
        { from: debian, to: `127.0.0.1:${livePort}` },
        { from: `https://${dated}`, to: `http://127.0.0.1:${frozenPort}` },
      ],
    },
  })
  const { archive, origin } = lab
  const live = await lab.apt('live')
  t.equal((await live.update()).code, 0)
  t.equal((await live.download('alpha')).code, 0)

  // The official service has a moment of the archive, frozen.
  const frozen = join(directory, 'frozen')
  const before = idOf(2)
  await cp(join(archive.root, 'debian'), join(frozen, 'archive/debian', before.id), {
    recursive: true,
  })
  const official = await ArchiveOrigin.start({ root: frozen, port: frozenPort })
  t.teardown(() => official.close())

  // What was adopted just now was adopted three days ago.
  await lab.proxy.stop()
  const suites = new Layout(join(directory, 'proxy/cache')).suites
  for (const name of await readdir(suites)) {
    if (!name.endsWith('.json')) continue
    const text = await readFile(join(suites, name), 'utf8')
    const older = (_: string, moment: string): string => `"adopted":${Number(moment) - 3 * day}`
    await writeFile(join(suites, name), text.replace(/"adopted":(\d+)/g, older))
  }
  lab.replace(await lab.proxy.restart())
  await archive.publish(updatedPackages)
  t.equal((await live.update()).code, 0)

  const work = join(root, 'tmp/snapshot-id')
  await rm(work, { recursive: true, force: true })
  t.teardown(() => rm(work, { recursive: true, force: true }))
  for (const part of ['etc/apt/apt.conf.d', 'lists/partial', 'archives/partial', 'usr']) {
    await mkdir(join(work, part), { recursive: true })
  }
  await cp(archive.keyring, join(work, 'keyring.gpg'))
  await writeFile(join(work, 'status'), '')
  const script = (await lab.fetch(`${lab.proxy.url}/_cachesvc/setup.sh`)).content

  /** apt 3 with one source, after setup.sh --snapshots; what it prints. */
  async function apt(source: string, ...args: readonly string[]): Promise<string> {
    const line = `deb [signed-by=/tmp/snapshot-id/keyring.gpg] ${source} test main contrib\n`
    await writeFile(join(work, 'etc/apt/sources.list'), line)
    const set = await attempt('sh', ['-s', '--', '--snapshots', '--root', work], { input: script })
    t.equal(set.code, 0, set.stderr)
    const conf = join(work, 'etc/apt/apt.conf.d/30cachesvc')
    const text = await readFile(conf, 'utf8')
    // The detection script is for a root, which this directory is not.
    await writeFile(
      conf,
      text.replace(
        /^Acquire::http::Proxy-Auto-Detect.*$/m,
        `Acquire::http::Proxy "${lab.proxy.url}";`,
      ),
    )
    const places = {
      'Dir::Etc::sourcelist': 'etc/apt/sources.list',
      'Dir::Etc::sourceparts': 'none',
      'Dir::Etc::parts': 'etc/apt/apt.conf.d',
      'Dir::State::lists': 'lists',
      'Dir::State::status': 'status',
      'Dir::Cache::archives': 'archives',
      'Dir::Cache::pkgcache': '',
      'Dir::Cache::srcpkgcache': '',
    }
    const options = Object.entries(places).map(
      ([name, path]) => `-o${name}=${path === '' ? '' : `/tmp/snapshot-id/${path}`}`,
    )
    const templates = text.match(/^Acquire::Snapshots.*$/gm) ?? []
    const chosen = templates.map(one => `-o${one.replace(/ "/, '=').replace(/";$/, '')}`)
    const fixed = ['-oAPT::Sandbox::User=root', `-oAcquire::http::Proxy=${lab.proxy.url}`]
    const all = [root, 'apt-get', ...options, ...chosen, ...fixed, ...args]
    const { code, stdout, stderr } = await attempt('chroot', all, { deadline: 300_000 })
    const output = `${stdout}${stderr}`
    t.equal(code, 0, output)
    t.notMatch(output, /^[WE]:/m)
    return output
  }

  async function clean(): Promise<void> {
    await rm(join(work, 'archives'), { recursive: true })
    await mkdir(join(work, 'archives/partial'), { recursive: true })
  }

  for (const [name, source, slashes] of [
    ['a vendor', `${origin.url}/debian`, 'plain'],
    ['a vendor with slashes', `${origin.url}//debian/`, 'doubled'],
    ['by prefix', `${lab.proxy.url}/${new URL(origin.url).host}/debian`, 'plain'],
  ] as const) {
    await t.test(`${name}, ${slashes}`, async t => {
      await clean()
      await apt(source, '--snapshot', before.id, 'update')
      const given = await apt(
        source,
        '--snapshot',
        before.id,
        '--print-uris',
        '--yes',
        'install',
        'alpha',
      )
      t.match(given, new RegExp(`/_cachesvc/snapshot/${before.id}/.*alpha_1\\.0`))
      await apt(source, '--snapshot', before.id, '--download-only', '--yes', 'install', 'alpha')
      const today = idOf(0).id
      await apt(source, '--snapshot', today, 'update')
      const newest = await apt(
        source,
        '--snapshot',
        today,
        '--print-uris',
        '--yes',
        'install',
        'alpha',
      )
      t.match(newest, /alpha_1\.1/)
    })
  }

  await t.test('an official archive, from its own service through HTTPS///', async t => {
    await clean()
    // The host has apt's own template; the present Release file comes from the archive under that name.
    await apt(`http://${debian}/debian`, '--snapshot', before.id, 'update')
    const given = await apt(
      `http://${debian}/debian`,
      ...['--snapshot', before.id, '--print-uris', '--yes', 'install', 'alpha'],
    )
    t.match(given, `http://HTTPS///${dated}/archive/debian/${before.id}/pool`)
    await apt(
      `http://${debian}/debian`,
      ...['--snapshot', before.id, '--download-only', '--yes', 'install', 'alpha'],
    )
    const seen = official.seen(/alpha_1\.0/).length
    t.ok(official.seen(/dists/).length > 0, 'the service was asked')
    t.ok(seen <= 1, 'but not for content that the store has from elsewhere')
    await clean()
    await apt(
      `http://${debian}/debian`,
      ...['--snapshot', before.id, '--download-only', '--yes', 'install', 'alpha'],
    )
    t.equal(official.seen(/alpha_1\.0/).length, seen, 'the second time from the store')
  })

  await t.test('a day and an ID give the same', async t => {
    const { host } = new URL(origin.url)
    for (const path of ['dists/test/InRelease', 'dists/test/main/binary-amd64/Packages']) {
      const [byDay, byId] = await Promise.all(
        [before.date, before.id].map(moment =>
          lab.fetch(`${lab.proxy.url}/_cachesvc/snapshot/${moment}/${host}/debian/${path}`),
        ),
      )
      t.equal(byDay?.status, byId?.status)
      t.ok(byDay?.content.equals(byId?.content ?? Buffer.alloc(0)), path)
    }
  })
})
