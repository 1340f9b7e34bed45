/**
 * Connections that are handed to the server again after a CONNECT, with TLS on them.
 */
import { createSecureContext, TLSSocket as ServerSide, type TLSSocket } from 'node:tls'
import t, { type Test } from 'tap'
import type { Request } from '../../../lib/http/message/message.ts'
import { textResponse } from '../../../lib/http/message/reply.ts'
import type { HttpServerLimits } from '../../../lib/http/server/options.ts'
import { makeAuthority } from '../../fixtures/certificates/certificate.ts'
import { RawClient } from '../../fixtures/http/raw-client.ts'
import { serveForTest } from '../../fixtures/http/server.ts'
import { eventually } from '../../fixtures/process/ports.ts'

const end = { host: 'archive.example.org', port: 443 }

async function bench(t: Test, limits: Partial<HttpServerLimits> = {}) {
  const authority = makeAuthority()
  const secureContext = createSecureContext(authority.issue({ names: ['127.0.0.1'] }))
  const requests: Request[] = []
  const handler = async (request: Request) => {
    requests.push(request)
    return textResponse(200, 'inside')
  }
  const served = await serveForTest(t, handler, {
    limits,
    connect: async (_request, socket, _head, adopt) => {
      socket.write('HTTP/1.1 200 OK\r\n\r\n')
      const secure = new ServerSide(socket, { isServer: true, secureContext })
      secure.on('error', () => {})
      return { status: 200, sent: 0, facts: { requests: await adopt(secure, end) } }
    },
  })
  const open = async () => {
    const client = await RawClient.connect(t, served.port)
    await client.request('CONNECT', 'archive.example.org:443')
    await client.response({ to: 'CONNECT' })
    return client.secure(t, { ca: authority.cert, host: '127.0.0.1' })
  }
  return { ...served, requests, open }
}

t.test(
  'requests inside know their client, where it wanted to go, and that it is secure',
  async t => {
    const { open, requests, server, exchanges } = await bench(t)
    const client = await open()
    t.equal((await client.get('/a')).text, 'inside\n')
    t.equal((await client.get('/b')).text, 'inside\n')
    const [request] = requests
    t.match(request, { secure: true, tunnelEnd: end, client: { address: '127.0.0.1' } })
    t.equal(request?.client.port, (client.socket as TLSSocket).localPort)
    t.equal(server.connections, 1, 'one client is one connection')
    client.end()
    t.ok(await eventually(() => server.connections === 0))
    t.match(exchanges.at(-1)?.response.facts, { requests: 2 }, 'told when it is over')
  },
)

t.test('the limits hold inside: idle, head', async t => {
  const { open, malformed } = await bench(t, { idle: 100, head: 4096 })
  const idle = await open()
  t.equal((await idle.get('/')).status, 200)
  await idle.ended
  const large = await open()
  await large.request('GET', '/', { Large: 'x'.repeat(5000) })
  t.equal((await large.response()).status, 431)
  await large.ended
  t.match(malformed, [{ status: 431 }])
})

t.test('an end of the server ends it at once when nothing is under way', async t => {
  const { open, server } = await bench(t)
  const client = await open()
  t.equal((await client.get('/')).status, 200)
  const closed = server.close(AbortSignal.timeout(5000))
  await client.ended
  client.end()
  await closed
})
