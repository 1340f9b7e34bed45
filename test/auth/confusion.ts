import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import t from 'tap'
import { isAmbiguous } from '../../lib/auth/access/passthrough.ts'
import { fieldNames, strippedNames } from '../../lib/auth/config/field-names.ts'
import { harmlessTrailers } from '../../lib/auth/identity/backend-fields.ts'
import { encodeValue } from '../../lib/auth/identity/identity-fields.ts'
import { setCookieName } from '../../lib/http/message/cookie.ts'
import { Fields } from '../../lib/http/message/field.ts'
import { arranged } from '../fixtures/gateway/attacked.ts'
import { domain, startGateway } from '../fixtures/gateway/gateway.ts'
import { RawClient } from '../fixtures/http/raw-client.ts'
import { reply } from '../fixtures/http/scripts.ts'
import { cpuTimeOf } from '../fixtures/time/cpu-time.ts'

t.test('47: what only looks like a separator or a dot needs a login as well', async t => {
  const { backend, send } = await arranged(t, { settings: { passthroughPaths: ['/public/'] } })
  const traps = {
    'full-width dots': '/public/%ef%bc%8e%ef%bc%8e/admin',
    'a full-width slash': '/public/..%ef%bc%8fadmin',
    'a two dot leader': '/public/%e2%80%a5/admin',
    'a fraction slash': '/public/..%e2%81%84admin',
    'a division slash': '/public/..%e2%88%95admin',
    'a full-width backslash': '/public/..%ef%bc%bcadmin',
    'a small backslash': '/public/..%ef%b9%a8admin',
    'a full-width percent sign': '/public/%ef%bc%852e%ef%bc%852e/admin',
    'a full-width semicolon': '/public/x%ef%bc%9b/admin',
    'a space behind dots, which Windows drops': '/public/..%20/admin',
    'more dots than two': '/public/.../admin',
    'what is not UTF-8': '/public/%80',
    'half a surrogate pair': '/public/%ed%a0%80',
  }
  for (const [what, target] of Object.entries(traps)) {
    t.equal((await send(`GET ${target} HTTP/1.1\nHost: ${domain}\n\n`)).status, 401, what)
  }
  t.equal(backend.requests.length, 0)
  for (const target of [
    '/public/Z%c3%bcrich%20%e2%80%93%20Bericht.pdf',
    '/public/%e6%97%a5%e6%9c%ac',
    '/public/wait%e2%80%a6.txt',
    '/public/.well-known/a..b',
    '/public/%20',
  ]) {
    t.equal((await send(`GET ${target} HTTP/1.1\nHost: ${domain}\n\n`)).status, 200, target)
  }
  t.notOk(isAmbiguous(`/public/${'a'.repeat(60_000)}`))
})

t.test('49, 96: no field makes the backend think that something else was asked for', async t => {
  const { backend, cookie, send } = await arranged(t, {
    settings: { passthroughPaths: ['/public/'] },
  })
  const lies = [
    'X-Original-URL: /admin',
    'X-Rewrite-URL: /admin',
    'X_Original_Url: /admin',
    'X-Original-URI: /admin',
    'X-Forwarded-Uri: /admin',
    'X-Forwarded-Path: /admin',
    'X-Envoy-Original-Path: /admin',
    'SCRIPT_NAME: /admin',
    'Script-Name: /admin',
    'PATH_INFO: /admin',
    'X-Script-Name: /admin',
    'Daphne-Root-Path: /admin',
    'X-Accel-Mapping: /=/admin/',
    'X_Sendfile_Type: X-Accel-Redirect /admin',
    'X-Forwarded-Context: /admin',
    'X-Host: admin',
    'X-Original-Host: admin',
    'Transfer_Encoding: chunked, admin',
    'Content_Length: 100, admin',
  ]
  for (const [path, who] of [
    ['/public/', ''],
    ['/', `Cookie: ${cookie}\n`],
  ]) {
    const head = `GET ${path} HTTP/1.1\nHost: ${domain}\n${who}${lies.join('\n')}\n\n`
    t.equal((await send(head)).status, 200)
    t.notMatch(backend.requests.at(-1)?.head, /admin/)
  }
})

