/** bin/cachesvc and bin/authproxy: what they say of a Node.js that is too old, or missing. */
import { chmod, mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { packageRoot } from '../../lib/package.ts'
import { attempt, lacking } from '../fixtures/process/command.ts'

for (const program of ['cachesvc', 'authproxy']) {
  const launcher = join(packageRoot(), 'bin', program)

  t.test(`${program} runs with Node.js 20.18 and newer only`, async t => {
    const directory = t.testdir()
    const run = async (version: string) => {
      const node = join(directory, 'node')
      await writeFile(
        node,
        `#!/bin/sh\n[ "$1" != --version ] || { echo ${version}; exit; }\necho ran\n`,
      )
      await chmod(node, 0o755)
      return attempt('/bin/sh', [launcher], { env: { PATH: `${directory}:/usr/bin:/bin` } })
    }
    for (const version of ['v4.9.1', 'v12.22.12', 'v18.20.4', 'v20.9.0', 'v20.17.0']) {
      const { code, stderr } = await run(version)
      t.equal(code, 1, version)
      t.match(
        stderr,
        `${program}: Node.js 20.18 or newer is needed; ${directory}/node is ${version}.`,
      )
      t.match(stderr, 'Where to get it: ')
    }
    for (const version of ['v20.18.0', 'v20.20.2', 'v22.1.0', 'v100.0.0']) {
      t.match(await run(version), { code: 0, stdout: Buffer.from('ran\n') }, version)
    }
  })

  t.test(`${program} prints no warning that is meant for those who write programs`, async t => {
    const directory = t.testdir()
    const said = `#!/bin/sh\n[ "$1" != --version ] || { echo v20.18.0; exit; }\necho "$@"\n`
    await writeFile(join(directory, 'node'), said, { mode: 0o755 })
    const env = { PATH: `${directory}:/usr/bin:/bin` }
    const { stdout } = await attempt('/bin/sh', [launcher, 'x'], { env })
    const options = `${stdout}`.split(' ').filter(word => word.startsWith('--'))
    const warns = `import { Worker } from 'node:worker_threads'
      const text = "process.emitWarning('it may change', 'ExperimentalWarning'); process.emitWarning('heed this')"
      new Function(text)(); new Worker(text, { eval: true })`
    const line = [...options, '--input-type=module', '-e', warns]
    const { stderr } = await attempt(process.execPath, line)
    t.notMatch(stderr, 'ExperimentalWarning')
    t.equal(stderr.match(/heed this/g)?.length, 2, 'in threads as well; other warnings are printed')
  })

  t.test(`${program} says so when there is no Node.js`, async t => {
    const directory = join(t.testdir(), 'bin')
    await mkdir(directory)
    const readlink = `#!/bin/sh\necho ${launcher}\n`
    await writeFile(join(directory, 'readlink'), readlink, { mode: 0o755 })
    const { code, stderr } = await attempt('/bin/sh', [launcher], { env: { PATH: directory } })
    t.equal(code, 1)
    t.match(stderr, `${program}: Node.js 20.18 or newer is needed; there is none in ${directory}.`)
  })
}

t.test(
  'shellcheck finds nothing in scripts that are shipped',
  { skip: lacking('shellcheck') },
  async t => {
    const root = packageRoot()
    const deb = ['cachesvc', 'authproxy'].flatMap(name =>
      ['postinst', 'prerm', 'postrm'].map(script => `packaging/deb/${name}.${script}`),
    )
    const scripts = ['bin/cachesvc', 'bin/authproxy', 'bin/launch.sh', ...deb]
    const { code, stdout } = await attempt('shellcheck', ['-x', ...scripts], { cwd: root })
    t.equal(code, 0, stdout.toString())
  },
)
