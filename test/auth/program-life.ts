/** authproxy as a program: reload and drain. */
import { writeFile } from 'node:fs/promises'
import { userInfo } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import {
  AuthproxyProcess,
  authproxyProgram,
  startable,
} from '../fixtures/gateway/authproxy-process.ts'
import { domain as Host } from '../fixtures/gateway/gateway.ts'
import { ownDirectory } from '../fixtures/gateway/whole-gateway.ts'
import { RawClient } from '../fixtures/http/raw-client.ts'
import { reply, ScriptedOrigin } from '../fixtures/http/scripted-origin.ts'
import { attempt } from '../fixtures/process/command.ts'
import { Gate } from '../fixtures/time/gate.ts'

t.test('a reload: a good file, a bad one, and what waits for a restart', async t => {
  const { directory, settings, port } = await startable(t)
  const second = await ScriptedOrigin.listen(t)
  second.at('*', reply({ content: 'another application' }))
  const gateway = await AuthproxyProcess.start(t, { directory, settings })
  const ready = await gateway.until('ready')
  t.match(ready['status'], `app: listening on 127.0.0.1:${port} for https://${Host}, forwarding to`)
  const ask = async () => (await RawClient.connect(t, port)).get('/open/', { Host })
  t.equal((await ask()).text, 'the application')

  const other = { ...settings, proxy: { ...settings.proxy, targetURL: second.url('') } }
  await gateway.configure(other)
  gateway.signal('SIGHUP')
  t.match(
    (await gateway.until('reloaded'))['status'],
    `forwarding to ${second.url('')}`,
    'what is said is what is in force',
  )
  t.equal((await ask()).text, 'another application')

  const kept = 'not reloaded: the old configuration stays'
  await gateway.configure('domain: [unclosed\n')
  gateway.signal('SIGHUP')
  t.match(await gateway.until(kept), { level: 'error', problems: 1 })
  t.ok(
    gateway.lines.some(({ message }) => /app\.yaml:\d+:\d+: /.test(message)),
    'every problem with its line',
  )
  t.equal((await ask()).text, 'another application')
  await gateway.configure({
    ...settings,
    proxy: { ...settings.proxy, targetCertificates: '/nonexistent/ca.pem' },
  })
  gateway.signal('SIGHUP')
  await gateway.until(kept, 2)
  t.equal((await ask()).text, 'another application', 'a file that cannot be read changes nothing')

  const waits = 'these settings wait for a restart'
  const moved = { ...other, domain: 'new.example.org', passthroughPaths: ['/open/', '/new/'] }
  await gateway.configure({ ...moved, timeouts: { drain: '1s' } })
  gateway.signal('SIGHUP')
  t.match(await gateway.until(waits), { level: 'warn', settings: 'domain, timeouts' })
  await gateway.until('reloaded', 2)
  const client = await RawClient.connect(t, port)
  t.equal((await client.get('/new/', { Host })).status, 200, 'what can apply applies')
  const login = await client.get('/', { Host, Accept: 'text/html' })
  t.equal(login.status, 302, 'and what cannot is not half in force')
  await gateway.configure(moved)
  gateway.signal('SIGHUP')
  t.match(await gateway.until(waits, 2), { settings: 'domain' }, 'it is named until it is done')
  await gateway.until('reloaded', 3)
  t.equal(await gateway.stop(), 0)
})

