/**
 * Preflights of pages of other origins: which pass without a session, and what the backend sees of them.
 */
import t, { type Test } from 'tap'
import { tokenField } from '../../../lib/auth/access/passthrough.ts'
import { admittedFields } from '../../../lib/auth/gate/admission.ts'
import { Fields } from '../../../lib/http/message/field.ts'
import { handshake } from '../../fixtures/gateway/access-lab.ts'
import { arranged } from '../../fixtures/gateway/attacked.ts'
import { domain } from '../../fixtures/gateway/gateway.ts'

const preflight = {
  Origin: 'https://app.example.net',
  'Access-Control-Request-Method': 'PUT',
  'Access-Control-Request-Headers': 'content-type',
}
const token = '0123456789abcdef'

type Given = Readonly<Record<string, string>>

async function lab(t: Test, settings: Readonly<Record<string, unknown>> = { cors: 'pass' }) {
  const { backend, send, cookie, gateway } = await arranged(t, { settings })
  const ask = async (path: string, fields: Given = preflight, method = 'OPTIONS', content = '') => {
    const lines = Object.entries(fields).map(([name, value]) => `${name}: ${value}\n`)
    return (
      await send(`${method} ${path} HTTP/1.1\nHost: ${domain}\n${lines.join('')}\n${content}`)
    ).status
  }
  return { backend, ask, cookie, gateway, send }
}

t.test(
  '80: without the setting a preflight is refused as any request without a session',
  async t => {
    const { ask, backend } = await lab(t, {})
    t.equal(await ask('/api'), 401)
    t.same(backend.requests, [])
  },
)

t.test('80: a preflight passes, and says of no one who asks', async t => {
  const { ask, backend, cookie, gateway } = await lab(t)
  const browser = { ...preflight, 'Sec-Fetch-Mode': 'cors', 'Sec-Fetch-Site': 'cross-site' }
  const claims = { 'X-Authproxy-User': 'root', X_Authproxy_Groups: 'ops', 'Remote-User': 'root' }
  const more = { Authorization: 'Basic cm9vdDo=', ...claims }
  for (const fields of [preflight, browser, { ...preflight, Cookie: `${cookie}; a=b`, ...more }]) {
    t.equal(await ask('/api?x=1', fields), 200)
    const sent = backend.requests.at(-1)
    t.equal(sent?.method, 'OPTIONS')
    t.equal(sent?.target, '/api?x=1')
    t.equal(sent?.fields.get('Origin'), 'https://app.example.net')
    t.equal(sent?.fields.get('Access-Control-Request-Headers'), 'content-type')
    for (const name of ['Cookie', 'Authorization', 'X-Authproxy-User', 'Remote-User']) {
      t.notOk(sent?.fields.has(name), name)
    }
    t.notOk([...(sent?.fields ?? [])].some(([name]) => /groups/i.test(name)))
  }
  const admission = { because: 'preflight', session: undefined, identity: Fields.empty } as const
  const bare = { ...admission, cookies: 'none', refuses: 'Authorization' } as const
  t.same([...admittedFields(bare, Fields.of(['COOKIE', 'a=b'], ['authorization', 'x']))], [])
  const line = gateway.log.lines.find(({ message }) => message === 'request')
  t.match(line?.facts, { outcome: 'forwarded', because: 'preflight' })
  t.notOk(line?.facts['user'])
})

