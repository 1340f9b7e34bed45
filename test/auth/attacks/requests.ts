import { randomBytes } from 'node:crypto'
import t from 'tap'
import { foreignName } from '../../../lib/auth/access/foreign-names.ts'
import { arranged } from '../../fixtures/gateway/attacked.ts'
import { domain } from '../../fixtures/gateway/gateway.ts'

const lies = [
  'X-Authproxy-User: admin',
  'x-authproxy-user: admin',
  'X_Authproxy_User: admin',
  'X-Authproxy_User: admin',
  'X.Authproxy.User: admin',
  'X--Authproxy--User: admin',
  '_X-Authproxy-User: admin',
  'HTTP_X_AUTHPROXY_USER: admin',
  "X'Authproxy'User: admin",
  'X-AUTHPROXY-GROUPS: admin',
  'X-Authproxy-Anything: admin',
  'X-Authproxy-Request-ID: admin',
  'X-Authproxy-Omitted: admin',
  'X-Authproxy: admin',
]

t.test(
  '44, 45, 46, 63, 65: no identity a client claims reaches the backend, on any way in',
  async t => {
    const token = randomBytes(16).toString('hex')
    const { backend, cookie, send } = await arranged(t, {
      settings: {
        passthroughPaths: ['/public/'],
        passthroughTokens: [{ name: 'robot', token }],
      },
    })
    const ways = {
      'with a session': ['/', `Cookie: ${cookie}`],
      'on a passthrough path': ['/public/x', `Cookie: ${cookie}`],
      'with a token': ['/', `X-Authproxy-Authorization: Bearer ${token}`],
    }
    for (const [way, [path, field]] of Object.entries(ways)) {
      for (const connection of [
        '',
        'Connection: X-Authproxy-User, X-Authproxy-Email, X-Hop, keep-alive\nX-Hop: admin\n',
      ]) {
        backend.requests.length = 0
        const answer = await send(
          `GET ${path} HTTP/1.1\nHost: ${domain}\n${connection}${lies.join('\n')}\n${field}\n\n`,
        )
        t.equal(answer.status, 200, way)
        const head = backend.requests[0]?.head ?? ''
        t.notMatch(head, 'admin', `${way}: nothing that was claimed`)
        t.notMatch(head, /^connection:.*authproxy/im, `${way}: nothing the next hop would drop`)
        t.notMatch(head, token, `${way}: no token`)
        t.notMatch(head, '__authproxy_session', `${way}: no session`)
        const users = backend.requests[0]?.fields.all('X-Authproxy-User') ?? []
        t.same(users, way === 'with a session' ? ['ada@example.org'] : [], way)
      }
    }
  },
)

t.test('65: no other token lets a request pass', async t => {
  const token = '0123456789abcdef0123456789abcdef'
  const { backend, send } = await arranged(t, {
    settings: { passthroughTokens: [{ name: 'robot', token }] },
  })
  const others = [token.slice(1), `${token}0`, token.toUpperCase(), 'x', '0'.repeat(token.length)]
  for (const other of others) {
    const field = `X-Authproxy-Authorization: Bearer ${other}`
    t.equal((await send(`GET / HTTP/1.1\nHost: ${domain}\n${field}\n\n`)).status, 401, other)
  }
  t.same(backend.requests, [])
})

t.test('names that only look like ours pass', t => {
  for (const name of [
    'X-Auth',
    'X-Authproxyuser',
    'Authproxy-User',
    'Max-Authproxy-User',
    'X-Auth-Proxy-User',
    'Accept',
  ]) {
    t.notOk(foreignName(name), name)
  }
  t.end()
})

