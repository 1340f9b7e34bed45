/**
 * Clients that hold connections to the backend for long keep them from no other client.
 */
import t, { type Test } from 'tap'
import { domain, startGateway } from '../fixtures/gateway/gateway.ts'
import { nodeBackend } from '../fixtures/gateway/node-backend.ts'
import { RawClient } from '../fixtures/http/raw-client.ts'
import { ManualClock } from '../fixtures/time/manual-clock.ts'

const places = 8
const token = '0123456789abcdef0123'

/** A gateway with few connections to its backend, one user, and others: signed in, or strangers on a passthrough path. */
async function crowded(t: Test, { signedIn = true } = {}) {
  const target = await nodeBackend(t, (request, response) => {
    if (request.url?.endsWith('/events')) {
      response.writeHead(200, { 'Content-Type': 'text/event-stream' })
      return void response.write('data: begun\n\n')
    }
    if (request.url?.endsWith('/large')) return void response.end(Buffer.alloc(16 * 1024 * 1024))
    request.resume().on('end', () => response.end('short'))
  })
  const clock = new ManualClock(Date.UTC(2030, 0, 1))
  const gateway = await startGateway(t, {
    ...{ target, clock },
    settings: {
      passthroughPaths: ['/open/'],
      passthroughTokens: [{ name: 'robot', token }],
      limits: { backendConnections: places },
    },
  })
  const cookie = await gateway.logIn({ email: ['ada@example.org'] })
  const [under, own] = signedIn ? ['', `Cookie: ${cookie}\r\n`] : ['/open', '']
  const head = (method: string, path: string, fields = '') =>
    `${method} ${under}${path} HTTP/1.1\r\nHost: ${domain}\r\n${own}${fields}\r\n`
  const clients = async (count: number, bytes: string, from?: string) => {
    const all = []
    for (let i = 0; i < count; i += 1) {
      const client = await RawClient.connect(t, gateway.port, from ? { localAddress: from } : {})
      await client.write(bytes)
      all.push(client)
    }
    return all
  }
  const page = async (known: Record<string, string> = { Cookie: cookie }) => {
    const client = await RawClient.connect(t, gateway.port)
    return client.get('/page', { Host: domain, ...known })
  }
  /** A user's request, while time passes for those that wait. */
  const asks = async () => {
    let over = false
    const answer = page().finally(() => {
      over = true
    })
    while (!over) {
      for (let i = 0; i < 20; i += 1) await new Promise(resolve => setImmediate(resolve))
      if (!over) clock.advance(200)
    }
    return (await answer).text
  }
  return { gateway, clients, asks, page, head }
}

const waysToHold: Array<[string, (head: (m: string, p: string, f?: string) => string) => string]> =
  [
    ['event streams', head => head('GET', '/events')],
    ['slow readers', head => head('GET', '/large')],
    [
      'dripping uploads',
      head => `${head('POST', '/up', 'Content-Length: 900000\r\n')}${'x'.repeat(999)}`,
    ],
    ['dripping small uploads', head => `${head('POST', '/up', 'Content-Length: 900\r\n')}x`],
    [
      'dripping chunks',
      head => `${head('POST', '/up', 'Transfer-Encoding: chunked\r\n')}1\r\nx\r\n`,
    ],
  ]

for (const [name, holding] of waysToHold) {
  t.test(`${name}, three times as many as there are places`, async t => {
    const { clients, asks, head } = await crowded(t)
    await clients(3 * places, holding(head))
    for (let i = 0; i < 5; i += 1) t.equal(await asks(), 'short')
  })
}

t.test('nobody who is signed in waits for strangers, however many they are', async t => {
  const { clients, page, head } = await crowded(t, { signedIn: false })
  await clients(4 * places, head('GET', '/events'))
  for (let i = 0; i < 3; i += 1) t.equal((await page()).text, 'short', 'without a wait')
  const robot = { 'X-Authproxy-Authorization': `Bearer ${token}` }
  t.equal((await page(robot)).text, 'short', 'nor does who has a token')
})

t.test('strangers push no kept connection of users out', async t => {
  const connections = new Set<unknown>()
  const held: Array<() => void> = []
  let awaited = 0
  const target = await nodeBackend(t, ({ socket, url }, response) => {
    if (url === '/') return void response.end()
    connections.add(socket)
    held.push(() => response.end('short'))
    if (held.length === awaited) for (const answer of held.splice(0)) answer()
  })
  const gateway = await startGateway(t, {
    target,
    settings: { passthroughPaths: ['/open/'], limits: { backendConnections: places } },
  })
  const cookie = await gateway.logIn({ email: ['ada@example.org'] })
  const ask = async (path: string, count: number) => {
    awaited = count
    const get = async () => {
      const client = await RawClient.connect(t, gateway.port)
      return (await client.get(path, { Host: domain, Cookie: cookie })).status
    }
    t.same(await Promise.all(Array.from({ length: count }, get)), new Array(count).fill(200))
  }
  await ask('/page', places)
  await ask('/open/page', places / 2)
  await ask('/page', places)
  t.equal(connections.size, places + places / 2)
})

t.test('strangers share half as many connections among themselves', async t => {
  const { clients, head } = await crowded(t, { signedIn: false })
  const streams = await clients(places, head('GET', '/events'))
  const begun = streams.slice(0, places / 2)
  for (const stream of begun) t.equal((await stream.head()).status, 200)
  t.ok(
    streams.slice(places / 2).every(({ socket }) => socket.bytesRead === 0),
    'the rest wait',
  )
})

t.test('those that last go on as long as there is room in their own line', async t => {
  const { clients, asks, head } = await crowded(t)
  const streams = await clients(places, head('GET', '/events'))
  for (const stream of streams) t.equal((await stream.head()).status, 200)
  for (let i = 0; i < 3; i += 1) t.equal(await asks(), 'short')
  for (const stream of streams) t.match(String(await stream.bytes(3)), /^d/)
  t.notOk(streams.some(({ socket }) => socket.destroyed))
})

t.test('when there is none, the client with most of them loses its newest', async t => {
  const { gateway, clients, asks, head } = await crowded(t)
  const few = await clients(2, head('GET', '/events'), '127.0.0.2')
  for (const stream of few) await stream.head()
  const many = await clients(2 * places, head('GET', '/events'), '127.0.0.3')
  for (let i = 0; i < places; i += 1) t.equal(await asks(), 'short')
  const cut = gateway.log.lines.filter(({ facts }) => facts['complete'] === false)
  t.ok(cut.length > 0 && cut.length < many.length)
  t.ok(cut.every(({ facts }) => facts['client'] === '127.0.0.3'))
})
