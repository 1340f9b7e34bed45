/**
 * Faults that were found in other programs which answer the checks of an edge, each by its number: none of them is here.
 */
import t from 'tap'
import { checkOf, edges, navigation, startChecks } from '../../fixtures/gateway/checks.ts'
import { domain, startGateway } from '../../fixtures/gateway/gateway.ts'
import { RawClient } from '../../fixtures/http/raw-client.ts'
import { reply, ScriptedOrigin } from '../../fixtures/http/scripted-origin.ts'

t.setTimeout(600_000)

const ada = { email: ['ada@example.org'], groups: ['staff'] }
const settings = {
  passthroughPaths: ['/public/'],
  access: [
    { path: '/admin/', allow: [{ groups: ['admins'] }] },
    { path: '/', allow: 'signed-in' },
  ],
}
const byField = (edge: string) => edge === 'nginx' || edge === 'haproxy'

t.test(
  'CVE-2026-40575: a path the client names itself is never the one that is judged',
  async t => {
    const claims = {
      'X-Forwarded-Uri': '/public/',
      'X-Original-URI': '/public/',
      'X-Original-URL': '/public/',
      'X-Rewrite-URL': '/public/',
      'X-Auth-Request-Redirect': '/public/',
      'X-Envoy-Original-Path': '/public/',
    }
    for (const edge of edges) {
      const { ask } = await startChecks(t, { edge, settings })
      for (const [name, value] of Object.entries(claims)) {
        // An edge that does not take the client's field away sends two of them.
        const own = checkOf(edge, { target: '/private' }).lines.some(([each]) => each === name)
        t.equal(
          (await ask('/private', { [name]: value })).status,
          // A path that the edge does not send itself is refused.
          own ? 400 : name === 'X-Auth-Request-Redirect' ? 401 : 403,
          `${name} at ${edge}`,
        )
      }
    }
    const origin = await ScriptedOrigin.listen(t)
    origin.at('*', reply({ content: 'the application' }))
    const gateway = await startGateway(t, { target: origin.url(''), settings })
    const client = await RawClient.connect(t, gateway.port)
    t.equal(
      (await client.get('/private', { Host: domain, ...claims })).status,
      401,
      'nor at the gateway',
    )
  },
)

t.test(
  '85: CVE-2026-40575: no peer is trusted that is not named, and no network of all',
  async t => {
    for (const trustedProxies of [[], ['0.0.0.0/0'], ['::/0'], ['0.0.0.0/1', '128.0.0.0/1']]) {
      const forwardAuth = { trustedProxies }
      await t.rejects(startChecks(t, { edge: 'nginx', forwardAuth }), {
        message: /also needs forwardAuth.trustedProxies|is a network of strangers/,
      })
    }
  },
)

t.test('84: CVE-2025-64484, GHSA-f59h: a field in another spelling makes no identity', async t => {
  for (const edge of edges) {
    const { gateway, ask } = await startChecks(t, { edge })
    const Cookie = await gateway.logIn(ada)
    for (const name of [
      ...['X_Authproxy_User', 'X-Authproxy_User', 'x_authproxy-user', 'X.Authproxy.User'],
      ...['X--Authproxy-User', '-X-Authproxy-User', 'X-Authproxy-User-', 'X-Authproxy.Groups'],
      ...['Remote_User', 'Remote_Groups', 'REMOTE.USER', 'X_Auth_Request_Email'],
      ...['X_WEBAUTH_USER', 'Remote-User', 'X-Auth-Request-Groups', 'X-Authproxy-Anything'],
    ]) {
      const answer = await ask('/', { Cookie, [name]: 'admin@example.org' })
      t.equal(answer.status, 403, `${name} at ${edge}`)
    }
    const codes = gateway.log.lines.map(({ facts }) => facts['code'])
    t.equal(codes.filter(code => code === 'identity_field').length, 16)
  }
})

t.test(
  '84: GHSA-7r4p: an identity that has no value is told, so that the client’s goes',
  async t => {
    for (const edge of edges) {
      const { gateway, ask } = await startChecks(t, { edge, settings })
      const Cookie = await gateway.logIn({ email: ['bob@example.org'] })
      const known = await ask('/', { Cookie, 'X-Authproxy-Groups': 'admins' })
      t.equal(known.status, 200)
      t.same(known.fields.all('X-Authproxy-Groups'), [''])
      const open = await ask('/public/', { 'X-Authproxy-User': 'admin@example.org' })
      t.equal(open.status, 200)
      t.same(open.fields.all('X-Authproxy-User'), [''])
      const names = (fields: typeof known.fields) => [...fields].map(([name]) => name).sort()
      t.same(names(known.fields), names(open.fields), 'the same names, whoever asks')
    }
  },
)

