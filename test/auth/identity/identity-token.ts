import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { createRemoteJWKSet, decodeJwt, decodeProtectedHeader, jwtVerify } from 'jose'
import t from 'tap'
import { keySetPath } from '../../../lib/auth/pages/own-document.ts'
import { arranged } from '../../fixtures/gateway/attacked.ts'
import { domain, gatewayConfig } from '../../fixtures/gateway/gateway.ts'
import { base, minute, start, withTokens } from '../../fixtures/gateway/identity-token.ts'
import { RawClient } from '../../fixtures/http/raw-client.ts'
import { ManualClock } from '../../fixtures/time/manual-clock.ts'

t.test('off unless told: no token, and the path of the keys is the backend’s', async t => {
  const { backend, cookie, send } = await arranged(t)
  await send(`GET ${keySetPath} HTTP/1.1\nHost: ${domain}\nCookie: ${cookie}\n\n`)
  t.equal(backend.requests[0]?.target, keySetPath)
  t.notOk(backend.requests[0]?.fields.has('X-Authproxy-Identity'))
})

t.test('a token says who is asking, and the published keys prove it', async t => {
  const { gateway, tokenOf, verify, published } = await withTokens(t)
  const cookie = await gateway.logIn(
    { email: ['zoë@example.org'], groups: ['cn=a,ou=b', 'c'], displayName: ['Zoë 100%'] },
    { authenticated: start - 5000 },
  )
  const token = await tokenOf(`Cookie: ${cookie}\n`)
  const { payload } = await verify(token)
  t.strictSame(payload, {
    ...{ iss: base, aud: base, sub: 'zoë@example.org' },
    ...{ iat: start / 1000, nbf: start / 1000 - 30, exp: start / 1000 + 120 },
    auth_time: start / 1000 - 5,
    groups: ['cn=a,ou=b', 'c'],
    attributes: { email: ['zoë@example.org'], displayName: ['Zoë 100%'] },
    instance: 'test',
  })
  await t.rejects(verify(token, 'https://other.example.org'))
  await t.rejects(verify(`${token.slice(0, -8)}AAAAAAAA`))
  const { keys } = await published()
  t.equal(keys.length, 1)
  t.strictSame(Object.keys(keys[0]).sort(), ['alg', 'crv', 'kid', 'kty', 'use', 'x', 'y'])
  t.equal(decodeProtectedHeader(token).kid, keys[0].kid)
})

t.test('somebody without groups has an empty list of them', async t => {
  const { tokenOf } = await withTokens(t)
  t.strictSame(decodeJwt(await tokenOf())['groups'], [])
})

t.test('the audience is what the backend calls itself', async t => {
  const settings = { identity: { tokenAudience: 'reports' } }
  const { tokenOf, verify } = await withTokens(t, { settings })
  t.equal((await verify(await tokenOf(), 'reports')).payload.aud, 'reports')
})

t.test('a token is sent again for a minute, then made anew; none outlives its session', async t => {
  const settings = { session: { lifetime: '3m', idle: '3m' } }
  const { tokenOf, verify, clock, ask } = await withTokens(t, { settings })
  const first = await tokenOf()
  clock.advance(minute - 1)
  t.equal(await tokenOf(), first)
  await verify(first)
  clock.advance(1)
  const second = await tokenOf()
  t.not(second, first)
  clock.advance(minute)
  await t.rejects(verify(first), { code: 'ERR_JWT_EXPIRED' })
  t.equal((await verify(await tokenOf())).payload.exp, start / 1000 + 180)
  clock.advance(minute)
  t.equal((await ask()).answer.status, 401)
})

t.test('a clock that is set back makes a token of its own time', async t => {
  let now = start
  const clock = Object.assign(new ManualClock(start), { now: () => now })
  const { tokenOf } = await withTokens(t, { clock })
  await tokenOf()
  now -= 30_000
  t.equal(decodeJwt(await tokenOf()).iat, start / 1000 - 30)
})

t.test('sessions do not share tokens', async t => {
  const { gateway, tokenOf } = await withTokens(t)
  const other = await gateway.logIn({ email: ['bert@example.org'] })
  t.equal(decodeJwt(await tokenOf()).sub, 'ada@example.org')
  t.equal(decodeJwt(await tokenOf(`Cookie: ${other}\n`)).sub, 'bert@example.org')
})

