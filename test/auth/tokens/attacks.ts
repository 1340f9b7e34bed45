/**
 * Attacks on the tokens of people, by their numbers in the threat model. Each begins with a token that works.
 */
import t from 'tap'
import { tokenField } from '../../../lib/auth/access/passthrough.ts'
import { tokensPath } from '../../../lib/auth/gate/gateway-paths.ts'
import { Fields } from '../../../lib/http/message/field.ts'
import { domain, requestWith } from '../../fixtures/gateway/gateway.ts'
import {
  forge,
  idOf,
  issuer,
  start,
  startTokens,
  tokenIn,
  withToken,
} from '../../fixtures/gateway/token-lab.ts'

const day = 86_400_000

t.test(
  '99: a token that nobody signed, or that was signed with another key, opens nothing',
  async t => {
    const { lab, token } = await withToken(t)
    const { header, claims, parts, sign, encode } = forge(token)
    const keys = await lab.keys()
    const key = Buffer.from(keys.session[0].key, 'base64url')
    t.equal(await lab.status(sign(header, claims, key)), 200, 'the way to sign is right')
    const sealing = Buffer.from(keys.sealing[0].key, 'base64url')
    const bad: Record<string, string> = {
      'alg none': `${encode({ ...header, alg: 'none' })}.${parts.claims}.`,
      'no signature': `${parts.header}.${parts.claims}.`,
      'another algorithm of the family': sign({ ...header, alg: 'HS512' }, claims, key, 'sha512'),
      'RS256 with our secret': sign({ ...header, alg: 'RS256' }, claims, key),
      'the key that seals, by its own name': sign(
        { ...header, kid: keys.sealing[0].kid },
        claims,
        sealing,
      ),
      'the key that seals, by the name of the right one': sign(header, claims, sealing),
      'the certificate as a secret': sign(header, claims, Buffer.from(keys.saml[0].certificate)),
      'the key of identities as a secret': sign(
        header,
        claims,
        Buffer.from(keys.identity[0].privateKey),
      ),
      'an empty key': sign(header, claims, Buffer.alloc(0)),
      'no kid': sign({ alg: 'HS256', typ: header.typ }, claims, key),
      'a critical header': sign({ ...header, crit: ['b64'], b64: false }, claims, key),
    }
    for (const [what, value] of Object.entries(bad)) t.equal(await lab.status(value), 401, what)
  },
)

t.test('100: claims that were edited open nothing', async t => {
  const { lab, token } = await withToken(t)
  const { claims, parts, encode } = forge(token)
  for (const edit of [
    { sub: 'root@example.org' },
    { attrs: { groups: ['admins'] } },
    { exp: claims.exp + 1e6, end: claims.end + 1e6 },
    { tok: ['x', ['/'], ['DELETE']] },
    { cre: claims.cre + 1 },
    { sid: '0'.repeat(32) },
  ]) {
    const text = `${parts.header}.${encode({ ...claims, ...edit })}.${parts.signature}`
    t.equal(await lab.status(text), 401, JSON.stringify(edit))
  }
})

t.test('101: a token for another audience, or of another issuer, opens nothing', async t => {
  const { lab, token } = await withToken(t)
  const { header, claims, sign } = forge(token)
  const key = Buffer.from((await lab.keys()).session[0].key, 'base64url')
  for (const edit of [
    { aud: claims.iss },
    { aud: undefined },
    { aud: `https://other.example.org/saml/metadata#tokens` },
    { iss: 'https://other.example.org/saml/metadata' },
    { iss: undefined },
    { v: 2 },
    { sub: '' },
    { sid: undefined },
    { exp: undefined },
    { nbf: 9_999_999_999 },
  ]) {
    t.equal(await lab.status(sign(header, { ...claims, ...edit }, key)), 401, JSON.stringify(edit))
  }
  for (const typ of ['JWT', 'authproxy-session', undefined]) {
    t.equal(await lab.status(sign({ ...header, typ }, claims, key)), 401, `type ${typ}`)
  }
})

t.test('102: a token of one instance opens nothing at another', async t => {
  const { token } = await withToken(t)
  const other = await withToken(t)
  t.equal(await other.lab.status(token), 401)
})

