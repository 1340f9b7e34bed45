/**
 * `test/debian-packages`, run as if by root on a machine whose apt lacks a package. Nothing is installed.
 */
import { chmod, copyFile, readFile, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { packageRoot } from '../lib/package.ts'
import { attempt, lacking, whereIs } from './fixtures/process/command.ts'

/** Programs in place of the machine's. This `apt-get` notes its arguments, and installs nothing when one package is unknown. */
const programs = {
  id: 'echo 0',
  dpkg: '',
  'apt-cache': '[ "$2" != zsh ]',
  'apt-get': 'echo "$*" >>"$ASKED"; case "$*" in *zsh*) exit 100 ;; esac',
}

/** The programs of the machine that the script itself uses. All others are missing, as on a new machine. */
const ours = ['sh', 'dirname', 'mktemp', 'timeout', 'chmod', 'mkdir', 'rm', 'ls']

t.test(
  'a package that this Debian lacks keeps no other away',
  { skip: lacking(...ours) },
  async t => {
    const directory = t.testdir({ test: {}, bin: {} })
    const [bin, asked] = [join(directory, 'bin'), join(directory, 'asked')]
    const script = join(directory, 'test/debian-packages')
    await copyFile(join(packageRoot(), 'test/debian-packages'), script)
    for (const name of ours) await symlink(whereIs(name) ?? '', join(bin, name))
    for (const [name, text] of Object.entries(programs)) {
      await writeFile(join(bin, name), `#!/bin/sh\n${text}\n`)
      await chmod(join(bin, name), 0o755)
    }
    const { code, stdout } = await attempt('sh', [script], { env: { PATH: bin, ASKED: asked } })
    t.equal(code, 0)
    t.match(stdout.toString(), 'Not installed: zsh. Tests that need them are skipped.\n')
    const installed = (await readFile(asked, 'utf8'))
      .split('\n')
      .filter(line => / install /.test(line))
      .at(-1)
    t.match(installed, ' caddy ')
    t.notMatch(installed, 'zsh')
  },
)
