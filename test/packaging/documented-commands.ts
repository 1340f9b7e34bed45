/**
 * Each command of ours that README, the documents and the manuals give is run on a machine where the packages are installed and both
 * services run, as the user it is meant for. What is not run stands in the list of documented-commands, with the reason.
 */
import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { createServer } from 'node:http'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { packageRoot } from '../../lib/package.ts'
import { noOverlay, type OverlayRoot, overlayRoot } from '../fixtures/archive/overlay-root.ts'
import { fastCompression } from '../fixtures/archive/package-file.ts'
import { tinyArchive } from '../fixtures/archive/tiny-archive.ts'
import {
  type DocumentedCommand,
  documentedCommands,
  notRun,
  whyNotRun,
} from '../fixtures/documents/documented-commands.ts'
import { command, lacking } from '../fixtures/process/command.ts'
import { freePort } from '../fixtures/process/ports.ts'

t.setTimeout(600_000)

const commands = documentedCommands(packageRoot())
const run = commands.filter(each => whyNotRun(each) === undefined)
const line = ({ words }: DocumentedCommand) => words.join(' ')

/** What a person puts in the place of a word in capitals, and of an example. */
const placeholders: ReadonlyArray<readonly [RegExp, string]> = [
  [/^INSTANCE$/, 'app'],
  [/^REFERENCE$/, '4711abcd-1'],
  [/^URL$/, 'http://archive.example.org/debian/dists/stable/Release'],
  [/^URL\b/, 'http://archive.example.org/debian/dists/stable'],
  [/^http:\/\/HOST\/DIRECTORY\b/, 'http://archive.example.org/debian/pool'],
  [/^NAME$/, 'image'],
  [/^FILE$/, '/var/tmp/image.tar'],
  [/^20\d\d-\d\d-\d\d$/, new Date(Date.now() + 864e5).toISOString().slice(0, 10)],
  [/^\/path\/to\/config\.yaml$/, '/etc/cachesvc/cachesvc.yaml'],
]

