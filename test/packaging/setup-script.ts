/**
 * `/_cachesvc/setup.sh`: run with a plain shell in a directory, and in a copy of this machine with the real apt while the proxy
 * answers, while it does not, and after `--undo`.
 */
import { cp, mkdir, readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { setupScript } from '../../lib/cache/operations/examples.ts'
import { noOverlay, overlayRoot } from '../fixtures/archive/overlay-root.ts'
import { fetchThrough, type Lab, noLab, setUp } from '../fixtures/cache/lab.ts'
import { ProxyProcess } from '../fixtures/cache/proxy-process.ts'
import { attempt, command, lacking } from '../fixtures/process/command.ts'
import { eventually, freePort } from '../fixtures/process/ports.ts'

t.setTimeout(600_000)

const conf = 'etc/apt/apt.conf.d/30cachesvc'
const script = setupScript({
  here: { host: '127.0.0.1', port: 1, url: 'http://127.0.0.1:1', from: 'loopback' },
  proxies: [],
})

t.test(
  'shellcheck finds nothing, in the script and in what it installs',
  { skip: lacking('shellcheck') },
  async t => {
    const root = t.testdir({ etc: { apt: {} }, 'setup.sh': script })
    await command('sh', [join(root, 'setup.sh'), '--root', root])
    for (const file of ['setup.sh', 'usr/local/bin/apt-proxy-detect']) {
      const { code, stdout } = await attempt('shellcheck', ['--shell=sh', join(root, file)])
      t.equal(code, 0, `${stdout}`)
    }
  },
)

t.test('--snapshots writes a template for each archive in the sources of the system', async t => {
  const sources = {
    'sources.list': `# deb http://commented.example.org/debian sid main
deb http://ftp.debian.org/debian trixie main
deb [signed-by=/k.asc] http://name:word@vendor.example.org:8080/debian trixie main
deb http://HTTPS///tls.example.org/debian stable main
deb http://127.0.0.1:1/prefix.example.org/debian stable main
deb http://bad$(id).example.org/debian stable main
`,
    'sources.list.d': {
      'a.sources':
        'Types: deb\nURIs: https://packages.example.org/apt\n http://second.example.org\n',
      'b.sources.save': 'URIs: http://saved.example.org/',
    },
  }
  const root = t.testdir({ etc: { apt: sources } })
  const run = (...args: readonly string[]) =>
    attempt('sh', ['-s', '--', ...args, '--root', root], { input: script })
  t.match(await run('--snapshots'), { code: 0, stderr: '' })
  const text = await readFile(join(root, conf), 'utf8')
  const from = 'http://127.0.0.1:1/_cachesvc/snapshot/@SNAPSHOTID@'
  const hosts = /Host::([^ ]+) "(http:..127[^"]+)"/g
  t.strictSame(
    [...text.matchAll(hosts)].map(([, host, uri]) => [host, uri]),
    [
      ['127.0.0.1', `${from}/@PATH@/`],
      ['HTTPS', `${from}/HTTPS//@PATH@/`],
      ['second.example.org', `${from}/second.example.org/@PATH@/`],
      ['vendor.example.org', `${from}/vendor.example.org:8080/@PATH@/`],
      ['packages.example.org', `${from}/HTTPS///packages.example.org/@PATH@/`],
    ],
  )
  const dated = ['snapshot', 'debian.org'].join('.')
  t.match(text, `Origin::Debian "http://HTTPS///${dated}/archive/debian/@SNAPSHOTID@/"`)
  t.notMatch(text, 'https://')
  t.notMatch(text, /commented|saved|bad|name:/)
  t.match(await run(), { code: 0, stderr: '' })
  t.notMatch(await readFile(join(root, conf), 'utf8'), 'Snapshots', 'and not without the option')
})