t.test('nobody but us makes the field, however it is spelt', async t => {
  const token = 'a-token-of-the-monitoring'
  const settings = {
    passthroughPaths: ['/public/'],
    passthroughTokens: [{ name: 'robot', token }],
  }
  const { backend, cookie, ask } = await withTokens(t, { settings })
  const forged = 'eyJhbGciOiJub25lIn0.forged.x'
  const lies = [
    ...['X-Authproxy-Identity', 'x-authproxy-identity', 'X_Authproxy_Identity'],
    ...['X-Authproxy_Identity', 'X.Authproxy.Identity', 'X--Authproxy--Identity'],
  ]
  const spoof = `${lies.map(name => `${name}: ${forged}\n`).join('')}Connection: X-Authproxy-Identity\n`
  for (const [path, fields, count] of [
    ['/', `Cookie: ${cookie}\n`, 1],
    ['/public/', `Cookie: ${cookie}\n`, 0],
    ['/', `X-Authproxy-Authorization: Bearer ${token}\n`, 0],
  ] as const) {
    const { answer, sent } = await ask(path, `${spoof}${fields}`)
    t.equal(answer.status, 200)
    t.equal(sent?.all('X-Authproxy-Identity').length, count, path)
    t.notMatch(backend.requests.at(-1)?.head, 'forged')
  }
})

t.test('the handshake of a WebSocket carries one too', async t => {
  const { backend, cookie, gateway, verify } = await withTokens(t)
  backend.at('/ws', async answer => {
    await answer.write(
      'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n',
    )
    answer.end()
  })
  const client = await RawClient.connect(t, gateway.port)
  await client.request('GET', '/ws', {
    ...{ Host: domain, Cookie: cookie, Connection: 'Upgrade', Upgrade: 'websocket' },
    'Sec-WebSocket-Version': '13',
    'Sec-WebSocket-Key': 'dGhlIHNhbXBsZSBub25jZQ==',
    'X-Authproxy-Identity': 'forged',
  })
  t.equal((await client.head()).status, 101)
  const sent = backend.requests.at(-1)?.fields.all('X-Authproxy-Identity') ?? []
  t.equal(sent.length, 1)
  t.equal((await verify(sent[0] ?? '')).payload.sub, 'ada@example.org')
})

t.test('a token that is too long is not sent, and that is said', async t => {
  const settings = { identity: { fieldSize: '1K' } }
  const { gateway, ask } = await withTokens(t, { settings })
  const groups = Array.from({ length: 50 }, (_, i) => `group-${i}`)
  const cookie = await gateway.logIn({ email: ['ada@example.org'], groups })
  const { sent } = await ask('/', `Cookie: ${cookie}\n`)
  t.notOk(sent?.has('X-Authproxy-Identity'))
  t.equal(sent?.get('X-Authproxy-Omitted'), 'X-Authproxy-Identity')
  t.equal(sent?.get('X-Authproxy-Groups')?.split(',').length, 50)
})

t.test('a reload turns them on and off', async t => {
  let token = true
  const { backend, gateway, cookie, send } = await arranged(t, {
    reload: () => {
      const { domain, configPath, target } = gateway.config
      return gatewayConfig({
        ...{ domain, configPath, idpMetadataURL: 'https://idp.example.org/metadata' },
        proxy: {
          listenAddress: '127.0.0.1:0',
          targetURL: `http://127.0.0.1:${target.port}`,
        },
        identity: { token },
      })
    },
  })
  const get = (path: string) => send(`GET ${path} HTTP/1.1\nHost: ${domain}\nCookie: ${cookie}\n\n`)
  for (token of [true, false]) {
    t.same(await gateway.service.reload(), [])
    await get('/')
    t.equal(backend.requests.at(-1)?.fields.has('X-Authproxy-Identity'), token)
    const { text } = await get(keySetPath)
    t.equal(text.startsWith('{"keys":'), token)
  }
})

t.test('what the manual tells a backend in Node to do works', async t => {
  const { tokenOf, gateway, clock } = await withTokens(t, {
    settings: { admin: { listenAddress: '127.0.0.1:0' } },
  })
  const keys = createRemoteJWKSet(
    new URL(`http://127.0.0.1:${gateway.service.adminPort}${keySetPath}`),
  )
  const backend = createServer(async (request, response) => {
    const token = String(request.headers['x-authproxy-identity'] ?? '')
    const options = { issuer: base, audience: base, algorithms: ['ES256'], clockTolerance: 10 }
    try {
      const at = { currentDate: new Date(clock.now()) }
      const { payload } = await jwtVerify(token, keys, { ...options, ...at })
      response.end(payload.sub)
    } catch {
      response.writeHead(401).end()
    }
  }).listen(0, '127.0.0.1')
  await once(backend, 'listening')
  t.teardown(() => backend.close())
  const { port } = backend.address() as AddressInfo
  const client = await RawClient.connect(t, port)
  const good = await tokenOf()
  t.equal((await client.get('/', { 'X-Authproxy-Identity': good })).text, 'ada@example.org')
  t.equal((await client.get('/')).status, 401)
})
