/**
 * What becomes of people, programs and open connections that the rules of access refuse, in the running service.
 */
import { once } from 'node:events'
import t, { type Test } from 'tap'
import type { Config } from '../../../lib/auth/config/config.ts'
import { Fields } from '../../../lib/http/message/field.ts'
import { backendOf, handshake, logIn, start } from '../../fixtures/gateway/access-lab.ts'
import { rulesOfSet } from '../../fixtures/gateway/access-table.ts'
import {
  domain,
  gatewayConfig,
  requestWith,
  startGateway,
  subject,
} from '../../fixtures/gateway/gateway.ts'
import { RawClient } from '../../fixtures/http/raw-client.ts'
import { ManualClock } from '../../fixtures/time/manual-clock.ts'

async function arranged(t: Test, set = 'A', more: Readonly<Record<string, unknown>> = {}) {
  const { target, seen, events } = await backendOf(t)
  const clock = new ManualClock(start)
  const directory = t.testdir()
  let config: Config | undefined
  const settings = { access: rulesOfSet(set), ...more }
  const options = { target, clock, directory, settings }
  const gateway = await startGateway(t, { ...options, reload: () => config ?? gateway.config })
  const reload = async (changed: Readonly<Record<string, unknown>>) => {
    config = gatewayConfig({
      domain,
      idpMetadataURL: 'https://idp.example.org/metadata',
      configPath: gateway.config.configPath,
      proxy: { listenAddress: '127.0.0.1:0', targetURL: target },
      ...changed,
    })
    t.same(await gateway.service.reload(), [])
  }
  const ask = async (path: string, fields: Record<string, string> = {}, method = 'GET') => {
    const client = await RawClient.connect(t, gateway.port)
    await client.request(method, path, { Host: domain, ...fields })
    return client.response({ to: method })
  }
  return { gateway, seen, events, clock, reload, ask }
}

const page = { Accept: 'text/html', 'Sec-Fetch-Mode': 'navigate', 'Sec-Fetch-Dest': 'document' }

t.test(
  'a person who is refused reads who they are and what is needed, and is sent nowhere',
  async t => {
    const { gateway, ask } = await arranged(t)
    const cookie = await logIn(gateway, 'aud')
    const answer = await ask('/admin/x?y=1', { ...page, Cookie: cookie }, 'DELETE')
    t.equal(answer.status, 403)
    t.equal((await ask('/admin/x?y=1', { ...page, Cookie: cookie })).status, 200)
    t.equal((await ask('/admin/x?_method=DELETE', { ...page, Cookie: cookie })).status, 400)
    const html = (await ask('/data', { ...page, Cookie: cookie })).text
    t.match(html, 'signed in as aud@example.org')
    t.match(html, 'one of these: a*n*a</p>')
    t.notMatch(html, 'groups: ')
    t.match(html, '>Sign in as someone else<')
    t.match(html, /href="https:\/\/app\.example\.org\/__authproxy-redirect\?[^"]*data/)
    const german = await ask('/data', { ...page, Cookie: cookie, 'Accept-Language': 'de' })
    t.match(german.text, 'Als andere Person anmelden')
    t.equal(german.status, 403)
    t.notOk(german.fields.has('Location'))
    const post = await ask(
      '/admin/x',
      { Accept: 'text/html', Cookie: cookie, 'Content-Length': '0' },
      'POST',
    )
    t.match(post.text, 'Ask ops@example.org for the group ')
    t.notMatch(post.text, 'one of these', 'the message of the rule says it')
    t.same(gateway.logins, [])
  },
)

t.test('a program reads JSON with the number of the rule; the log has the line of it', async t => {
  const { gateway, ask } = await arranged(t)
  const cookie = await logIn(gateway, 'aud')
  const answer = await ask('/data', { Cookie: cookie })
  t.match(JSON.parse(answer.text), {
    error: 'access_denied',
    rule: 7,
    needed: ['groups: a*n*a'],
    message: /signed in as aud@example.org/,
  })
  const line = gateway.log.lines.find(({ message }) => message === 'request')
  t.match(line?.facts, {
    outcome: 'refused',
    because: 'access',
    why: 'not-among',
    rule: 7,
    user: 'aud@example.org',
  })
  const closed = await ask('/metrics')
  t.match(JSON.parse(closed.text), { error: 'access_denied', rule: 1 })
  const odd = await ask('/public/%2e%2e/admin/', { Cookie: cookie })
  t.match(JSON.parse(odd.text), { error: 'ambiguous_address', rule: null })
})