t.test('in a directory: it can run again, and be undone', async t => {
  const root = t.testdir({ etc: { apt: { 'apt.conf.d': { '30cachesvc': 'mine\n' } } } })
  const run = (...args: readonly string[]) =>
    attempt('sh', ['-s', '--', ...args, '--root', root], { input: script })
  const files = async () => {
    const found = await readdir(root, { recursive: true, withFileTypes: true })
    const paths = found
      .filter(entry => entry.isFile())
      .map(entry => join(entry.parentPath, entry.name))
    return Promise.all(
      paths
        .sort()
        .map(async path => [path.slice(root.length + 1), await readFile(path, 'utf8')] as const),
    )
  }
  const before = await files()
  t.match(await run(), { code: 0, stdout: /does not answer now/, stderr: '' })
  const once = await files()
  t.strictSame(
    once.map(([path]) => path),
    [conf, `${conf}.save`, 'usr/local/bin/apt-proxy-detect'],
  )
  t.match(Object.fromEntries(once)[conf], 'Proxy-Auto-Detect "/usr/local/bin/apt-proxy-detect"')
  t.equal((await run()).code, 0)
  t.strictSame(await files(), once, 'again: the same')
  t.equal((await run('--undo')).code, 0)
  t.strictSame(await files(), before)
  t.match(await run('--undo'), { code: 0, stderr: '' })
  t.strictSame(await files(), before)
  t.match(await run('--remove'), { code: 1, stderr: 'there is no option --remove' })
  t.match(await run('--help'), { code: 0, stdout: /--undo +removes them/, stderr: '' })
  t.strictSame(await files(), before)

  await mkdir(join(root, 'usr/local/bin'), { recursive: true })
  await writeFile(join(root, 'usr/local/bin/apt-proxy-detect'), 'of another\n')
  t.match(await run(), { code: 1, stderr: 'is not of this script' })
  t.equal((await run('--undo')).code, 0)
  t.equal(await readFile(join(root, 'usr/local/bin/apt-proxy-detect'), 'utf8'), 'of another\n')
})

t.test('a download that broke off does nothing', async t => {
  const root = t.testdir({ etc: { apt: {} } })
  // Whatever part of the script ran, it would act here.
  const text = script.replace('root=\n', `root='${root}'\n`)
  t.match(text, root)
  const run = (input: string) => attempt('sh', ['-s'], { input })
  const files = async () => (await readdir(root, { recursive: true })).sort()
  for (let end = text.length - 2; end > text.length - 60; end -= 1) await run(text.slice(0, end))
  for (let end = text.length - 60; end > 0; end -= 97) await run(text.slice(0, end))
  t.strictSame(await files(), ['etc', 'etc/apt'])
  t.equal((await run(text)).code, 0)
  t.ok((await files()).length > 2, 'the whole script acts')
})

/** A copy of this machine whose apt knows the archive of the lab alone, and the commands that tests run in it. */
async function aptRoot(t: Test, lab: Lab) {
  const work = join(t.testdirName, 'work')
  await mkdir(work)
  const root = await overlayRoot(t, work)
  const list = `deb [signed-by=/etc/apt/test.gpg] ${lab.origin.url}/debian test main\n`
  await cp(lab.archive.keyring, join(work, 'test.gpg'))
  await writeFile(join(work, 'test.list'), list)
  const clear = `set -e; cd /etc/apt; rm -rf sources.list sources.list.d/* apt.conf apt.conf.d/*
    cp ${work}/test.list sources.list; cp ${work}/test.gpg .; chmod 644 test.gpg sources.list
    rm -rf /var/lib/apt/lists/*; printf 'APT::Sandbox::User "root";\\n' >apt.conf`
  t.equal((await root.run('sh', '-c', clear)).code, 0)
  const update = async () => {
    await root.run('sh', '-c', 'rm -rf /var/lib/apt/lists/*')
    lab.origin.forget()
    const { code, stdout, stderr } = await root.run('apt-get', 'update', '-oDebug::Acquire::http=1')
    t.equal(code, 0, { stdout: `${stdout}`, stderr })
    t.notMatch(`${stdout}${stderr}`, /^[WE]:/m)
    // apt writes a whole URL to a proxy, a path to an origin.
    return /^GET http:/m.test(`${stdout}${stderr}`) ? 'proxy' : 'direct'
  }
  return { root, work, update }
}