t.test('80: nothing else passes by it', async t => {
  const { ask, backend } = await lab(t)
  const without = (name: string) =>
    Object.fromEntries(Object.entries(preflight).filter(([each]) => each !== name))
  const own = `https://${domain}`
  for (const [what, fields, method = 'OPTIONS', path = '/api'] of [
    ['GET', preflight, 'GET'],
    ['POST', { ...preflight, 'Content-Length': '0' }, 'POST'],
    ['DELETE', preflight, 'DELETE'],
    ['no origin', without('Origin')],
    ['no method', without('Access-Control-Request-Method')],
    ['own origin', { ...preflight, Origin: own }],
    ['two origins', { ...preflight, Origin: 'https://a.example.net, https://b.example.net' }],
    ['no URL', { ...preflight, Origin: 'everywhere' }],
    ['two methods', { ...preflight, 'Access-Control-Request-Method': 'PUT, GET' }],
    ['TRACE', { ...preflight, 'Access-Control-Request-Method': 'TRACE' }],
    ['empty method', { ...preflight, 'Access-Control-Request-Method': '' }],
    ['an override', { ...preflight, 'X-HTTP-Method-Override': 'DELETE' }],
    ['an override, _', { ...preflight, X_HTTP_Method_Override: 'DELETE' }],
    ['an override in the query', preflight, 'OPTIONS', '/api?_method=DELETE'],
    ['a navigation', { ...preflight, 'Sec-Fetch-Mode': 'navigate' }],
    ['no-cors', { ...preflight, 'Sec-Fetch-Mode': 'no-cors' }],
    ['own site', { ...preflight, 'Sec-Fetch-Site': 'same-origin' }],
    ['an upgrade', { ...preflight, ...handshake }],
    ['an upgrade to h2c', { ...preflight, Connection: 'Upgrade', Upgrade: 'h2c' }],
    ['a wrong token', { ...preflight, [tokenField]: 'Bearer nonsense-nonsense' }],
    ['a chunked content', { ...preflight, 'Transfer-Encoding': 'chunked' }],
    ['encoded dots', preflight, 'OPTIONS', '/api/%2e%2e/admin'],
    ['an encoded slash', preflight, 'OPTIONS', '/api%2fadmin'],
    ['a parameter', preflight, 'OPTIONS', '/api;x/admin'],
    ['its own page', preflight, 'OPTIONS', '/__authproxy/whoami'],
  ] as ReadonlyArray<readonly [string, Given, string?, string?]>) {
    const content = 'Transfer-Encoding' in fields ? '0\n\n' : ''
    const status = await ask(path, fields, method, content)
    t.ok(status === 401 || status === 400, `${what}: ${status}`)
  }
  t.equal(await ask('/api', { ...preflight, 'Content-Length': '1' }, 'OPTIONS', 'x'), 401)
  t.same(
    backend.requests.map(({ target }) => target),
    [],
  )
})

t.test('80: two lines of one field are none', async t => {
  const { send, backend } = await lab(t)
  const lines = Object.entries(preflight).map(([name, value]) => `${name}: ${value}\n`)
  for (const line of ['Origin: https://b.example.net', 'Access-Control-Request-Method: GET']) {
    const head = `OPTIONS / HTTP/1.1\nHost: ${domain}\n${lines.join('')}${line}\n\n`
    t.equal((await send(head)).status, 401, line)
  }
  t.same(backend.requests, [])
})

t.test('80: rules close a path to preflights where no person may come', async t => {
  const { ask, backend } = await lab(t, {
    cors: 'pass',
    passthroughPaths: ['/open/'],
    passthroughTokens: [{ name: 'monitoring', token }],
    access: [
      { path: '/metrics', allow: 'nobody' },
      { path: '/read/', methods: ['GET', 'OPTIONS'], allow: 'signed-in' },
      { path: '/read/', allow: 'nobody' },
      { path: '/admin/', allow: [{ groups: 'ops' }] },
      { path: '/public/', allow: 'anyone' },
      { path: '/some/', methods: ['GET', 'PUT'], allow: 'signed-in' },
    ],
  })
  const announcing = (method: string) => ({
    ...preflight,
    'Access-Control-Request-Method': method,
  })
  for (const [path, expected, method = 'PUT'] of [
    ['/metrics', 403],
    ['/METRICS', 403],
    ['/read/x', 401],
    ['/read/x', 200, 'GET'],
    ['/admin/x', 200],
    ['/Admin/x', 403],
    ['/public/x', 200],
    ['/some/x', 403],
    ['/else', 403],
    ['/open/x', 200],
    ['/admin/..%2fx', 400],
  ] as const) {
    t.equal(await ask(path, announcing(method)), expected, `${path} ${method}`)
  }
  const paths = ['/read/x', '/admin/x', '/public/x', '/open/x']
  t.same(
    backend.requests.map(({ target }) => target),
    paths,
  )
  t.equal(await ask('/metrics', { ...preflight, [tokenField]: `Bearer ${token}` }), 200, 'a token')
})