t.test('GHSA-5hvv: no User-Agent passes for a health check', async t => {
  for (const edge of edges) {
    const { ask } = await startChecks(t, { edge, settings })
    for (const agent of [
      'GoogleHC/1.0',
      'kube-probe/1.30',
      'ELB-HealthChecker/2.0',
      'Prometheus',
    ]) {
      t.equal((await ask('/private', { 'User-Agent': agent })).status, 401, agent)
    }
    for (const path of ['/healthz', '/readyz', '/ping', '/metrics']) {
      t.equal((await ask(path)).status, 401, path)
    }
  }
})

t.test('GHSA-pxq7: what follows a "#" widens no path', async t => {
  for (const edge of edges) {
    const { ask } = await startChecks(t, { edge, settings })
    for (const path of ['/private#/public/', '/public/#/../private']) {
      const answer = await ask(path)
      t.equal(answer.status, 400, `${path} at ${edge}`)
    }
    t.equal((await ask('/private?/public/')).status, 401, edge)
    for (const path of ['/private%23/public/', '/public/%23/../private', '/public/%23']) {
      t.equal((await ask(path)).status, byField(edge) ? 403 : 400, `${path} at ${edge}`)
    }
  }
})

t.test('49, 95: CVE-2026-35051: no beginning of a path that a client names is cut off', async t => {
  const names = [
    ...['X-Forwarded-Prefix', 'X-Script-Name', 'Script-Name', 'X-Forwarded-Path', 'SCRIPT_NAME'],
    ...['Daphne-Root-Path', 'daphne_root_path', 'X-Forwarded-Context', 'X-Ingress-Path'],
  ]
  for (const edge of edges) {
    const { gateway, ask } = await startChecks(t, { edge, settings })
    const Cookie = await gateway.logIn(ada)
    for (const name of names) {
      // The application would take /public off, and serve /admin/, to which the rules let nobody here.
      const fields = { [name]: '/public' }
      const isOwn = edge === 'traefik' && name === 'X-Forwarded-Prefix'
      for (const who of [{}, { Cookie }]) {
        const answer = await ask('/public/admin/', { ...fields, ...who })
        // The entry point of Traefik removes it from clients, and its StripPrefix sets it.
        t.equal(answer.status, isOwn ? 200 : 403, `${name} at ${edge}`)
        t.equal(answer.fields.has('X-Authproxy-User'), isOwn)
      }
      // Nor in the other direction.
      t.not((await ask('/private', { [name]: '/public/' })).status, 200, name)
      t.equal((await ask('/admin/', { [name]: '/public/', Cookie })).status, 403, name)
    }
  }
})

t.test('CVE-2026-39858: an alias of a forwarded field is no source', async t => {
  for (const edge of edges) {
    const { gateway, ask } = await startChecks(t, { edge, settings })
    const Cookie = await gateway.logIn(ada)
    for (const name of [
      'X_Forwarded_Uri',
      'X.Forwarded.Uri',
      'X_Original_URI',
      'X_Forwarded_Method',
    ]) {
      const normal = name.replace(/[_.]/g, '-')
      const own = checkOf(edge, { target: '/' }).lines.some(([each]) => each === normal)
      const answer = await ask('/admin/', { [name]: '/public/', Cookie })
      t.equal(answer.status, own ? 400 : 403, `${name} at ${edge}`)
    }
    t.equal((await ask('/', { Cookie, X_Forwarded_For: '127.0.0.1' })).status, 400, edge)
  }
})

t.test('CVE-2026-25748: a malformed cookie is no session', async t => {
  for (const edge of edges) {
    const { gateway, ask } = await startChecks(t, { edge, settings })
    const good = await gateway.logIn(ada)
    const value = /__authproxy_session=([^;]*)/.exec(good)?.[1] ?? ''
    for (const cookie of [
      ...['', '=', ';', '__authproxy_session', '__authproxy_session=', '__authproxy_session=;'],
      ...['__authproxy_session="', '__authproxy_session=%', '__authproxy_session=%ff%fe'],
      ...['__authproxy_session=null', '__authproxy_session={}', '__authproxy_session=..'],
      ...[`__authproxy_session=${value.slice(0, -2)}`, `__authproxy_session=${value}x`],
      ...[`__authproxy_session=${value.split('.').slice(0, 2).join('.')}.`],
      ...[`__authproxy_session=${'a'.repeat(20_000)}`, `${'x=y; '.repeat(3000)}`],
      ...[`__Host-authproxy_session=${value}`, `__AUTHPROXY_SESSION=${value}`],
    ]) {
      const answer = await ask('/private', { Cookie: cookie })
      t.equal(answer.status, 401, `${cookie.slice(0, 40)} at ${edge}`)
      t.notOk(answer.fields.has('X-Authproxy-User'))
    }
  }
})