t.test('with the real apt', { skip: noLab || (await noOverlay()) }, async t => {
  const lab = await setUp(t)
  const { root, work, update } = await aptRoot(t, lab)
  const page = await lab.fetch('/_cachesvc/setup.sh')
  t.match(page.fields['content-type'], /^text\/plain/)
  // The configured example address is not one of this machine; the real listener is.
  const text = page.content.toString()
  t.match(text, lab.proxy.url)
  await writeFile(join(work, 'setup.sh'), text)
  t.equal(await update(), 'direct', 'before')
  const set = await root.run('sh', join(work, 'setup.sh'))
  t.match(set, { code: 0, stdout: /The cache answers: apt uses it from now on/, stderr: '' })
  t.equal(await update(), 'proxy', 'the proxy is up')
  await lab.proxy.stop()
  t.equal(await update(), 'direct', 'the proxy is down')
  t.equal((await root.run('sh', join(work, 'setup.sh'), '--undo')).code, 0)
  t.equal(await update(), 'direct', 'undone')
  const { stdout } = await root.run(
    'find',
    '/etc/apt',
    '/usr/local/bin',
    '-name',
    '*cachesvc*',
    '-o',
    '-name',
    'apt-proxy-detect',
  )
  t.equal(`${stdout}`, '')
})

t.test(
  'two proxies, the first killed while apt runs',
  { skip: noLab || (await noOverlay()) },
  async t => {
    const ports = [await freePort(), await freePort()] as const
    const proxies = ports.map(port => `http://127.0.0.1:${port}`)
    const settings = { index: { proxies } }
    const lab = await setUp(t, { port: ports[0], settings })
    const second = await ProxyProcess.start({
      directory: join(t.testdirName, 'second'),
      domains: [`127.0.0.1:${lab.origin.port}`],
      port: ports[1],
      settings,
    })
    t.teardown(() => second.stop())
    const { root, work, update } = await aptRoot(t, lab)
    const requests = async () => {
      const { content } = await fetchThrough(second.port, '/_cachesvc/api/stats')
      return JSON.parse(content.toString()).totals.requests
    }
    await writeFile(join(work, 'setup.sh'), (await lab.fetch('/_cachesvc/setup.sh')).content)
    t.match(await root.run('sh', join(work, 'setup.sh')), {
      code: 0,
      stdout: new RegExp(`${proxies[0]} at present`),
    })
    t.equal(await update(), 'proxy', 'both are up')
    t.equal(await requests(), 0, 'the first is used')

    lab.origin.forget()
    lab.origin.behaviour = 'stall'
    const running = root.run('apt-get', 'update', '-oAcquire::Retries=1')
    t.ok(await eventually(async () => lab.origin.seen(/./).length > 0, 30_000))
    lab.origin.behaviour = 'serve'
    await lab.proxy.stop('SIGKILL')
    const broken = await running
    t.equal(broken.code, 0, 'apt counts this as a warning and keeps the lists it has')
    t.match(
      broken.stderr,
      /W: Failed to fetch .*(Could not connect to 127\.0\.0\.1|Connection failed)/,
    )
    const kept = await root.run('sh', '-c', 'ls /var/lib/apt/lists')
    t.match(kept.stdout, /_main_binary-amd64_Packages/)

    t.equal(await update(), 'proxy', 'the next run')
    t.ok((await requests()) > 0, 'by way of the second')
    lab.replace(await lab.proxy.restart())
    const before = await requests()
    t.equal(await update(), 'proxy', 'the first is back')
    t.equal(await requests(), before, 'and is used again')
    await second.stop()
    await lab.proxy.stop()
    t.equal(await update(), 'direct', 'none answers')
  },
)