t.test('status and reload ask the running instance, whatever is wrong with its file', async t => {
  const { directory, settings, port } = await startable(t)
  const gateway = await AuthproxyProcess.start(t, { directory, settings })
  await gateway.until('ready')
  const ask = async (act: string) => {
    const line = [authproxyProgram, act, 'app', '--config-dir', directory]
    const { code, stdout, stderr } = await attempt(process.execPath, line)
    return { code, out: stdout.toString(), err: stderr }
  }
  const { code, out } = await ask('status')
  t.equal(code, 0)
  t.match(out, /^authproxy \S+, app: ready\nRunning {6}since 20.*, process \d+\n/)
  t.match(out, `Listening    127.0.0.1:${port}, admin 127.0.0.1:`)

  await gateway.configure({ ...settings, domain: 'new.example.org', passthroughPaths: ['/new/'] })
  t.match(await ask('reload'), {
    ...{ code: 0, out: /^reloaded/, err: /in force after a restart: domain\n$/ },
  })
  t.match((await ask('status')).out, /ready\n {2}changed, and in force after a restart: domain\n/)

  await gateway.configure(`configPath: ${settings.configPath}\ndomain: [unclosed\n`)
  t.match(await ask('reload'), { code: 78, out: '', err: /app\.yaml:2:9: / })
  t.match(await ask('status'), { code: 0, out: /app: ready\n/, err: /app\.yaml:2:9: / })
  await gateway.configure({ ...settings, pages: { logo: '/nonexistent.png' } })
  t.match(await ask('reload'), { code: 78, err: /nonexistent\.png.*\n.*not reloaded: / })
  t.equal(await gateway.stop(), 0)
  t.match(await ask('status'), { code: 1, err: /No instance app runs with the dynamic config/ })
})

t.test('sessions end: what is said, and what is logged', async t => {
  const { directory, settings } = await startable(t)
  const gateway = await AuthproxyProcess.start(t, { directory, settings })
  await gateway.until('ready')
  const say = async (...words: readonly string[]) => {
    const line = [authproxyProgram, 'sessions', ...words, '--config-dir', directory]
    const { code, stdout, stderr } = await attempt(process.execPath, line)
    return { code, out: stdout.toString(), err: stderr }
  }
  const end = ['end', 'app', '--user']
  const ended =
    /^All sessions of ada@example\.org .* have ended\.\nNone of them was active recently/
  t.match(await say(...end, 'ada@example.org'), { code: 0, out: ended, err: '' })
  t.match(await gateway.until('sessions of a user ended'), {
    ...{ level: 'info', user: 'ada@example.org', seen: 0, by: userInfo().username },
  })

  await gateway.configure(`configPath: ${settings.configPath}\ndomain: [unclosed\n`)
  t.match(await say(...end, 'ada@example.org'), {
    ...{ code: 0, out: ended, err: /app\.yaml:2:9: / },
  })
  await gateway.configure({ ...settings, session: { revocation: false } })
  t.equal(await gateway.stop(), 0)
  t.match(await say(...end, 'ada'), { code: 1, out: '', err: /No instance app runs/ })
  const without = await AuthproxyProcess.start(t, {
    directory,
    settings: { ...settings, session: { revocation: false } },
  })
  await without.until('ready')
  t.match(await say(...end, 'ada'), { code: 1, out: '', err: /session\.revocation is off/ })
  t.equal(await without.stop(), 0)
})

t.test('the address of a socket unit comes from a file that has other problems too', async t => {
  const directory = await ownDirectory(t)
  const unit = async (text: string, ...options: string[]) => {
    await writeFile(join(directory, 'app.yaml'), text)
    const line = [authproxyProgram, 'socket-unit', 'app', '--config-dir', directory, ...options]
    const { code, stdout } = await attempt(process.execPath, line)
    return { code, out: stdout.toString() }
  }
  const drop = '[Socket]\nListenStream=\nListenStream=127.0.0.1:8080\nFreeBind=yes\n'
  const place = 'proxy: { listenAddress: "127.0.0.1:8080" }\n'
  t.strictSame(await unit(`${place}domain: [unclosed\n`), { code: 0, out: drop })
  t.strictSame(await unit(place), { code: 0, out: drop })
  t.strictSame(await unit('proxy: { listenAddress: here }\n'), { code: 78, out: '' })
  const checks = (line: string) => unit(`${place}${line}`, '--checks')
  t.strictSame(await checks(''), { code: 78, out: '' }, 'an instance that answers no checks')
  t.strictSame(await checks('forwardAuth: { listenAddress: unix:/run/authproxy/a%b.sock }\n'), {
    code: 0,
    out: '[Socket]\nListenStream=\nListenStream=/run/authproxy/a%%b.sock\n',
  })
  t.strictSame(
    await checks('forwardAuth: { listenAddress: "10.0.0.5:9090" }\ndomain: [unclosed\n'),
    {
      code: 0,
      out: '[Socket]\nListenStream=\nListenStream=10.0.0.5:9090\nFreeBind=yes\n',
    },
  )
  for (const path of ['a b', 'a\\', 'a\\nListenStream=1', 'ä']) {
    t.strictSame(await checks(`forwardAuth: { listenAddress: "unix:/run/${path}" }\n`), {
      code: 78,
      out: '',
    })
  }
})

