/**
 * The npm packages, each installed with `npm install --global` into an empty prefix. Their dependencies come from the node_modules at
 * hand: nothing is fetched.
 */
import { cp, mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import t from 'tap'
import { packageRoot, packageVersion } from '../../lib/package.ts'
import { buildVersion } from '../../tools/packaging/build-version.ts'
import { products } from '../../tools/packaging/products.ts'
import { attempt, command, lacking } from '../fixtures/process/command.ts'

t.setTimeout(600_000)

const root = packageRoot()
const { version } = buildVersion(packageVersion(), root)
const npm = (cwd: string, ...args: readonly string[]) =>
  command('npm', args, {
    cwd,
    env: { npm_config_cache: join(cwd, '.cache'), npm_config_offline: 'true' },
  })

interface Packed {
  readonly dependencies: Readonly<Record<string, string>>
  readonly bin: object
  readonly man: readonly string[]
}
interface Shrinkwrap {
  readonly packages: Readonly<
    Record<string, { readonly dev?: boolean; readonly integrity?: string }>
  >
}

async function json<Shape>(path: string): Promise<Shape> {
  return JSON.parse(await readFile(path, 'utf8'))
}

t.test('the root is no package', async t => {
  const manifest = await json<Record<string, unknown>>(join(root, 'package.json'))
  t.equal(manifest['private'], true)
  for (const field of ['bin', 'man', 'files']) t.notOk(Object.hasOwn(manifest, field), field)
})

t.test('packages', { skip: lacking('npm', 'tar') }, async t => {
  const work = t.testdir()
  const program = join(root, 'dist/tools/package-npm.js')
  await command(process.execPath, ['--experimental-import-meta-resolve', program, work])
  const manifests = new Map<string, Packed>()

  for (const { name, templates } of products) {
    const [other = ''] = products.map(product => product.name).filter(known => known !== name)
    const place = join(work, name, 'package')
    await mkdir(join(work, name))
    await command('tar', ['-xzf', join(work, `${name}-${version}.tgz`), '-C', join(work, name)])
    const manifest = await json<Packed>(join(place, 'package.json'))
    const { packages } = await json<Shrinkwrap>(join(place, 'npm-shrinkwrap.json'))
    const files = (await readdir(place, { recursive: true })).sort()
    manifests.set(name, manifest)

    await t.test(`${name} has what runs of ${name}, and nothing of ${other}`, async t => {
      t.strictSame(manifest.bin, { [name]: `bin/${name}` })
      t.strictSame(manifest.man, [`man/${name}.8`, `man/${name}.yaml.5`])
      for (const page of manifest.man) t.ok(files.includes(page), page)
      t.ok(files.includes(`dist/bin/${name}.js`))
      t.ok(files.includes(`packaging/${name}.yaml`))
      t.strictSame(await readdir(join(place, 'templates')), [...templates].sort())
      const unwanted = new RegExp(
        `^(dist/)?(test|bench|site)|\\.ts$|\\.map$|^(bin|man|packaging|dist/bin)/.*${other}`,
      )
      t.strictSame(
        files.filter(file => unwanted.test(file) && !file.startsWith('packaging/edges/')),
        [],
      )
    })

    await t.test(`the dependencies of ${name} are those of package-lock.json`, async t => {
      const lock = await json<Shrinkwrap>(join(root, 'package-lock.json'))
      for (const [path, entry] of Object.entries(packages)) {
        if (path === '') continue
        t.strictSame(entry, lock.packages[path], path)
        t.ok(entry.integrity, path)
        t.not(entry.dev, true, path)
      }
    })

    await t.test(`npm install --global of ${name} alone, without a network`, async t => {
      // The same package with its dependencies inside.
      for (const path of Object.keys(packages)) {
        if (path === '') continue
        await mkdir(dirname(join(place, path)), { recursive: true })
        await cp(join(root, path), join(place, path), {
          recursive: true,
          filter: source => !/\.(map|ts|cts|mts)$/.test(source),
        })
      }
      await rm(join(place, 'npm-shrinkwrap.json'))
      const bundled = JSON.stringify({ ...manifest, bundleDependencies: true })
      await writeFile(join(place, 'package.json'), bundled)
      // What npm would make of it by packing it: npm reads it without compression, too.
      const tarball = join(work, `${name}-bundled.tgz`)
      await command('tar', ['-cf', tarball, '-C', join(work, name), 'package'])

      const prefix = join(work, `prefix-${name}`)
      await mkdir(prefix)
      await npm(work, 'install', '--global', `--prefix=${prefix}`, tarball)
      t.strictSame(await readdir(join(prefix, 'bin')), [name])
      const run = (option: string) => attempt(join(prefix, 'bin', name), [option])
      const told = await run('--version')
      t.strictSame([told.code, `${told.stdout}`, told.stderr], [0, `${name} ${version}\n`, ''])
      const help = await run('--help')
      t.strictSame([help.code, help.stderr], [0, ''])
      t.match(`${help.stdout}`, name)
      for (const page of [`man8/${name}.8`, `man5/${name}.yaml.5`]) {
        t.match(await readFile(join(prefix, 'share/man', page), 'utf8'), '.TH', page)
      }
      const installed = join(prefix, 'lib/node_modules', name)
      const loaded = await attempt(process.execPath, everyModule(installed))
      t.equal(loaded.stderr, '')
      t.match(`${loaded.stdout}`, /^\d{3,} modules\n$/)
    })
  }

  await t.test('neither brings what only the other needs', async t => {
    const has = (name: string, dependency: string) =>
      Object.hasOwn(manifests.get(name)?.dependencies ?? {}, dependency)
    for (const dependency of ['openpgp', 'xz-decompress', 'bonjour-service']) {
      t.strictSame([has('cachesvc', dependency), has('authproxy', dependency)], [true, false])
    }
    for (const dependency of ['xml-crypto', '@xmldom/xmldom', 'jose']) {
      t.strictSame([has('cachesvc', dependency), has('authproxy', dependency)], [false, true])
    }
  })
})

/** Loads every module of a package, and with it every module that these import. */
function everyModule(installed: string): string[] {
  const program = `
    import { readdirSync } from 'node:fs'
    const lib = ${JSON.stringify(`${installed}/dist/lib/`)}
    const modules = readdirSync(lib, { recursive: true }).filter(file => file.endsWith('.js') && !file.endsWith('worker.js'))
    for (const file of modules) await import(lib + file)
    console.log(modules.length + ' modules')`
  return ['--input-type=module', '-e', program]
}
