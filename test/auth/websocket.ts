import { once } from 'node:events'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Duplex } from 'node:stream'
import t, { type Test } from 'tap'
import { domain, startGateway } from '../fixtures/gateway/gateway.ts'
import { until } from '../fixtures/http/origin-client.ts'
import { RawClient } from '../fixtures/http/raw-client.ts'

const handshake = {
  Host: domain,
  Upgrade: 'websocket',
  Connection: 'Upgrade',
  'Sec-WebSocket-Key': 'dGhlIHNhbXBsZSBub25jZQ==',
  'Sec-WebSocket-Version': '13',
}

interface Seen {
  readonly url: string
  readonly rawHeaders: string[]
  readonly socket: Duplex
}

/** A backend that agrees, says `hi`, and echoes. */
async function socketBackend(t: Test): Promise<{ target: string; seen: Seen[]; server: Server }> {
  const seen: Seen[] = []
  const server = createServer((_, response) => response.end('plain'))
  server.on('upgrade', (request, socket, head) => {
    seen.push({ url: request.url ?? '', rawHeaders: request.rawHeaders, socket })
    socket.on('error', () => {})
    if (request.url === '/refuse') {
      socket.end('HTTP/1.1 403 Not You\r\nContent-Length: 4\r\nX-Why: because\r\n\r\nnope')
      return
    }
    socket.write(
      'HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\nhi',
    )
    socket.write(head)
    socket.pipe(socket)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    for (const { socket } of seen) socket.destroy()
    server.closeAllConnections()
    server.close()
  })
  return { target: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, seen, server }
}

t.test('a WebSocket goes through with the identity of its session', async t => {
  const { target, seen } = await socketBackend(t)
  const gateway = await startGateway(t, { target })
  const cookie = await gateway.logIn({ email: ['ada@example.org'] })
  const client = await RawClient.connect(t, gateway.port)
  await client.request('GET', '/ws?x=1', {
    ...handshake,
    Cookie: cookie,
    Origin: `https://${domain}`,
    TE: 'trailers',
    'X-Authproxy-User': 'admin',
    X_Authproxy_Email: 'admin',
  })
  const head = await client.head()
  t.equal(head.status, 101)
  t.equal(head.fields.get('Sec-WebSocket-Accept'), 's3pPLMBiTxaQ9kYGzzhZRbK+xOo=')
  t.equal((await client.bytes(2)).toString(), 'hi')
  await client.write('echo this')
  t.equal((await client.bytes(9)).toString(), 'echo this')
  const raw = seen[0]?.rawHeaders.join('\n') ?? ''
  t.equal(seen[0]?.url, '/ws?x=1')
  t.match(raw, 'X-Authproxy-User\nada@example.org')
  t.notMatch(raw, /admin|authproxy_session/)
  t.notMatch(raw, /^TE$/m, 'an answer without content has no trailers')
  client.end()
  await client.ended
})

t.test(
  '57: without a session it is 401 before the backend is asked, and no state is made',
  async t => {
    const { target, seen } = await socketBackend(t)
    const gateway = await startGateway(t, { target })
    const client = await RawClient.connect(t, gateway.port)
    const answer = await client.get('/ws', handshake)
    t.equal(answer.status, 401)
    t.match(answer.fields.get('X-Authproxy-Login'), `https://${domain}/__authproxy-redirect`)
    t.notOk(answer.fields.has('Set-Cookie'))
    t.same(seen, [])
    t.same(gateway.logins, [])
    t.equal(await client.ended, 'fin')
  },
)

t.test('57: a page of another origin cannot use the session of a user', async t => {
  const { target, seen } = await socketBackend(t)
  const gateway = await startGateway(t, {
    target,
    proxy: { webSocketOrigins: ['https://friend.example.org'] },
  })
  const cookie = await gateway.logIn({ email: ['ada@example.org'] })
  for (const [origin, status] of [
    ['https://evil.example', 403],
    ['null', 403],
    [`http://${domain}`, 403],
    ['https://friend.example.org', 101],
    [`https://${domain}`, 101],
  ] as const) {
    const client = await RawClient.connect(t, gateway.port)
    await client.request('GET', '/ws', { ...handshake, Cookie: cookie, Origin: origin })
    t.equal((await client.head()).status, status, origin)
  }
  t.equal(seen.length, 2)
})