t.test('103: the session of a browser is no token', async t => {
  const { lab, ada } = await withToken(t)
  const [, session = ''] = /__authproxy_session=([^;]+)/.exec(ada) ?? []
  t.equal((await lab.ask('/', { Cookie: ada })).status, 200)
  t.equal(await lab.status(session), 401)
  const { header, claims, sign } = forge(session)
  const key = Buffer.from((await lab.keys()).session[0].key, 'base64url')
  const aud = `${claims.aud}#tokens`
  t.equal(
    await lab.status(sign(header, { ...claims, aud }, key)),
    401,
    'with the audience of tokens',
  )
  const typ = 'authproxy-token'
  t.equal(await lab.status(sign({ ...header, typ }, claims, key)), 401, 'with the type of tokens')
  const both = sign({ ...header, typ }, { ...claims, aud }, key)
  t.equal(await lab.status(both), 401, 'without paths and methods')
})

t.test('104: a token is no session of a browser', async t => {
  const { lab, ada, token } = await withToken(t)
  const browser = /__Host-authproxy_browser=[^;]+/.exec(ada)?.[0] ?? ''
  for (const cookie of [
    `__authproxy_session=${token}`,
    `__authproxy_session=${token}; ${browser}`,
  ]) {
    t.equal((await lab.ask('/', { Cookie: cookie })).status, 401)
    t.equal((await lab.ask(tokensPath, { Cookie: cookie })).status, 401)
  }
  const { header, claims, sign } = forge(token)
  const key = Buffer.from((await lab.keys()).session[0].key, 'base64url')
  const asSession = sign(
    { ...header, typ: 'authproxy-session' },
    { ...claims, aud: claims.iss },
    key,
  )
  t.equal(
    (await lab.ask('/', { Cookie: `__authproxy_session=${asSession}` })).status,
    401,
    'nor with type and audience',
  )
})

t.test('105: a token opens no other path than its own', async t => {
  const lab = await startTokens(t)
  const token = await lab.make(await lab.signIn('ada@example.org'), { paths: '/api/ /health' })
  for (const path of ['/api', '/api/', '/api/x?y=/', '/health'])
    t.equal(await lab.status(token, path), 200, path)
  const others = [
    '/',
    '/apix',
    '/API/x',
    '/health/x',
    '/healthy',
    '/x/api/',
    '/?/api/',
    '/admin?x=/api/',
  ]
  for (const path of others) t.equal(await lab.status(token, path), 401, path)
  t.match(lab.logged().at(-1), { because: 'token-scope', user: 'ada@example.org' })
})

t.test('106: a token opens no path that can be read in two ways', async t => {
  const lab = await startTokens(t)
  const token = await lab.make(await lab.signIn('ada@example.org'), { paths: '/api/' })
  const paths = [
    '/api/..%2fadmin',
    '/api/../admin',
    '/api/%2e%2e/admin',
    '/api//admin',
    '/api/;/../admin',
    '/api/%5c..%5cadmin',
    '/api/%c0%ae',
    '/api\\..\\admin',
  ]
  for (const path of paths) t.not(await lab.status(token, path), 200, path)
  t.equal(lab.backend.requests.length, 0)
})

t.test(
  '107: a token is for its methods, also where a field or the query names another',
  async t => {
    const lab = await startTokens(t)
    const token = await lab.make(await lab.signIn('ada@example.org'))
    t.equal(await lab.status(token, '/', 'HEAD'), 200)
    for (const method of ['POST', 'PUT', 'DELETE', 'PATCH', 'PROPFIND', 'OPTIONS']) {
      t.equal(await lab.status(token, '/', method), 401, method)
    }
    for (const name of ['X-HTTP-Method-Override', 'X_HTTP_Method', 'X-Method-Override']) {
      t.equal(await lab.status(token, '/', 'GET', { [name]: 'DELETE' }), 401, name)
    }
    t.equal(await lab.status(token, '/?_method=DELETE'), 401)
  },
)

t.test(
  '108: a token counts in its field alone: in no address, cookie, form or other field',
  async t => {
    const { lab, token } = await withToken(t)
    const before = lab.backend.requests.length
    for (const [path, fields] of [
      [`/?access_token=${token}`, {}],
      [`/?${tokenField}=Bearer+${token}`, {}],
      [`/${token}`, {}],
      ['/', { Authorization: `Bearer ${token}` }],
      ['/', { Cookie: `${tokenField}=Bearer ${token}` }],
      ['/', { 'X-Authproxy-Token': token }],
      ['/', { X_Authproxy_Authorization: `Bearer ${token}` }],
      ['/', { 'Sec-WebSocket-Protocol': token }],
    ] as const) {
      t.equal(
        (await lab.ask(path, fields)).status,
        401,
        `${path.slice(0, 30)} ${Object.keys(fields)}`,
      )
    }
    const form = { 'Content-Type': 'application/x-www-form-urlencoded' }
    t.equal((await lab.ask('/', form, 'POST', `access_token=${token}`)).status, 401)
    t.equal(lab.backend.requests.length, before)
  },
)

