/**
 * Checks beside what happens to the session meanwhile, on a connection that the edge keeps: a sign-out, an end at another instance, a login that
 * is too old, a token that expires, a WebSocket without the browser's cookie.
 */
import { copyFile, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import type { Edge } from '../../../lib/auth/config/setting-forward-auth.ts'
import { bytesOf, checkOf, edges, navigation, startChecks } from '../../fixtures/gateway/checks.ts'
import { domain } from '../../fixtures/gateway/gateway.ts'
import { startWhole } from '../../fixtures/gateway/whole-gateway.ts'
import { RawClient, type RawResponse } from '../../fixtures/http/raw-client.ts'
import { startStore, storeProgram } from '../../fixtures/state/real-store.ts'
import { ManualClock } from '../../fixtures/time/manual-clock.ts'
import { until } from '../../fixtures/time/until.ts'

t.setTimeout(600_000)

const ada = { email: ['ada@example.org'], groups: ['staff'] }
const start = Date.parse('2026-01-01T00:00:00Z')

type Given = Readonly<Record<string, string>>

/** Asks on one connection, as edges do, so that fields which were seen before are remembered. */
async function keptConnection(t: Test, edge: Edge, at: { readonly port: number } | object) {
  if (!('port' in at)) throw new Error('not a port')
  const client = await RawClient.connect(t, at.port)
  return async (target: string, fields: Given, method = 'GET'): Promise<RawResponse> => {
    await client.write(bytesOf(checkOf(edge, { target, fields, method })))
    return client.response({ to: edge === 'envoy' && method === 'HEAD' ? 'HEAD' : 'GET' })
  }
}

for (const edge of edges) {
  t.test(`${edge}: after a sign-out no copy of the session passes a check`, async t => {
    const forwardAuth = { listenAddress: '127.0.0.1:0', edge, trustedProxies: ['127.0.0.1'] }
    const { browser, idp, checks = {} } = await startWhole(t, { settings: { forwardAuth } })
    const ask = await keptConnection(t, edge, checks)
    await browser.signIn(idp)
    const cookies = [...browser.cookies].map(([name, value]) => `${name}=${value}`)
    const Cookie = cookies.join('; ')
    const session = cookies.filter(pair => pair.startsWith('__authproxy_session=')).join('; ')
    for (const shown of [Cookie, session]) t.equal((await ask('/a', { Cookie: shown })).status, 200)
    await browser.navigate('/saml/slo')
    for (const shown of [Cookie, session, `own=1; ${Cookie}`]) {
      const answer = await ask('/a', { Cookie: shown })
      t.equal(answer.status, 401)
      t.notOk(answer.fields.has('X-Authproxy-User'))
    }
  })

  t.test(
    `77, ${edge}: a login that is too old is led to a younger one, and passes nothing`,
    async t => {
      const clock = new ManualClock(start)
      const access = [
        { path: '/secure/', allow: 'signed-in', login: { maxAge: '15m' } },
        { path: '/', allow: 'signed-in' },
      ]
      const { gateway, at } = await startChecks(t, { edge, clock, settings: { access } })
      const young = await keptConnection(t, edge, at)
      const Cookie = await gateway.logIn(ada, { authnInstant: start - 60_000 })
      t.equal((await young('/secure/x', { Cookie, ...navigation })).status, 200, 'a young one')
      // The session is to be renewed as well, and that makes no login younger.
      clock.advance(30 * 60_000)
      const ask = await keptConnection(t, edge, at)
      const byField = edge === 'nginx' || edge === 'haproxy'
      for (const [method, fields, status] of [
        ['GET', navigation, byField ? 401 : 302],
        ['GET', { Accept: 'application/json' }, 401],
        ['POST', navigation, 401],
        ['GET', { 'Sec-WebSocket-Key': 'x', Origin: `https://${domain}` }, 401],
      ] as const) {
        const answer = await ask('/secure/x', { Cookie, ...fields }, method)
        t.equal(answer.status, status, `${method} ${Object.keys(fields)}`)
        t.notOk(answer.fields.has('X-Authproxy-User'))
        const to = answer.fields.get(byField ? 'X-Authproxy-Redirect' : 'Location') ?? ''
        t.notMatch(to, /renew/)
      }
      const reasons = gateway.log.lines.filter(({ facts }) => facts['because'] === 'login-age')
      t.equal(reasons.length, 4)
      t.equal((await ask('/x', { Cookie })).status, 200, 'where no rule asks for a younger one')
    },
  )

  t.test(`65, ${edge}: a passthrough token passes checks until it expires`, async t => {
    const clock = new ManualClock(start)
    const token = 'robot-token-0123456789abcdef'
    const passthroughTokens = [{ name: 'robot', token, expires: '2026-01-01' }]
    const { gateway, at } = await startChecks(t, { edge, clock, settings: { passthroughTokens } })
    const early = await keptConnection(t, edge, at)
    const fields = { 'X-Authproxy-Authorization': `Bearer ${token}` }
    for (const _ of [1, 2]) {
      const answer = await early('/a', fields)
      t.equal(answer.status, 200)
      t.same(answer.fields.all('X-Authproxy-Authorization'), [''], 'the application gets no token')
      t.same(answer.fields.all('X-Authproxy-User'), [''])
    }
    clock.advance(2 * 86_400_000)
    const ask = await keptConnection(t, edge, at)
    t.equal((await ask('/a', fields)).status, 401)
    const Cookie = await gateway.logIn(ada)
    t.equal((await ask('/a', { ...fields, Cookie })).status, 401, 'and no session helps it')
  })

  t.test(`71, 88, ${edge}: a WebSocket of a page needs the cookie of its browser`, async t => {
    const { gateway, ask } = await startChecks(t, { edge })
    const [session = ''] = (await gateway.logIn(ada)).split('; ')
    const other = (await gateway.logIn(ada)).split('; ').slice(1).join('; ')
    const handshake = { 'Sec-WebSocket-Key': 'x', 'Sec-WebSocket-Version': '13' }
    const page = { ...handshake, Origin: `https://${domain}` }
    t.equal((await ask('/ws', { ...page, Cookie: session })).status, 401, 'planted')
    t.equal((await ask('/ws', { ...page, Cookie: `${session}; ${other}` })).status, 401)
    t.equal((await ask('/ws', { ...handshake, Cookie: session })).status, 200, 'a program')
  })
}

const skip = storeProgram === undefined ? 'needs redis-server or valkey-server' : false

t.test('89: a session that ends at one instance passes no check at another', { skip }, async t => {
  const store = await startStore(t)
  const settings = { state: { url: `redis://127.0.0.1:${store.port}` } }
  const one = await startChecks(t, { edge: 'nginx', settings })
  const directory = await mkdtemp(join(tmpdir(), 'authproxy-'))
  t.teardown(() => rm(directory, { recursive: true, force: true }))
  // The keys of both are the same.
  await copyFile(join(one.gateway.directory, 'app.json'), join(directory, 'app.json'))
  const other = await startChecks(t, { edge: 'nginx', settings, directory })
  const ask = await keptConnection(t, 'nginx', other.at)
  const Cookie = await one.gateway.logIn(ada)
  const bob = await one.gateway.logIn({ email: ['bob@example.org'] })
  for (const shown of [Cookie, bob]) t.equal((await ask('/a', { Cookie: shown })).status, 200)
  await one.gateway.sessions.revoke({ user: 'ada@example.org' })
  await until(async () => (await ask('/a', { Cookie })).status === 401)
  t.equal((await ask('/a', { Cookie: bob })).status, 200)
  store.signal('SIGSTOP')
  t.equal((await ask('/a', { Cookie: bob })).status, 200, 'no check waits for the store')
  t.equal((await ask('/a', { Cookie })).status, 401, 'and what is known holds')
  store.signal('SIGCONT')
})