t.test('a refusal of the backend arrives whole, and its connection does not stay', async t => {
  const { target, seen, server } = await socketBackend(t)
  const gateway = await startGateway(t, { target })
  const cookie = await gateway.logIn({ email: ['ada@example.org'] })
  const client = await RawClient.connect(t, gateway.port)
  const answer = await client.get('/refuse', { ...handshake, Cookie: cookie })
  t.equal(answer.status, 403)
  t.equal(answer.reason, 'Not You')
  t.equal(answer.fields.get('X-Why'), 'because')
  t.equal(answer.text, 'nope')
  t.equal(await client.ended, 'fin')
  t.equal(seen.length, 1)
  const count = () =>
    new Promise<number>((resolve, reject) =>
      server.getConnections((error, n) => (error ? reject(error) : resolve(n))),
    )
  while ((await count()) > 0) await new Promise(resolve => setImmediate(resolve))
})

t.test('an answer without a change of protocol is relayed', async t => {
  const server = createServer((_, response) => response.end('plain'))
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  const target = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const gateway = await startGateway(t, { target })
  const cookie = await gateway.logIn({ email: ['ada@example.org'] })
  const client = await RawClient.connect(t, gateway.port)
  const answer = await client.get('/', { ...handshake, Cookie: cookie })
  t.equal(answer.status, 200)
  t.equal(answer.text, 'plain')
})

t.test(
  '56: other protocols are not changed to: a request is answered as if it had not asked, one with content is refused',
  async t => {
    const { target, seen } = await socketBackend(t)
    const gateway = await startGateway(t, { target })
    const cookie = await gateway.logIn({ email: ['ada@example.org'] })
    for (const upgrade of ['h2c', 'websocket, h2c', 'TLS/1.0']) {
      const client = await RawClient.connect(t, gateway.port)
      await client.request('GET', '/', {
        Host: domain,
        Cookie: cookie,
        Upgrade: upgrade,
        Connection: 'Upgrade, HTTP2-Settings',
        'HTTP2-Settings': 'AAMAAABkAARAAAAAAAIAAAAA',
      })
      const answer = await client.response()
      t.equal(answer.text, 'plain', upgrade)
    }
    t.same(seen, [], 'the backend never saw an Upgrade')
    const client = await RawClient.connect(t, gateway.port)
    await client.request('POST', '/', {
      Host: domain,
      Upgrade: 'h2c',
      Connection: 'Upgrade',
      'Content-Length': '3',
    })
    await client.write('abc')
    t.equal((await client.response()).status, 400)
    const refused = { outcome: 'refused', because: 'malformed' }
    await until(() => gateway.log.lines.some(({ facts }) => facts['status'] === 400))
    t.match(gateway.log.lines.find(({ facts }) => facts['status'] === 400)?.facts, refused)
  },
)

t.test(
  'sockets end when the service stops, when the backend ends, when the client goes',
  async t => {
    const { target, seen } = await socketBackend(t)
    const gateway = await startGateway(t, { target })
    const cookie = await gateway.logIn({ email: ['ada@example.org'] })
    const open = async () => {
      const client = await RawClient.connect(t, gateway.port)
      await client.request('GET', '/ws', { ...handshake, Cookie: cookie })
      t.equal((await client.head()).status, 101)
      await client.bytes(2)
      return client
    }
    const first = await open()
    seen[0]?.socket.end()
    t.equal(await first.finish().then(bytes => bytes.length), 0)
    const second = await open()
    const socket = seen[1]?.socket
    if (socket === undefined) throw new Error('the backend saw no second socket')
    const gone = once(socket, 'close')
    await second.reset()
    await gone
    const third = await open()
    await gateway.stop()
    t.match(await third.ended, /fin|reset/)
  },
)
