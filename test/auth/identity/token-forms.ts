/**
 * The signed identity in the forms that applications know from other gateways: its field, claims, algorithm and keys, and that no client
 * sends any of its fields.
 */
import { createPublicKey, verify as verifySignature } from 'node:crypto'
import { decodeJwt, decodeProtectedHeader } from 'jose'
import t, { type Test } from 'tap'
import { tokenField } from '../../../lib/auth/access/passthrough.ts'
import { configCheck } from '../../../lib/auth/config/loading/load-config.ts'
import { whoamiPath } from '../../../lib/auth/identity/whoami.ts'
import { keySetPath } from '../../../lib/auth/pages/own-document.ts'
import { navigation, startChecks } from '../../fixtures/gateway/checks.ts'
import { domain } from '../../fixtures/gateway/gateway.ts'
import { base, start, withTokens } from '../../fixtures/gateway/identity-token.ts'
import { RawClient } from '../../fixtures/http/raw-client.ts'

const forms = [
  { token: 'bearer', field: 'Authorization', relatives: [] },
  {
    token: 'iap',
    field: 'X-Goog-IAP-JWT-Assertion',
    relatives: ['X-Goog-Authenticated-User-Email', 'X-Goog-Authenticated-User-ID'],
  },
  {
    token: 'cloudflare',
    field: 'Cf-Access-Jwt-Assertion',
    relatives: ['Cf-Access-Authenticated-User-Email'],
  },
  {
    token: 'alb',
    field: 'X-Amzn-Oidc-Data',
    relatives: ['X-Amzn-Oidc-Identity', 'X-Amzn-Oidc-Accesstoken'],
  },
] as const

const ada = {
  email: ['ada@example.org'],
  groups: ['staff', 'ops'],
  displayName: ['Ada'],
  uid: ['ada'],
}
const registered = {
  ...{ iss: base, aud: base, sub: 'ada@example.org' },
  ...{ iat: start / 1000, nbf: start / 1000 - 30, exp: start / 1000 + 120 },
  ...{ auth_time: start / 1000 - 5, instance: 'test' },
}
const person = { email: 'ada@example.org', name: 'Ada', groups: ['staff', 'ops'] }

async function lab(t: Test, identity: object, more: object = {}) {
  const made = await withTokens(t, { settings: { identity, ...more } })
  const cookie = await made.gateway.logIn(ada, { authenticated: start - 5000 })
  return { ...made, session: `Cookie: ${cookie}\n` }
}

t.test('each preset has the claims and the algorithm that applications for it expect', async t => {
  for (const [token, algorithm, claims] of [
    ['bearer', 'ES256', { ...person, preferred_username: 'ada' }],
    ['iap', 'ES256', person],
    ['cloudflare', 'RS256', { ...person, aud: [base], type: 'app' }],
  ] as const) {
    const { tokenOf, verify, session } = await lab(t, { token })
    const signed = await tokenOf(session)
    const { payload, protectedHeader } = await verify(signed)
    t.strictSame(payload, { ...registered, ...claims }, token)
    t.strictSame(Object.keys(protectedHeader), ['alg', 'typ', 'kid'])
    t.equal(protectedHeader.alg, algorithm)
  }
})

t.test('a token in Authorization has its scheme before it', async t => {
  const { ask, session, verify } = await lab(t, { token: 'bearer' })
  const lines = (await ask('/', session)).sent?.all('Authorization') ?? []
  t.equal(lines.length, 1)
  const [scheme, token = ''] = lines[0]?.split(' ') ?? []
  t.equal(scheme, 'Bearer')
  await verify(token)
})

