/**
 * What lasts ends with the session that let it through: the whole gateway.
 */
import { EventEmitter, once } from 'node:events'
import { readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { askOwner } from '../../../lib/admin-socket.ts'
import { systemClock } from '../../../lib/async/clock.ts'
import { lockOf } from '../../../lib/auth/keys/dynamic-file.ts'
import { Fields } from '../../../lib/http/message/field.ts'
import {
  domain,
  type Gateway,
  requestWith,
  startGateway,
  subject,
} from '../../fixtures/gateway/gateway.ts'
import { nodeBackend } from '../../fixtures/gateway/node-backend.ts'
import { RawClient } from '../../fixtures/http/raw-client.ts'
import { ManualClock } from '../../fixtures/time/manual-clock.ts'

const handshake = {
  Upgrade: 'websocket',
  Connection: 'Upgrade',
  'Sec-WebSocket-Key': 'dGhlIHNhbXBsZSBub25jZQ==',
  'Sec-WebSocket-Version': '13',
}
const minute = 60_000

/** Three exchanges that last, by one session: a WebSocket, an event stream, and a download that stands still. */
async function begun(t: Test) {
  const events = new EventEmitter()
  const left: string[] = []
  const leave = (path: string) => {
    left.push(path)
    events.emit('left')
  }
  const target = await nodeBackend(
    t,
    ({ url }, response) => {
      response.on('close', () => leave(url ?? ''))
      if (url === '/page') return void response.end('page')
      const type = url === '/events' ? 'text/event-stream' : 'application/octet-stream'
      response.writeHead(200, { 'Content-Type': type, 'Cache-Control': 'no-store' })
      response.write('begun')
    },
    server =>
      server.on('upgrade', (_, socket) => {
        socket
          .on('error', () => {})
          .on('end', () => leave('/socket'))
          .resume()
        socket.write('HTTP/1.1 101 Go\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\nbegun')
        t.teardown(() => socket.destroy())
      }),
  )
  const clock = new ManualClock(Date.UTC(2030, 0, 1))
  const settings = { session: { lifetime: '2h', idle: '1h' }, passthroughPaths: ['/open/'] }
  const gateway = await startGateway(t, { target, clock, settings })
  const cookie = await gateway.logIn({ email: ['ada@example.org'] })
  const session = await gateway.sessions.read(requestWith(Fields.of(['Cookie', cookie])))
  const begin = async (path: string, more: Record<string, string> = {}) => {
    const client = await RawClient.connect(t, gateway.port)
    await client.request('GET', path, { Host: domain, Cookie: cookie, ...more })
    t.match((await client.head()).status, path === '/socket' ? 101 : 200, path)
    return client
  }
  for (const path of ['/events', '/download']) await begin(path)
  await begin('/socket', handshake)
  await begin('/open/download')
  const gone = async () => {
    while (left.filter(path => path !== '/page').length < 3) await once(events, 'left')
    return left.filter(path => path !== '/page').sort()
  }
  const tick = async () => {
    await new Promise(resolve => setImmediate(resolve))
    clock.advance(2000)
  }
  await tick()
  return { gateway, clock, cookie, id: session?.id ?? '', left, gone, tick }
}

const ways: Array<[string, (of: Awaited<ReturnType<typeof begun>>) => Promise<unknown> | unknown]> =
  [
    ['it is revoked', ({ gateway, id }) => gateway.sessions.revoke({ sessionId: id })],
    [
      'the sessions of its user are ended',
      async ({ gateway }) => {
        const asked = { do: 'end-sessions', user: 'Ada@example.org', by: 'root' }
        const place = lockOf(join(gateway.directory, 'app.json'))
        await askOwner(place, asked, systemClock)
      },
    ],
    ['it reaches its absolute end', ({ clock }) => clock.advance(120 * minute)],
    [
      'its key is gone',
      async ({ gateway }) => {
        const path = join(gateway.directory, 'app.json')
        const before = await readFile(path, 'utf8')
        await rm(path)
        await gateway.service.reload()
        t.not(await readFile(path, 'utf8'), before)
      },
    ],
  ]

for (const [name, end] of ways) {
  t.test(`WebSockets, event streams and downloads end when ${name}`, async t => {
    const lasting = await begun(t)
    await end(lasting)
    await lasting.tick()
    t.same(await lasting.gone(), ['/download', '/events', '/socket'], 'and nothing else')
  })
}

t.test(
  'what is under way goes on over the end of the idle time, until the absolute end',
  async t => {
    const { gateway, clock, cookie, left, gone, tick } = await begun(t)
    clock.advance(90 * minute)
    await tick()
    const other = await RawClient.connect(t, gateway.port)
    t.equal((await other.get('/page', { Host: domain, Cookie: cookie })).status, 401, 'it was idle')
    t.same(left, [])
    clock.advance(30 * minute)
    await tick()
    t.same(await gone(), ['/download', '/events', '/socket'])
    const cuts = gateway.log.lines.filter(({ facts }) => facts['outcome'] === 'cut')
    t.same(cuts.map(({ facts }) => facts['because']).sort(), ['expired', 'expired', 'expired'])
  },
)

/** A backend that takes whole uploads and answers when the test says so. */
async function patient(t: Test) {
  const asked = new EventEmitter()
  const target = await nodeBackend(t, async (request, response) => {
    asked.emit('begun')
    let bytes = 0
    for await (const block of request) bytes += block.length
    asked.emit('taken', { response, bytes })
  })
  const clock = new ManualClock(Date.UTC(2030, 0, 1))
  const timeouts = { response: '1d', clientContent: '1h' }
  const settings = { session: { lifetime: '12h', idle: '1h' }, timeouts }
  const gateway = await startGateway(t, { target, clock, settings })
  const cookie = await gateway.logIn({ email: ['ada@example.org'] })
  const pass = async (time: number) => {
    clock.advance(time)
    await new Promise(resolve => setImmediate(resolve))
    clock.advance(2000)
    await new Promise(resolve => setImmediate(resolve))
  }
  return { asked, gateway, cookie, connect: () => RawClient.connect(t, gateway.port), pass }
}

t.test(
  'an upload that crosses the end of the idle time arrives, and its answer renews the session',
  async t => {
    const { asked, gateway, cookie, connect, pass } = await patient(t)
    await pass(50 * minute)
    const client = await connect()
    const begun = once(asked, 'begun')
    const head = [
      'POST /save HTTP/1.1',
      `Host: ${domain}`,
      `Cookie: ${cookie}`,
      'Content-Length: 400000',
    ]
    await client.write(`${head.join('\r\n')}\r\n\r\n${'x'.repeat(200_000)}`)
    await begun
    await pass(15 * minute)
    const taken = once(asked, 'taken')
    await client.write('x'.repeat(200_000))
    const [{ response, bytes }] = await taken
    t.equal(bytes, 400_000)
    response.setHeader('Cache-Control', 'no-store')
    response.end('stored')
    const answer = await client.response()
    t.equal(answer.status, 200)
    const renewed = String(answer.fields.get('Set-Cookie')).split(';')[0]
    t.match(renewed, /^__authproxy_session=/)
    t.notOk(gateway.log.lines.some(({ message }) => /ended with/.test(message)))
  },
)

t.test(
  'an answer that takes longer than the idle time renews a session that was young when it was asked',
  async t => {
    const { asked, cookie, connect, pass } = await patient(t)
    const client = await connect()
    const taken = once(asked, 'taken')
    await client.request('GET', '/report', { Host: domain, Cookie: cookie })
    const [{ response }] = await taken
    await pass(70 * minute)
    response.setHeader('Cache-Control', 'no-store')
    response.end('report')
    const answer = await client.response()
    t.equal(answer.status, 200)
    t.match(answer.fields.get('Set-Cookie'), /^__authproxy_session=/)
  },
)

t.test('the answer of an earlier session does not take the place of a later login', async t => {
  const { asked, gateway, cookie, connect, pass } = await patient(t)
  const client = await connect()
  const taken = once(asked, 'taken')
  await client.request('GET', '/report', { Host: domain, Cookie: cookie })
  const [{ response }] = await taken
  await pass(70 * minute)
  const [, browser = ''] = cookie.split('; ')
  const later = await gateway.sessions.establish(
    subject({ email: ['ada@example.org'] }),
    requestWith(Fields.of(['Cookie', browser])),
  )
  t.ok('session' in later)
  response.setHeader('Cache-Control', 'no-store')
  response.end('report')
  const answer = await client.response()
  t.equal(answer.status, 200)
  t.notOk(answer.fields.has('Set-Cookie'))
})

t.test(
  'a later login of a user whose name differs in capitals alone is that of another user',
  async t => {
    const { left, target } = await endlessFeed(t)
    const clock = new ManualClock(Date.UTC(2030, 0, 1))
    const access = [{ path: '/', allow: 'signed-in' }]
    const gateway = await startGateway(t, { target, clock, settings: { access } })
    const cookie = await gateway.logIn({ email: ['Ada@example.org'] })
    const client = await RawClient.connect(t, gateway.port)
    await client.request('GET', '/feed', { Host: domain, Cookie: cookie })
    t.equal((await client.head()).status, 200)
    const gone = once(left, 'left')
    const other = subject({ email: ['ada@example.org'] })
    await gateway.sessions.establish(other, requestWith(Fields.of(['Cookie', cookie])))
    await new Promise(resolve => setImmediate(resolve))
    clock.advance(2000)
    await new Promise(resolve => setImmediate(resolve))
    const ended = gateway.log.lines.find(({ message }) => message === 'ended with its session')
    t.match(ended?.facts, { because: 'other-user' })
    if (ended !== undefined) await gone
  },
)

t.test(
  '91: what a passthrough token let through ends when the token expires, and the client is not blamed',
  async t => {
    const { left, target } = await endlessFeed(t)
    const clock = new ManualClock(Date.UTC(2030, 0, 1))
    const token = 'a-token-of-the-feed-that-is-long-enough'
    const passthroughTokens = [{ name: 'feed', token, expires: '2030-01-01T01:00:00Z' }]
    const gateway = await startGateway(t, { target, clock, settings: { passthroughTokens } })
    const client = await RawClient.connect(t, gateway.port)
    const fields = { Host: domain, 'X-Authproxy-Authorization': `Bearer ${token}` }
    await client.request('GET', '/feed', fields)
    t.equal((await client.head()).status, 200)
    const gone = once(left, 'left')
    for (const time of [59 * minute, 2 * minute, 1000]) {
      clock.advance(time)
      await new Promise(resolve => setImmediate(resolve))
    }
    await gone
    const line = () => gateway.log.lines.find(({ facts }) => facts['outcome'] === 'cut')
    while (line() === undefined) await new Promise(resolve => setImmediate(resolve))
    t.match(line()?.facts, { because: 'token-expired', passthrough: 'feed', complete: false })
  },
)

t.test('91: a request that was cut before its answer is not the client’s doing', async t => {
  const { asked, gateway, cookie, connect, pass } = await patient(t)
  const client = await connect()
  const taken = once(asked, 'taken')
  await client.request('GET', '/report', { Host: domain, Cookie: cookie })
  await taken
  const session = await gateway.sessions.read(requestWith(Fields.of(['Cookie', cookie])))
  await gateway.sessions.revoke({ sessionId: session?.id ?? '' })
  await pass(minute)
  const line = () => gateway.log.lines.find(({ facts }) => facts['target'] === `${domain}/report`)
  while (line() === undefined) await new Promise(resolve => setImmediate(resolve))
  t.match(line()?.facts, { status: 401, outcome: 'cut', because: 'revoked' })
})

/** What ends a session while the backend takes its time; `revocation` is the setting. */
const endings: Array<
  [string, { revocation: boolean; end: (of: Gateway, cookie: Fields) => Promise<unknown> }]
> = [
  [
    'its key is gone',
    {
      revocation: true,
      async end({ service, directory }) {
        await rm(join(directory, 'app.json'))
        await service.reload()
      },
    },
  ],
  [
    'it is revoked',
    {
      revocation: true,
      async end({ sessions }, cookie) {
        const session = await sessions.read(requestWith(cookie))
        await sessions.revoke({ sessionId: session?.id ?? '' })
      },
    },
  ],
  [
    'its user signs out, without a list of ended sessions',
    {
      revocation: false,
      async end({ sessions }, cookie) {
        await sessions.read(requestWith(cookie))
        sessions.end(requestWith(cookie))
      },
    },
  ],
]

for (const [name, { revocation, end }] of endings) {
  t.test(`an answer that is under way when ${name} does not renew the session`, async t => {
    const asked = new EventEmitter()
    const target = await nodeBackend(t, (_, response) => {
      response.setHeader('Cache-Control', 'no-store')
      asked.emit('asked', response)
    })
    const clock = new ManualClock(Date.UTC(2030, 0, 1))
    const settings = { session: { lifetime: '12h', idle: '1h', revocation } }
    const gateway = await startGateway(t, { target, clock, settings })
    const answered = async (cookie: string, meanwhile: () => Promise<unknown>) => {
      const client = await RawClient.connect(t, gateway.port)
      const held = once(asked, 'asked')
      await client.request('GET', '/slow', { Host: domain, Cookie: cookie })
      const [response] = await held
      await meanwhile()
      response.end('slow')
      return client.head()
    }
    const ended = await gateway.logIn({ email: ['ada@example.org'] })
    const other = await gateway.logIn({ email: ['bob@example.org'] })
    clock.advance(10 * minute)
    t.match(
      (await answered(other, async () => {})).fields.get('Set-Cookie'),
      /^__authproxy_session=/,
    )
    const head = await answered(ended, () => end(gateway, Fields.of(['Cookie', ended])))
    t.equal(head.status, 200)
    t.notOk(head.fields.has('Set-Cookie'))
  })
}

/** A backend whose answers never end, and the event `left` when one is broken off. */
async function endlessFeed(t: Test) {
  const left = new EventEmitter()
  const target = await nodeBackend(t, (_, response) => {
    response.on('close', () => left.emit('left'))
    response.writeHead(200, { 'Content-Type': 'text/event-stream' })
    response.write('begun')
  })
  return { left, target }
}
