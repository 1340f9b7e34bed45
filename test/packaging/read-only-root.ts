/** Both programs with a root file system that cannot be written, as in an appliance: all they write is their own directory. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { packageRoot } from '../../lib/package.ts'
import { noOverlay } from '../fixtures/archive/overlay-root.ts'
import { file, ScriptedOrigin } from '../fixtures/http/scripted-origin.ts'
import { attempt, cleanEnvironment, lacking } from '../fixtures/process/command.ts'
import { eventually, freePort } from '../fixtures/process/ports.ts'
import { ScriptedIdp, sp } from '../fixtures/saml/idp.ts'

t.setTimeout(300_000)

/** Starts a program whose only writable directory is this one, in memory; answers once `url` does. */
async function startReadOnly(
  t: Test,
  { own, command, url }: { own: string; command: readonly string[]; url: string },
) {
  await mkdir(own)
  const script = [
    'set -e',
    'mount --make-rprivate /',
    `mount -t tmpfs -o size=32m tmpfs ${own}`,
    'mount -o remount,bind,ro /',
    '! touch /etc/written /tmp/written 2>/dev/null',
    'exec "$@"',
  ].join('\n')
  const child = spawn('unshare', ['--mount', 'sh', '-c', script, 'sh', ...command], {
    env: cleanEnvironment(),
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let output = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', chunk => {
      output += chunk
    })
  }
  const gone = once(child, 'exit')
  const ended = () => child.exitCode !== null || child.signalCode !== null
  t.teardown(() => child.kill('SIGKILL'))
  const answers = async () => (await attempt('curl', ['-sf', url])).code === 0
  const up = await eventually(async () => ended() || (await answers()), 120_000)
  t.ok(up && !ended(), output)
  return {
    async stop() {
      child.kill('SIGTERM')
      await gone
      t.equal(child.exitCode, 0)
      return output
    },
  }
}

const skip = (await noOverlay()) || lacking('curl')

t.test('cachesvc fetches, stores and serves', { skip }, async t => {
  const origin = await ScriptedOrigin.listen(t)
  origin.at('*', file({ content: 'hello', lastModified: 'Wed, 01 Jan 2025 00:00:00 GMT' }))
  const port = await freePort()
  const directory = t.testdir()
  const own = join(directory, 'cache')
  const config = join(directory, 'cachesvc.yaml')
  const { host } = new URL(origin.url('/'))
  const settings = { cache_directory: own, listen: [`127.0.0.1:${port}`], domains: [host] }
  await writeFile(config, JSON.stringify(settings))
  const proxy = `http://127.0.0.1:${port}`
  const running = await startReadOnly(t, {
    own,
    command: [join(packageRoot(), 'bin/cachesvc'), '--config', config],
    url: `${proxy}/_cachesvc/healthz`,
  })
  const target = origin.url('/debian/dists/stable/InRelease')
  for (const outcome of ['MISS', 'HIT']) {
    const { stdout } = await attempt('curl', ['-s', '-i', '-x', proxy, target])
    t.match(stdout.toString(), `X-Cache: ${outcome}`)
  }
  t.notMatch(await running.stop(), /EROFS|read-only file system|"level":"(?:warn|error)"/i)
})

t.test('authproxy makes its keys, and is ready', { skip }, async t => {
  const [port, admin] = [await freePort(), await freePort()]
  const directory = t.testdir()
  const own = join(directory, 'keys')
  const config = join(directory, 'app.yaml')
  const metadata = join(directory, 'idp.xml')
  await writeFile(metadata, new ScriptedIdp('okta', { now: Date.now }).metadata())
  const settings = {
    domain: sp.domain,
    idpMetadataFile: metadata,
    configPath: join(own, 'app.json'),
    proxy: { listenAddress: `127.0.0.1:${port}`, targetURL: 'http://127.0.0.1:9' },
    admin: { listenAddress: `127.0.0.1:${admin}` },
  }
  await writeFile(config, JSON.stringify(settings))
  const running = await startReadOnly(t, {
    own,
    command: [join(packageRoot(), 'bin/authproxy'), '-c', config],
    url: `http://127.0.0.1:${admin}/healthz`,
  })
  t.notMatch(await running.stop(), /EROFS|read-only file system|"level":"error"/i)
})