t.test(
  'the token of a balancer has padding, and its header says who signed it for whom',
  async t => {
    const identity = { token: 'alb', tokenIssuer: 'arn:x', tokenAudience: 'my-client' }
    const { ask, gateway, tokenOf, published } = await lab(t, identity, {
      admin: { listenAddress: '127.0.0.1:0' },
    })
    // Longer and shorter subjects need one, two or no characters of padding.
    for (const user of ['a', 'ab', 'abc', 'zoë'].map(name => `${name}@example.org`)) {
      const cookie = await gateway.logIn({ email: [user] })
      const token = await tokenOf(`Cookie: ${cookie}\n`)
      const parts = token.split('.')
      t.equal(parts.length, 3)
      for (const part of parts) t.match(part, /^(?:[\w-]{4})*(?:[\w-]{2}==|[\w-]{3}=)?$/)
      const [header, claims, signature] = parts.map(part => Buffer.from(part, 'base64url'))
      const { kid, ...rest } = JSON.parse(String(header))
      t.match(kid, /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/)
      const { keys } = await published()
      t.strictSame(
        keys.map((key: { kid: string }) => key.kid),
        [kid],
      )
      t.strictSame(rest, {
        ...{ alg: 'ES256', typ: 'JWT', signer: 'arn:x', iss: 'arn:x', client: 'my-client' },
        exp: start / 1000 + 120,
      })
      const { aud, iss, sub, email } = JSON.parse(String(claims))
      t.strictSame(
        { aud, iss, sub, email },
        { aud: undefined, iss: 'arn:x', sub: user, email: user },
      )
      const { answer } = await ask(`/__authproxy/keys/${kid}`, '')
      t.equal(answer.status, 200)
      t.equal((await ask(`${base}/__authproxy/keys/${kid}`, '')).answer.text, answer.text)
      const key = { key: createPublicKey(answer.text), dsaEncoding: 'ieee-p1363' } as const
      const input = Buffer.from(`${parts[0]}.${parts[1]}`)
      t.ok(verifySignature('sha256', input, key, signature ?? Buffer.alloc(0)))
      const admin = await RawClient.connect(t, gateway.service.adminPort ?? 0)
      t.equal((await admin.get(`/__authproxy/keys/${kid}`)).text, answer.text)
    }
    for (const kid of ['', 'x', '../jwks.json', '%2e%2e/jwks.json', '0'.repeat(16)]) {
      t.equal((await ask(`/__authproxy/keys/${kid}`, '')).answer.status, 404, kid)
    }
  },
)

t.test('keys are where each gateway has them, and nowhere else', async t => {
  const certs = '/cdn-cgi/access/certs'
  for (const [token, ours] of [
    ['own', [keySetPath]],
    ['bearer', [keySetPath]],
    ['iap', [keySetPath]],
    ['cloudflare', [keySetPath, certs]],
    ['alb', [keySetPath]],
  ] as const) {
    const { ask, session, backend } = await lab(t, { token: token === 'own' ? true : token })
    for (const path of [keySetPath, certs, '/__authproxy/keys/x', `${certs}/x`]) {
      const before = backend.requests.length
      const { answer } = await ask(path, session)
      const isOurs = ours.some(each => each === path)
      t.equal(answer.text.startsWith('{"keys":[{'), isOurs, `${token} ${path}`)
      const isKept = isOurs || (token === 'alb' && path.startsWith('/__authproxy/keys/'))
      t.equal(backend.requests.length - before, isKept ? 0 : 1)
    }
  }
})

t.test('a check about the keys names every path that the edge has to lead to them', async t => {
  for (const [token, certs] of [
    ['cloudflare', '/cdn-cgi/access/certs, '],
    ['alb', ''],
  ] as const) {
    const settings = { identity: { token } }
    const { ask } = await startChecks(t, { edge: 'nginx', settings })
    const path = token === 'alb' ? keySetPath : '/cdn-cgi/access/certs'
    const { status, text } = await ask(path)
    t.equal(status, 404)
    t.match(text, `route ${certs}/saml/ and what begins with /__authproxy`)
  }
})

t.test('with RS256 the SAML keys sign, and a new one is published before it does', async t => {
  const { tokenOf, verify, rotate, published, clock, session } = await lab(t, {
    token: true,
    tokenAlgorithm: 'RS256',
  })
  const first = await tokenOf(session)
  await rotate()
  const { keys } = await published()
  t.strictSame(
    keys.map(({ kty, alg }: { kty: string; alg: string }) => [kty, alg]),
    [
      ['RSA', 'RS256'],
      ['RSA', 'RS256'],
    ],
  )
  t.notMatch(JSON.stringify(keys), /"(?:d|p|q|dp|dq|qi)"/)
  clock.advance(60_000)
  const second = await tokenOf(session)
  t.equal(decodeProtectedHeader(second).kid, decodeProtectedHeader(first).kid)
  clock.advance(1_800_000)
  const third = await tokenOf(session)
  t.equal(decodeProtectedHeader(third).kid, keys[0].kid)
  await verify(third)
})

