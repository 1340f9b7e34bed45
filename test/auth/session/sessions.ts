import { randomBytes } from 'node:crypto'
import t from 'tap'
import { Fields } from '../../../lib/http/message/field.ts'
import {
  cookieOf,
  domain,
  type Gateway,
  gatewayConfig,
  requestWith,
  startGateway,
  subject,
} from '../../fixtures/gateway/gateway.ts'
import { RawClient, type Teardown } from '../../fixtures/http/raw-client.ts'
import { ScriptedOrigin } from '../../fixtures/http/scripted-origin.ts'
import { reply } from '../../fixtures/http/scripts.ts'
import { ManualClock } from '../../fixtures/time/manual-clock.ts'

const start = Date.UTC(2030, 0, 1)
/** What a browser says when a person opens a page. */
const navigation = { 'Sec-Fetch-Mode': 'navigate', 'Sec-Fetch-Dest': 'document' }
const minute = 60_000
const hour = 60 * minute

async function arranged(t: Teardown, settings: Readonly<Record<string, unknown>> = {}) {
  const clock = new ManualClock(start)
  const backend = await ScriptedOrigin.listen(t)
  backend.at('*', reply({ content: 'ok' }))
  const gateway = await startGateway(t, {
    clock,
    target: backend.url(''),
    settings: { session: { lifetime: '12h', idle: '1h', ...settings } },
  })
  // A connection each: the clock moves further than a connection may be idle.
  const get = async (cookie: string, more: Readonly<Record<string, string>> = {}) => {
    const client = await RawClient.connect(t, gateway.port)
    return client.get('/', { Host: domain, Cookie: cookie, ...more })
  }
  const send = async (
    method: string,
    cookie: string,
    more: Readonly<Record<string, string>> = {},
  ) => {
    const client = await RawClient.connect(t, gateway.port)
    const length = { 'Content-Length': '0' }
    await client.request(method, '/', { Host: domain, Cookie: cookie, ...length, ...more })
    const answer = await client.response({ to: method })
    client.end()
    return answer
  }
  return { clock, backend, gateway, get, send }
}

t.test(
  'an unused session ends when it has been idle, a used one is renewed until its absolute end',
  async t => {
    const { clock, gateway, get } = await arranged(t)
    const first = await gateway.logIn({ email: ['ada@example.org'] })
    clock.advance(59 * minute)
    t.equal((await get(first)).status, 200)
    clock.advance(2 * minute)
    t.equal((await get(first)).status, 401, 'its token has lapsed')

    let cookie = await gateway.logIn({ email: ['ada@example.org'] })
    const [, browser] = cookie.split('; ')
    t.notOk((await get(cookie)).fields.has('Set-Cookie'), 'nothing to renew yet')
    let renewals = 0
    let elapsed = 0
    for (; elapsed < 12 * hour - 10 * minute; elapsed += 10 * minute) {
      clock.advance(10 * minute)
      const answer = await get(cookie, navigation)
      t.equal(answer.status, 200)
      const fresh = cookieOf(answer.fields)
      if (fresh !== '') {
        cookie = `${fresh}; ${browser}`
        renewals += 1
      }
    }
    t.ok(renewals > 50)
    clock.advance(11 * minute)
    t.equal((await get(cookie)).status, 401, 'however busy')
  },
)

t.test('a session does not outlive what the identity provider says', async t => {
  const { clock, gateway, get } = await arranged(t)
  const cookie = await gateway.logIn({ email: ['ada'] }, { sessionEnds: start + 5 * minute })
  clock.advance(4 * minute)
  t.equal((await get(cookie)).status, 200)
  clock.advance(2 * minute)
  t.equal((await get(cookie)).status, 401)
  const late = await gateway.sessions.establish(
    subject({ email: ['ada'] }, { sessionEnds: start }),
    requestWith(Fields.empty),
  )
  t.match(late, { refuse: { status: 403 } })
})

