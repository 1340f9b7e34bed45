/** NTLM and Negotiate through authproxy: a connection a user has authenticated answers no other user. */
import t, { type Test } from 'tap'
import { domain, type GatewayOptions, startGateway } from '../fixtures/gateway/gateway.ts'
import {
  begins,
  ends,
  shakeHands,
  ticket,
  type WindowsOptions,
  windowsBackend,
} from '../fixtures/gateway/windows-backend.ts'
import { until } from '../fixtures/http/origin-client.ts'
import { RawClient } from '../fixtures/http/raw-client.ts'
import { Gate } from '../fixtures/time/gate.ts'

const secret = 'a-token-of-a-program-that-is-long-enough'

async function begun(t: Test, options: GatewayOptions & WindowsOptions = {}) {
  const backend = await windowsBackend(t, options)
  const gateway = await startGateway(t, {
    target: backend.target,
    ...options,
    settings: {
      passthroughPaths: ['/open'],
      passthroughTokens: [{ name: 'ci', token: secret }],
      ...options.settings,
    },
  })
  const fieldsOf = async (user: string) => ({
    Host: domain,
    Cookie: await gateway.logIn({ email: [`${user}@example.org`] }),
  })
  const connect = () => RawClient.connect(t, gateway.port)
  return { backend, gateway, fieldsOf, connect }
}

const stranger = { Host: domain }
const program = { Host: domain, 'X-Authproxy-Authorization': `Bearer ${secret}` }

t.test(
  '58: who has shaken hands stays the same user, and no one else is answered as that',
  async t => {
    const { backend, fieldsOf, connect } = await begun(t)
    const ada = await fieldsOf('ada')
    const client = await connect()
    t.equal(await shakeHands(client, 'ada', { fields: ada }), 'backend says ada')
    for (let i = 0; i < 5; i += 1) {
      const own = await client.get('/', { ...ada, Who: 'ada' })
      t.equal(own.text, 'backend says ada', 'without credentials, over the same connection')
    }
    const bob = await fieldsOf('bob')
    for (const [fields, path] of [
      [bob, '/'],
      [program, '/'],
      [stranger, '/open'],
      [ada, '/'],
    ] as const) {
      const other = await connect()
      for (let i = 0; i < 10; i += 1) t.equal((await other.get(path, fields)).status, 401)
    }
    t.equal(backend.mistaken(), 0)
  },
)

t.test('the schemes that authenticate connections: IIS and WinRM have more than two', async t => {
  for (const scheme of ['Negotiate', 'Nego2', 'Kerberos', 'CredSSP']) {
    const { backend, fieldsOf, connect } = await begun(t)
    const [ada, bob] = [await fieldsOf('ada'), await fieldsOf('bob')]
    const client = await connect()
    t.equal(await shakeHands(client, 'ada', { fields: ada, scheme }), 'backend says ada', scheme)
    t.equal((await client.get('/', { ...ada, Who: 'ada' })).text, 'backend says ada')
    for (let i = 0; i < 3; i += 1) t.equal((await (await connect()).get('/', bob)).status, 401)
    t.equal(backend.mistaken(), 0)
  }
})

t.test('another identity on the same connection of the edge', async t => {
  const { backend, fieldsOf, connect } = await begun(t)
  const [ada, bob] = [await fieldsOf('ada'), await fieldsOf('bob')]
  const edge = await connect()
  t.equal(await shakeHands(edge, 'ada', { fields: ada }), 'backend says ada')
  t.equal((await edge.get('/', bob)).status, 401)
  t.equal((await edge.get('/', program)).status, 401)
  t.equal((await edge.get('/open', stranger)).status, 401)
  t.equal(await shakeHands(edge, 'bob', { fields: bob }), 'backend says bob')
  t.equal((await edge.get('/', { ...ada, Who: 'ada' })).status, 401)
  t.equal(backend.mistaken(), 0)
})

t.test(
  'programs and strangers shake hands, and the next one on that connection does too',
  async t => {
    const { backend, connect } = await begun(t)
    for (const [fields, path] of [
      [program, '/'],
      [stranger, '/open'],
    ] as const) {
      const edge = await connect()
      for (const user of ['ada', 'bob', 'eve']) {
        t.equal(await shakeHands(edge, user, { fields, path }), `backend says ${user}`)
        t.equal((await edge.get(path, fields)).status, 401, 'nothing shows that it is the same one')
      }
      t.equal((await edge.get(path, { ...fields, ...ticket('ada'), Who: 'ada' })).status, 200)
      t.equal((await edge.get(path, fields)).status, 401)
    }
    t.equal(backend.mistaken(), 0)
  },
)

