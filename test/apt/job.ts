/**
 * A job with a proxy of its own (`cachesvc run`): real apt in it, with a store that the next job uses, a mirror that stalls, a lock file,
 * and processes that are killed.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { packageRoot } from '../../lib/package.ts'
import { Apt, noApt } from '../fixtures/archive/apt.ts'
import { Archive, noArchive } from '../fixtures/archive/archive.ts'
import { ArchiveOrigin } from '../fixtures/archive/archive-origin.ts'
import { directoryFor, type LabTest, report, sourcesOf } from '../fixtures/cache/lab.ts'
import { blocksIn } from '../fixtures/documents/blocks.ts'
import { attempt, cleanEnvironment } from '../fixtures/process/command.ts'
import { until } from '../fixtures/time/until.ts'

const skip = noApt || noArchive
const program = join(packageRoot(), 'bin/cachesvc')
const packagesOf = (version: string) => [
  { name: 'base', version, size: 60_000 },
  { name: 'extra', version, depends: 'base' },
]

t.setTimeout(600_000)

async function jobs(t: LabTest) {
  const directory = directoryFor(t)
  const archive = await Archive.create(packagesOf('1.0'))
  t.teardown(() => archive.close())
  const origin = await ArchiveOrigin.start({ root: archive.root })
  t.teardown(() => origin.close())
  const store = join(directory, 'store')
  const lock = join(directory, 'packages.lock')
  let machines = 0
  /** A machine that has nothing yet, as the container of a job. */
  const machine = () => {
    machines += 1
    return Apt.create({
      directory: join(directory, `machine-${machines}`),
      keyring: archive.keyring,
      sources: sourcesOf(origin.url).slice(0, 1),
    })
  }
  /** Runs a shell command as a job on a new machine. */
  const run = async (command: string, ...options: readonly string[]) => {
    const apt = await machine()
    const words = ['run', '--store', store, ...options, '--', 'sh', '-c', command]
    const result = await apt.run(program, ...words)
    return { ...result, packages: await apt.downloaded() }
  }
  return { directory, archive, origin, store, lock, run }
}

const install = 'apt-get -q update && apt-get -qy install --download-only extra'

t.test('a second job fetches nothing, while the mirror stalls', { skip }, async t => {
  const { directory, origin, run, store } = await jobs(t)
  const settings = {
    domains: [origin.authority],
    freshness: { floor: '0s' },
    timeouts: { revalidation: '1s' },
  }
  const file = join(directory, 'job.yaml')
  await writeFile(file, JSON.stringify(settings))
  const first = await run(install)
  t.equal(first.code, 0, report(first))
  t.match(first.output, /cachesvc: \d+ requests: 0 from the cache, \d+ from origins/)
  t.notOk(existsSync(join(store, 'given')), 'nothing is recorded for cachesvc recall')

  origin.behaviour = 'stall'
  const second = await run(install, '--config', file)
  t.equal(second.code, 0, report(second))
  t.strictSame(second.packages, first.packages)
  t.match(second.output, /cachesvc: .* given, 0 bytes fetched: .* saved/)
  t.match(second.output, /cachesvc: slowest: .*InRelease \(stale-origin-slow\)/)
})

t.test('a lock gives the same packages, and asks nobody', { skip }, async t => {
  const { archive, origin, lock, run, store } = await jobs(t)
  const first = await run(install, '--lock', lock)
  t.equal(first.code, 0, report(first))
  t.match(await readFile(lock, 'utf8'), /^[0-9a-f]{64} \d+ http.*extra_1\.0_/m)

  await archive.publish(packagesOf('1.1'))
  origin.forget()
  const second = await run(install, '--lock', lock)
  t.strictSame([second.code, second.packages], [0, first.packages], report(second))
  t.strictSame(origin.seen(), [], 'no origin was asked')
  t.match(second.output, / 0 bytes fetched/)

  const other = await run(
    `${install} && apt-get -qy source --download-only extra || true`,
    '--lock',
    lock,
  )
  t.equal(other.code, 0, 'apt asks for no source without an index of them')
  const url = `${origin.url}/debian/pool/none_1_all.deb`
  const more = await run(
    `/usr/lib/apt/apt-helper download-file ${url} none || true`,
    '--lock',
    lock,
  )
  t.equal(more.code, 1, 'what is not recorded ends the job with 1, though the command succeeds')
  t.match(more.output, /1 file is not as .*packages\.lock has it/)
  t.match(more.output, /none_1_all\.deb: not recorded/)

  await t.test(
    'a store that was lost cannot give former indexes, and another version is named',
    async t => {
      await rm(store, { recursive: true })
      const moved = await run(install, '--lock', lock)
      t.equal(moved.code, 1, report(moved))
      t.match(moved.output, /2 files are not as .*packages\.lock has it/)
      t.match(moved.output, /extra_1\.1_\w+\.deb: not recorded; the lock has version 1\.0/)
    },
  )

  await t.test('a lock that names another content is not met', async t => {
    await rm(lock)
    const again = await run(install, '--lock', lock)
    t.equal(again.code, 0, report(again))
    const text = await readFile(lock, 'utf8')
    const wrong = text.replace(/^[0-9a-f]{64}(?= \d+ \S+extra_1\.1)/m, 'ab'.repeat(32))
    t.not(wrong, text)
    await writeFile(lock, wrong)
    const unmet = await run(install, '--lock', lock)
    t.equal(unmet.code, 1, report(unmet))
    t.match(unmet.output, /1 file is not as/)
    t.match(unmet.output, /extra_1\.1_\w+\.deb: SHA-256 (ab){32} is recorded, it was /)
  })
})

