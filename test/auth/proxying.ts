import type { IncomingMessage } from 'node:http'
import t from 'tap'
import { handshake } from '../fixtures/gateway/access-lab.ts'
import { domain, startGateway } from '../fixtures/gateway/gateway.ts'
import { nodeBackend } from '../fixtures/gateway/node-backend.ts'
import { RawClient } from '../fixtures/http/raw-client.ts'
import { ScriptedOrigin } from '../fixtures/http/scripted-origin.ts'
import { reply } from '../fixtures/http/scripts.ts'

t.test(
  'a request of a session reaches the backend with its identity, its path bytes and nothing of ours',
  async t => {
    const backend = await ScriptedOrigin.listen(t)
    backend.at('*', reply({ content: 'hello', fields: { 'X-Answer': 'yes', 'Set-Cookie': 'a=1' } }))
    const gateway = await startGateway(t, { target: backend.url('') })
    const cookie = await gateway.logIn({ email: ['ada@example.org'], groups: ['staff', 'a,b'] })
    const client = await RawClient.connect(t, gateway.port)
    const target = "/a%2Fb/../c//d;x=1/%7e?q=%20&r=[1]|'"
    const answer = await client.get(target, { Host: domain, Cookie: `x=1; ${cookie}; y=2` })
    t.equal(answer.status, 200)
    t.equal(answer.text, 'hello')
    t.equal(answer.fields.get('X-Answer'), 'yes')
    t.equal(answer.fields.get('Set-Cookie'), 'a=1')
    const [seen] = backend.requests
    t.equal(seen?.target, target)
    t.equal(seen?.fields.get('X-Authproxy-User'), 'ada@example.org')
    t.equal(seen?.fields.get('X-Authproxy-Email'), 'ada@example.org')
    t.equal(seen?.fields.get('X-Authproxy-Groups'), 'staff,a%2Cb')
    t.match(seen?.fields.get('X-Authproxy-Instance-ID'), /^[0-9a-f]{32}$/)
    t.equal(seen?.fields.get('Cookie'), 'x=1; y=2')
    t.equal(seen?.fields.get('Host'), domain)
    t.equal(seen?.fields.get('X-Forwarded-For'), '127.0.0.1')
    t.equal(seen?.fields.get('X-Real-IP'), '127.0.0.1')
    t.equal(seen?.fields.get('X-Forwarded-Proto'), 'https')
    t.equal(seen?.fields.get('X-Forwarded-Host'), domain)
    t.notMatch(seen?.head, /authproxy_session/)
  },
)

t.test('a valid traceparent reaches the backend and the log, in requests and upgrades', async t => {
  const id = '4bf92f3577b34da6a3ce929d0e0e4736'
  const valid = `00-${id}-00f067aa0ba902b7-01`
  const seen: Array<readonly [string | undefined, string | undefined]> = []
  const keep = ({ headers }: IncomingMessage) =>
    seen.push([headers['traceparent']?.toString(), headers['tracestate']?.toString()])
  const target = await nodeBackend(
    t,
    (request, response) => {
      keep(request)
      response.end('page')
    },
    server =>
      server.on('upgrade', (request, socket) => {
        keep(request)
        socket.end('HTTP/1.1 403 No\r\nContent-Length: 0\r\n\r\n')
      }),
  )
  const gateway = await startGateway(t, { target })
  const cookie = await gateway.logIn({ email: ['ada@example.org'] })
  let count = 0
  for (const upgrade of [false, true]) {
    for (const [traceparent, passed] of [
      [valid, true],
      [valid.toUpperCase(), false],
      [`${valid}, ${valid}`, false],
      ['', false],
    ] as const) {
      seen.length = 0
      const client = await RawClient.connect(t, gateway.port)
      await client.request('GET', '/', {
        ...{ Host: domain, Cookie: cookie, tracestate: 'vendor=1' },
        ...(traceparent === '' ? {} : { traceparent }),
        ...(upgrade ? handshake : {}),
      })
      t.equal((await client.head()).status, upgrade ? 403 : 200)
      t.same(seen, [passed ? [valid, 'vendor=1'] : [undefined, undefined]])
      count += 1
      const logged = () => gateway.log.lines.filter(({ message }) => message === 'request')
      while (logged().length < count) await new Promise(resolve => setImmediate(resolve))
      t.equal(logged().at(-1)?.facts['trace'], passed ? id : undefined)
      client.end()
    }
  }
})

t.test('trailers, early hints, HEAD, ranges and reason phrases pass', async t => {
  const target = await nodeBackend(t, (request, response) => {
    if (request.url === '/trailers') {
      request.resume().on('end', () => {
        response.writeHead(200, { Trailer: 'X-Sum' })
        response.write('content')
        response.addTrailers([
          ['X-Sum', JSON.stringify(request.trailers)],
          ['Set-Cookie', '__authproxy_session=planted'],
          ['Clear-Site-Data', '"cookies"'],
        ])
        response.end()
      })
      return
    }
    if (request.url === '/hints') {
      response.writeEarlyHints({ link: '</style.css>; rel=preload; as=style' })
      response.end('page')
      return
    }
    if (request.method === 'HEAD')
      return void response.writeHead(200, { 'Content-Length': 1234 }).end()
    response.writeHead(206, 'Partly', {
      'Content-Range': 'bytes 0-1/5',
      Got: request.headers.range ?? '',
    })
    response.end('ab')
  })
  const gateway = await startGateway(t, { target })
  const cookie = await gateway.logIn({ email: ['ada@example.org'] })
  const fields = { Host: domain, Cookie: cookie }
  const client = await RawClient.connect(t, gateway.port)
  await client.request('POST', '/trailers', {
    ...fields,
    'Transfer-Encoding': 'chunked',
    TE: 'trailers',
    Connection: 'TE',
  })
  await client.write(
    '2\r\nab\r\n0\r\nX-Mine: 1\r\nX_Authproxy_User: admin\r\nAuthorization: x\r\n\r\n',
  )
  const sum = await client.response()
  t.equal(sum.text, 'content')
  t.equal(sum.trailers.get('X-Sum'), '{"x-mine":"1"}')
  t.same([...sum.trailers].length, 1, 'nothing that ends or makes a session')
  const hinted = await client.get('/hints', fields)
  t.same(hinted.interim, [103])
  t.equal(hinted.text, 'page')
  const head = await client.headOf('/', fields)
  t.equal(head.fields.get('Content-Length'), '1234')
  const part = await client.get('/part', { ...fields, Range: 'bytes=0-1' })
  t.equal(part.status, 206)
  t.equal(part.reason, 'Partly')
  t.equal(part.fields.get('Got'), 'bytes=0-1')
})

