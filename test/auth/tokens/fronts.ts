/**
 * Tokens of people where the gateway forwards and where an edge asks; and what lasts longer than a request.
 */
import { EventEmitter, once } from 'node:events'
import t, { type Test } from 'tap'
import { tokenField } from '../../../lib/auth/access/passthrough.ts'
import { tokensPath } from '../../../lib/auth/gate/gateway-paths.ts'
import { handshake } from '../../fixtures/gateway/access-lab.ts'
import { edges, startChecks } from '../../fixtures/gateway/checks.ts'
import { domain } from '../../fixtures/gateway/gateway.ts'
import { nodeBackend } from '../../fixtures/gateway/node-backend.ts'
import { formOf, idOf, ownForm, startTokens, tokenIn } from '../../fixtures/gateway/token-lab.ts'
import { RawClient } from '../../fixtures/http/raw-client.ts'
import { until } from '../../fixtures/time/until.ts'

for (const edge of edges) {
  t.test(`137: ${edge}, a check judges a token by the request that is asked about`, async t => {
    const access = [
      { path: '/closed/', allow: 'nobody' },
      { path: '/', allow: 'signed-in' },
    ]
    const lab = await startChecks(t, { edge, settings: { access, tokens: { longest: '30d' } } })
    const { gateway } = lab
    const ada = await gateway.logIn({ email: ['ada@example.org'], groups: ['staff'] })
    const loggedIn = Date.now()
    await until(() => Date.now() > loggedIn + 1)
    const client = await RawClient.connect(t, gateway.port)
    const content = formOf({ paths: '/api/ /closed/', methods: ['GET'] })
    const post = async (values: Readonly<Record<string, string>>) => {
      const text = formOf(values)
      const fields = { ...ownForm, Host: domain, Cookie: ada, 'Content-Length': `${text.length}` }
      await client.request('POST', tokensPath, fields)
      await client.write(text)
      return client.response()
    }
    t.equal((await post({ paths: '/api/ /closed/' })).status, 403, content)
    const token = tokenIn(await post({ paths: '/api/' })) ?? ''
    const fields = { [tokenField]: `Bearer ${token}` }
    const passed = await lab.ask('/api/x', fields)
    t.equal(passed.status, 200)
    t.equal(passed.fields.get('X-Authproxy-User'), 'ada@example.org')
    t.equal(passed.fields.get(tokenField), '', 'the edge is told to take the token away')
    t.equal((await lab.ask('/api/x', { ...fields, Cookie: ada })).fields.get('Cookie'), '')
    for (const [target, method] of [
      ['/admin', 'GET'],
      ['/api', 'POST'],
      ['/apix', 'GET'],
      ['/api/..%2fadmin', 'GET'],
      ['/api/x?_method=DELETE', 'GET'],
    ] as const) {
      t.equal((await lab.ask(target, fields, { method })).status, 401, `${method} ${target}`)
    }
    t.equal((await lab.ask('/api/x', { [tokenField]: 'Bearer a.b.c', Cookie: ada })).status, 401)
    const own = (await lab.ask(tokensPath, fields)).status
    t.equal(own, 404, 'the page is not of a check')
    t.match(gateway.log.lines.findLast(({ facts }) => facts['outcome'] === 'allowed')?.facts, {
      because: 'token',
      user: 'ada@example.org',
      program: `${idOf(token)} backup`,
    })
    await post({ end: idOf(token) })
    t.equal((await lab.ask('/api/x', fields)).status, 401)
    await gateway.stop()
  })
}

/** A WebSocket and a stream that a token has let through. */
async function lasting(t: Test, more: Readonly<Record<string, unknown>> = {}) {
  const events = new EventEmitter()
  const left: string[] = []
  const leave = (path: string) => {
    left.push(path)
    events.emit('left')
  }
  const target = await nodeBackend(
    t,
    ({ url = '' }, response) => {
      if (url !== '/events') return void response.end('page')
      response.on('close', () => leave(url))
      response.writeHead(200, { 'Content-Type': 'text/event-stream' })
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
  const lab = await startTokens(t, { target, ...more })
  const ada = await lab.signIn('ada@example.org')
  const token = await lab.make(ada, { days: '1' })
  const begin = async (path: string, fields: Record<string, string> = {}) => {
    const client = await RawClient.connect(t, lab.gateway.port)
    await client.request('GET', path, { Host: domain, [tokenField]: `Bearer ${token}`, ...fields })
    return (await client.head()).status
  }
  const tick = async () => {
    await new Promise(resolve => setImmediate(resolve))
    lab.clock.advance(2000)
  }
  const gone = async () => {
    while (left.length < 2) await once(events, 'left')
    return [...left].sort()
  }
  t.equal(await begin('/events'), 200)
  t.equal(await begin('/socket', handshake), 101)
  await tick()
  t.same(left, [])
  return { lab, ada, token, begin, tick, gone, left }
}

t.test('138: a WebSocket and a stream end with their token', async t => {
  for (const [what, end] of [
    [
      'its person ends it',
      ({ lab, ada, token }: Awaited<ReturnType<typeof lasting>>) =>
        lab.post(ada, { end: idOf(token) }),
    ],
    ['its person ends all', ({ lab, ada }) => lab.post(ada, { end: 'all' })],
    ['the sessions of the user are ended', ({ lab }) => lab.endUser('ada@example.org')],
    ['a login brings other groups', ({ lab }) => lab.signIn('ada@example.org', [])],
    ['it is over', ({ lab }) => lab.clock.advance(86_400_000)],
  ] as ReadonlyArray<readonly [string, (of: Awaited<ReturnType<typeof lasting>>) => unknown]>) {
    const open = await lasting(t)
    await end(open)
    await open.tick()
    t.same(await open.gone(), ['/events', '/socket'], what)
    t.equal(await open.begin('/socket', handshake), 401, `${what}: no WebSocket afterwards`)
  }
})

t.test(
  '139: a reload that closes a path ends what a token has opened there, and nothing else',
  async t => {
    const rules = [{ path: '/', allow: 'signed-in' }]
    const open = await lasting(t)
    open.lab.reloading({ access: rules })
    await open.lab.gateway.service.reload()
    await open.tick()
    await open.tick()
    t.same(open.left, [], 'still allowed')
    open.lab.reloading({ access: [{ path: '/', allow: 'nobody' }] })
    await open.lab.gateway.service.reload()
    await open.tick()
    await open.tick()
    t.same(await open.gone(), ['/events', '/socket'])
  },
)