/** Opens a WebSocket that nobody says anything on. */
async function openSocket(t: Test, port: number): Promise<RawClient> {
  const client = await RawClient.connect(t, port)
  await client.request('GET', '/open/socket', {
    ...{ Host, Upgrade: 'websocket', Connection: 'Upgrade' },
    ...{ 'Sec-WebSocket-Key': 'dGhlIHNhbXBsZSBub25jZQ==', 'Sec-WebSocket-Version': '13' },
  })
  t.equal((await client.head()).status, 101)
  return client
}

/** A backend that takes WebSockets, and sends a download in two halves with the test in between. */
function slow(backend: ScriptedOrigin, gate: Gate): void {
  backend.at(
    '/open/download',
    reply({ content: 'x'.repeat(200_000), pauses: [{ at: 100_000, gate }] }),
  )
  backend.at('/open/socket', async answer => {
    await answer.head(101, 'Switching Protocols', {
      ...{ Upgrade: 'websocket', Connection: 'Upgrade' },
      'Sec-WebSocket-Accept': 's3pPLMBiTxaQ9kYGzzhZRbK+xOo=',
    })
    answer.takeOver().resume()
  })
}

t.test('SIGTERM: readiness turns red, downloads finish, then sockets end and it ends', async t => {
  const { directory, settings, backend, port, adminPort } = await startable(t)
  const gate = new Gate()
  slow(backend, gate)
  const gateway = await AuthproxyProcess.start(t, { directory, settings })
  await gateway.until('ready')
  const admin = await RawClient.connect(t, adminPort)
  t.equal((await admin.get('/readyz', { Host })).status, 200)
  t.equal((await admin.get('/healthz', { Host })).text, 'alive\n')
  t.match((await admin.get('/metrics', { Host })).text, /^authproxy_client_connections 0$/m)

  const socket = await openSocket(t, port)
  const download = await RawClient.connect(t, port)
  await download.request('GET', '/open/download', { Host })
  t.equal((await download.head()).status, 200)
  t.equal((await download.bytes(100_000)).length, 100_000)
  t.match((await admin.get('/metrics', { Host })).text, /^authproxy_websockets 1$/m)

  gateway.signal('SIGTERM')
  await gateway.until('stopping')
  const another = await RawClient.connect(t, port)
  t.equal((await another.get('/open/', { Host })).status, 200, 'a download shuts no user out')
  const probe = await RawClient.connect(t, adminPort)
  const answer = await probe.get('/readyz', { Host })
  t.equal(answer.status, 503)
  t.equal(answer.text, 'not ready\nthe service stops\n')
  t.equal((await (await RawClient.connect(t, adminPort)).get('/healthz', { Host })).status, 200)
  gate.open()
  t.equal((await download.bytes(100_000)).length, 100_000, 'the download finishes')
  t.match(await socket.ended, /fin|reset/, 'the WebSocket ends after it, and is not waited for')
  t.equal(await gateway.exit, 0)
  t.equal(gateway.lines.at(-1)?.message, 'stopped')
  t.notOk(gateway.lines.some(({ message }) => message.includes('did not end in time')))
})

t.test(
  'a download that does not finish in timeouts.drain is cut, and the end is orderly',
  async t => {
    const { directory, settings, backend, port } = await startable(t)
    slow(backend, new Gate())
    const gateway = await AuthproxyProcess.start(t, {
      directory,
      settings: { ...settings, timeouts: { drain: '100ms' } },
    })
    await gateway.until('ready')
    const download = await RawClient.connect(t, port)
    await download.request('GET', '/open/download', { Host })
    await download.head()
    await download.bytes(100_000)
    gateway.signal('SIGTERM')
    t.match(await download.ended, /fin|reset/)
    t.equal(await gateway.exit, 0)
    t.equal(gateway.lines.at(-1)?.message, 'stopped')
  },
)