t.test('a session in constant use lasts, whatever its answers say of caches', async t => {
  for (const [name, method, fields] of [
    ['nothing', 'GET', {}],
    ['must-revalidate', 'GET', { 'Cache-Control': 'max-age=0, must-revalidate' }],
    ['Expires', 'GET', { Expires: '0', 'Last-Modified': 'Tue, 01 Jan 2030 00:00:00 GMT' }],
    ['Vary and a cookie of the backend', 'GET', { Vary: 'Cookie', 'Set-Cookie': 'a=1' }],
    ['a HEAD', 'HEAD', {}],
    ['a post', 'POST', {}],
    ['a put', 'PUT', {}],
    ['a deletion', 'DELETE', {}],
  ] as const) {
    const { clock, backend, gateway, send } = await arranged(t, { idle: '1m', lifetime: '1h' })
    backend.at('*', reply({ content: 'ok', fields }))
    const script = { 'Sec-Fetch-Mode': 'cors', 'Sec-Fetch-Dest': 'empty', Accept: '*/*' }
    let cookie = await gateway.logIn({ email: ['ada'] })
    const [, browser] = cookie.split('; ')
    const statuses = new Set<number>()
    for (let use = 0; use < 60; use += 1) {
      clock.advance(5000)
      const answer = await send(method, cookie, script)
      statuses.add(answer.status)
      const fresh = cookieOf(answer.fields)
      const session = fresh.split('; ').find(pair => pair.startsWith('__authproxy_session='))
      if (session !== undefined) {
        cookie = `${session}; ${browser}`
        t.match(answer.fields.get('Cache-Control'), /private/, name)
      }
    }
    t.same([...statuses], [200], name)
    clock.advance(61_000)
    t.equal((await send(method, cookie, script)).status, 401, `${name}: not used any more`)
  }
})

t.test(
  '69: no 304 renews a session: caches take its fields into what they have stored',
  async t => {
    const { clock, backend, gateway, send } = await arranged(t)
    backend.at('*', answer => {
      const { fields } = answer.request
      const known = fields.has('If-None-Match') || fields.has('If-Modified-Since')
      return reply(known ? { status: 304 } : { content: 'whole' })(answer)
    })
    const cookie = await gateway.logIn({ email: ['ada'] })
    const poll = { 'Sec-Fetch-Mode': 'cors', 'Sec-Fetch-Dest': 'empty', Accept: '*/*' }
    const conditions = [
      { 'If-None-Match': '"1"' },
      { 'if-modified-since': 'Tue, 01 Jan 2030 00:00:00 GMT', 'IF-NONE-MATCH': '"1"' },
    ]
    for (const condition of conditions) {
      t.equal((await send('GET', cookie, { ...poll, ...condition })).status, 304)
    }
    clock.advance(30 * minute)
    for (const condition of conditions) {
      const whole = await send('GET', cookie, { ...poll, ...condition })
      t.match(whole, { status: 200, text: 'whole' })
      t.ok(whole.fields.has('Set-Cookie'))
      t.equal(whole.fields.get('Cache-Control'), 'private')
      const seen = backend.requests.at(-1)?.fields
      t.notOk(seen?.has('If-None-Match') || seen?.has('If-Modified-Since'))
    }
    // A condition of another kind is the client's to set: without it a change could be lost.
    await send('PUT', cookie, { ...poll, 'If-None-Match': '*' })
    t.ok(backend.requests.at(-1)?.fields.has('If-None-Match'))
    backend.at('*', reply({ status: 304 }))
    t.notOk((await send('GET', cookie, { ...poll, ...conditions[0] })).fields.has('Set-Cookie'))
  },
)

t.test('a cache that a field of its own tells to keep an answer gets no session', async t => {
  const { clock, backend, gateway, get } = await arranged(t)
  const cookie = await gateway.logIn({ email: ['ada'] })
  clock.advance(30 * minute)
  for (const [name, value, renewed] of [
    ['CDN-Cache-Control', 'max-age=60', false],
    ['Surrogate-Control', 'max-age=60', false],
    ['X-Accel-Expires', '60', false],
    ['X-Accel-Expires', '0', true],
    ['CDN-Cache-Control', 'no-store', true],
  ] as const) {
    const fields = { 'Cache-Control': 'no-store', [name]: value }
    backend.at('*', reply({ content: 'ok', fields }))
    t.equal((await get(cookie)).fields.has('Set-Cookie'), renewed, `${name}: ${value}`)
  }
})

