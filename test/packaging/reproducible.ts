/**
 * Two builds of a package are the same bytes: from two copies of the sources in different directories, made with different modes and
 * times, under another umask, time zone and locale.
 */
import { createHash } from 'node:crypto'
import { mkdir, readdir, readFile, symlink } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { packageRoot } from '../../lib/package.ts'
import { fastCompression } from '../fixtures/archive/package-file.ts'
import { attempt, command, lacking } from '../fixtures/process/command.ts'

t.setTimeout(600_000)

const root = packageRoot()

/** What packages are made from. */
const sources = [
  ...['bin', 'docs', 'man', 'packaging', 'templates'],
  ...['dist/bin', 'dist/demo', 'dist/lib', 'dist/tools'],
  ...['package.json', 'package-lock.json', 'README.md', 'CHANGELOG.md', 'LICENSE'],
]

/** The circumstances of a build that must not matter. */
interface Circumstances {
  readonly umask: string
  readonly env: Readonly<Record<string, string>>
}
const one: Circumstances = { umask: '022', env: { TZ: 'UTC', LC_ALL: 'C', LANG: 'C' } }
const two: Circumstances = {
  umask: '077',
  env: {
    TZ: 'Pacific/Apia',
    LC_ALL: 'de_DE.UTF-8',
    LANG: 'de_DE.UTF-8',
    TAR_OPTIONS: '--format=gnu',
  },
}

/** The digests of the packages that the program builds in these circumstances, by name. */
async function built(
  directory: string,
  program: string,
  { umask, env }: Circumstances,
): Promise<Record<string, string>> {
  const copy = `umask ${umask} && mkdir -p "$1/dist" && for path in ${sources.join(' ')}; do cp -R "$2/$path" "$1/$path" || exit 1; done`
  await command('sh', ['-c', copy, 'sh', directory, root])
  await symlink(join(root, 'node_modules'), join(directory, 'node_modules'))
  const output = join(directory, 'out')
  await mkdir(output)
  const line = [join(directory, 'dist/tools', program), output]
  const run = `umask ${umask} && exec "$0" --experimental-import-meta-resolve "$@"`
  await command('sh', ['-c', run, process.execPath, ...line], {
    cwd: directory,
    env: { ...env, ...fastCompression, SOURCE_DATE_EPOCH: '1795737600' },
    deadline: 300_000,
  })
  const digests: Record<string, string> = {}
  for (const name of (await readdir(output)).sort()) {
    const hash = createHash('sha256').update(await readFile(join(output, name)))
    digests[name] = hash.digest('hex')
  }
  return digests
}

for (const [program, needs] of [
  ['package-npm.js', ['tar']],
  ['package-deb.js', ['dpkg-deb']],
] as const) {
  t.test(`${program}: two builds are the same bytes`, { skip: lacking(...needs) }, async t => {
    const work = t.testdir()
    const first = await built(join(work, 'a'), program, one)
    const second = await built(join(work, 'another directory'), program, two)
    t.equal(Object.keys(first).length, 2)
    t.strictSame(second, first)
    if (program !== 'package-npm.js') return

    await t.test('and every file has the time and the mode of the build', async t => {
      const output = join(work, 'another directory/out')
      for (const name of await readdir(output)) {
        const line = ['-tvzf', join(output, name)]
        const { stdout } = await attempt('tar', line, { env: { TZ: 'UTC' } })
        const lines = `${stdout}`.trim().split('\n')
        t.ok(lines.length > 300)
        for (const line of lines)
          t.match(line, /^(?:-rw-r--r--|-rwxr-xr-x|drwxr-xr-x) 0\/0 .* 2026-11-27 /)
      }
    })
  })
}