t.test('109: two fields, or another form of the field, open nothing', async t => {
  const { lab, token } = await withToken(t)
  const line = `${tokenField}: Bearer ${token}\n`
  const send = (lines: string) => lab.exchange(`GET / HTTP/1.1\nHost: ${domain}\n${lines}\n`)
  t.equal((await send(line)).status, 200)
  for (const lines of [
    line + line,
    `${line}${tokenField}: Bearer x\n`,
    `${tokenField}: Bearer x\n${line}`,
    `${tokenField}: ${token}\n`,
    `${tokenField}: Basic ${token}\n`,
    `${tokenField}: Bearer ${token}, Bearer ${token}\n`,
    `${tokenField}: Bearer ${token} x\n`,
    `${tokenField}: Bearer ${token}${'A'.repeat(8192)}\n`,
    `${tokenField}:\n`,
  ]) {
    t.equal((await send(lines)).status, 401, lines.slice(0, 60))
  }
})

t.test(
  '110: a request with a token is judged by it alone, whatever cookie is beside it',
  async t => {
    const { lab, ada, token } = await withToken(t)
    t.equal(
      await lab.status('a.b.c', '/', 'GET', { Cookie: ada }),
      401,
      'a wrong token does not fall back',
    )
    const olga = await lab.signIn('olga@example.org', ['ops'])
    await lab.present(token, '/', 'GET', { Cookie: olga })
    const seen = lab.backend.requests.at(-1)?.fields
    t.equal(seen?.get('X-Authproxy-User'), 'ada@example.org')
    t.equal(seen?.get('X-Authproxy-Groups'), 'staff')
    t.notOk(seen?.has('Cookie'), 'and no cookie of ours goes on')
    const navigating = {
      Accept: 'text/html',
      'Sec-Fetch-Mode': 'navigate',
      'Sec-Fetch-Dest': 'document',
    }
    t.equal(await lab.status('a.b.c', '/', 'GET', navigating), 401, 'nor to a login page')
  },
)

t.test('111: a token is over at its end, and when the longest life becomes shorter', async t => {
  const { lab, token } = await withToken(t)
  lab.clock.advance(7 * day - 2000)
  t.equal(await lab.status(token), 200)
  lab.clock.advance(2000)
  t.equal(await lab.status(token), 401)
  t.match(lab.logged().at(-1), { because: 'token-expired' })
  const directory = lab.gateway.directory
  const old = await lab.make(await lab.signIn('ada@example.org'), { days: '30' })
  await lab.gateway.stop()
  const again = await startTokens(t, {
    directory,
    clock: lab.clock,
    settings: { tokens: { longest: '1d' } },
  })
  t.equal(await again.status(old), 200)
  lab.clock.advance(day)
  t.equal(await again.status(old), 401)
})

t.test(
  '112: a clock that was set back brings no ended token back, and none of the future counts',
  async t => {
    const { lab, ada, token } = await withToken(t)
    lab.clock.advance(20 * 60_000)
    const later = await lab.make(ada)
    lab.clock.set(lab.clock.now() - 15 * 60_000)
    t.equal(await lab.status(later), 401, 'made in 15 minutes')
    await lab.post(ada, { end: idOf(later) })
    await lab.post(ada, { end: idOf(token) })
    lab.clock.set(lab.clock.now() + 60 * 60_000)
    t.equal(await lab.status(later), 401)
    t.equal(await lab.status(token), 401)
    t.equal(await lab.status(await lab.make(ada)), 200)
  },
)

t.test(
  '113: a token that its person ended is over in every copy, also after a restart',
  async t => {
    const { lab, ada, token } = await withToken(t)
    const other = await lab.make(ada)
    await lab.post(ada, { end: idOf(token) })
    t.equal(await lab.status(token), 401)
    t.match(lab.logged().at(-1), { because: 'token-ended' })
    t.equal(await lab.status(other), 200, 'and no other')
    await lab.gateway.stop()
    const again = await startTokens(t, { directory: lab.gateway.directory, clock: lab.clock })
    t.equal(await again.status(token), 401)
    t.equal(await again.status(other), 200)
  },
)

t.test('114: the end of the sessions of a user ends the tokens', async t => {
  const { lab, token } = await withToken(t)
  const olga = await lab.make(await lab.signIn('olga@example.org'))
  await lab.endUser('ADA@example.org')
  t.equal(await lab.status(token), 401)
  t.equal(await lab.status(olga), 200)
})

