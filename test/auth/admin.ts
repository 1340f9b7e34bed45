/** The admin listener: what it answers to whom. */
import t from 'tap'
import { admin } from '../../lib/auth/admin.ts'
import { AuthMetrics } from '../../lib/auth/metrics.ts'
import { Fields } from '../../lib/http/message/field.ts'
import type { Response } from '../../lib/http/message/message.ts'
import { domain, requestWith, startGateway } from '../fixtures/gateway/gateway.ts'
import { RawClient } from '../fixtures/http/raw-client.ts'
import { reply, ScriptedOrigin } from '../fixtures/http/scripted-origin.ts'

const metrics = () => {
  const made = new AuthMetrics()
  made.read({
    client_connections: () => 3,
    websockets: () => 4,
    backend_connections_busy: () => 1,
    backend_connections_lasting: () => 1,
    backend_connections_bound: () => 1,
    backend_connections_free: () => 2,
    backend_requests_waiting: () => 0,
    idp_metadata_fetched_seconds: () => 0,
    idp_metadata_valid_until_seconds: () => Date.UTC(2030, 0, 1) / 1000,
    idp_certificate_ends_seconds: () => 0,
    own_certificate_ends_seconds: () => 0,
    shared_store_here: () => 0,
    shared_store_waiting: () => 0,
    shared_store_unanswered_total: () => 0,
    shared_store_evicts: () => 0,
    group_names_outdated: () => 0,
  })
  return made
}

const textOf = ({ content }: Response) => (content.kind === 'bytes' ? content.bytes.toString() : '')

t.test('ready, not ready, and why not', async t => {
  let problems: readonly string[] = []
  const handle = admin({
    problems: () => problems,
    remarks: () => [],
    metrics: metrics(),
    isKeyPath: () => false,
    identityKeys: () => [],
  })
  const get = (path: string, method = 'GET') =>
    handle(requestWith(Fields.empty, { method, target: { form: 'origin', path } }))
  t.match(await get('/readyz'), { status: 200 })
  problems = ['the metadata of the IdP has expired', 'there is no SAML key pair']
  const red = await get('/readyz')
  t.equal(red.status, 503)
  t.equal(
    textOf(red),
    'not ready\nthe metadata of the IdP has expired\nthere is no SAML key pair\n',
  )
  t.equal(red.fields.get('Cache-Control'), 'no-store')
  t.match(await get('/healthz'), { status: 200 }, 'alive all the same: a restart would not help')
  t.match(await get('/readyz', 'HEAD'), { status: 503, content: { kind: 'none' } })
  const refused = await get('/metrics', 'POST')
  t.equal(refused.status, 405)
  t.equal(refused.fields.get('Allow'), 'GET, HEAD')
  t.match(textOf(await get('/')), '/healthz, /readyz and /metrics')
})

t.test('OPTIONS, as HAProxy asks unless told, says whether the service is ready', async t => {
  let problems: readonly string[] = []
  const sources = {
    problems: () => problems,
    remarks: () => [],
    metrics: metrics(),
    isKeyPath: () => false,
    identityKeys: () => [],
  }
  const handle = admin(sources)
  for (const target of [{ form: 'origin', path: '/' }, { form: 'asterisk' }] as const) {
    const ask = () => handle(requestWith(Fields.empty, { method: 'OPTIONS', target }))
    problems = []
    const well = await ask()
    t.match(well, { status: 200, content: { kind: 'none' } })
    t.equal(well.fields.get('Allow'), 'GET, HEAD, OPTIONS')
    problems = ['there is no SAML key pair']
    t.match(await ask(), { status: 503, content: { kind: 'none' } })
  }
})

t.test('figures are what the parts say', async t => {
  const counted = metrics()
  t.notMatch(await counted.text(), 'authproxy_saml_responses_total{')
  for (let logins = 0; logins < 5; logins += 1) counted.login('accepted')
  const text = await counted.text()
  for (const line of [
    'authproxy_client_connections 3',
    'authproxy_websockets 4',
    'authproxy_backend_connections_busy 1',
    'authproxy_backend_connections_free 2',
    'authproxy_backend_connections_lasting 1',
    'authproxy_backend_requests_waiting 0',
    'authproxy_idp_metadata_valid_until_seconds 1893456000',
    'authproxy_idp_metadata_fetched_seconds 0',
    'authproxy_saml_responses_total{outcome="accepted"} 5',
  ]) {
    t.ok(text.split('\n').includes(line), line)
  }
})

t.test('requests are counted by what became of them, without anything about who asked', async t => {
  const backend = await ScriptedOrigin.listen(t)
  backend.at('*', reply({ content: 'the application' }))
  backend.at('/broken', answer => answer.reset())
  const gateway = await startGateway(t, {
    target: backend.url(''),
    settings: { admin: { listenAddress: '127.0.0.1:0' } },
  })
  const Cookie = await gateway.logIn({ email: ['ada@example.org'] })
  const client = await RawClient.connect(t, gateway.port)
  await client.get('/private/page', { Host: domain, Cookie })
  await client.get('/broken', { Host: domain, Cookie })
  await client.get('/', { Host: domain })
  await client.get('/', { Host: domain, Accept: 'text/html' })
  const listener = await RawClient.connect(t, gateway.service.adminPort ?? 0)
  const { text } = await listener.get('/metrics')
  for (const line of [
    'authproxy_requests_total{outcome="forwarded",status="2xx"} 1',
    'authproxy_requests_total{outcome="failed",status="5xx"} 1',
    'authproxy_requests_total{outcome="unauthenticated",status="4xx"} 1',
    'authproxy_requests_total{outcome="login",status="3xx"} 1',
    'authproxy_failures_total{category="PROXY-ERROR"} 1',
  ]) {
    t.ok(text.split('\n').includes(line), line)
  }
  t.notMatch(text, /ada@|private|example\.org/)
})
