import { createHmac, randomBytes } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import t from 'tap'
import { Fields } from '../../../lib/http/message/field.ts'
import { arranged } from '../../fixtures/gateway/attacked.ts'
import {
  cookieOf,
  domain,
  requestWith,
  startGateway,
  subject,
} from '../../fixtures/gateway/gateway.ts'
import { reply } from '../../fixtures/http/scripts.ts'

t.test('64: tokens nobody signed, or signed for another purpose, are no sessions', async t => {
  const { gateway, cookie, send } = await arranged(t)
  const [session = '', browser] = cookie.split('; ')
  const token = session.slice(session.indexOf('=') + 1)
  const [header = '', payload = '', signature = ''] = token.split('.')
  const claims = JSON.parse(Buffer.from(payload, 'base64url').toString())
  const own = JSON.parse(Buffer.from(header, 'base64url').toString())
  const dynamic = JSON.parse(await readFile(gateway.config.configPath, 'utf8'))
  const key = Buffer.from(dynamic.session[0].key, 'base64url')
  const encode = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url')
  const sign = (head: unknown, body: unknown, by: Buffer = key) => {
    const text = `${encode(head)}.${encode(body)}`
    return `${text}.${createHmac('sha256', by).update(text).digest('base64url')}`
  }
  const ask = async (value: string) =>
    (
      await send(
        `GET / HTTP/1.1\nHost: ${domain}\nCookie: __authproxy_session=${value}; ${browser}\n\n`,
      )
    ).status
  t.equal(await ask(sign(own, claims)), 200, 'the way to sign is right')
  const certificate = Buffer.from(dynamic.saml[0].certificate)
  const bad: Record<string, string> = {
    'alg none': `${encode({ ...own, alg: 'none' })}.${payload}.`,
    'alg None': `${encode({ ...own, alg: 'None' })}.${payload}.`,
    'no signature': `${header}.${payload}.`,
    'another algorithm of the family': sign({ ...own, alg: 'HS512' }, claims),
    'RS256 with our secret': sign({ ...own, alg: 'RS256' }, claims),
    'signed with the certificate': sign(own, claims, certificate),
    'signed with an empty key': sign(own, claims, Buffer.alloc(0)),
    'no kid': sign({ alg: 'HS256', typ: own.typ }, claims),
    'another kid': sign({ ...own, kid: 'x' }, claims),
    'a path as kid': sign({ ...own, kid: '../../dev/null' }, claims, Buffer.alloc(0)),
    'a kid of the prototype': sign({ ...own, kid: '__proto__' }, claims),
    'another type': sign({ ...own, typ: 'JWT' }, claims),
    'no type': sign({ alg: 'HS256', kid: own.kid }, claims),
    'a critical header': sign({ ...own, crit: ['b64'], b64: false }, claims),
    'another issuer': sign(own, { ...claims, iss: 'https://evil.example' }),
    'another audience': sign(own, { ...claims, aud: 'https://other.example.org/saml/metadata' }),
    'no audience': sign(own, { ...claims, aud: undefined }),
    'no expiry': sign(own, { ...claims, exp: undefined }),
    expired: sign(own, { ...claims, exp: 1 }),
    'not yet valid': sign(own, { ...claims, nbf: 9_999_999_999 }),
    'another version': sign(own, { ...claims, v: 2 }),
    'no subject': sign(own, { ...claims, sub: undefined }),
    'an empty subject': sign(own, { ...claims, sub: '' }),
    'a bomb': sign(own, { ...claims, attrs: undefined, z: 'A'.repeat(1000) }),
    'changed payload': `${header}.${encode({ ...claims, sub: 'admin' })}.${signature}`,
    'an encrypted token': `${encode({ alg: 'PBES2-HS256+A128KW', enc: 'A128GCM', p2c: 1e9 })}.a.b.c.d`,
    'too long': `${header}.${'A'.repeat(30_000)}.${signature}`,
  }
  for (const [what, value] of Object.entries(bad)) t.equal(await ask(value), 401, what)
})