t.test('115: a logout of all sessions ends the tokens; that of one session does not', async t => {
  const lab = await startTokens(t)
  const nameId = {
    value: 'n-1',
    format: undefined,
    nameQualifier: undefined,
    spNameQualifier: undefined,
  }
  const ada = await lab.signIn('ada@example.org', ['staff'], { nameId, sessionIndex: 's-1' })
  const token = await lab.make(ada)
  const session = await lab.gateway.sessions.read(requestWith(Fields.of(['Cookie', ada])))
  await lab.gateway.sessions.revoke({ sessionId: session?.id ?? '' })
  await lab.gateway.sessions.revoke({ issuer, nameId: 'n-1', sessionIndexes: ['s-1'] })
  t.equal((await lab.ask('/', { Cookie: ada })).status, 401)
  t.equal(await lab.status(token), 200)
  await lab.gateway.sessions.revoke({ issuer, nameId: 'n-2', sessionIndexes: [] })
  t.equal(await lab.status(token), 200)
  await lab.gateway.sessions.revoke({ issuer, nameId: 'n-1', sessionIndexes: [] })
  t.equal(await lab.status(token), 401)
})

t.test('116: a group that is gone is gone from tokens with the next login', async t => {
  const access = [
    { path: '/ops/', allow: [{ groups: ['ops'] }] },
    { path: '/', allow: 'signed-in' },
  ]
  const lab = await startTokens(t, { settings: { access } })
  const before = await lab.signIn('ada@example.org', ['staff', 'ops'])
  const token = await lab.make(before)
  const olga = await lab.make(await lab.signIn('olga@example.org', ['ops']))
  t.equal(await lab.status(token, '/ops/x'), 200)
  await lab.signIn('ada@example.org', ['ops', 'staff'])
  t.equal(await lab.status(token, '/ops/x'), 200, 'the same groups in another order')
  await lab.signIn('ada@example.org', ['staff'])
  t.equal(await lab.status(token, '/ops/x'), 401)
  t.equal(await lab.status(token, '/'), 401)
  t.equal(await lab.status(olga, '/ops/x'), 200)
  // The session from before still has the group, until its end.
  t.equal((await lab.ask('/ops/x', { Cookie: before })).status, 200)
  const outlived = await lab.post(before, {})
  t.equal(outlived.status, 403, 'it makes no token that would keep the group')
  t.equal(tokenIn(outlived), undefined)
})

t.test('117: the rules of this moment judge a token', async t => {
  const { lab, token } = await withToken(t)
  lab.reloading({ access: [{ path: '/', allow: [{ groups: ['ops'] }] }] })
  await lab.gateway.service.reload()
  t.equal(await lab.status(token), 403)
  const program = `${idOf(token)} backup`
  t.match(lab.logged().at(-1), { because: 'access', user: 'ada@example.org', program })
})

t.test('118: a login that is too old for a rule is too old for a token', async t => {
  const access = [{ path: '/', allow: 'signed-in', login: { maxAge: '2h' } }]
  const lab = await startTokens(t, { settings: { access } })
  const ada = await lab.signIn('ada@example.org', ['staff'], { authnInstant: start })
  const token = await lab.make(ada)
  t.equal(await lab.status(token), 200)
  lab.clock.advance(2 * 3_600_000)
  const navigating = {
    Accept: 'text/html',
    'Sec-Fetch-Mode': 'navigate',
    'Sec-Fetch-Dest': 'document',
  }
  t.equal(
    await lab.status(token, '/', 'GET', navigating),
    401,
    'and a program is shown no login page',
  )
  t.match(lab.logged().at(-1), { because: 'login-age' })
})

t.test('119: tokens are for no more than `tokens.access` says', async t => {
  const access = [{ path: '/api/', allow: [{ groups: ['dev'] }], login: { maxAge: '1d' } }]
  const lab = await startTokens(t, { settings: { tokens: { longest: '30d', access } } })
  const dev = await lab.signIn('ada@example.org', ['dev'], { authnInstant: start })
  const staff = await lab.signIn('olga@example.org', ['staff'], { authnInstant: start })
  t.equal((await lab.ask('/x', { Cookie: dev })).status, 200, 'a browser may')
  t.equal((await lab.post(dev, { paths: '/' })).status, 403)
  t.equal((await lab.post(staff, { paths: '/api/' })).status, 403)
  const token = await lab.make(dev, { paths: '/api/' })
  t.equal(await lab.status(token, '/api/x'), 200)
  lab.clock.advance(day)
  t.equal(await lab.status(token, '/api/x'), 401, 'nor by an older login')
})