t.test(
  'a lock is not written after a failure, and one that is no list is refused',
  { skip },
  async t => {
    const { lock, run } = await jobs(t)
    const failed = await run('apt-get -q update; exit 7', '--lock', lock)
    t.equal(failed.code, 7)
    t.match(failed.output, /the command failed, so .*packages\.lock is not written/)
    t.notOk(existsSync(lock))
    await writeFile(lock, 'hello\n')
    const refused = await run('touch ran', '--lock', lock)
    t.equal(refused.code, 1)
    t.match(refused.output, /packages\.lock: it does not begin like the list of a build/)
  },
)

t.test('the recipes of docs/recipes/ci-and-images.md', { skip }, async t => {
  const { directory, archive, origin } = await jobs(t)
  await archive.publish([{ name: 'hello', version: '1.0' }])
  const blocks = blocksIn(packageRoot()).filter(
    ({ path, text }) => path === 'docs/recipes/ci-and-images.md' && text.includes('cachesvc run'),
  )
  const scripts = blocks.map(({ language, text }) => {
    if (language === 'groovy') return /sh '(.*)'$/m.exec(text)?.[1] ?? ''
    if (language === 'sh') return text
    // What stands behind `run: |` is indented, what stands in `script:` is one line.
    return text.slice(text.indexOf('cachesvc run')).trimEnd()
  })
  t.equal(scripts.length, 6)
  const bin = join(directory, 'bin')
  await mkdir(bin)
  const programs = {
    cachesvc: `exec ${program} "$@"`,
    // As sudo does: of the environment only what is named stays.
    // biome-ignore lint/suspicious/noTemplateCurlyInString: the shell fills it in.
    sudo: 'keep=${1#--preserve-env=}; shift; set -- "PATH=$PATH" "$@"; for name in $(echo $keep | tr , " "); do eval "set -- \\"$name=\\$$name\\" \\"\\$@\\""; done; exec env -i "$@"',
    docker:
      'echo docker "$@" | grep -q -- "docker build --network=host --build-arg=http_proxy=http://127.0.0.1:[0-9]* --tag app .$"',
    buildctl:
      'echo "$@" | grep -q -- "--allow network.host .*build-arg:http_proxy=http://127.0.0.1:[0-9]*$"',
  }
  for (const [name, text] of Object.entries(programs))
    await writeFile(join(bin, name), `#!/bin/sh\n${text}\n`, { mode: 0o755 })
  const work = join(directory, 'work')
  await mkdir(work)
  await writeFile(join(work, 'build.sh'), '#!/bin/sh\napt-get -q update\n', { mode: 0o755 })
  for (const [index, script] of scripts.entries()) {
    const machine = join(directory, `recipe-${index}`)
    const apt = await Apt.create({
      directory: machine,
      keyring: archive.keyring,
      sources: sourcesOf(origin.url).slice(0, 1),
      settings: { 'APT::Get::Download-Only': 'true' },
    })
    const variables = `export PATH=${bin}:$PATH HOME=${directory} JOB_NAME=job EXECUTOR_NUMBER=1`
    const result = await apt.run('sh', '-c', `cd ${work} && ${variables} && ${script}`)
    t.equal(result.code, 0, report(result))
    if (!script.includes('apt-get')) continue
    t.strictSame(await apt.downloaded(), ['hello_1.0_amd64.deb'], script)
    t.match(result.output, / given, .* saved/)
  }
  t.ok(existsSync(join(work, 'packages.lock')), 'the lock of the recipes')
  // CI keeps the directory as an archive; sockets in it are left out.
  const packed = await attempt('tar', ['-cf', join(directory, 'kept.tar'), '-C', work, '.cachesvc'])
  t.equal(packed.code, 0, packed.stderr)
})

t.test('the end of the command is the end of the job', { skip }, async t => {
  const { run, store } = await jobs(t)
  t.equal((await run('exit 3')).code, 3)
  t.equal((await run('kill -9 $$')).code, 137)
  const none = await attempt(program, ['run', '--store', store, '--', 'no-such-command'])
  t.equal(none.code, 127)
  t.match(none.stderr, /there is no command no-such-command/)
  const usage = await attempt(program, ['run'])
  t.equal(usage.code, 2)
})

t.test('signals are passed on', { skip }, async t => {
  const { directory, store } = await jobs(t)
  const begun = join(directory, 'begun')
  const script = `trap 'exit 5' TERM; touch ${begun}; while :; do sleep 0.1; done`
  const job = spawn(program, ['run', '--store', store, '--', 'sh', '-c', script], {
    env: cleanEnvironment(),
  })
  await until(() => existsSync(begun))
  job.kill('SIGTERM')
  t.strictSame((await once(job, 'exit')).slice(0, 1), [5])
})

t.test('after kill -9 the next job uses the store', { skip }, async t => {
  const { origin, run, directory, store, archive } = await jobs(t)
  const begun = join(directory, 'begun')
  const apt = await Apt.create({
    directory: join(directory, 'killed'),
    keyring: archive.keyring,
    sources: sourcesOf(origin.url).slice(0, 1),
  })
  const script = `${install} && touch ${begun} && exec sleep 60`
  const job = spawn(program, ['run', '--store', store, '--', 'sh', '-c', script], {
    env: cleanEnvironment({ APT_CONFIG: join(directory, 'killed/apt.conf') }),
    detached: true,
  })
  await until(() => existsSync(begun))
  process.kill(job.pid ?? 0, 'SIGKILL')
  await once(job, 'exit')
  process.kill(-(job.pid ?? 0), 'SIGKILL')
  t.equal((await apt.downloaded()).length, 2)

  const next = await run(install)
  t.strictSame([next.code, next.packages], [0, await apt.downloaded()], report(next))
  // What was written in the last moments before may be fetched again.
  t.match(next.output, /cachesvc: \d+ requests: \d+ from the cache/)
})