t.test(
  '60: our fields stand before those of a client, and too many are refused rather than cut',
  async t => {
    const { backend, cookie, send } = await arranged(t)
    const many = (count: number) => Array.from({ length: count }, (_, i) => `A${i}: 1`).join('\n')
    const head = `GET / HTTP/1.1\nHost: ${domain}\nCookie: ${cookie}\n`
    t.equal((await send(`${head}${many(800)}\n\n`)).status, 200)
    const names = [...(backend.requests[0]?.fields ?? [])].map(([name]) => name)
    t.ok(names.indexOf('X-Authproxy-User') < names.indexOf('A0'))
    t.ok(names.includes('A799'))
    t.equal((await send(`${head}${many(1500)}\n\n`)).status, 431)
    t.equal(backend.requests.length, 1)
  },
)

t.test('47, 48: a path that could be read in two ways never passes without a login', async t => {
  const { backend, send } = await arranged(t, {
    settings: { passthroughPaths: ['/public/', '/api'] },
  })
  const passing = [
    '/public/',
    '/public/x',
    '/public/x?y=/../admin&z=%2e%2e',
    '/api',
    '/api-admin',
    '/api/a.b',
    '/public/..x',
    '/public/%20',
  ]
  for (const target of passing) {
    t.equal((await send(`GET ${target} HTTP/1.1\nHost: ${domain}\n\n`)).status, 200, target)
    t.equal(backend.requests.at(-1)?.target, target)
  }
  const count = backend.requests.length
  const traps = [
    '/public',
    '/Public/x',
    '/admin',
    '//public/x',
    '/./public/x',
    '/x/../public/y',
    '/%70ublic/x',
    '/public/../admin',
    '/public/..',
    '/public/.',
    '/public/./x',
    '/public/%2e%2e/admin',
    '/public/%2E./admin',
    '/public/..%2fadmin',
    '/public/..%2Fadmin',
    '/public/..%5cadmin',
    '/public/..\\admin',
    '/public\\..\\admin',
    '/public//admin',
    '/public/%252e%252e/admin',
    '/public/..;/admin',
    '/public/x;/../admin',
    '/public/%00',
    '/public/x%00/../admin',
    '/public/%c0%af..',
    '/public/%c0%ae%c0%ae/',
    '/public/%u002e/',
    '/public/%',
    '/public/%2',
    '/public/%zz',
    '/public/x%0d%0a',
    '/public/%3f',
    '/public/%23',
    '/api/../admin',
    '/api%2f..',
  ]
  for (const target of traps) {
    const answer = await send(`GET ${target} HTTP/1.1\nHost: ${domain}\n\n`)
    t.match(answer.status, /^(401|400)$/, target)
  }
  t.equal(backend.requests.length, count, 'the backend saw none of them')
})

t.test('48, 54, 55: other forms of target lead nowhere else', async t => {
  const { backend, cookie, send } = await arranged(t, {
    settings: { passthroughPaths: ['/public/'] },
  })
  const fields = `Host: ${domain}\nCookie: ${cookie}\n\n`
  t.equal((await send(`GET https://${domain}/x?y HTTP/1.1\n${fields}`)).status, 200)
  t.equal(backend.requests.at(-1)?.target, '/x?y', 'our own host is reduced to its path')
  const count = backend.requests.length
  for (const [line, status] of [
    ['GET http://evil.example/public/x', 400],
    ['GET http://127.0.0.1:22/', 400],
    [`GET http://evil.example@${domain}:1/`, 400],
    ['OPTIONS *', 400],
    ['CONNECT evil.example:443', 405],
    ['TRACE /', 405],
    ['GET /#x', 400],
    ['GET x', 400],
  ] as const) {
    t.equal((await send(`${line} HTTP/1.1\n${fields}`)).status, status, line)
  }
  t.equal(backend.requests.length, count)
  t.equal((await send(`GET //evil.example/x HTTP/1.1\n${fields}`)).status, 200)
  t.equal(backend.requests.at(-1)?.target, '//evil.example/x', 'bytes untouched, the same backend')
})