t.test('69: a response that caches may keep for others renews nobody', async t => {
  const { clock, backend, gateway, get } = await arranged(t)
  const cookie = await gateway.logIn({ email: ['ada'] })
  clock.advance(30 * minute)
  backend.at('*', reply({ content: 'ok', fields: { 'Cache-Control': 'public, max-age=60' } }))
  t.notOk((await get(cookie)).fields.has('Set-Cookie'))
  // What does not say that it is of one user says so with a session on it.
  const cases: ReadonlyArray<readonly [string, string | undefined]> = [
    ['', 'private'],
    ['max-age=60', 'max-age=60, private'],
    ['private', 'private'],
    ['no-store', 'no-store'],
    ['max-age=0, no-cache', 'max-age=0, no-cache, private'],
    ['no-cache="x-public", private', 'no-cache="x-public", private'],
    ['private="x-name"', 'private="x-name", private'],
    ['x-private', 'x-private, private'],
    ['public, no-cache', undefined],
    ['s-maxage=1, private', undefined],
    ['immutable', undefined],
  ]
  for (const [control, expected] of cases) {
    const fields = control === '' ? {} : { 'Cache-Control': control }
    backend.at('*', reply({ content: 'ok', fields }))
    for (const by of [navigation, { 'Sec-Fetch-Mode': 'cors', 'Sec-Fetch-Dest': 'empty' }]) {
      const answer = await get(cookie, by)
      t.equal(answer.fields.has('Set-Cookie'), expected !== undefined, control)
      t.equal(answer.fields.all('Cache-Control').join(), expected ?? control)
    }
  }
})

t.test('a session says everything again after its way through the browser', async t => {
  const { gateway } = await arranged(t)
  const nameId = { value: 'n', format: 'f', nameQualifier: undefined, spNameQualifier: 'sp' }
  for (const groups of [
    ['staff'],
    Array.from({ length: 100 }, (_, i) => `cn=group-${i},ou=groups,dc=example`),
  ]) {
    const cookie = await gateway.logIn(
      { email: ['ada@example.org'], groups },
      { nameId, sessionIndex: '_7', authenticated: start - 5000 },
    )
    const read = await gateway.sessions.read(requestWith(Fields.of(['Cookie', cookie])))
    t.match(read, {
      subject: 'ada@example.org',
      nameId,
      sessionIndex: '_7',
      authenticated: start - 5000,
      created: start,
      expires: start + 12 * hour,
    })
    t.same(read?.attributes.get('groups'), groups)
  }
})

t.test('what does not fit one cookie is spread, what does not fit at all is explained', async t => {
  const { gateway } = await arranged(t)
  const groups = (count: number) =>
    Array.from({ length: count }, () => randomBytes(16).toString('hex'))
  const establish = (count: number) =>
    gateway.sessions.establish(
      subject({ email: ['ada'], groups: groups(count) }),
      requestWith(Fields.of(['Accept', 'text/html'])),
    )
  const small = await establish(10)
  t.equal('setCookie' in small && small.setCookie.count, 2, 'and the name of the browser')
  const spread = await establish(150)
  const written = 'setCookie' in spread ? spread.setCookie.all('Set-Cookie') : []
  const lines = written.filter(line => line.startsWith('__authproxy_session'))
  t.equal(lines.length, 2)
  for (const line of lines) {
    t.ok((line.split(';')[0] ?? '').length <= 4096)
    t.match(line, /; Path=\/; Max-Age=3600; Secure; HttpOnly; SameSite=Lax$/)
  }
  const refused = await establish(600)
  t.match(refused, { refuse: { status: 403, facts: { code: 'cookie_too_large' } } })
  const page =
    'refuse' in refused && refused.refuse.content.kind === 'bytes'
      ? refused.refuse.content.bytes.toString()
      : ''
  t.match(page, /groups<\/dt>\s*<dd>600 values/)
  t.match(page, /<dd>8192 bytes/)
})

t.test('parts of an earlier, larger session are removed', async t => {
  const { gateway } = await arranged(t)
  const request = requestWith(
    Fields.of(['Cookie', '__authproxy_session=2:abcd:x; __authproxy_session.1=abcd:y']),
  )
  const made = await gateway.sessions.establish(subject({ email: ['ada'] }), request)
  t.match('setCookie' in made && made.setCookie.all('Set-Cookie'), [
    /^__authproxy_session=ey/,
    /^__authproxy_session\.1=; .*Max-Age=0/,
  ])
  const ended = gateway.sessions.end(request).all('Set-Cookie')
  t.match(ended, [/^__authproxy_session=; /, /^__authproxy_session\.1=; /])
  t.equal(ended.length, 2)
  const twice = requestWith(Fields.of(['Cookie', '__authproxy_session=a; __authproxy_session=b']))
  t.match(
    gateway.sessions.end(twice).all('Set-Cookie').join('\n'),
    /Domain=example\.org/,
    'one of them came from a neighbour',
  )
})