/** Commands that end with something else than 0 here, each with what they then say. */
const others: ReadonlyArray<readonly [beginning: RegExp, says: RegExp]> = [
  // There is no edge.
  [/^authproxy doctor/, /^ok +configuration: [\s\S]*\d+ wrong, /],
  [/^authproxy explain/, /^authproxy: no failure has the request ID/],
  // The service has to be stopped: test/real/booted does it.
  [/^cachesvc import (?:--dry-run )?\//, /is in use by process/],
  [/^cachesvc import FILE/, /belongs to the user/],
  [/^cachesvc (?:import|export)$/, / needs an argument: /],
  [/^cachesvc remove .*\/(?:In)?Release$/, /no stored file is meant/],
  [/^authproxy access (?:app )?--log/, /image\.tar|app\.log/],
  [/^authproxy import/, /there is no such file/],
  [/^cachesvc build verify FILE/, /image\.tar/],
  [/^cachesvc build import/, /does not begin like the list of a build/],
  [/^cachesvc build record/, /There is a build image already/],
  [/^cachesvc build lock NAME/, /is locked already/],
]

t.test('each kind of commands that are not run has one', async t => {
  for (const [beginnings] of notRun) {
    t.ok(
      commands.some(each => beginnings.test(line(each))),
      `${beginnings}`,
    )
  }
  t.ok(run.length > 50, `${run.length} of ${commands.length} commands are run`)
})

const skip =
  lacking('curl', 'dpkg-deb', 'dpkg', 'systemd-sysusers', 'deb-systemd-helper', 'setpriv') ||
  (await noOverlay())

t.test('the other commands end well for the user they are meant for', { skip }, async t => {
  const work = t.testdir()
  const build = join(packageRoot(), 'dist/tools/package-deb.js')
  await command(process.execPath, ['--experimental-import-meta-resolve', build, work], {
    env: fastCompression,
    deadline: 120_000,
  })
  const root = await overlayRoot(t, work)
  const archive = await parentProxy(t)
  const ports = { cache: await freePort(), idp: await freePort(), app: await freePort() }
  await sets(root, installed(work, { ...ports, archive }))
  await said(root.start('authproxy', 'dev-idp', `--listen=127.0.0.1:${ports.idp}`), /metadata/)
  await said(as(root, 'cachesvc', ['cachesvc', 'serve']), /"ready"/)
  for (const instance of ['app', 'default']) {
    await said(as(root, 'authproxy', ['authproxy', 'serve', instance]), /"ready"/)
  }
  await sets(root, filled(ports.cache))

  // What removes something comes last.
  const ordered = [...run].sort((a, b) => Number(removes(a)) - Number(removes(b)))
  for (const each of ordered) {
    const words = each.words.map(word =>
      placeholders.reduce((all, [from, to]) => all.replace(from, to), word),
    )
    const { code, stdout, stderr } = await root.run('setpriv', ...identity(each.user), ...words)
    const output = `${stdout}${stderr}`
    const known = others.find(([beginning]) => beginning.test(line(each)))?.[1]
    const says = `${each.user}: ${line(each)} (${each.places.join(', ')})`
    if (known === undefined) t.equal(code, 0, says, { output })
    else t.match(output, known, says)
  }
  // Directories would be made by commands that take an ordinary user for the owner of a service.
  t.equal(await sets(root, 'ls -A /home/ops'), '', 'nothing else is made in a home')
})

const removes = (each: DocumentedCommand) =>
  /^cachesvc (?:build )?(?:unlock|remove)/.test(line(each))

/** A proxy that has an archive with two suites, in place of the network. */
async function parentProxy(t: Test): Promise<number> {
  const files = new Map<string, Buffer>()
  for (const suite of ['stable', 'bookworm']) {
    const packages = { 'pool/main/p/p_1_all.deb': 'content' }
    for (const [path, content] of tinyArchive({ base: `dists/${suite}`, packages })) {
      files.set(`http://archive.example.org/debian/${path}`, content)
    }
  }
  const server = createServer((request, response) => {
    const content = files.get(request.url ?? '')
    response.writeHead(content === undefined ? 404 : 200).end(content)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  const address = server.address()
  return typeof address === 'object' && address !== null ? address.port : 0
}

/** Stores both suites, and a package that a build has recorded. */
const filled = (port: number) => `set -e
  for suite in stable bookworm; do
    for file in Release main/binary-all/Packages; do
      cachesvc get --output /run/got http://archive.example.org/debian/dists/$suite/$file
    done
  done
  cachesvc build record image
  curl --fail --silent --show-error --output /dev/null --proxy http://build:image@127.0.0.1:${port} \\
    http://archive.example.org/debian/pool/main/p/p_1_all.deb
  for file in site.tar stable.tar; do : >/var/tmp/$file; chmod 666 /var/tmp/$file; done`

/** Installs the packages, makes an ordinary user, and configures both services. */
const installed = (
  work: string,
  ports: Record<'archive' | 'cache' | 'idp' | 'app', number>,
) => `set -e
  rm -rf /etc/cachesvc /var/cache/cachesvc /etc/authproxy /var/lib/authproxy
  mkdir -p /run/systemd/system /run/authproxy
  printf '#!/bin/sh\\necho LoadState=loaded\\necho CacheDirectory=cachesvc\\n' >/usr/bin/systemctl
  mkdir -p /home/ops /srv /var/cache/apt-cacher-ng; chown 4711:4711 /home/ops
  cd ${work}; dpkg --force-depends -i *.deb
  chown authproxy: /run/authproxy
  printf '%s\\n' 'listen: ["127.0.0.1:${ports.cache}"]' 'parent_proxy: http://127.0.0.1:${ports.archive}' \\
    'archives: [{ origins: [archive.example.org/debian], delay: 7d }]' >>/etc/cachesvc/cachesvc.yaml
  for instance in app wiki tickets default; do
    printf '%s\\n' "domain: $instance.localhost" 'idpMetadataURL: http://127.0.0.1:${ports.idp}/metadata' 'proxy:' \\
      "  listenAddress: 127.0.0.1:$((${ports.app} + \${#instance}))" '  targetURL: http://127.0.0.1:1' >/etc/authproxy/$instance.yaml
  done
  cp --preserve /etc/authproxy/app.yaml /etc/authproxy/app.new`

async function sets(root: OverlayRoot, script: string): Promise<string> {
  const { code, stdout, stderr } = await root.run('sh', '-c', script)
  if (code === 0) return `${stdout}`
  throw new Error(`exit ${code}: ${stdout}${stderr}`)
}

/** Options of setpriv, and a shell that goes home, in front of a command. */
function identity(user: DocumentedCommand['user']): string[] {
  const id = user === 'ordinary' ? '4711' : user
  const home = user === 'root' ? '/root' : user === 'ordinary' ? '/home/ops' : '/'
  return [
    ...[`--reuid=${id}`, `--regid=${id}`, '--clear-groups'],
    ...['env', `HOME=${home}`, 'sh', '-c', 'cd "$HOME/" && exec "$@"', 'sh'],
  ]
}

function as(root: OverlayRoot, user: 'cachesvc' | 'authproxy', words: readonly string[]) {
  return root.start('setpriv', ...identity(user), ...words)
}

/** Waits for a line that matches. */
async function said(child: ChildProcess, pattern: RegExp): Promise<void> {
  let printed = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream?.on('data', chunk => {
      printed += chunk
      if (pattern.test(printed)) child.emit('said')
    })
  }
  const ended = once(child, 'close').then(() => Promise.reject(new Error(printed)))
  await Promise.race([once(child, 'said'), ended])
}
