/** The unit that is shipped: what systemd makes of it, and whether its command line is one of ours. */
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { authproxy } from '../../lib/auth/cli/arguments.ts'
import { readArguments } from '../../lib/command-line.ts'
import { packageRoot } from '../../lib/package.ts'
import { exitCodes } from '../../lib/program.ts'
import { ownDirectory } from '../fixtures/gateway/whole-gateway.ts'
import { attempt, lacking } from '../fixtures/process/command.ts'

const unit = await readFile(join(packageRoot(), 'packaging/authproxy@.service'), 'utf8')
const values = (name: string) =>
  [...unit.matchAll(new RegExp(`^${name}=(.*)$`, 'gm'))].map(([, value = '']) => value)

t.test('its command line serves the instance, whatever that is called', async t => {
  const [program, ...words] = (values('ExecStart')[0] ?? '').split(' ')
  t.equal(program, 'authproxy')
  for (const instance of ['app', 'doctor', 'rotate-keys', 'dev-idp', 'explain']) {
    const argv = words.map(word => word.replace('%i', instance))
    t.match(readArguments(authproxy, argv, '/'), { line: { run: 'serve', operands: [instance] } })
  }
})

t.test('what does not mend itself is not started again', async t => {
  t.same(values('RestartPreventExitStatus'), [`${exitCodes.usage} ${exitCodes.configuration}`])
})

/** What systemd says of the unit, with these drop-ins. */
async function verdict(t: Test, ...dropIns: readonly string[]): Promise<readonly string[]> {
  const directory = join(await ownDirectory(t), 'units')
  await mkdir(join(directory, 'authproxy@.service.d'), { recursive: true })
  for (const [index, dropIn] of dropIns.entries()) {
    await writeFile(join(directory, `authproxy@.service.d/${index}.conf`), dropIn)
  }
  const file = join(directory, 'authproxy@.service')
  // It is verified that the program is there; in a checkout it lies elsewhere.
  const program = join(packageRoot(), 'bin/authproxy')
  await writeFile(file, unit.replaceAll(/^(Exec\w+=)authproxy /gm, `$1${program} `))
  const { stderr } = await attempt('systemd-analyze', ['verify', '--man=no', file])
  // Of the machine's own units it may have things to say.
  return (
    stderr
      .split('\n')
      .filter(line => line.includes('authproxy'))
      // Before version 254 systemd does not know two of its keys.
      .filter(line => !/'Restart(Steps|MaxDelaySec)'/.test(line))
  )
}

const systemd = { skip: lacking('systemd-analyze') }

t.test('systemd finds nothing wrong with it', systemd, async t => {
  t.same(await verdict(t), [])
})

t.test('nor with the drop-in of the manual that gives it credentials', systemd, async t => {
  const manual = await readFile(join(packageRoot(), 'docs/authproxy.md'), 'utf8')
  const [, dropIn = ''] = /```ini\n([^`]*LoadCredential=[^`]*)```/.exec(manual) ?? []
  t.match(dropIn, /^\[Service\]\n/)
  t.same(await verdict(t, dropIn), [])
  t.not((await verdict(t, dropIn.replace('LoadCredential=', 'LoadCredentials='))).length, 0)
})
