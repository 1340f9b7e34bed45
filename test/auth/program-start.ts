/** authproxy as a program: how it starts, and the four ways in which it does not. */
import { once } from 'node:events'
import { chmod, mkdir, readdir } from 'node:fs/promises'
import { type AddressInfo, createServer } from 'node:net'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { AuthproxyProcess, startable } from '../fixtures/gateway/authproxy-process.ts'
import { domain } from '../fixtures/gateway/gateway.ts'
import { RawClient } from '../fixtures/http/raw-client.ts'
import { accepts } from '../fixtures/process/ports.ts'

t.test('the four ways not to start: a sentence each, and an exit code', async t => {
  const { directory, settings, port } = await startable(t)
  const refused = async (more: unknown, uid?: number) => {
    const gateway = await AuthproxyProcess.start(t, { directory, settings: more, uid })
    const code = await gateway.exit
    return { code, said: gateway.lines.map(({ message }) => message).join('\n') }
  }
  const taken = createServer().listen(port, '127.0.0.1')
  await once(taken, 'listening')
  t.teardown(() => taken.close())
  t.match(await refused(settings), {
    code: 78,
    said: `cannot start: cannot listen on 127.0.0.1:${port}: the address is in use`,
  })
  t.match(await refused('domain: [unclosed\n'), {
    code: 78,
    said: /^authproxy: failed to load configuration from .*app\.yaml: 1 problem\n.*app\.yaml:\d+:\d+: /,
  })
  t.match(await refused({ ...settings, domain: undefined }), {
    code: 78,
    said: /^authproxy: failed to load configuration .*\n.*domain not set: name the public host/,
  })
  t.match(await refused({ ...settings, configPath: '/nonexistent/app.json' }), {
    code: 1,
    said: /cannot start: failed to save dynamic configuration \/nonexistent\/app\.json: the directory \/nonexistent does not exist/,
  })
})

t.test('without the metadata of the identity provider no key file is made', async t => {
  const { directory, settings } = await startable(t, { keys: false })
  const idpMetadataFile = join(directory, 'absent.xml')
  const gateway = await AuthproxyProcess.start(t, {
    ...{ directory, settings: { ...settings, idpMetadataFile } },
  })
  t.equal(await gateway.exit, 1)
  t.match(gateway.lines.at(-1)?.message, /cannot start: /)
  t.notOk((await readdir(directory)).includes('app.json'))
})

t.test(
  'a directory that is not the service user’s keeps it from starting',
  { skip: process.getuid?.() !== 0 && 'SKIPPED: only root can start programs as somebody else' },
  async t => {
    const { directory, settings } = await startable(t, { keys: false })
    await chmod(directory, 0o755)
    const gateway = await AuthproxyProcess.start(t, { directory, settings, uid: 65_534 })
    t.equal(await gateway.exit, 1)
    t.match(gateway.lines.at(-1), {
      message: /failed to save dynamic configuration .* is not writable for the service user/,
    })
    const own = join(directory, 'own')
    await mkdir(own)
    await chmod(own, 0o777)
    const configPath = join(own, 'app.json')
    const again = await AuthproxyProcess.start(t, {
      ...{ directory, settings: { ...settings, configPath }, uid: 65_534 },
    })
    await again.until('ready')
    t.equal(await again.stop(), 0)
  },
)

t.test('sockets the service manager hands over take the place of addresses', async t => {
  const { directory, settings, port, adminPort } = await startable(t)
  const held = await Promise.all([0, 1].map(() => listening(t)))
  const [main, admin] = held
  if (main === undefined || admin === undefined) throw new Error('two sockets')
  const gateway = await AuthproxyProcess.start(t, {
    ...{ directory, settings },
    sockets: [
      ['admin', admin.fd],
      ['http', main.fd],
    ],
  })
  t.match((await gateway.until('ready'))['status'], `listening on 127.0.0.1:${main.port}`)
  for (const { close } of held) close()
  t.equal(
    (await (await RawClient.connect(t, main.port)).get('/open/', { Host: domain })).status,
    200,
  )
  const ready = await (await RawClient.connect(t, admin.port)).get('/readyz', { Host: domain })
  t.equal(ready.text, 'ready\n')
  t.notOk(await accepts(port))
  t.notOk(await accepts(adminPort))
  t.equal(await gateway.stop(), 0)
})

t.test(
  'the socket for checks is taken for nothing else, and one that is wrong is told',
  async t => {
    const { directory, settings, port } = await startable(t)
    const held = await listening(t)
    const sockets = [['checks', held.fd]] as const
    // A unit may have several addresses, which have one name.
    const second = await listening(t)
    const two = [...sockets, ['checks', second.fd]] as const
    const said = (gateway: AuthproxyProcess) =>
      gateway.lines.filter(({ message }) => message.startsWith('systemd listens'))
    const none = await AuthproxyProcess.start(t, { directory, settings, sockets: two })
    t.match((await none.until('ready'))['status'], `listening on 127.0.0.1:${port}`)
    t.match(said(none), [
      {
        level: 'warn',
        message: /forwardAuth\.listenAddress is not set\. Run .* stop authproxy-checks@app\.socket/,
      },
    ])
    t.equal(await none.stop(), 0)
    const forwardAuth = (listenAddress: string) => ({
      ...settings,
      forwardAuth: { listenAddress, edge: 'nginx', trustedProxies: ['127.0.0.1'] },
    })
    const path = `unix:${directory}/app.sock`
    const other = await AuthproxyProcess.start(t, {
      ...{ directory, settings: forwardAuth(path), sockets },
    })
    await other.until('ready')
    const [line] = said(other)
    t.match(
      line?.message,
      `listens on 127.0.0.1:${held.port}, and the configuration says ${path}: run`,
    )
    t.match(line?.message, 'restart authproxy-checks@app.socket authproxy@app.service')
    t.equal(await other.stop(), 0)
    const right = await AuthproxyProcess.start(t, {
      ...{ directory, settings: forwardAuth(`127.0.0.1:${held.port}`), sockets },
    })
    await right.until('ready')
    t.same(said(right), [])
    held.close()
    const client = await RawClient.connect(t, held.port)
    t.match(await client.get('/other'), { status: 404, text: /answers only checks of an edge/ })
    t.equal(await right.stop(), 0)
  },
)

/** A listening socket with its descriptor, for which Node has no public name. */
async function listening(t: Test) {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const close = () => server.close()
  t.teardown(close)
  const fd = Number(Reflect.get(Object(Reflect.get(server, '_handle')), 'fd'))
  return { fd, close, port: (server.address() as AddressInfo).port }
}