t.test('field, issuer, audience, algorithm and claims can be chosen alone', async t => {
  const { ask, session } = await lab(t, {
    ...{ token: 'iap', tokenField: 'X-JWT-Assertion', tokenIssuer: 'us', tokenAudience: 'them' },
    tokenAlgorithm: 'RS256',
    attributes: [{ name: 'costCentre', from: ['urn:x'], list: true }],
    tokenClaims: {
      ...{ roles: 'groups', mail: ['upn', 'email'], who: ['upn', 'user'], none: 'title' },
      ...{ 'urn:a/b': 'uid', costs: 'costCentre' },
    },
  })
  const { sent } = await ask('/', session)
  t.notOk(sent?.has('X-Goog-IAP-JWT-Assertion'))
  const token = sent?.get('X-JWT-Assertion') ?? ''
  t.equal(decodeProtectedHeader(token).alg, 'RS256')
  t.strictSame(decodeJwt(token), {
    ...{ ...registered, iss: 'us', aud: 'them', roles: ['staff', 'ops'] },
    ...{ mail: 'ada@example.org', who: 'ada@example.org', 'urn:a/b': 'ada', costs: [] },
  })
})

const spellings = (name: string) => [
  ...[name, name.toLowerCase(), name.replaceAll('-', '_'), name.replaceAll('-', '.')],
  ...[`${name}-`, name.replaceAll('-', '--')],
]

t.test('81: no client sends a field of the token, whatever lets its request pass', async t => {
  const robot = 'a-token-of-the-monitoring'
  const more = {
    passthroughPaths: ['/public/'],
    passthroughTokens: [{ name: 'robot', token: robot }],
  }
  for (const { token, field, relatives } of forms) {
    const { ask, session, backend } = await lab(t, { token }, more)
    const lies = [field, ...relatives].flatMap(spellings).filter(name => name !== 'authorization')
    const spoof = lies.map(name => `${name}: Basic forged\n`).join('')
    for (const [path, fields, count] of [
      ['/', session, 1],
      ['/public/', session, 0],
      ['/public/', '', 0],
      ['/', `${tokenField}: Bearer ${robot}\n`, 0],
    ] as const) {
      const { answer, sent } = await ask(path, `${spoof}Connection: ${field}\n${fields}`)
      t.equal(answer.status, 200)
      t.equal(sent?.all(field).length, count, `${token} ${path}`)
      t.notMatch(backend.requests.at(-1)?.head, 'forged')
    }
  }
})

t.test('what another form would send is a field of clients', async t => {
  const { ask, session } = await lab(t, { token: true })
  const { sent } = await ask('/', `${session}Cf-Access-Jwt-Assertion: x\nAuthorization: Bearer y\n`)
  t.equal(sent?.get('Cf-Access-Jwt-Assertion'), 'x')
  t.equal(sent?.get('Authorization'), 'Bearer y')
})

t.test('84: a check answers with the field, and refuses what the edge could pass on', async t => {
  const passthroughPaths = ['/public/']
  for (const { token, field, relatives } of forms) {
    const settings = { identity: { token }, passthroughPaths }
    const { gateway, ask } = await startChecks(t, { edge: 'caddy', settings })
    const Cookie = await gateway.logIn(ada)
    const answer = await ask('/a', { Cookie, [field]: 'forged' }, { method: 'PUT' })
    t.equal(answer.status, 200, token)
    const [signed = ''] = answer.fields.all(field)
    const { htm, htu } = JSON.parse(
      String(Buffer.from(signed.replace('Bearer ', '').split('.')[1] ?? '', 'base64url')),
    )
    t.strictSame({ htm, htu }, { htm: 'PUT', htu: `${base}/a` })
    t.strictSame((await ask('/public/a', { [field]: 'forged' })).fields.all(field), [''])
    const odd = [...relatives, ...[field, ...relatives].map(name => `${name}-`)]
    for (const name of odd) {
      t.equal((await ask('/a', { Cookie, [name]: 'forged' })).status, 403, name)
    }
  }
})