t.test('accessTell: false keeps what is needed to itself', async t => {
  const { gateway, ask } = await arranged(t, 'A', { accessTell: false })
  const cookie = await logIn(gateway, 'aud')
  const html = (await ask('/data', { ...page, Cookie: cookie })).text
  t.match(html, 'signed in as aud@example.org')
  t.notMatch(html, 'a*n*a')
  const { text } = await ask('/data', { Cookie: cookie })
  t.notMatch(text, 'a*n*a')
})

t.test('75: where anyone may, a client without a session cannot claim to be a user', async t => {
  const { gateway, ask, seen } = await arranged(t)
  const claims = { 'X-Authproxy-User': 'root', X_Authproxy_Groups: 'ops' }
  t.equal((await ask('/public/x', claims)).status, 200)
  t.same(seen, [{ url: '/public/x', user: undefined }])
  const cookie = await logIn(gateway, 'ada')
  t.equal((await ask('/public/x', { ...claims, Cookie: cookie })).status, 200)
  t.equal(seen.at(-1)?.user, 'ada@example.org')
})

t.test('without rules nothing changes, and passthrough paths are judged before rules', async t => {
  const { gateway, ask } = await arranged(t, 'B', { passthroughPaths: ['/open/'] })
  t.equal((await ask('/open/x')).status, 200)
  t.equal((await ask('/open/..%2fx')).status, 400, 'no longer a login')
  t.equal(gateway.config.access?.rules.length, 2)
  const bare = await startGateway(t)
  t.equal(bare.config.access, undefined)
})

t.test('76: rules that are changed end what they no longer allow, within a second', async t => {
  const { gateway, events, clock, reload, ask } = await arranged(t, 'C')
  const cookie = await logIn(gateway, 'ada')
  const begin = async (path: string, more: Record<string, string> = {}) => {
    const client = await RawClient.connect(t, gateway.port)
    await client.request('GET', path, { Host: domain, Cookie: cookie, ...more })
    await client.head()
    return client
  }
  const left: string[] = []
  events.on('left', (path: string) => left.push(path))
  await begin('/events')
  await begin('/socket', handshake)
  const kept = await begin('/kept', handshake)
  await reload({
    access: [
      { path: '/kept', allow: [{ users: 'ada@*' }] },
      { path: '/', allow: [{ groups: 'ops' }] },
    ],
  })
  const gone = (async () => {
    while (left.length < 2) await once(events, 'left')
  })()
  clock.advance(1000)
  await gone
  t.same(left.sort(), ['/events', '/socket'])
  t.equal((await ask('/events', { Cookie: cookie })).status, 403)
  await kept.write('still here')
  t.ok(gateway.log.lines.some(({ facts }) => facts['because'] === 'rules'))
})

t.test('76: a later login in the same browser ends what it would not be allowed', async t => {
  for (const [groups, email, ends] of [
    [['staff'], 'ada@example.org', true],
    [['staff', 'ops'], 'ada@example.org', false],
    [['ops'], 'bob@example.org', true],
  ] as const) {
    const { target, events } = await backendOf(t)
    const clock = new ManualClock(start)
    const access = [{ path: '/', allow: [{ groups: 'ops' }] }]
    const gateway = await startGateway(t, { target, clock, settings: { access } })
    const cookie = await gateway.logIn({ email: ['ada@example.org'], groups: ['ops'] })
    const client = await RawClient.connect(t, gateway.port)
    await client.request('GET', '/socket', { Host: domain, Cookie: cookie, ...handshake })
    t.equal((await client.head()).status, 101)
    let left = false
    events.on('left', () => {
      left = true
    })
    clock.advance(1000)
    const asked = requestWith(Fields.of(['Cookie', cookie]))
    const made = await gateway.sessions.establish(subject({ email: [email], groups }), asked)
    t.ok('session' in made)
    const gone = ends ? once(events, 'left') : undefined
    clock.advance(1000)
    await gone
    t.equal(left, ends, `${email} ${groups.join(' ')}`)
  }
})