t.test('51: subjects that two readers could take for two users are refused', async t => {
  const basic = { useBasicAuth: true }
  for (const [code, email, proxy] of [
    ['subject_unfit', 'ada\u2003@example.org', {}],
    ['subject_unfit', 'ada\u200b@example.org', {}],
    ['subject_not_basic', 'ada:root', basic],
    [undefined, 'ada:root', {}],
    [undefined, 'ada lovelace', basic],
  ] as const) {
    const gateway = await startGateway(t, { proxy })
    const made = await gateway.sessions.establish(
      subject({ email: [email] }),
      requestWith(Fields.of(['Accept', 'text/html'])),
    )
    t.equal('refuse' in made, code !== undefined, email)
    const told = gateway.log.lines.filter(({ message }) => message === `SAML-ERROR ${code}`)
    t.equal(told.length, code === undefined ? 0 : 1)
  }
})

t.test('51: a login without a usable subject is refused with a page that says so', async t => {
  const { gateway } = await arranged(t)
  const made = await gateway.sessions.establish(
    subject({ uid: ['ada'] }),
    requestWith(Fields.of(['Accept', 'text/html'])),
  )
  t.match(made, { refuse: { status: 403 } })
  const text =
    'refuse' in made && made.refuse.content.kind === 'bytes'
      ? made.refuse.content.bytes.toString()
      : ''
  t.match(text, 'The SAML session has no usable subject identifier.')
  t.ok(gateway.log.lines.some(({ message }) => message === 'SAML-ERROR subject_missing'))
})

t.test('why a session is none is known to whoever asks', async t => {
  const { clock, gateway } = await arranged(t)
  const cookie = await gateway.logIn({ email: ['ada'] })
  const because = async (value: string) =>
    (await gateway.sessions.diagnose(requestWith(Fields.of(['Cookie', value])))).because
  t.equal(await because(cookie), undefined)
  t.equal(await because('__authproxy_session=rubbish'), 'malformed')
  t.equal(await because('__authproxy_session=2:abcd:x'), 'incomplete')
  t.equal(await because(cookie.replace(';', 'x;')), 'signature')
  t.equal(await because(cookie.replace(/(?<=browser=).{22}/, 'x'.repeat(22))), 'other-browser')
  await gateway.sessions.revoke({ issuer: 'i', nameId: 'nobody', sessionIndexes: [] })
  t.equal(await because(cookie), undefined)
  clock.advance(2 * hour)
  t.equal(await because(cookie), 'expired')
})

t.test('the session cookie alone is a session, unless the browser’s own is required', async t => {
  const { gateway, get } = await arranged(t)
  const cookie = await gateway.logIn({ email: ['ada'] })
  const [alone = ''] = cookie.split('; ')
  t.equal((await get(alone)).status, 200, 'as scripts and health checks send it')
  const other = await gateway.logIn({ email: ['eve'] })
  const [, browser = ''] = other.split('; ')
  t.equal((await get(`${alone}; ${browser}`)).status, 401, 'but not in another browser')
  t.equal((await get(`${alone}; __Host-authproxy_browser=`)).status, 200, 'which has no name yet')

  const { gateway: strict, get: ask } = await arranged(t, { browser: 'required' })
  const both = await strict.logIn({ email: ['ada'] })
  t.equal((await ask(both)).status, 200)
  t.equal((await ask(both.replace(/; .*/, ''))).status, 401)
  const fields = Fields.of(['Cookie', both.replace(/; .*/, '')])
  t.equal((await strict.sessions.diagnose(requestWith(fields))).because, 'no-browser-cookie')
})

t.test(
  'a reload that requires the browser’s cookie holds on connections that are open',
  async t => {
    const gateway: Gateway = await startGateway(t, {
      reload: () => {
        const { config } = gateway
        return { ...config, session: { ...config.session, browser: 'required' } }
      },
    })
    const [alone = ''] = (await gateway.logIn({ email: ['ada'] })).split('; ')
    const request = requestWith(Fields.of(['Cookie', alone]))
    t.ok(await gateway.sessions.read(request))
    await gateway.service.reload()
    t.equal(await gateway.sessions.read(request), undefined)
  },
)