t.test('no page shows the token, whatever its field', async t => {
  for (const { token, field } of forms) {
    const { ask, session } = await lab(t, { token })
    const page = Object.entries(navigation).map(([name, value]) => `${name}: ${value}\n`)
    const { text } = (await ask(whoamiPath, `${session}${page.join('')}`)).answer
    t.match(text, `<dt>${field}</dt>\n<dd>signed proof, not shown</dd>`)
    t.notMatch(text, 'eyJ')
  }
})

t.test('what does not go together is refused', t => {
  const remarks = (identity: object, more: object = {}, proxy: object = {}) => {
    const checked = configCheck('test')({
      ...{ domain, idpMetadataURL: 'https://idp.example.org/metadata', identity, ...more },
      proxy: { listenAddress: '127.0.0.1:0', targetURL: 'http://127.0.0.1:9', ...proxy },
    })
    const problems = checked.ok ? [] : checked.problems
    return [...problems, ...checked.warnings].map(({ path, text }) => `${path.join('.')} ${text}`)
  }
  const framing = ['Host', 'Cookie', 'Content-Length', 'Transfer-Encoding', 'Connection', 'Upgrade']
  const others = ['Content-Type', 'Proxy-Authorization', 'Set-Cookie', 'X-Forwarded-For', 'TE']
  const ours = [
    'X-Authproxy-User',
    'X_Goog_IAP_JWT_Assertion',
    'X JWT',
    'X-JWT:',
    'X-JWT\r\nX-A',
    ...['Authorization:', 'Authorization\r\n', 'X Goog IAP JWT Assertion', 'X--Authproxy-Identity'],
    '',
  ]
  for (const tokenField of [...framing, ...others, ...ours]) {
    t.match(remarks({ token: true, tokenField }), [/^identity\.tokenField found/], tokenField)
  }
  for (const tokenField of ['Authorization', 'cf-access-jwt-assertion', 'X-Authproxy-Identity']) {
    t.strictSame(remarks({ token: true, tokenField }), [])
  }
  const credential = { backendCredential: { field: 'x-jwt', valueFile: '/key' } }
  for (const [identity, remark, more] of [
    [{ token: 'google' }, /identity\.token found .*expected true, false, bearer, iap/],
    [{ token: 'own' }, /identity\.token found/],
    [{ token: 'constructor' }, /identity\.token found/],
    [{ token: { field: 'X-JWT' } }, /identity\.token found .*tokenField/],
    [{ tokenField: 'X-JWT' }, /tokenField has no effect without identity\.token/],
    [{ token: true, tokenIssuer: 'a\nb' }, /tokenIssuer found .*line breaks/],
    [{ token: true, tokenIssuer: '' }, /tokenIssuer found/],
    [{ token: true, tokenAlgorithm: 'none' }, /tokenAlgorithm found/],
    [{ token: true, tokenAlgorithm: 'HS256' }, /tokenAlgorithm found/],
    [{ token: true, tokenClaims: ['email'] }, /tokenClaims found/],
    [{ token: true, tokenClaims: { sub: 'email' } }, /tokenClaims\.sub is a claim of the token/],
    [{ token: true, tokenClaims: { exp: 'email' } }, /tokenClaims\.exp is a claim of the token/],
    [{ token: true, tokenClaims: { __x: 'email' } }, /tokenClaims\.__x a claim has letters/],
    [{ token: true, tokenClaims: { a: [] } }, /tokenClaims\.a names nothing/],
    [{ token: true, tokenClaims: { a: 'emial' } }, /no attribute is called emial/],
    [{ token: true, tokenClaims: { a: 'uid' }, only: ['email'] }, /uid is in no session/],
    [{ token: true, tokenField: 'X-JWT' }, /tokenField sends X-JWT.*another setting/, credential],
    [
      { token: 'iap', names: [{ field: 'x-goog-iap-jwt-assertion', from: 'user' }] },
      /identity\.token sends X-Goog.*another setting/,
    ],
  ] as const) {
    t.match(remarks(identity, more), [remark], JSON.stringify(identity))
  }
  const both = remarks({ token: 'bearer' }, {}, { useBasicAuth: true })
  t.match(both, [/identity\.token sends Authorization.*useBasicAuth/])
  t.strictSame(remarks({ token: 'bearer' }, {}, { useBasicAuth: false }), [])
  t.strictSame(remarks({ token: 'true' }), [], 'as the environment has it')
  t.end()
})