t.test('CVE-2024-47070: X-Forwarded-For of a client opens nothing', async t => {
  const token = 'a-token-of-sixteen'
  const passthroughTokens = [{ name: 'probe', token, clients: ['127.0.0.0/8', '10.0.0.0/8'] }]
  for (const edge of edges) {
    const { ask } = await startChecks(t, { edge, settings: { ...settings, passthroughTokens } })
    const fields = { 'X-Authproxy-Authorization': `Bearer ${token}` }
    for (const client of [
      ...['127.0.0.1, 192.0.2.9', '10.0.0.1,192.0.2.9', '::1, 192.0.2.9', '192.0.2.9'],
      ...['127.0.0.1, 192.0.2.9, 127.0.0.1'],
    ]) {
      t.equal((await ask('/private', {}, { client })).status, 401, client)
      t.equal((await ask('/private', fields, { client })).status, 401, client)
    }
    t.equal((await ask('/private', fields, { client: '10.0.0.1' })).status, 200)
  }
})

t.test('a path that edge and application read in different ways passes nowhere', async t => {
  for (const edge of edges) {
    const { gateway, ask } = await startChecks(t, { edge, settings })
    const Cookie = await gateway.logIn(ada)
    for (const path of [
      ...['/public/../admin/', '/public/%2e%2e/admin/', '/public//admin', '//admin/', '/admin%2f'],
      ...[
        '/public\\..\\admin',
        '/public/..;/admin/',
        '/%61dmin%00/',
        '/./admin/',
        '/public/%252e/',
      ],
    ]) {
      t.equal((await ask(path)).status >= 400, true, `${path} without a session`)
      const answer = await ask(path, { Cookie })
      t.equal(answer.status, byField(edge) ? 403 : 400, `${path} at ${edge}`)
    }
  }
})

t.test('the method is that of the request, not that of the check', async t => {
  const access = [{ path: '/', methods: ['GET'], allow: 'signed-in' }]
  for (const edge of edges) {
    const { gateway, ask } = await startChecks(t, { edge, settings: { access } })
    const Cookie = await gateway.logIn(ada)
    t.equal((await ask('/', { Cookie })).status, 200)
    // Envoy's check has the method in its own line, where a method that does not exist is 501.
    const odd = edge === 'envoy' ? [] : ['get', 'GETT']
    for (const method of ['POST', 'DELETE', 'PUT', 'PROPFIND', ...odd]) {
      t.equal((await ask('/', { Cookie }, { method })).status, 403, `${method} at ${edge}`)
    }
  }
})

t.test('a failure of our own is no access', async t => {
  for (const edge of edges) {
    const { gateway, ask } = await startChecks(t, { edge })
    const Cookie = await gateway.logIn(ada)
    t.intercept(gateway.sessions, 'read', {
      value: () => Promise.reject(new Error('the memory is broken')),
    })
    const answer = await ask('/', { Cookie, ...navigation })
    t.equal(answer.status, 500, edge)
    t.notOk(answer.fields.has('X-Authproxy-User'))
  }
})

t.test('80: a preflight that passes has no cookies, and none with credentials passes', async t => {
  const preflight = { Origin: 'https://other.example.net', 'Access-Control-Request-Method': 'PUT' }
  for (const edge of edges) {
    const { ask } = await startChecks(t, { edge, settings: { cors: 'pass' } })
    const method = 'OPTIONS'
    const fields = { ...preflight, Cookie: 'application_session=secret; other=1' }
    const passed = await ask('/page', fields, { method })
    t.equal(passed.status, 200, edge)
    t.strictSame(passed.fields.all('Cookie'), [''])
    const Authorization = 'Bearer of-a-program'
    const refused = await ask('/page', { ...preflight, Authorization }, { method })
    t.equal(refused.status, 403, edge)
    t.match(refused.content.toString(), /^Authorization: a preflight/)
  }
})