t.test('sessions end with the settings under `identity` by which they were made', async t => {
  let identity: Readonly<Record<string, unknown>> = { groups: ['app-*'] }
  const configuration = () =>
    gatewayConfig({
      domain,
      idpMetadataURL: 'https://idp.example.org/metadata',
      configPath: gateway.config.configPath,
      proxy: { listenAddress: '127.0.0.1:0', targetURL: 'http://127.0.0.1:9' },
      identity,
    })
  const gateway: Gateway = await startGateway(t, {
    settings: { identity },
    reload: () => configuration(),
  })
  const cookie = await gateway.logIn({ email: ['ada'], groups: ['app-users'] })
  const request = requestWith(Fields.of(['Cookie', cookie]))
  const read = () => gateway.sessions.read(request)
  const because = async () => (await gateway.sessions.diagnose(request)).because
  t.ok(await read())
  for (const change of [
    { groups: ['other-*'] },
    { groups: ['app-*'], only: ['email'] },
    { groups: ['app-*'], groupForm: 'name' },
    { groups: ['app-*'], stripDomains: ['CORP'] },
    { groups: ['app-*'], looseNames: true },
    { groups: ['app-*'], attributes: [{ name: 'email', from: ['urn:example:mail'] }] },
  ]) {
    identity = change
    await gateway.service.reload()
    t.equal(await read(), undefined, JSON.stringify(change))
    t.equal(await because(), 'identity-settings')
  }
  // What tells the backend of it, and how, is no question of the login.
  identity = { groups: ['app-*'], encoding: 'percent', fieldSize: '8K' }
  await gateway.service.reload()
  t.ok(await read())
})

t.test('sessions of another identity provider end when the one in use has changed', async t => {
  const gateway = await startGateway(t)
  const cookie = await gateway.logIn({ email: ['ada'] })
  const request = requestWith(Fields.of(['Cookie', cookie]))
  const read = () => gateway.sessions.read(request)
  gateway.sessions.useIssuer('https://idp.example.org/metadata')
  t.ok(await read())
  gateway.sessions.useIssuer('https://new-idp.example.org/metadata')
  t.equal(await read(), undefined)
  t.equal((await gateway.sessions.diagnose(request)).because, 'other-idp')
})

t.test(
  'a logout by NameID or session index ends the sessions it names and no later one',
  async t => {
    const { clock, gateway, get } = await arranged(t)
    const nameId = {
      value: 'n',
      format: undefined,
      nameQualifier: undefined,
      spNameQualifier: undefined,
    }
    const issuer = 'https://idp.example.org/metadata'
    const log = (index: string) =>
      gateway.logIn({ email: ['ada'] }, { nameId, sessionIndex: index })
    const [one, two] = [await log('1'), await log('2')]
    await gateway.sessions.revoke({ issuer, nameId: 'n', sessionIndexes: ['1'] })
    t.equal((await get(one)).status, 401)
    t.equal((await get(two)).status, 200)
    await gateway.sessions.revoke({
      issuer: 'https://other.example',
      nameId: 'n',
      sessionIndexes: [],
    })
    t.equal((await get(two)).status, 200, 'another issuer knows another n')
    await gateway.sessions.revoke({ issuer, nameId: 'n', sessionIndexes: [] })
    t.equal((await get(two)).status, 401)
    clock.advance(1)
    t.equal((await get(await log('1'))).status, 200, 'who logs in again is in')
  },
)

t.test('a lifetime that is made shorter holds for sessions that are there', async t => {
  const clock = new ManualClock(start)
  const gateway: Gateway = await startGateway(t, {
    clock,
    settings: { session: { lifetime: '12h', idle: '12h' } },
    reload: () => ({ ...gateway.config, session: { ...gateway.config.session, lifetime: hour } }),
  })
  const cookie = await gateway.logIn({ email: ['ada@example.org'] })
  clock.advance(2 * hour)
  const read = () => gateway.sessions.read(requestWith(Fields.of(['Cookie', cookie])))
  t.ok(await read())
  await gateway.service.reload()
  t.equal(await read(), undefined)
})
