/**
 * The Debian packages, in a copy of this machine's file system: installed, started from the installed paths as their users,
 * upgraded while the daemon runs, removed and purged. systemd does not run there; what it would have been told is written down.
 */
import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { readdir, readFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { createInterface } from 'node:readline'
import t from 'tap'
import { packageRoot, packageVersion } from '../../lib/package.ts'
import { buildVersion } from '../../tools/packaging/build-version.ts'
import { debianVersion } from '../../tools/packaging/debian-package.ts'
import { noOverlay, type OverlayRoot, overlayRoot } from '../fixtures/archive/overlay-root.ts'
import { fastCompression } from '../fixtures/archive/package-file.ts'
import { attempt, command, lacking, whereIs } from '../fixtures/process/command.ts'
import { freePort } from '../fixtures/process/ports.ts'

t.setTimeout(600_000)

const newer = '99.0.0'

/** What the build calls itself: it names the commit. */
const { version: built } = buildVersion(packageVersion(), packageRoot())

/** Under a umask that would make the packages unreadable. */
async function build(directory: string): Promise<void> {
  const program = join(packageRoot(), 'dist/tools/package-deb.js')
  const line = [process.execPath, '--experimental-import-meta-resolve', program, directory]
  await command('sh', ['-c', 'umask 077; exec "$@"', 'sh', ...line], {
    env: fastCompression,
    deadline: 120_000,
  })
}

const fileOf = (name: string, version = built) => `${name}_${debianVersion(version)}_all.deb`

/** The same package with a higher version, which its program tells as well. */
async function asNewer(directory: string, name: string): Promise<void> {
  const tree = join(directory, 'newer')
  const script = `set -e
    dpkg-deb -R ${fileOf(name)} ${tree}
    sed -i 's/^Version: .*/Version: ${newer}-1/' ${tree}/DEBIAN/control
    sed -i 's/"version": ".*"/"version": "${newer}"/' ${tree}/usr/lib/${name}/package.json
    dpkg-deb --root-owner-group -Znone -b ${tree} ${fileOf(name, newer)}
    rm -r ${tree}`
  await command('sh', ['-c', script], { cwd: directory })
}

/**
 * Nothing of what was run on this machine by hand; a systemd that writes down what it is told; a package of Node.js where the
 * machine has Node.js without one.
 */
const prepare = (work: string) => `set -e
  rm -rf /etc/cachesvc /var/cache/cachesvc /etc/authproxy /var/lib/authproxy
  mkdir -p /run/systemd/system && rm -f /usr/sbin/policy-rc.d
  printf '#!/bin/sh\\necho "$*" >>/run/told\\ncase "$*" in *is-enabled*) echo enabled ;; *is-active*) exit 3 ;; esac\\n' >/usr/bin/systemctl
  if ! dpkg-query -W nodejs >/dev/null 2>&1; then
    mkdir -p ${work}/node/DEBIAN
    printf '%s\\n' 'Package: nodejs' 'Version: 20.18.0' 'Architecture: all' 'Maintainer: x <x@example.org>' 'Description: x' >${work}/node/DEBIAN/control
    dpkg-deb -b ${work}/node ${work}/node.deb && dpkg -i ${work}/node.deb
  fi`

/** The first line that matches. */
async function said(child: ChildProcess, pattern: RegExp): Promise<RegExpExecArray> {
  const printed: string[] = []
  for (const stream of [child.stdout, child.stderr]) {
    if (stream === null) continue
    createInterface({ input: stream }).on('line', line => {
      printed.push(line)
      const match = pattern.exec(line)
      if (match !== null) child.emit('said', match)
    })
  }
  const [match] = await Promise.race([
    once(child, 'said'),
    once(child, 'close').then(() => Promise.reject(new Error(printed.join('\n')))),
  ])
  return match
}

const asUser = (user: string) => ['setpriv', `--reuid=${user}`, `--regid=${user}`, '--clear-groups']

async function succeeds(
  root: OverlayRoot,
  ...line: readonly [string, ...string[]]
): Promise<string> {
  const { code, stdout, stderr } = await root.run(...line)
  if (code === 0) return `${stdout}`
  throw new Error(`${line.join(' ')}: exit ${code}: ${stdout}${stderr}`)
}

/** Names of files that tell of the program: what is shipped, what dpkg knows, what services left. */
async function traces(root: OverlayRoot, name: string): Promise<string[]> {
  const found = await succeeds(
    root,
    ...([
      'sh',
      '-c',
      `find /etc /usr /var /run -path '*${name}*' -newer /run/begun 2>/dev/null || true`,
    ] as const),
  )
  return found.split('\n').filter(line => line !== '')
}

const skip =
  lacking('dpkg-deb', 'dpkg', 'systemd-sysusers', 'deb-systemd-helper', 'setpriv') ||
  (await noOverlay())

t.test('packages', { skip }, async t => {
  const work = t.testdir()
  await build(work)
  const root = await overlayRoot(t, work)
  await succeeds(root, 'sh', '-c', `${prepare(work)}; touch /run/begun`)
  const file = (name: string, version?: string) => join(work, fileOf(name, version))

  await t.test('modes do not depend on the umask', async t => {
    for (const name of ['cachesvc', 'authproxy']) {
      const { stdout } = await attempt('dpkg-deb', ['--contents', file(name)])
      const modes = new Set(
        `${stdout}`
          .trim()
          .split('\n')
          .map(line => line.slice(0, 10)),
      )
      t.strictSame([...modes].sort(), ['-rw-r--r--', '-rwxr-xr-x', 'drwxr-xr-x', 'lrwxrwxrwx'])
    }
  })

  await t.test('the documents that a document leads to are in one of the packages', async t => {
    const held = new Map<string, string>()
    for (const name of ['cachesvc', 'authproxy']) {
      const tree = join(work, `documents-${name}`)
      await command('dpkg-deb', ['-x', file(name), tree])
      const folder = join(tree, 'usr/share/doc', name)
      for (const file of await readdir(folder, { recursive: true })) {
        if (file.endsWith('.md')) held.set(file, await readFile(join(folder, file), 'utf8'))
      }
    }
    t.ok(held.size > 10)
    for (const [file, text] of held) {
      for (const [, to = ''] of text.matchAll(/\]\(((?:recipes\/)?[\w-]+\.md)/g)) {
        t.ok(held.has(join(dirname(file), to)), `${file}: ${to}`)
      }
    }
  })

  await t.test('the configurations of edges are all among the examples', async t => {
    const shipped = await readdir(join(packageRoot(), 'packaging/edges'), { recursive: true })
    const files = shipped.filter(file => file.includes('/')).sort()
    t.ok(files.length > 7)
    const { stdout } = await attempt('dpkg-deb', ['--contents', file('authproxy')])
    const held = `${stdout}`.match(/(?<=\/examples\/edges\/)\S+[^/\s]$/gm) ?? []
    t.strictSame([...held].sort(), files)
  })

  await t.test('lintian finds no error', { skip: lacking('lintian') }, async t => {
    for (const name of ['cachesvc', 'authproxy']) {
      const { stdout } = await attempt('lintian', ['--allow-root', file(name)], {
        deadline: 120_000,
      })
      t.notMatch(`${stdout}`, /^E:/m)
    }
  })

  await t.test('cachesvc: install, run, upgrade, remove, purge', async t => {
    await succeeds(root, 'dpkg', '-i', file('cachesvc'))
    t.match(
      await succeeds(root, 'cat', '/run/told'),
      /daemon-reload\n[\s\S]*start cachesvc.socket\n[\s\S]*start cachesvc.service/,
    )
    t.equal(await succeeds(root, 'cachesvc', '--version'), `cachesvc ${built}\n`)
    t.match(await succeeds(root, ...everyModule('cachesvc')), /^\d+ modules\n$/)
    for (const path of ['man8/cachesvc.8.gz', 'man5/cachesvc.yaml.5.gz']) {
      await succeeds(root, 'test', '-s', `/usr/share/man/${path}`)
    }

    const port = await freePort()
    const start = async () => {
      const line = [...asUser('cachesvc'), 'cachesvc', 'serve', `--listen=127.0.0.1:${port}`]
      const child = root.start(line[0] ?? '', ...line.slice(1))
      await said(child, /ready/)
      return child
    }
    const page = async () => (await fetch(`http://127.0.0.1:${port}/_cachesvc/setup`)).text()
    const running = await start()
    t.match(await page(), `cachesvc ${built}`)
    t.equal((await fetch(`http://127.0.0.1:${port}/_cachesvc/healthz`)).status, 200)

    await succeeds(root, 'sh', '-c', 'echo "#mine" >>/etc/cachesvc/cachesvc.yaml; : >/run/told')
    await asNewer(work, 'cachesvc')
    await succeeds(root, 'dpkg', '-i', file('cachesvc', newer))
    t.match(
      await succeeds(root, 'cat', '/run/told'),
      /stop cachesvc.service\n[\s\S]*start cachesvc.socket\n[\s\S]*restart cachesvc.service/,
      'systemd opens no socket of a service that runs',
    )
    const configured = 'echo "listen_port: 80" >>/etc/cachesvc/cachesvc.yaml'
    const generate = '/usr/lib/systemd/system-generators/cachesvc-generator /run/made'
    await succeeds(
      root,
      'sh',
      '-c',
      `mkdir /run/made; ${generate}; test ! -e /run/made/cachesvc.socket.d`,
    )
    await succeeds(root, 'sh', '-c', `${configured}; ${generate}`)
    t.match(
      await succeeds(root, 'sh', '-c', 'cat /run/made/cachesvc.socket.d/*; rm -r /run/made'),
      /^\[Socket\]\nListenStream=\nListenStream=80\n/,
    )
    for (const [version, pauses] of [
      ['252 (252.39-1~deb12u1)', ''],
      ['257 (257.8-1)', 'RestartSteps=6'],
    ] as const) {
      const script = `set -e; mkdir /run/made; cp /usr/bin/systemctl /run/systemctl
        printf '#!/bin/sh\\necho "systemd ${version}"\\n' >/usr/bin/systemctl
        ${generate}; cp /run/systemctl /usr/bin/systemctl
        cd /run/made; grep -rh RestartSteps . || true; rm -r /run/made`
      const said = await succeeds(root, 'sh', '-c', script)
      t.equal(said.trim(), pauses, 'a systemd before 254 is not told what it does not know')
    }
    const ordinary = `set -e; cp /usr/bin/systemctl /run/systemctl
      printf '#!/bin/sh\\necho LoadState=loaded; echo ProtectSystem=strict; echo CacheDirectory=cachesvc\\n' >/usr/bin/systemctl
      mkdir -p /home/ops; chown 4711:4711 /home/ops
      export HOME=/home/ops; as='setpriv --reuid=4711 --regid=4711 --clear-groups'
      $as cachesvc --check-config; $as cachesvc --dump-config | grep cache_directory
      cp /run/systemctl /usr/bin/systemctl; rm -r /home/ops`
    t.match(
      await succeeds(root, 'sh', '-c', ordinary),
      /yaml: no problems\n.*cache_directory: "?\/var\/cache\/cachesvc/,
      'an ordinary user checks the configuration of the installed service, not one of his own',
    )
    await succeeds(root, 'sed', '-i', '$d', '/etc/cachesvc/cachesvc.yaml')
    t.match(await succeeds(root, 'tail', '-1', '/etc/cachesvc/cachesvc.yaml'), '#mine')
    t.equal((await fetch(`http://127.0.0.1:${port}/_cachesvc/healthz`)).status, 200)
    t.match(await page(), `cachesvc ${built}`, 'the old version serves until the restart')
    const ended = once(running, 'close')
    running.kill('SIGTERM')
    await ended
    const renewed = await start()
    t.match(await page(), `cachesvc ${newer}`)
    renewed.kill('SIGTERM')
    await once(renewed, 'close')

    const stopped = [': >/run/told', 'cd /var/lib/dpkg/info', './cachesvc.prerm remove']
    await succeeds(root, 'sh', '-c', [...stopped, './cachesvc.postinst abort-remove'].join('; '))
    t.match(
      await succeeds(root, 'cat', '/run/told'),
      /stop .*cachesvc.service[\s\S]*\bstart cachesvc.service/,
      'a removal that is broken off',
    )

    await succeeds(root, 'sh', '-c', ': >/run/told')
    const uses = '/etc/apt/apt.conf.d/30cachesvc'
    const line = 'Acquire::http::Proxy "http://127.0.0.1:3142";'
    await succeeds(root, 'sh', '-c', `echo '${line}' >${uses}`)
    t.match(
      await succeeds(root, 'dpkg', '--remove', 'cachesvc'),
      `apt on this machine still asks cachesvc, and fails until the line is gone from ${uses}`,
    )
    await succeeds(root, 'rm', uses)
    t.match(await succeeds(root, 'cat', '/run/told'), /stop .*cachesvc.service/)
    await succeeds(root, 'test', '-e', '/etc/cachesvc/cachesvc.yaml')
    await succeeds(root, 'sh', '-c', 'test -n "$(ls -A /var/cache/cachesvc)"')
    await succeeds(root, 'dpkg', '--purge', 'cachesvc')
    t.strictSame(await traces(root, 'cachesvc'), [])
  })

  await t.test('authproxy: install, run, remove, purge', async t => {
    await succeeds(root, 'sh', '-c', ': >/run/told')
    await succeeds(root, 'dpkg', '-i', file('authproxy'))
    t.notMatch(await succeeds(root, 'cat', '/run/told'), /start/, 'no instance, nothing to start')
    t.match(await succeeds(root, ...everyModule('authproxy')), /^\d+ modules\n$/)
    const words = [...asUser('authproxy'), 'authproxy', 'demo', '--port', `${await freePort()}`]
    const demo = root.start(words[0] ?? '', ...words.slice(1))
    const [address = ''] = await said(demo, /https:\/\/\S+/)
    t.match(address, /^https:/)
    demo.kill('SIGTERM')
    await once(demo, 'close')

    await succeeds(
      root,
      'sh',
      '-c',
      'echo {} >/var/lib/authproxy/app.json; echo "#" >/etc/authproxy/app.yaml',
    )
    await asNewer(work, 'authproxy')
    await succeeds(root, 'dpkg', '-i', file('authproxy', newer))
    t.match(await succeeds(root, 'cat', '/run/told'), /try-restart authproxy@\*\.service/)
    const configured = `cd /etc/authproxy; mkdir /run/made
      printf 'proxy:\\n  listenAddress: 127.0.0.1:8080\\n' >app.yaml
      printf 'proxy:\\n  listenAddress: :8081\\nforwardAuth:\\n  listenAddress: unix:/run/authproxy/asks.sock\\n' >asks.yaml
      printf 'AUTHPROXY_PROXY_LISTEN_ADDRESS="[::1]:81"\\nAUTHPROXY_FORWARD_AUTH_LISTEN_ADDRESS=127.0.0.1:91\\n' >shop.env
      /usr/lib/systemd/system-generators/authproxy-generator /run/made
      cd /run/made; grep -r ListenStream=. . | sort; find . -type l | sort
      rm -r /run/made; rm /etc/authproxy/shop.env /etc/authproxy/asks.yaml`
    t.equal(
      await succeeds(root, 'sh', '-c', configured),
      `./authproxy-checks@asks.socket.d/00-authproxy.conf:ListenStream=/run/authproxy/asks.sock
./authproxy-checks@shop.socket.d/00-authproxy.conf:ListenStream=127.0.0.1:91
./authproxy@app.socket.d/00-authproxy.conf:ListenStream=127.0.0.1:8080
./authproxy@asks.socket.d/00-authproxy.conf:ListenStream=8081
./authproxy@shop.socket.d/00-authproxy.conf:ListenStream=[::1]:81
./authproxy@asks.service.wants/authproxy-checks@asks.socket
./authproxy@shop.service.wants/authproxy-checks@shop.socket
`,
    )
    const wants = '/etc/systemd/system/multi-user.target.wants'
    const link = `mkdir -p ${wants}; ln -s /dev/null ${wants}/authproxy@app.service; : >/run/told`
    await succeeds(root, 'sh', '-c', `${link}; /var/lib/dpkg/info/authproxy.postinst abort-remove`)
    t.match(await succeeds(root, 'cat', '/run/told'), /^start authproxy@app\.service$/m)
    await succeeds(root, 'dpkg', '--remove', 'authproxy')
    await succeeds(
      root,
      'test',
      '-e',
      '/var/lib/authproxy/app.json',
      '-a',
      '-e',
      '/etc/authproxy/app.yaml',
    )
    await succeeds(root, 'dpkg', '--purge', 'authproxy')
    t.strictSame(await traces(root, 'authproxy'), [])
  })

  await t.test(
    'the units: verified, and little exposed',
    { skip: lacking('systemd-analyze') },
    async t => {
      await succeeds(root, 'dpkg', '-i', file('cachesvc'), file('authproxy'))
      // What authproxy-generator writes for an instance: the service is a part of its socket, which has no address without it.
      const address = `mkdir -p /etc/systemd/system/authproxy@app.socket.d
        printf '[Socket]\\nListenStream=127.0.0.1:8080\\n' >/etc/systemd/system/authproxy@app.socket.d/00-authproxy.conf`
      await succeeds(root, 'sh', '-c', address)
      for (const unit of ['cachesvc.service', 'cachesvc.socket', 'authproxy@app.service']) {
        const { stderr } = await root.run('systemd-analyze', 'verify', '--man=yes', unit)
        t.notMatch(stderr, /cachesvc|authproxy/, unit)
      }
      for (const unit of ['cachesvc.service', 'authproxy@.service']) {
        const path = `/usr/lib/systemd/system/${unit}`
        const { code } = await root.run(
          'systemd-analyze',
          'security',
          '--offline=yes',
          '--threshold=20',
          path,
        )
        t.equal(code, 0, `${unit} is exposed by less than 2.0 of 10`)
      }
    },
  )

  await t.test('a read-only root is enough, with the directory of the store', async t => {
    const port = await freePort()
    const confined = `mount -o remount,bind,ro / && mount -t tmpfs -o mode=777 none /var/cache/cachesvc && cd / &&
      exec ${asUser('cachesvc').join(' ')} cachesvc serve --listen=127.0.0.1:${port}`
    const child = root.start('unshare', '--mount', 'sh', '-c', confined)
    await said(child, /ready/)
    t.equal((await fetch(`http://127.0.0.1:${port}/_cachesvc/healthz`)).status, 200)
    child.kill('SIGTERM')
    await once(child, 'close')
  })

  await t.test('bash completes', { skip: whereIs('bash') === undefined }, async t => {
    const complete = (program: string, ...words: readonly string[]) =>
      succeeds(
        root,
        ...([
          'bash',
          '-c',
          `. /usr/share/bash-completion/completions/${program}; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _${program}; echo "\${COMPREPLY[*]}"`,
          'bash',
          program,
          ...words,
        ] as const),
      )
    t.equal(await complete('cachesvc', 'verify-repos', '--dry'), '--dry-run\n')
    t.equal(await complete('cachesvc', 'expl'), 'explain\n')
    t.equal(await complete('cachesvc', 'explain', '--dry'), '\n', 'an option of another command')
    await succeeds(root, 'sh', '-c', 'mkdir -p /etc/authproxy && : >/etc/authproxy/portal.yaml')
    t.equal(await complete('authproxy', 'doctor', 'por'), 'portal\n')
    t.equal(await complete('authproxy', 'demo', '--pr'), '--profile\n')
    t.equal(await complete('authproxy', '--config-dir', '/usr/lib/authp'), '/usr/lib/authproxy\n')
  })

  await t.test('zsh reads the completions', { skip: lacking('zsh') }, async t => {
    for (const name of ['cachesvc', 'authproxy']) {
      const path = `/usr/share/zsh/vendor-completions/_${name}`
      t.equal((await root.run('zsh', '-n', path)).stderr, '')
    }
  })
})

/** Loads every module of ours, and with it every module of its dependencies that the package has. */
function everyModule(name: string) {
  const program = `
    import { readdirSync } from 'node:fs'
    const lib = '/usr/lib/${name}/dist/lib/'
    const modules = readdirSync(lib, { recursive: true }).filter(file => file.endsWith('.js') && !file.endsWith('worker.js'))
    for (const file of modules) await import(lib + file)
    console.log(modules.length + ' modules')`
  return ['node', '--input-type=module', '-e', program] as const
}
