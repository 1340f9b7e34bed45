/**
 * The package that `npm pack` makes, installed with `npm install --global` into an empty prefix. Its dependencies come from the
 * node_modules at hand: nothing is fetched.
 */
import { cp, mkdir, readdir, readFile, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import t from 'tap'
import { packageRoot, packageVersion } from '../../lib/package.ts'
import { attempt, command, lacking } from '../fixtures/process/command.ts'

t.setTimeout(600_000)

const root = packageRoot()
const npm = (cwd: string, ...args: readonly string[]) =>
  command('npm', args, {
    cwd,
    env: { npm_config_cache: join(cwd, '.cache'), npm_config_offline: 'true' },
  })

/**
 * The packed files, unpacked into a directory. npm 9 runs `prepare` in spite of --ignore-scripts, which would build the code anew
 * under the tests that run beside this one. So it packs a copy without the development dependencies, where `prepare` does nothing.
 */
async function unpacked(directory: string): Promise<string> {
  const copy = join(directory, 'copy')
  const apart = ['node_modules', '.git', '.tap'].map(name => join(root, name))
  for (const name of await readdir(root)) {
    const from = join(root, name)
    if (!apart.includes(from)) await cp(from, join(copy, name), { recursive: true })
  }
  const printed = await command(
    'npm',
    ['pack', '--ignore-scripts', '--json', `--pack-destination=${directory}`],
    { cwd: copy },
  )
  const [{ filename }]: [{ filename: string }] = JSON.parse(printed.toString())
  await command('tar', ['-xzf', join(directory, filename), '-C', directory])
  return join(directory, 'package')
}

t.test('npm install --global of the packed package', { skip: lacking('npm', 'tar') }, async t => {
  const work = t.testdir()
  const place = await unpacked(join(work, 'one'))
  const files = (await readdir(place, { recursive: true })).sort()
  t.ok(files.includes('dist/bin/cachesvc.js'))
  t.ok(files.includes('packaging/cachesvc.service'))
  t.ok(files.includes('packaging/edges/nginx/authproxy-protect.conf'))
  t.strictSame(
    files.filter(file => /^(dist\/)?(test|bench)|\.ts$|\.map$/.test(file)),
    [],
    'only what runs',
  )

  // The same package with its dependencies inside.
  const lock: { packages: Record<string, { dev?: boolean }> } = JSON.parse(
    await readFile(join(root, 'package-lock.json'), 'utf8'),
  )
  for (const [path, { dev }] of Object.entries(lock.packages)) {
    if (path === '' || dev === true) continue
    await mkdir(dirname(join(place, path)), { recursive: true })
    await cp(join(root, path), join(place, path), {
      recursive: true,
      filter: source => !/\.(map|ts|cts|mts)$/.test(source),
    })
  }
  const manifest: object = JSON.parse(await readFile(join(place, 'package.json'), 'utf8'))
  const bundled = JSON.stringify({ ...manifest, bundleDependencies: true })
  await writeFile(join(place, 'package.json'), bundled)
  await npm(place, 'pack', '--ignore-scripts', `--pack-destination=${work}`)

  const prefix = join(work, 'prefix')
  await mkdir(prefix)
  const tarball = join(work, `cachesvc-${packageVersion()}.tgz`)
  await npm(work, 'install', '--global', `--prefix=${prefix}`, tarball)
  for (const program of ['cachesvc', 'authproxy']) {
    const { code, stdout, stderr } = await attempt(join(prefix, 'bin', program), ['--version'])
    t.strictSame([code, `${stdout}`, stderr], [0, `${program} ${packageVersion()}\n`, ''])
  }
  for (const page of [
    'man8/cachesvc.8',
    'man8/authproxy.8',
    'man5/cachesvc.yaml.5',
    'man5/authproxy.yaml.5',
  ]) {
    t.match(await readFile(join(prefix, 'share/man', page), 'utf8'), '.TH', page)
  }
})