t.test('53, 54: a message whose end is uncertain is refused', async t => {
  const { backend, cookie, send } = await arranged(t)
  const head = `POST / HTTP/1.1\nHost: ${domain}\nCookie: ${cookie}\n`
  for (const framing of [
    'Content-Length: 1\nTransfer-Encoding: chunked',
    'Transfer-Encoding: xchunked',
    'Transfer-Encoding: chunked, identity',
    'Content-Length: 1\nContent-Length: 2',
    'Host: evil.example',
  ]) {
    t.match((await send(`${head}${framing}\n\n0\n\n`)).status, /^(400|501)$/, framing)
  }
  t.equal(backend.requests.length, 0)
})

t.test(
  '52: forwarded addresses are believed from trusted peers alone, in whatever spelling',
  async t => {
    const claims =
      'X-Forwarded-For: 203.0.113.9, 10.0.0.1\nX-Real-IP: 203.0.113.8\nForwarded: for=203.0.113.7\nX_Forwarded_For: 203.0.113.6\nX-Forwarded-Proto: http\nX-Forwarded-Host: evil.example\nTrue-Client-IP: 203.0.113.5'
    for (const [trustedProxies, client] of [
      [[], '127.0.0.1'],
      [['127.0.0.1'], '203.0.113.9'],
    ] as const) {
      const { backend, cookie, send } = await arranged(t, { proxy: { trustedProxies } })
      await send(`GET / HTTP/1.1\nHost: ${domain}\nCookie: ${cookie}\n${claims}\n\n`)
      const fields = backend.requests[0]?.fields
      t.same(fields?.all('X-Forwarded-For'), [client])
      t.same(fields?.all('X-Real-IP'), [client])
      t.same(fields?.all('X-Forwarded-Proto'), ['https'])
      t.same(fields?.all('X-Forwarded-Host'), [domain])
      t.notMatch(backend.requests[0]?.head, /evil|203\.0\.113\.[5678]/)
    }
  },
)

t.test('with Basic credentials as identity nobody else’s reach the backend', async t => {
  const { backend, cookie, send } = await arranged(t, {
    proxy: { useBasicAuth: true },
    settings: { passthroughPaths: ['/public/'] },
  })
  const basic = (user: string) => `Basic ${Buffer.from(`${user}:`).toString('base64')}`
  const lie = `Authorization: ${basic('admin')}`
  await send(`GET / HTTP/1.1\nHost: ${domain}\nCookie: ${cookie}\n${lie}\n\n`)
  t.same(backend.requests.at(-1)?.fields.all('Authorization'), [basic('ada@example.org')])
  await send(`GET /public/ HTTP/1.1\nHost: ${domain}\n${lie}\n\n`)
  t.same(backend.requests.at(-1)?.fields.all('Authorization'), [])
  await send(`GET /public/ HTTP/1.1\nHost: ${domain}\nAuthorization: Bearer mine\n\n`)
  t.same(backend.requests.at(-1)?.fields.all('Authorization'), ['Bearer mine'])
})

t.test('61, 62: line breaks and other controls in attributes never make a field', async t => {
  const { backend, gateway, send } = await arranged(t)
  const cookie = await gateway.logIn({
    email: ['ada@example.org'],
    displayName: ['Ada\r\nX-Evil: 1\r\n\r\nGET /admin HTTP/1.1'],
    groups: ['a,admin', 'b\nc', 'Zoë', '\u0000', 'x\u2028y'],
  })
  await send(`GET / HTTP/1.1\nHost: ${domain}\nCookie: ${cookie}\n\n`)
  const fields = backend.requests[0]?.fields
  t.notOk(fields?.has('X-Evil'))
  t.equal(backend.requests.length, 1)
  t.equal(
    fields?.get('X-Authproxy-Displayname'),
    'Ada%0D%0AX-Evil: 1%0D%0A%0D%0AGET /admin HTTP/1.1',
  )
  const groups = Buffer.from(fields?.get('X-Authproxy-Groups') ?? '', 'latin1').toString()
  t.equal(groups, 'a%2Cadmin,b%0Ac,Zoë,%00,x\u2028y')
})