t.test('8 users at once: 40 of 40 handshakes end as themselves', async t => {
  for (const way of ['session', 'token', 'path'] as const) {
    const { backend, fieldsOf, connect } = await begun(t)
    const path = way === 'path' ? '/open/x' : '/'
    let good = 0
    let kept = 0
    await Promise.all(
      Array.from({ length: 8 }, async (_, i) => {
        const user = `user${i}`
        const fields = { session: await fieldsOf(user), token: program, path: stranger }[way]
        for (let round = 0; round < 5; round += 1) {
          const client = await connect()
          await client.get(path, fields)
          if ((await shakeHands(client, user, { fields, path })) === `backend says ${user}`)
            good += 1
          for (let more = 0; more < 4; more += 1) {
            const { status, text } = await client.get(path, { ...fields, Who: user })
            if (status === 200 && text === `backend says ${user}`) kept += 1
          }
          client.end()
        }
      }),
    )
    t.equal(good, 40, way)
    t.equal(kept, way === 'session' ? 160 : 0)
    t.equal(backend.mistaken(), 0)
    await until(() => backend.open() === 0)
  }
})

t.test('the connection ends with that of the client', async t => {
  const { backend, fieldsOf, connect } = await begun(t)
  const client = await connect()
  await shakeHands(client, 'ada', { fields: await fieldsOf('ada') })
  t.equal(backend.open(), 1)
  await client.reset()
  await until(() => backend.open() === 0)
})

t.test('requests of a pipeline go over it one after the other', async t => {
  const gate = new Gate()
  const { backend, fieldsOf, connect } = await begun(t, {
    before: request => (request.url === '/slow' ? gate.pass() : undefined),
  })
  const ada = await fieldsOf('ada')
  const client = await connect()
  const challenge = await client.get('/', { ...ada, ...begins('Negotiate') })
  const own = { ...ada, Who: 'ada' }
  await client.request('GET', '/slow', { ...own, ...ends('ada', challenge, 'Negotiate') })
  for (let i = 0; i < 3; i += 1) await client.request('GET', '/next', own)
  await gate.reached
  gate.open()
  for (let i = 0; i < 4; i += 1) t.equal((await client.response()).text, 'backend says ada')
  t.equal(backend.connections(), 1)
})

t.test(
  'a WebSocket opens over the connection that was authenticated, and takes it along',
  async t => {
    const { backend, fieldsOf, connect } = await begun(t)
    const ada = await fieldsOf('ada')
    const client = await connect()
    await shakeHands(client, 'ada', { fields: ada })
    await client.request('GET', '/socket', {
      ...ada,
      Connection: 'Upgrade',
      Upgrade: 'websocket',
      'Sec-WebSocket-Version': '13',
      'Sec-WebSocket-Key': 'AAAAAAAAAAAAAAAAAAAAAA==',
      Origin: `https://${domain}`,
    })
    t.equal((await client.head()).status, 101)
    t.equal(String(await client.bytes(3)), 'ada')
    t.equal(backend.connections(), 1)
    const other = await connect()
    t.equal((await other.get('/', ada)).status, 401)
  },
)

t.test('a connection that the backend has closed: the client shakes hands again', async t => {
  const { backend, fieldsOf, connect } = await begun(t)
  const ada = await fieldsOf('ada')
  const client = await connect()
  await shakeHands(client, 'ada', { fields: ada })
  backend.drop()
  await until(() => backend.open() === 0)
  t.equal((await client.get('/', ada)).status, 401)
  t.equal(await shakeHands(client, 'ada', { fields: ada }), 'backend says ada')
})

t.test('bound connections give way when others need their places', async t => {
  const { backend, fieldsOf, connect } = await begun(t, {
    settings: { limits: { backendConnections: 2 } },
  })
  const [ada, bob] = [await fieldsOf('ada'), await fieldsOf('bob')]
  const clients = await Promise.all(Array.from({ length: 4 }, connect))
  for (const client of clients) await shakeHands(client, 'ada', { fields: ada })
  t.ok(backend.open() <= 2)
  t.equal((await (await connect()).get('/free', bob)).status, 200)
  t.equal((await clients[3]?.get('/', { ...ada, Who: 'ada' }))?.text, 'backend says ada', 'newest')
  t.equal((await clients[0]?.get('/', ada))?.status, 401, 'the oldest had to go')
  t.equal(backend.mistaken(), 0)
})
