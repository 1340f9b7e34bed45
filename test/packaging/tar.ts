/**
 * The archives to unpack and run: everything is inside, and two builds are the same bytes.
 */
import { createHash } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { packageRoot, packageVersion } from '../../lib/package.ts'
import { buildVersion } from '../../tools/packaging/build-version.ts'
import { fastCompression } from '../fixtures/archive/package-file.ts'
import { packNode } from '../fixtures/process/carried-node.ts'
import { attempt, command, lacking } from '../fixtures/process/command.ts'

t.setTimeout(900_000)

const { version } = buildVersion(packageVersion(), packageRoot())

t.test('npm run package:tar', { skip: lacking('tar', 'xz', 'npm') }, async t => {
  const work = t.testdir()
  // Stands for Node.js: the one of this machine.
  const pin = await packNode(work, `#!/bin/sh\nexec ${process.execPath} "$@"\n`)
  const build = async (name: string, env: Readonly<Record<string, string>>) => {
    const built = join(packageRoot(), 'dist/tools/package-tar.js')
    const options = ['--with-node=amd64', `--node-pin=${pin}`, join(work, name)]
    await command(process.execPath, ['--experimental-import-meta-resolve', built, ...options], {
      env: {
        ...fastCompression,
        npm_config_offline: 'true',
        SOURCE_DATE_EPOCH: '1790000000',
        ...env,
      },
      deadline: 400_000,
    })
    const digests: Record<string, string> = {}
    for (const file of await readdir(join(work, name))) {
      const hash = createHash('sha256').update(await readFile(join(work, name, file)))
      digests[file] = hash.digest('hex')
    }
    return digests
  }
  const first = await build('first', {})
  t.strictSame(
    Object.keys(first).sort(),
    ['authproxy', 'cachesvc'].map(name => `${name}-${version}-linux-amd64.tar.xz`),
  )

  await t.test('two builds are the same bytes', async t => {
    const other = {
      TZ: 'Pacific/Apia',
      LC_ALL: 'de_DE.UTF-8',
      XZ_OPT: '-9',
      TAR_OPTIONS: '--format=gnu',
    }
    t.strictSame(await build('second', other), first)
  })

  for (const name of ['cachesvc', 'authproxy']) {
    await t.test(`${name} runs where it was unpacked, without another Node.js`, async t => {
      const home = join(work, 'unpacked')
      await command('mkdir', ['-p', home])
      const full = `${name}-${version}-linux-amd64`
      await command('tar', ['-xf', join(work, 'first', `${full}.tar.xz`), '-C', home])
      const program = join(home, full, 'bin', name)
      const { stdout } = await attempt(program, ['--version'], { env: { PATH: '/usr/bin:/bin' } })
      t.equal(`${stdout}`, `${name} ${version}\n`)
      const config = ['--check-config', '--cache-dir', join(work, 'cache')]
      if (name === 'cachesvc') t.equal((await attempt(program, config)).code, 0)
      const found = await readdir(join(home, full))
      for (const member of ['LICENSE', 'README.md', 'docs', 'man', 'node.LICENSE', 'packaging'])
        t.ok(found.includes(member), member)
    })
  }
})
