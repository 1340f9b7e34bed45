/**
 * Whole exchanges of the edges that no package of Debian has, byte for byte: what Traefik and Envoy send by their sources (Traefik
 * pkg/middlewares/auth/forward.go; Envoy ext_authz_http_impl.cc and its asynchronous client), and how those read the answers.
 */
import t from 'tap'
import { startChecks } from '../../fixtures/gateway/checks.ts'
import { domain } from '../../fixtures/gateway/gateway.ts'
import type { RawResponse } from '../../fixtures/http/raw-client.ts'

const base = `https://${domain}`
const ada = { email: ['ada@example.org'], groups: ['staff'] }
const html = 'text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8'

/** The fields an application gets by `authResponseHeaders`: each name is deleted, then set when the answer has it. */
function throughTraefik(answer: RawResponse, client: Record<string, string>, names: string[]) {
  const sent = new Map(Object.entries(client))
  for (const name of names) {
    sent.delete(name)
    if (answer.fields.has(name)) sent.set(name, answer.fields.all(name).join(', '))
  }
  return sent
}

t.test('Traefik: Go’s client sends the fields in the order of their names', async t => {
  const { gateway, send } = await startChecks(t, { edge: 'traefik' })
  const cookie = await gateway.logIn(ada)
  const check = (uri: string, fields: string, method = 'GET') =>
    send(
      `GET /check HTTP/1.1\r\nHost: 10.0.0.5:9090\r\nUser-Agent: Mozilla/5.0\r\n${fields}X-Forwarded-For: 192.0.2.9\r\nX-Forwarded-Host: ${domain}\r\nX-Forwarded-Method: ${method}\r\nX-Forwarded-Port: 443\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Server: traefik-7c4d\r\nX-Forwarded-Uri: ${uri}\r\nX-Real-Ip: 192.0.2.9\r\nAccept-Encoding: gzip\r\n\r\n`,
    )
  const navigates = `Accept: ${html}\r\nSec-Fetch-Dest: document\r\nSec-Fetch-Mode: navigate\r\n`
  const login = await check('/deep?x=1', navigates)
  t.equal(login.status, 302, 'handed on to the browser as it is')
  t.equal(login.fields.get('Location'), `${base}/__authproxy-redirect?to=%2Fdeep%3Fx%3D1`)

  const known = await check('/deep?x=1', `Cookie: ${cookie}\r\n`, 'POST')
  t.equal(known.status, 200)
  const claims = { 'X-Authproxy-User': 'admin', 'X-Authproxy-Upn': 'admin' }
  const sent = throughTraefik(known, claims, [
    ...['X-Authproxy-User', 'X-Authproxy-Groups', 'X-Authproxy-Upn'],
  ])
  t.same(Object.fromEntries(sent), {
    'X-Authproxy-User': 'ada@example.org',
    'X-Authproxy-Groups': 'staff',
    'X-Authproxy-Upn': '',
  })
  const program = await check('/api', 'Accept: application/json\r\n')
  t.equal(program.status, 401)
  t.equal(JSON.parse(program.text).login, `${base}/__authproxy-redirect?to=%2Fapi`)

  // trustForwardHeader: the client's own fields come in the place of those of Traefik, and its list of addresses before the peer.
  const trusting = await send(
    `GET /check HTTP/1.1\r\nHost: 10.0.0.5:9090\r\nCookie: ${cookie}\r\nX-Forwarded-For: 127.0.0.1, 192.0.2.9\r\nX-Forwarded-Host: evil.example.net\r\nX-Forwarded-Method: GET\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Uri: /\r\n\r\n`,
  )
  t.equal(trusting.status, 400)
})

t.test('Traefik: authRequestHeaders without the cookie lets no one in', async t => {
  const { send } = await startChecks(t, { edge: 'traefik' })
  const answer = await send(
    `GET /check HTTP/1.1\r\nHost: 10.0.0.5:9090\r\nUser-Agent: Go-http-client/1.1\r\nX-Forwarded-For: 192.0.2.9\r\nX-Forwarded-Host: ${domain}\r\nX-Forwarded-Method: GET\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Uri: /\r\nAccept-Encoding: gzip\r\n\r\n`,
  )
  t.equal(answer.status, 401)
})

/** Envoy: fields that stand for the line first, then those that are allowed, and its own. */
const envoyCheck = (method: string, path: string, fields: string, host = domain) =>
  `${method} /check${path} HTTP/1.1\r\nhost: ${host}\r\ncontent-length: 0\r\n${fields}x-forwarded-proto: https\r\nx-request-id: 5a4f7c1e-0d3b-4f5a-9c55-2f1b8f1b2c3d\r\nx-envoy-internal: true\r\nx-forwarded-for: 192.0.2.9,10.0.0.7\r\nx-envoy-expected-rq-timeout-ms: 250\r\n\r\n`

t.test('Envoy: the line of the request itself behind the prefix, and 200 alone passes', async t => {
  const forwardAuth = { trustedProxies: ['127.0.0.1', '10.0.0.7'] }
  const { gateway, send } = await startChecks(t, { edge: 'envoy', forwardAuth })
  const cookie = await gateway.logIn(ada)
  for (const method of ['GET', 'POST', 'PUT', 'DELETE', 'PATCH', 'OPTIONS']) {
    const answer = await send(envoyCheck(method, '/deep?x=1', `cookie: ${cookie}\r\n`))
    t.equal(answer.status, 200, method)
    t.equal(answer.fields.get('x-authproxy-user'), 'ada@example.org')
    t.equal(answer.fields.get('x-authproxy-upn'), '')
  }
  const head = await send(envoyCheck('HEAD', '/deep', `cookie: ${cookie}\r\n`))
  t.equal(head.status, 200)
  const lines = gateway.log.lines.filter(({ message }) => message === 'check')
  t.match(lines[1]?.facts, { method: 'POST', target: `${domain}/deep?x=1`, client: '192.0.2.9' })

  const navigates = `accept: ${html}\r\nsec-fetch-mode: navigate\r\nsec-fetch-dest: document\r\n`
  const login = await send(envoyCheck('GET', '/deep?x=1', navigates))
  t.equal(login.status, 302)
  t.equal(login.fields.get('location'), `${base}/__authproxy-redirect?to=%2Fdeep%3Fx%3D1`)
  t.equal(
    (await send(envoyCheck('GET', '/', ''))).status,
    401,
    'without allowed fields nothing passes',
  )
  t.equal((await send(envoyCheck('GET', '/', '', 'evil.example.net'))).status, 400)
  const twice = await send(envoyCheck('GET', '/check/x', navigates))
  t.match(twice.fields.get('location'), /to=%2Fcheck%2Fx$/, 'the prefix is taken off once')
})

t.test('Envoy: a WebSocket is asked about as it was opened', async t => {
  const { gateway, send } = await startChecks(t, { edge: 'envoy' })
  const cookie = await gateway.logIn(ada)
  const opens = `connection: Upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\ncookie: ${cookie}\r\n`
  const own = await send(envoyCheck('GET', '/ws', `${opens}origin: ${base}\r\n`))
  t.equal(own.status, 200)
  const foreign = await send(
    envoyCheck('GET', '/ws', `${opens}origin: https://evil.example.net\r\n`),
  )
  t.equal(foreign.status, 403)
})
