/**
 * Attacks on the making, the ending and the record of the tokens of people, by their numbers in the threat model.
 */
import { readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { tokenField } from '../../../lib/auth/access/passthrough.ts'
import { tokensPath } from '../../../lib/auth/gate/gateway-paths.ts'
import { Fields } from '../../../lib/http/message/field.ts'
import { domain } from '../../fixtures/gateway/gateway.ts'
import {
  formOf,
  idOf,
  issuer,
  ownForm,
  startTokens,
  tokenIn,
  withToken,
} from '../../fixtures/gateway/token-lab.ts'
import { RawClient } from '../../fixtures/http/raw-client.ts'

const day = 86_400_000

t.test('120: a token is made for no path or method that the rules close to its person', async t => {
  const access = [
    { path: '/admin/', methods: ['POST'], allow: [{ groups: ['ops'] }] },
    { path: '/closed/', allow: 'nobody' },
    { path: '/', allow: 'signed-in' },
  ]
  const lab = await startTokens(t, { settings: { access } })
  const ada = await lab.signIn('ada@example.org')
  for (const values of [
    { paths: '/admin/', methods: ['GET', 'POST'] },
    { paths: '/ /closed/x' },
    { paths: '/Admin/', methods: ['POST'] },
  ]) {
    const answer = await lab.post(ada, values)
    t.equal(answer.status, 403, JSON.stringify(values))
    t.equal(tokenIn(answer), undefined)
  }
  const wide = await lab.make(ada, { paths: '/', methods: ['GET', 'POST'] })
  t.equal(await lab.status(wide, '/admin/x', 'POST'), 403, 'a path above opens nothing below')
})

t.test('121: a page of another site makes and ends no token', async t => {
  const { lab, ada, token } = await withToken(t)
  const foreign: Record<string, Record<string, string | undefined>> = {
    'another site': { 'Sec-Fetch-Site': 'cross-site', Origin: 'https://evil.example' },
    'a neighbour': { 'Sec-Fetch-Site': 'same-site', Origin: 'https://www.example.org' },
    'a sandboxed frame': { 'Sec-Fetch-Site': 'cross-site', Origin: 'null' },
    'an old browser': {
      'Sec-Fetch-Site': undefined,
      'Sec-Fetch-Mode': undefined,
      'Sec-Fetch-Dest': undefined,
      Origin: 'https://evil.example',
    },
    'a browser that says nothing': {
      'Sec-Fetch-Site': undefined,
      'Sec-Fetch-Mode': undefined,
      'Sec-Fetch-Dest': undefined,
      Origin: undefined,
    },
  }
  for (const [what, more] of Object.entries(foreign)) {
    const given = Object.entries({ ...ownForm, ...more }).filter(([, value]) => value !== undefined)
    const fields: Record<string, string> = Object.fromEntries(given)
    for (const values of [{}, { end: idOf(token) }, { end: 'all' }]) {
      const answer = await lab.post(ada, values, fields)
      t.equal(answer.status, 403, what)
      t.equal(tokenIn(answer), undefined)
    }
  }
  t.equal(await lab.status(token), 200)
  t.equal((await lab.ask(`${tokensPath}?${formOf({})}`, { Cookie: ada })).status, 200)
  t.equal(lab.gateway.log.lines.filter(({ message }) => message === 'token made').length, 1)
})

t.test('122: a script of the application makes no token, and cannot read one', async t => {
  const { lab, ada } = await withToken(t)
  for (const more of [
    { 'Sec-Fetch-Mode': 'cors', 'Sec-Fetch-Dest': 'empty' },
    { 'Sec-Fetch-Mode': 'same-origin', 'Sec-Fetch-Dest': 'empty' },
    { 'Sec-Fetch-Mode': 'navigate', 'Sec-Fetch-Dest': 'empty' },
    { 'Sec-Fetch-Mode': 'navigate', 'Sec-Fetch-Dest': 'iframe' },
  ]) {
    t.equal((await lab.post(ada, {}, { ...ownForm, ...more })).status, 403, JSON.stringify(more))
  }
  const { fields } = await lab.post(ada, {})
  t.match(fields.get('Content-Security-Policy'), /frame-ancestors 'none'; sandbox$/)
  t.equal(fields.get('Cache-Control'), 'no-store')
  t.equal(fields.get('X-Frame-Options'), 'DENY')
  t.equal(fields.get('Referrer-Policy'), 'no-referrer')
})

t.test('122: a program that has only the session of a browser makes no token of it', async t => {
  const { lab, ada, token } = await withToken(t)
  const alone = ada
    .split('; ')
    .filter(pair => !pair.startsWith('__Host-authproxy_browser'))
    .join('; ')
  t.not(alone, ada)
  t.equal((await lab.ask('/', { Cookie: alone })).status, 200, 'session.browser: optional')
  const fields = { Origin: ownForm.Origin, 'Content-Type': ownForm['Content-Type'] }
  for (const values of [{}, { end: idOf(token) }]) {
    const answer = await lab.post(alone, values, fields)
    t.equal(answer.status, 403)
    t.equal(tokenIn(answer), undefined)
  }
  t.equal(await lab.status(token), 200)
  t.not(tokenIn(await lab.post(ada, {}, fields)), undefined, 'an old browser still makes one')
})

t.test('123: no token makes, ends or lists tokens', async t => {
  const { lab, token } = await withToken(t)
  const fields = { ...ownForm, [tokenField]: `Bearer ${token}` }
  t.equal((await lab.ask(tokensPath, fields)).status, 302)
  for (const values of [{}, { end: idOf(token) }]) {
    t.equal(tokenIn(await lab.post('', values, fields)), undefined)
  }
  t.equal((await lab.ask('/__authproxy/whoami', { [tokenField]: `Bearer ${token}` })).status, 401)
  t.equal(await lab.status(token), 200)
  t.equal(lab.gateway.log.lines.filter(({ message }) => message === 'token made').length, 1)
})

t.test('124: a passthrough token makes no tokens, and stands before those of people', async t => {
  const operator = 'operator.token.0123456789'
  const passthroughTokens = [{ name: 'monitoring', token: operator }]
  const { lab, token } = await withToken(t, {
    settings: { passthroughTokens, passthroughPaths: ['/__authproxy/'] },
  })
  const fields = { ...ownForm, [tokenField]: `Bearer ${operator}` }
  t.equal((await lab.ask('/', fields)).status, 200)
  t.equal(tokenIn(await lab.post('', {}, fields)), undefined)
  t.equal((await lab.ask(tokensPath, {})).status, 401, 'nor does a passthrough path')
  t.equal(await lab.status(token), 200)
  t.match(lab.logged().at(-1), { because: 'token', user: 'ada@example.org' })
})

t.test('125: markup in the name of a token is text, and a name is one line', async t => {
  const lab = await startTokens(t)
  const ada = await lab.signIn('ada@example.org')
  for (const name of [
    'a\nb',
    'a\r\nX: y',
    'a\u2028b',
    'a\0b',
    'a\u202eb',
    'a\u200bb',
    '\u001b[31m',
    'x'.repeat(61),
  ]) {
    t.equal((await lab.post(ada, { name })).status, 400, encodeURI(name))
  }
  const name = `"><script>alert(1)</script>{{id}}'`
  const token = await lab.make(ada, { name })
  const { text } = await lab.ask(tokensPath, { Cookie: ada })
  t.notMatch(text, '<script>alert')
  t.match(text, '&#60;script&#62;alert(1)')
  await lab.present(token)
  t.equal(lab.logged().at(-1)?.['program'], `${idOf(token)} ${name}`)
})

t.test('126: nobody ends or sees the token of another person', async t => {
  const { lab, ada, token } = await withToken(t)
  for (const who of ['olga@example.org', 'ADA@example.org', 'Ada@example.org']) {
    const other = await lab.signIn(who)
    t.equal((await lab.post(other, { end: idOf(token) })).status, 404, who)
    t.notMatch((await lab.ask(tokensPath, { Cookie: other })).text, idOf(token))
  }
  await lab.post(await lab.signIn('olga@example.org'), { end: 'all' })
  t.equal(await lab.status(token), 200)
  t.equal((await lab.post(ada, { end: '0'.repeat(32) })).status, 404)
  t.match((await lab.ask(tokensPath, { Cookie: ada })).text, idOf(token))
})

t.test('127: a person has at most 20 tokens, however many forms come at once', async t => {
  const lab = await startTokens(t)
  const ada = await lab.signIn('ada@example.org')
  const content = formOf({})
  const fields = { ...ownForm, Host: domain, Cookie: ada, 'Content-Length': `${content.length}` }
  const clients = await Promise.all(
    Array.from({ length: 30 }, async () => {
      const client = await RawClient.connect(t, lab.gateway.port)
      await client.request('POST', tokensPath, fields)
      await client.write(content.slice(0, -1))
      return client
    }),
  )
  t.equal((await lab.ask(tokensPath, { Cookie: ada })).status, 200, 'all are on their way')
  const many = await Promise.all(
    clients.map(async client => {
      await client.write(content.slice(-1))
      return client.response()
    }),
  )
  const made = many.map(tokenIn).filter(token => token !== undefined)
  t.equal(made.length, 20)
  t.same([...new Set(many.map(({ status }) => status))].sort(), [200, 409])
  const [first = ''] = made
  await lab.post(ada, { end: idOf(first) })
  t.equal((await lab.post(ada, {})).status, 200, 'one that ended makes room')
  lab.clock.advance(8 * day)
  t.equal(
    (await lab.post(await lab.signIn('ada@example.org'), {})).status,
    200,
    'and so do those that are over',
  )
})

t.test(
  '127: a person who makes and ends tokens without end does not fill the list of ended sessions',
  async t => {
    const lab = await startTokens(t)
    const ada = await lab.signIn('ada@example.org')
    let made = 0
    for (; made < 150; made += 1) {
      const token = tokenIn(await lab.post(ada, {}))
      if (token === undefined) break
      await lab.post(ada, { end: idOf(token) })
    }
    t.equal(made, 100)
    t.equal((await lab.post(ada, {})).status, 429)
    t.equal((await lab.post(await lab.signIn('olga@example.org'), {})).status, 200)
    lab.clock.advance(day)
    t.equal((await lab.post(await lab.signIn('ada@example.org'), {})).status, 200)
  },
)

t.test('128: a logout while the form is on its way leaves no token', async t => {
  const { lab, ada } = await withToken(t)
  const client = await RawClient.connect(t, lab.gateway.port)
  const content = formOf({ name: 'late' })
  const fields = {
    ...ownForm,
    Host: domain,
    Cookie: ada,
    'Content-Length': `${content.length}`,
    Expect: '100-continue',
  }
  await client.request('POST', tokensPath, fields)
  await client.write(content.slice(0, 5))
  // Another request on its own connection is answered only after the first was read.
  t.equal((await lab.ask(tokensPath, { Cookie: ada })).status, 200)
  await lab.endUser('ada@example.org')
  await client.write(content.slice(5))
  const answer = await client.response()
  t.equal(answer.status, 403)
  t.equal(tokenIn(answer), undefined)
  t.notOk(lab.gateway.log.lines.some(({ facts }) => /late/.test(String(facts['program']))))
})

t.test('129: a record that is damaged or gone ends all tokens that were made before', async t => {
  for (const [what, harm] of [
    ['damaged', (path: string) => writeFile(path, 'x')],
    ['gone', (path: string) => rm(path)],
  ] as const) {
    const { lab, token } = await withToken(t)
    const { directory } = lab.gateway
    await lab.gateway.stop()
    for (const name of await readdir(directory)) {
      if (/\.tokens\./.test(name)) await harm(join(directory, name))
    }
    const again = await startTokens(t, { directory, clock: lab.clock })
    t.equal(await again.status(token), 401, what)
    const ada = await again.signIn('ada@example.org')
    t.equal(await again.status(await again.make(ada)), 200, 'new ones can be made')
  }
})

t.test('130: a token whose line cannot be written is not made', async t => {
  const lab = await startTokens(t)
  const ada = await lab.signIn('ada@example.org')
  const lines = async () => {
    const names = (await readdir(lab.gateway.directory)).filter(name => /\.tokens\./.test(name))
    return (
      await Promise.all(names.map(name => readFile(join(lab.gateway.directory, name), 'utf8')))
    ).join('')
  }
  const token = await lab.make(ada)
  t.match(await lines(), idOf(token), 'the line is there when the answer is')
  t.notMatch(await lines(), token.split('.')[2] ?? '', 'without the token')
  await rm(lab.gateway.directory, { recursive: true })
  const answer = await lab.post(ada, {})
  t.equal(answer.status, 503)
  t.equal(tokenIn(answer), undefined)
  t.match(
    (await lab.ask(tokensPath, { Cookie: ada })).text.match(/<dt>ID in/g),
    ['<dt>ID in'],
    'nor shown',
  )
})

t.test(
  '132: new keys that replace the old ones end tokens, and so do another identity provider and other settings of identities',
  async t => {
    const { lab, ada, token } = await withToken(t)
    lab.gateway.saml.sessions.useIssuer('https://other.example.org/metadata')
    t.equal(await lab.status(token), 401)
    lab.gateway.saml.sessions.useIssuer(issuer)
    t.equal(await lab.status(token), 200)
    const { directory } = lab.gateway
    await rm(lab.file)
    await lab.gateway.service.reload()
    t.equal(await lab.status(token), 401)
    t.equal((await lab.ask('/', { Cookie: ada })).status, 401)
    const own = await lab.make(await lab.signIn('ada@example.org'))
    await lab.gateway.stop()
    const again = await startTokens(t, {
      directory,
      clock: lab.clock,
      settings: { identity: { groups: ['ops'] } },
    })
    t.equal(await again.status(own), 401)
  },
)

t.test('133: an answer to a token sets no cookie, however old the token is', async t => {
  const { lab, token } = await withToken(t)
  lab.clock.advance(6 * day)
  const { fields, status } = await lab.present(token)
  t.equal(status, 200)
  t.notOk(fields.has('Set-Cookie'))
  lab.clock.advance(day)
  t.equal(await lab.status(token), 401, 'and does not make it last longer')
})

t.test(
  '134: the secret of a token is in no log, failure, or request to the application',
  async t => {
    const access = [
      { path: '/', methods: ['GET'], allow: 'signed-in' },
      { path: '/', allow: 'nobody' },
    ]
    const lab = await startTokens(t, { settings: { access } })
    const ada = await lab.signIn('ada@example.org')
    const token = await lab.make(ada)
    await lab.present(token)
    await lab.present(token, '/', 'POST')
    await lab.present(`${token}x`)
    await lab.post(ada, { end: idOf(token) })
    await lab.present(token)
    const secret = token.split('.')[2] ?? '-'
    t.notMatch(JSON.stringify(lab.gateway.log.lines), secret)
    for (const { fields } of lab.backend.requests) t.notMatch(JSON.stringify(fields.flat), secret)
    await lab.gateway.stop()
    for (const name of await readdir(lab.gateway.directory)) {
      t.notMatch(
        await readFile(join(lab.gateway.directory, name), 'utf8').catch(() => ''),
        secret,
        name,
      )
    }
  },
)

t.test(
  '134: where the signed identity goes in Authorization, the token beside it does not',
  async t => {
    const { lab, token } = await withToken(t, {
      settings: { identity: { token: 'bearer' } },
    })
    const spellings = ['X_Authproxy_Authorization', 'x-authproxy.authorization']
    for (const name of ['Authorization', ...spellings]) {
      await lab.present(token, '/', 'GET', { [name]: `Bearer ${token}` })
      const { fields } = lab.backend.requests.at(-1) ?? { fields: Fields.empty }
      t.equal(fields.all('Authorization').length, 1)
      t.match(fields.get('Authorization'), /^Bearer [\w-]+\.[\w-]+\.[\w-]+$/)
      t.notMatch(JSON.stringify(fields.flat), token.split('.')[2] ?? '-', name)
      // The application cannot send on what it got: it is no token here.
      const sent = fields.get('Authorization')?.slice('Bearer '.length) ?? ''
      t.equal(await lab.status(sent), 401)
    }
    t.equal((await lab.ask('/', { Authorization: `Bearer ${token}` })).status, 401)
  },
)

t.test('135: a form that is huge or never ends makes nothing, and is bounded', async t => {
  const { lab, ada } = await withToken(t)
  const long = Array.from({ length: 10 }, (_, i) => `/${`${i}`.repeat(199)}`)
  const huge = await lab.post(ada, { name: 'huge', paths: '/'.padEnd(20_000, 'a') })
  t.equal(tokenIn(huge), undefined)
  t.ok(huge.status >= 400)
  const client = await RawClient.connect(t, lab.gateway.port)
  await client.request('POST', tokensPath, {
    ...ownForm,
    Host: domain,
    Cookie: ada,
    'Content-Length': '100',
  })
  await client.write('name=slow')
  t.equal((await lab.ask(tokensPath, { Cookie: ada })).status, 200)
  lab.clock.advance(11_000)
  const answer = await client.response()
  t.equal(answer.status, 400)
  t.equal(tokenIn(answer), undefined)
  const groups = Array.from({ length: 550 }, (_, i) => `group-${Math.imul(i, 2_654_435_761) >>> 0}`)
  const large = await lab.signIn('large@example.org', groups)
  t.equal((await lab.post(large, { paths: long.join(' ') })).status, 409)
})

t.test('136: the signature of a token is checked once, and its end each time', async t => {
  const { lab, ada, token } = await withToken(t)
  for (let i = 0; i < 5; i += 1) t.equal(await lab.status(token), 200)
  const client = await RawClient.connect(t, lab.gateway.port)
  const fields = { Host: domain, [tokenField]: `Bearer ${token}` }
  t.equal((await client.get('/', fields)).status, 200)
  t.equal((await client.get('/', fields)).status, 200)
  await lab.post(ada, { end: idOf(token) })
  t.equal(
    (await client.get('/', fields)).status,
    401,
    'on the same connection, with the same fields',
  )
})
