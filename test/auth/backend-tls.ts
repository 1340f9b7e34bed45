import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { createServer, type Server } from 'node:https'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { configCheck } from '../../lib/auth/config/loading/load-config.ts'
import { type KeyAndCertificate, makeAuthority } from '../fixtures/certificates/certificate.ts'
import { domain, type GatewayOptions, startGateway } from '../fixtures/gateway/gateway.ts'
import { RawClient } from '../fixtures/http/raw-client.ts'

const ours = makeAuthority('Our Authority')
const strangers = makeAuthority('Somebody Else')
const right = ours.issue({ names: ['localhost', '127.0.0.1'] })

/** A backend behind TLS that answers requests and agrees to WebSockets, and says what it was asked. */
async function backendWith(t: Test, identity: KeyAndCertificate) {
  const seen: string[] = []
  const server: Server = createServer(identity, (request, response) => {
    seen.push(`${request.method} ${request.url}`)
    response.end('inside')
  })
  server.on('upgrade', (request, socket) => {
    seen.push(`upgrade ${request.url}`)
    socket.on('error', () => {})
    socket.write(
      'HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\nhi',
    )
    socket.pipe(socket)
    t.teardown(() => socket.destroy())
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  return { seen, port: (server.address() as AddressInfo).port }
}

/** The authorities the gateway trusts besides those everybody knows, as a file. */
function trusting(t: Test, ...authorities: readonly KeyAndCertificate[]): string {
  const path = join(t.testdir(), 'authorities.pem')
  writeFileSync(path, authorities.map(({ cert }) => cert).join('\n'))
  return path
}

async function lab(
  t: Test,
  identity: KeyAndCertificate,
  given: { proxy?: Record<string, unknown>; host?: string; more?: GatewayOptions } = {},
) {
  const { seen, port } = await backendWith(t, identity)
  const target = `https://${given.host ?? 'localhost'}:${port}`
  const gateway = await startGateway(t, { target, proxy: given.proxy ?? {}, ...given.more })
  const cookie = await gateway.logIn({ email: ['ada@example.org'] })
  const connect = () => RawClient.connect(t, gateway.port)
  const get = async (fields: Record<string, string> = {}) =>
    (await connect()).get('/secret', { Host: domain, Cookie: cookie, ...fields })
  const upgrade = async () => {
    const client = await connect()
    await client.request('GET', '/ws', {
      Host: domain,
      Cookie: cookie,
      Upgrade: 'websocket',
      Connection: 'Upgrade',
      'Sec-WebSocket-Key': 'dGhlIHNhbXBsZSBub25jZQ==',
      'Sec-WebSocket-Version': '13',
    })
    return client
  }
  const record = (id: string) =>
    gateway.log.lines.find(({ facts }) => facts['category'] === 'PROXY-ERROR' && facts['id'] === id)
  return { gateway, seen, port, get, upgrade, record }
}

const yesterday = new Date(Date.now() - 86_400_000)
const expired = () => ours.issue({ names: ['localhost'], until: yesterday })
const early = () => {
  const from = new Date(Date.now() + 86_400_000)
  return ours.issue({ names: ['localhost'], from })
}

const refused: ReadonlyArray<
  readonly [what: string, identity: () => KeyAndCertificate, problem: RegExp]
> = [
  [
    'an unknown authority',
    () => strangers.issue({ names: ['localhost'] }),
    /issuer of the origin's certificate is not known/,
  ],
  ['another name', () => ours.issue({ names: ['other.example.org'] }), /is for another name/],
  ['a certificate that has expired', expired, /has expired/],
  ['a certificate that is not valid yet', early, /is not valid yet/],
  ['an authority in the place of a server', () => strangers, /not meant for servers/],
]
for (const [what, identity, problem] of refused) {
  t.test(`${what}: 502 Proxy Error, the reason in the record and nowhere else`, async t => {
    const proxy = { targetCertificates: trusting(t, ours) }
    const { gateway, seen, port, get, upgrade, record } = await lab(t, identity(), { proxy })
    const answers = [
      await get(),
      await get({ Accept: 'text/html', 'Sec-Fetch-Mode': 'navigate' }),
      await (await upgrade()).response(),
    ]
    for (const answer of answers) {
      t.equal(answer.status, 502)
      t.equal(answer.reason, 'Proxy Error')
      const id = /[0-9a-f]{8}-\d+/.exec(answer.text)?.[0] ?? ''
      const line = record(id)
      t.match(line?.facts, { code: /^backend_tls/, category: 'PROXY-ERROR' })
      t.match(line?.facts['problem'], problem)
      t.notMatch(answer.text, /certificate|TLS|localhost|127\.0\.0\.1|authorit/i)
      t.notMatch(answer.text, String(port))
    }
    t.same(seen, [], 'nothing was sent, no cookie, no identity')
    t.notMatch(JSON.stringify(gateway.log.lines), /__authproxy_session/)
  })
}

t.test('the right authority passes, requests and WebSockets, by name and by address', async t => {
  for (const host of ['localhost', '127.0.0.1']) {
    const proxy = { targetCertificates: trusting(t, strangers, ours) }
    const { seen, get, upgrade } = await lab(t, right, { proxy, host })
    t.equal((await get()).text, 'inside')
    const client = await upgrade()
    t.equal((await client.head()).status, 101)
    t.equal((await client.bytes(2)).toString(), 'hi')
    await client.write('and back')
    t.equal((await client.bytes(8)).toString(), 'and back')
    t.same(seen, ['GET /secret', 'upgrade /ws'])
  }
})

t.test('without an authority of one’s own those everybody knows do not cover it', async t => {
  const { get, seen } = await lab(t, right)
  t.equal((await get()).status, 502)
  t.same(seen, [])
})

t.test('verification that is switched off takes anything, and the start warns', async t => {
  for (const identity of [strangers.issue({ names: ['other.example.org'] }), expired()]) {
    const { get, upgrade } = await lab(t, identity, { proxy: { targetDisableSSLVerify: true } })
    t.equal((await get()).text, 'inside')
    t.equal((await (await upgrade()).head()).status, 101)
  }
  const checked = configCheck('test')({
    domain,
    idpMetadataURL: 'https://idp.example.org/metadata',
    proxy: {
      listenAddress: '127.0.0.1:0',
      targetURL: 'https://localhost:8443',
      targetDisableSSLVerify: true,
    },
  })
  t.match(checked.warnings, [
    { path: ['proxy', 'targetDisableSSLVerify'], text: /read and change/ },
  ])
})

t.test('a file of authorities that is missing, or holds none, stops the start', async t => {
  const whole = ours.cert
  const files = {
    'empty.pem': '',
    'text.pem': 'hunter2',
    'cut.pem': whole.slice(0, 100),
    'half.pem': `${whole}${whole.slice(0, 100)}`,
    'noise.pem': '-----BEGIN CERTIFICATE-----\n!!!!\n-----END CERTIFICATE-----\n',
  }
  const nowhere = join(t.testdir(files), 'nowhere.pem')
  for (const file of ['nowhere', 'empty', 'text', 'cut', 'half', 'noise']) {
    const targetCertificates = nowhere.replace('nowhere', file)
    await t.rejects(
      startGateway(t, { target: 'https://localhost:1', proxy: { targetCertificates } }),
      { code: 'TARGET_CERTIFICATES', message: /targetCertificates/ },
      file,
    )
  }
})

t.test('a reload with authorities that cannot be read keeps the old ones', async t => {
  const proxy = { targetCertificates: trusting(t, ours) }
  const { gateway, get } = await lab(t, right, {
    proxy,
    more: {
      reload: () => ({ ...gateway.config, targetCertificates: '/nowhere.pem' }),
    },
  })
  await t.rejects(gateway.service.reload(), {
    message: 'cannot read proxy.targetCertificates /nowhere.pem: there is no such file',
  })
  t.equal((await get()).text, 'inside')
})