t.test('66: a session of one instance is none at another', async t => {
  const one = await arranged(t)
  const other = await arranged(t)
  t.equal(
    (await other.send(`GET / HTTP/1.1\nHost: ${domain}\nCookie: ${one.cookie}\n\n`)).status,
    401,
  )
})

t.test('71: cookies thrown in by a neighbour neither log anybody out nor in', async t => {
  const { backend, gateway, cookie, send } = await arranged(t)
  const junk = [
    '__authproxy_session=x',
    '__authproxy_session=',
    '__authproxy_session=3:abcd:x',
    '__authproxy_session.1=zzz:x',
  ]
  for (const jar of [`${junk.join('; ')}; ${cookie}`, `${cookie}; ${junk.join('; ')}`]) {
    t.equal((await send(`GET / HTTP/1.1\nHost: ${domain}\nCookie: ${jar}\n\n`)).status, 200)
    t.notMatch(backend.requests.at(-1)?.head, /authproxy_session/)
  }
  const groups = Array.from({ length: 120 }, () => randomBytes(16).toString('hex'))
  const large = await gateway.logIn({ email: ['ada@example.org'], groups })
  t.match(large, /__authproxy_session=2:[0-9a-f]+:/)
  for (const jar of [
    large,
    `__authproxy_session.1=ffff:bad; ${large}`,
    large.split('; ').reverse().join('; '),
  ]) {
    t.equal((await send(`GET / HTTP/1.1\nHost: ${domain}\nCookie: ${jar}\n\n`)).status, 200)
  }
  const [half = '', , browser] = large.split('; ')
  t.equal(
    (await send(`GET / HTTP/1.1\nHost: ${domain}\nCookie: ${half}; ${browser}\n\n`)).status,
    401,
  )
})

t.test('a session of another browser is none here, wherever it stands', async t => {
  const { gateway, cookie, send, backend } = await arranged(t)
  const [foreign = ''] = (await gateway.logIn({ email: ['mallory@example.org'] })).split('; ')
  const [, browser = ''] = cookie.split('; ')
  t.match(browser, /^__Host-authproxy_browser=[\w-]{22}$/)
  const ask = async (jar: string) =>
    (await send(`GET / HTTP/1.1\nHost: ${domain}\nCookie: ${jar}\n\n`)).status
  t.equal(await ask(`${foreign}; ${cookie}`), 200)
  t.equal(backend.requests.at(-1)?.fields.get('X-Authproxy-User'), 'ada@example.org')
  t.equal(await ask(`${foreign}; ${browser}`), 401)
  t.notMatch(backend.requests.at(-1)?.head, /authproxy_/, 'the backend sees none of this')
})

t.test(
  '71: a browser needs its cookie, so no neighbour plants a session; a program does not',
  async t => {
    const { gateway, send } = await arranged(t)
    const [session = '', browser = ''] = (
      await gateway.logIn({ email: ['eve@example.org'] })
    ).split('; ')
    const socket =
      'Upgrade: websocket\nConnection: Upgrade\nSec-WebSocket-Version: 13\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\n'
    const ask = async (fields: string, cookies = session) =>
      (await send(`GET / HTTP/1.1\nHost: ${domain}\nCookie: ${cookies}\n${fields}\n`)).status
    for (const fields of [
      'Sec-Fetch-Site: none\nSec-Fetch-Mode: navigate\nSec-Fetch-Dest: document\n',
      'Sec-Fetch-Site: same-origin\nSec-Fetch-Mode: cors\nSec-Fetch-Dest: empty\n',
      'Sec-Fetch-Site: same-origin\nSec-Fetch-Mode: no-cors\nSec-Fetch-Dest: image\n',
      'Sec-Fetch-Site: none\n',
      `${socket}Origin: https://${domain}\n`,
      `${socket}Sec-Fetch-Site: same-origin\nSec-Fetch-Mode: websocket\n`,
    ]) {
      t.ok([302, 401].includes(await ask(fields)), fields)
      const own = await ask(fields, `${session}; ${browser}`)
      t.notOk([302, 401].includes(own), `${fields} with the cookie of the browser`)
    }
    t.equal(await ask(''), 200, 'curl, with the session alone')
    const node = 'Accept: */*\nAccept-Language: *\nSec-Fetch-Mode: cors\nUser-Agent: node\n'
    t.equal(await ask(node), 200, 'fetch of Node.js, which sends this field of a browser')
    t.equal(await ask('Accept: text/html\nOrigin: https://app.example.org\n'), 200)
    t.not(await ask(socket), 401, 'a WebSocket of a program')
  },
)

