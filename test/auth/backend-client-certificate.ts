/**
 * A backend that asks for a certificate, and one whose name in TLS is not the host of its address.
 */
import { once } from 'node:events'
import { chmodSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import type { TLSSocket } from 'node:tls'
import t, { type Test } from 'tap'
import { clientIdentityLook } from '../../lib/auth/backend/client-identity.ts'
import type { Config } from '../../lib/auth/config/config.ts'
import { configCheck } from '../../lib/auth/config/loading/load-config.ts'
import { type KeyAndCertificate, makeAuthority } from '../fixtures/certificates/certificate.ts'
import { domain, gatewayConfig, startGateway } from '../fixtures/gateway/gateway.ts'
import { RawClient } from '../fixtures/http/raw-client.ts'
import { createMemoryLog } from '../fixtures/log/memory-log.ts'
import { attempt } from '../fixtures/process/command.ts'
import { ManualClock } from '../fixtures/time/manual-clock.ts'

const ours = makeAuthority('Our Authority')
const strangers = makeAuthority('Strangers')
const inside = ours.issue({ names: ['app.internal.example.org'] })
const first = ours.issue({ names: ['first'] })
const second = ours.issue({ names: ['second'] })

/** A backend that takes certificates of our authority alone, and answers with whom it saw, by what name it was asked. */
async function lab(t: Test, shown: KeyAndCertificate | undefined, more: object = {}) {
  const server = createServer(
    { ...inside, ca: ours.cert, requestCert: true, rejectUnauthorized: true },
    ({ socket }, response) => {
      const { servername } = socket as TLSSocket
      const { subject } = (socket as TLSSocket).getPeerCertificate()
      // A connection each, so that each request shows what new ones show.
      response.setHeader('Connection', 'close').end(`${subject.CN} ${servername}`)
    },
  )
  server.on('tlsClientError', () => {})
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  const directory = t.testdir({ 'ca.pem': ours.cert })
  const files = { cert: join(directory, 'client.pem'), key: join(directory, 'client.key') }
  const place = (of: KeyAndCertificate) => {
    writeFileSync(files.cert, of.cert)
    writeFileSync(files.key, of.key)
  }
  if (shown !== undefined) place(shown)
  const clock = new ManualClock(Date.UTC(2030, 0, 1))
  const { port } = server.address() as AddressInfo
  const gateway = await startGateway(t, {
    target: `https://127.0.0.1:${port}`,
    clock,
    settings: { passthroughPaths: ['/open/'] },
    proxy: {
      targetCertificates: join(directory, 'ca.pem'),
      targetServerName: 'app.internal.example.org',
      ...(shown === undefined
        ? {}
        : { targetClientCertificate: files.cert, targetClientKey: files.key }),
      ...more,
    },
  })
  const get = async () => {
    const client = await RawClient.connect(t, gateway.port)
    const answer = await client.get('/open/', { Host: domain })
    client.end()
    return answer
  }
  /** Lets time pass until so much has been said of the certificate. */
  const told = async (count: number) => {
    for (;;) {
      const lines = gateway.log.lines.filter(({ message }) => /for the backend/.test(message))
      if (lines.length >= count) return lines.at(-1)
      clock.advance(1000)
      await new Promise(resolve => setImmediate(resolve))
    }
  }
  return { gateway, files, place, get, told }
}

t.test('a backend that asks for a certificate is shown it, by the name it is to have', async t => {
  const { get } = await lab(t, first)
  t.match(await get(), { status: 200, text: 'first app.internal.example.org' })
})

t.test('without a certificate, with that of a stranger, or by another name: 502', async t => {
  for (const [shown, more] of [
    [undefined, {}],
    [strangers.issue({ names: ['first'] }), {}],
    [first, { targetServerName: 'other.internal.example.org' }],
    [first, { targetServerName: undefined }],
  ] as const) {
    const { get } = await lab(t, shown, more)
    t.equal((await get()).status, 502)
  }
})

t.test('files that change are read again; what does not fit changes nothing', async t => {
  const { get, place, told, files } = await lab(t, first)
  t.equal((await get()).text, 'first app.internal.example.org')
  place(second)
  t.match(await told(1), { level: 'info', facts: { file: files.cert } })
  t.equal((await get()).text, 'second app.internal.example.org')
  writeFileSync(files.key, first.key)
  t.match(await told(2), { level: 'warn', facts: { problem: /is not the key of/ } })
  t.equal((await get()).text, 'second app.internal.example.org')
  rmSync(files.key)
  t.match(await told(3), { level: 'warn', facts: { problem: /there is no such file/ } })
  place(first)
  t.match(await told(4), { level: 'info' })
  t.equal((await get()).text, 'first app.internal.example.org')
})

t.test('files are read when they have stood still for a look, and once', async t => {
  const directory = t.testdir({ 'client.pem': first.cert, 'client.key': first.key })
  const [certificate, key] = [join(directory, 'client.pem'), join(directory, 'client.key')]
  const config = (): Config =>
    gatewayConfig({
      ...{ domain, idpMetadataURL: 'https://idp.example.org/metadata' },
      proxy: {
        ...{ listenAddress: '127.0.0.1:0', targetURL: 'https://127.0.0.1:9' },
        ...{ targetClientCertificate: certificate, targetClientKey: key },
      },
    })
  let inForce = config()
  let shown = first.cert
  const log = createMemoryLog()
  const look = clientIdentityLook({
    log,
    rules: () => ({
      config: inForce,
      backend: {
        show: ({ cert }) => {
          const isNew = cert !== shown
          shown = cert
          return isNew
        },
      },
    }),
  })
  for (let i = 0; i < 3; i += 1) await look()
  t.strictSame(log.lines, [], 'what has not changed is not told')
  writeFileSync(certificate, second.cert)
  await look()
  writeFileSync(key, second.key)
  await look()
  t.strictSame([shown, log.lines], [first.cert, []], 'one file of two is not looked into')
  await look()
  t.equal(shown, second.cert)
  for (let i = 0; i < 3; i += 1) await look()
  t.equal(log.lines.length, 1)
  inForce = config()
  writeFileSync(certificate, first.cert)
  writeFileSync(key, first.key)
  for (let i = 0; i < 2; i += 1) await look()
  t.equal(shown, first.cert, 'what has changed around a reload is not missed')
})

t.test('files of no use stop the start, and --check-config says so', async t => {
  const directory = t.testdir({
    'first.pem': first.cert,
    'first.key': first.key,
    'second.key': second.key,
    'text.pem': 'hunter2',
  })
  const at = (name: string) => join(directory, name)
  const encrypted = await attempt('openssl', [
    ...['pkcs8', '-topk8', '-passout', 'pass:x', '-in', at('first.key'), '-out', at('locked.key')],
  ])
  t.equal(encrypted.code, 0)
  for (const [cert, key, problem] of [
    ['first.pem', 'second.key', /targetClientKey .*second\.key is not the key of .*first\.pem/],
    ['text.pem', 'first.key', /targetClientCertificate .*text\.pem holds no certificate in PEM/],
    ['first.pem', 'text.pem', /targetClientKey .*text\.pem holds no private key/],
    ['first.pem', 'locked.key', /locked\.key holds no private key without a passphrase/],
    ['none.pem', 'first.key', /cannot read proxy\.targetClientCertificate .*no such file/],
    ['first.pem', '', /targetClientKey .* it is not a small regular file|directory/],
  ] as const) {
    const proxy = { targetClientCertificate: at(cert), targetClientKey: at(key) }
    const started = startGateway(t, { target: 'https://127.0.0.1:9', proxy })
    await t.rejects(started, { message: problem, code: 'TARGET_CLIENT_CERTIFICATE' })
    await started.catch(error => t.notMatch(error.message, /hunter2/))
  }
  chmodSync(directory, 0o755)
  writeFileSync(
    at('app.yaml'),
    `domain: app.example.org
idpMetadataFile: ${at('text.pem')}
configPath: ${at('app.json')}
proxy:
  listenAddress: 127.0.0.1:8080
  targetURL: https://127.0.0.1:9
  targetClientCertificate: ${at('first.pem')}
  targetClientKey: ${at('second.key')}
`,
  )
  const line = ['dist/bin/authproxy.js', 'app', '--config-dir', directory, '--check-config']
  const { code, stderr } = await attempt(process.execPath, line)
  t.equal(code, 78)
  t.match(stderr, /second\.key is not the key of/)
})

t.test('what does not go together is told', t => {
  const remarks = (proxy: object) => {
    const checked = configCheck('test')({
      domain,
      idpMetadataURL: 'https://idp.example.org/metadata',
      proxy: { listenAddress: '127.0.0.1:0', targetURL: 'https://10.0.0.7', ...proxy },
    })
    const problems = checked.ok ? [] : checked.problems
    return [...problems, ...checked.warnings].map(({ path, text }) => `${path.join('.')} ${text}`)
  }
  for (const [proxy, remark] of [
    [{ targetClientKey: '/k' }, /targetClientKey also needs proxy\.targetClientCertificate/],
    [
      { targetClientCertificate: '/c' },
      /targetClientCertificate also needs proxy\.targetClientKey/,
    ],
    [{ targetServerName: '10.0.0.7' }, /targetServerName found .*TLS asks for no address/],
    [{ targetServerName: 'app.example.org:443' }, /without a port/],
    [{ targetServerName: 'https://app' }, /expected a host name such as/],
    [{ targetURL: 'http://10.0.0.7', targetServerName: 'app' }, /targetServerName has no effect/],
  ] as const) {
    t.match(remarks(proxy), [remark])
  }
  t.strictSame(remarks({ targetServerName: 'App.Internal.example.org' }), [])
  t.end()
})