t.test('the backend hears of no host but the public one', async t => {
  const { backend, cookie, send } = await arranged(t, {
    settings: { passthroughPaths: ['/public/'] },
  })
  const told = () => {
    const fields = backend.requests.at(-1)?.fields
    return [fields?.all('Host'), fields?.all('X-Forwarded-Host')]
  }
  for (const [line, host] of [
    ['HTTP/1.1\nHost: evil.example', domain],
    [`HTTP/1.1\nHost: ${domain}.evil.example`, domain],
    [`HTTP/1.1\nHost: ${domain}:1`, domain],
    ['HTTP/1.0', domain],
    [`HTTP/1.1\nHost: ${domain}:443`, `${domain}:443`],
    ['HTTP/1.1\nHost: APP.example.org', 'APP.example.org'],
  ] as const) {
    for (const [path, who] of [
      ['/public/', ''],
      ['/', `Cookie: ${cookie}\n`],
    ]) {
      t.equal((await send(`GET ${path} ${line}\n${who}\n`)).status, 200, line)
      t.same(told(), [[host], [host]], line)
    }
  }
  t.equal((await send('GET /public/ HTTP/1.1\nHost:\n\n')).status, 400)
  await send(`GET http://${domain}/public/ HTTP/1.1\nHost: evil.example\n\n`)
  t.same(told(), [[domain], [domain]])
  const before = backend.requests.length
  t.equal((await send('GET /public/ HTTP/1.1\nHost:\n\n')).status, 400)
  t.equal(backend.requests.length, before, 'a request that names no host is not sent on')
})

t.test('trailer fields claim no address and no identity, in whatever spelling', t => {
  const fields = Fields.of(
    ['True-Client-IP', '203.0.113.1'],
    ['CF-Connecting-IP', '203.0.113.1'],
    ['X-Client-IP', '203.0.113.1'],
    ['X_Authproxy_User', 'admin'],
    ['X-Original-URL', '/admin'],
    ['SCRIPT_NAME', '/public'],
    ['X-Script-Name', '/public'],
    ['Transfer_Encoding', 'chunked'],
    ['Digest', 'kept'],
  )
  t.same(
    [...harmlessTrailers(fields, strippedNames(fieldNames(['authproxy'])))],
    [['Digest', 'kept']],
  )
  t.end()
})

t.test('a backend neither ends nor plants a session while it opens a WebSocket', async t => {
  const server = createServer()
  server.on('upgrade', (_, socket) => {
    socket.on('error', () => {})
    const lines = ['HTTP/1.1 101 Switching Protocols', 'Upgrade: websocket', 'Connection: Upgrade']
    lines.push('Set-Cookie: __authproxy_session=planted; Path=/', 'Set-Cookie: theirs=1')
    socket.write(`${lines.join('\r\n')}\r\n\r\n`)
    t.teardown(() => socket.destroy())
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  const target = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const gateway = await startGateway(t, { target })
  const client = await RawClient.connect(t, gateway.port)
  await client.request('GET', '/', {
    Host: domain,
    Cookie: await gateway.logIn({ email: ['ada@example.org'] }),
    Upgrade: 'websocket',
    Connection: 'Upgrade',
  })
  const head = await client.head()
  t.equal(head.status, 101)
  t.same(head.fields.all('Set-Cookie'), ['theirs=1'])
})

t.test('nor with a cookie without a name, which browsers send back as its value', async t => {
  const names = ['=__authproxy_session=x', ' = __authproxy_session=x', '__authproxy_session=x; a=b']
  for (const line of names) t.equal(setCookieName(line), '__authproxy_session', line)
  t.equal(setCookieName('a=__authproxy_session=x'), 'a')
  const { backend, cookie, send } = await arranged(t)
  backend.at('/', reply({ fields: { 'Set-Cookie': '=__authproxy_session=x' }, content: 'x' }))
  const answer = await send(`GET / HTTP/1.1\nHost: ${domain}\nCookie: ${cookie}\n\n`)
  t.notOk('fields' in answer && answer.fields.has('Set-Cookie'))
})

t.test('a name made of spaces costs what its length costs', async t => {
  for (const encoding of ['percent', 'utf8'] as const) {
    const time = await cpuTimeOf(() =>
      t.equal(encodeValue(`a${' '.repeat(80_000)}b`, encoding, false).length, 80_002),
    )
    // It was half a minute.
    t.ok(time < 8000, `${time} ms`)
  }
})