t.test('where the browser’s cookie is required, a session in a new browser is none', async t => {
  const { gateway, send } = await arranged(t, { settings: { session: { browser: 'required' } } })
  const [foreign = ''] = (await gateway.logIn({ email: ['mallory@example.org'] })).split('; ')
  const { status } = await send(`GET / HTTP/1.1\nHost: ${domain}\nCookie: ${foreign}\n\n`)
  t.equal(status, 401)
})

t.test('a backend can neither end nor plant a session', async t => {
  const { backend, cookie, send } = await arranged(t)
  for (const [said, passed] of [
    ['"cookies"', undefined],
    ['"cache", "cookies", "storage"', '"cache", "storage"'],
    ['"cache","COOKIES"', '"cache"'],
    ['"*"', '"cache", "storage", "executionContexts"'],
    ['"cache", "*", "storage"', '"cache", "storage", "executionContexts"'],
    ['"storage"', '"storage"'],
    ['cookies', undefined],
  ] as const) {
    backend.at('/', reply({ fields: { 'Clear-Site-Data': said }, content: 'x' }))
    const answer = await send(`GET / HTTP/1.1\nHost: ${domain}\nCookie: ${cookie}\n\n`)
    t.equal('fields' in answer ? answer.fields.get('Clear-Site-Data') : 'none', passed, said)
  }
  backend.at(
    '/',
    reply({ fields: { 'Set-Cookie': '__authproxy_session=; Max-Age=0' }, content: 'x' }),
  )
  const answer = await send(`GET / HTTP/1.1\nHost: ${domain}\nCookie: ${cookie}\n\n`)
  t.notOk('fields' in answer && answer.fields.has('Set-Cookie'))
})

t.test('67: a forged instance ID costs its sender that request and nobody anything', async t => {
  const { backend, cookie, send } = await arranged(t)
  const get = (more = '') => send(`GET / HTTP/1.1\nHost: ${domain}\nCookie: ${cookie}\n${more}\n`)
  await get()
  const id = backend.requests[0]?.fields.get('X-Authproxy-Instance-ID') ?? ''
  const looped = await get(`X-Authproxy-Instance-ID: ${id}\n`)
  t.equal(looped.status, 508)
  t.equal(looped.reason, 'Loop Detected')
  t.equal((await get(`X-Authproxy-Instance-ID: ${'f'.repeat(32)}\n`)).status, 200)
  t.equal(
    backend.requests.at(-1)?.fields.get('X-Authproxy-Instance-ID'),
    `${'f'.repeat(32)}, ${id}`,
    'circles through others are seen as well',
  )
  t.equal((await get('X-Authproxy-Instance-ID: rubbish, <script>\n')).status, 200)
  t.equal(backend.requests.at(-1)?.fields.get('X-Authproxy-Instance-ID'), id)
})

t.test('a logged-out session is dead in every copy, also after a restart', async t => {
  const { gateway, cookie, send } = await arranged(t)
  const get = () => send(`GET / HTTP/1.1\nHost: ${domain}\nCookie: ${cookie}\n\n`)
  t.equal((await get()).status, 200)
  const session = await gateway.sessions.read(requestWith(Fields.of(['Cookie', cookie])))
  await gateway.sessions.revoke({ sessionId: session?.id ?? '' })
  t.equal((await get()).status, 401)
  await gateway.stop()
  const again = await startGateway(t, { directory: gateway.directory })
  t.equal(await again.sessions.read(requestWith(Fields.of(['Cookie', cookie]))), undefined)
  const made = await again.sessions.establish(
    subject({ email: ['ada@example.org'] }),
    requestWith(Fields.empty),
  )
  t.ok('setCookie' in made && cookieOf(made.setCookie) !== '')
})