t.test('a request head of nearly 1 MiB passes through a session', async t => {
  let size = 0
  const target = await nodeBackend(t, (request, response) => {
    size = String(request.headers['x-large']).length
    response.end('ok')
  })
  const gateway = await startGateway(t, { target })
  const cookie = await gateway.logIn({ email: ['ada@example.org'] })
  const client = await RawClient.connect(t, gateway.port)
  const large = 'x'.repeat(1_000_000)
  t.equal((await client.get('/', { Host: domain, Cookie: cookie, 'X-Large': large })).status, 200)
  t.equal(size, 1_000_000)
  const other = await RawClient.connect(t, gateway.port)
  const more = 'x'.repeat(1_200_000)
  await other.request('GET', '/', { Host: domain, Cookie: cookie, 'X-Large': more }).catch(() => {})
  t.equal((await other.response()).status, 431)
})

t.test(
  'a backend that breaks off breaks the response off, and never ends it as if it were whole',
  async t => {
    const backend = await ScriptedOrigin.listen(t)
    backend.at('/', reply({ content: 'hello', framing: 'chunked', cut: { at: 3, by: 'reset' } }))
    const gateway = await startGateway(t, { target: backend.url('') })
    const cookie = await gateway.logIn({ email: ['ada@example.org'] })
    const client = await RawClient.connect(t, gateway.port)
    await client.request('GET', '/', { Host: domain, Cookie: cookie })
    await t.rejects(client.response())
  },
)

t.test('a client that leaves takes its request to the backend with it', async t => {
  const backend = await ScriptedOrigin.listen(t)
  backend.at('/slow', () => new Promise(() => {}))
  const gateway = await startGateway(t, { target: backend.url('') })
  const cookie = await gateway.logIn({ email: ['ada@example.org'] })
  const client = await RawClient.connect(t, gateway.port)
  await client.request('GET', '/slow', { Host: domain, Cookie: cookie })
  const seen = await backend.arrived('/slow')
  await client.reset()
  await seen.gone
  t.notOk(
    gateway.log.lines.some(({ message }) => message.startsWith('PROXY-ERROR')),
    'nothing failed',
  )
})

t.test('a kept connection that has died is replaced without a word, once', async t => {
  const backend = await ScriptedOrigin.listen(t, { requestsPerConnection: 1 })
  backend.at('*', reply({ content: 'ok' }))
  const gateway = await startGateway(t, { target: backend.url('') })
  const cookie = await gateway.logIn({ email: ['ada@example.org'] })
  const client = await RawClient.connect(t, gateway.port)
  for (const path of ['/1', '/2', '/3']) {
    t.equal((await client.get(path, { Host: domain, Cookie: cookie })).text, 'ok')
  }
})

t.test(
  'the three ways a backend fails are 502 Proxy Error with a request ID that leads to the log',
  async t => {
    const silent = await ScriptedOrigin.listen(t)
    silent.at('*', answer => answer.end())
    const plain = (await nodeBackend(t, (_, response) => response.end())).replace('http:', 'https:')
    for (const target of ['http://127.0.0.1:9', silent.url(''), plain]) {
      const gateway = await startGateway(t, { target })
      const cookie = await gateway.logIn({ email: ['ada@example.org'] })
      const client = await RawClient.connect(t, gateway.port)
      const answer = await client.get('/', { Host: domain, Cookie: cookie, Accept: 'text/html' })
      t.equal(answer.status, 502)
      t.equal(answer.reason, 'Proxy Error')
      const line = gateway.log.lines.find(({ facts }) => facts['category'] === 'PROXY-ERROR')
      t.match(line?.message, /^PROXY-ERROR backend_/)
      t.ok(line?.facts['error'], 'with the underlying error')
      t.match(answer.text, String(line?.facts['id']))
      t.match(answer.fields.get('Content-Security-Policy'), /default-src 'none'/)
    }
  },
)

t.test(
  'when the backend finds the head too large, the log says how much of it was ours',
  async t => {
    const target = await nodeBackend(t, (_, response) => response.writeHead(431).end('no'))
    const gateway = await startGateway(t, { target })
    const groups = Array.from(
      { length: 400 },
      (_, i) => `cn=group ${i},ou=groups,dc=example,dc=org`,
    )
    const cookie = await gateway.logIn({ email: ['ada@example.org'], groups })
    const client = await RawClient.connect(t, gateway.port)
    t.equal((await client.get('/', { Host: domain, Cookie: cookie })).status, 431)
    const told = () => gateway.log.lines.find(({ facts }) => facts['identityBytes'] !== undefined)
    while (told() === undefined) await new Promise(setImmediate)
    t.ok(Number(told()?.facts['identityBytes']) > 16_384)
  },
)
