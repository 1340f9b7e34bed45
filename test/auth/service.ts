import { once } from 'node:events'
import { chmod, mkdir, mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { askOwner } from '../../lib/admin-socket.ts'
import { systemClock } from '../../lib/async/clock.ts'
import { explainFromFile } from '../../lib/auth/explain.ts'
import { lockOf } from '../../lib/auth/keys/dynamic-file.ts'
import type { SamlParts } from '../../lib/auth/login/parts.ts'
import { failuresFile } from '../../lib/auth/pages/failure-records.ts'
import { Fields } from '../../lib/http/message/field.ts'
import {
  cookieOf,
  domain,
  gatewayConfig,
  requestWith,
  startGateway,
} from '../fixtures/gateway/gateway.ts'
import { RawClient } from '../fixtures/http/raw-client.ts'
import { ScriptedOrigin } from '../fixtures/http/scripted-origin.ts'
import { reply } from '../fixtures/http/scripts.ts'
import { until } from '../fixtures/time/until.ts'

t.test('what keeps an instance from starting is said in words', async t => {
  const taken = createServer().listen(0, '127.0.0.1')
  await once(taken, 'listening')
  t.teardown(() => taken.close())
  const address = taken.address()
  const port = typeof address === 'object' ? address?.port : 0
  await t.rejects(startGateway(t, { proxy: { listenAddress: `127.0.0.1:${port}` } }), {
    message: /address is in use/,
  })
  await t.rejects(startGateway(t, { settings: { configPath: '/nonexistent/dir/app.json' } }), {
    message: /^failed to save dynamic configuration .*does not exist/,
  })
  const directory = await mkdtemp(join(tmpdir(), 'authproxy-'))
  t.teardown(() => rm(directory, { recursive: true, force: true }))
  await writeFile(join(directory, 'app.json'), '{"version": 1, "secret": "hunter2"')
  await t.rejects(startGateway(t, { directory }), {
    message: /^failed to load dynamic configuration/,
  })
  await mkdir(join(directory, 'x'))
  if (process.getuid?.() !== 0) {
    await chmod(join(directory, 'x'), 0o500)
    await t.rejects(startGateway(t, { directory: join(directory, 'x') }), {
      message: /^failed to save dynamic configuration/,
    })
  }
})

t.test('the second instance on one dynamic configuration is told which process has it', async t => {
  const first = await startGateway(t)
  const { directory } = first
  await t.rejects(startGateway(t, { directory }), {
    code: 'directory-in-use',
    message: `The dynamic configuration ${first.config.configPath} is in use by process ${process.pid} on `,
  })
  const beside = { configPath: join(directory, 'other.json') }
  const second = await startGateway(t, { directory, settings: beside })
  await second.stop()
  await first.stop()
  await (await startGateway(t, { directory })).stop()
})

t.test(
  'the dynamic file is private, survives a restart, and takes the sessions with it when it goes',
  async t => {
    const gateway = await startGateway(t)
    const path = gateway.config.configPath
    t.equal((await stat(path)).mode & 0o777, 0o600)
    const cookie = await gateway.logIn({ email: ['ada@example.org'] })
    const request = requestWith(Fields.of(['Cookie', cookie]))
    await gateway.stop()
    const again = await startGateway(t, { directory: gateway.directory })
    t.equal((await again.sessions.read(request))?.subject, 'ada@example.org')
    const certificate = again.saml.keys.saml()[0]?.certificate
    await rm(path)
    await until(async () => (await again.sessions.read(request)) === undefined)
    t.not(again.saml.keys.saml()[0]?.certificate, certificate)
    await until(() => again.log.lines.some(({ message }) => message.includes('deleted')))
    t.equal((await stat(path)).mode & 0o777, 0o600, 'and is made anew')
  },
)

t.test('50: health, readiness and figures are told on a listener of their own', async t => {
  const gateway = await startGateway(t, { settings: { admin: { listenAddress: '127.0.0.1:0' } } })
  const admin = await RawClient.connect(t, gateway.service.adminPort ?? 0)
  t.equal((await admin.get('/healthz')).status, 200)
  t.equal((await admin.get('/readyz')).text, 'ready\n')
  t.match(
    (await admin.get('/metrics')).text,
    /authproxy_saml_responses_total\{outcome="accepted"\} 1/,
  )
  t.equal((await admin.get('/')).status, 404)
  const front = await RawClient.connect(t, gateway.port)
  t.equal(
    (await front.get('/healthz', { Host: domain })).status,
    401,
    'the public listener has none',
  )
})

t.test('a reload replaces the backend and what passes, and keeps sessions', async t => {
  const [first, second] = [await ScriptedOrigin.listen(t), await ScriptedOrigin.listen(t)]
  first.at('*', reply({ content: 'first' }))
  second.at('*', reply({ content: 'second' }))
  const gateway = await startGateway(t, {
    target: first.url(''),
    reload: () =>
      gatewayConfig({
        domain,
        idpMetadataURL: 'https://idp.example.org/metadata',
        configPath: gateway.config.configPath,
        passthroughPaths: ['/open/'],
        proxy: { listenAddress: '127.0.0.1:0', targetURL: second.url('') },
      }),
  })
  const cookie = await gateway.logIn({ email: ['ada@example.org'] })
  const client = await RawClient.connect(t, gateway.port)
  t.equal((await client.get('/', { Host: domain, Cookie: cookie })).text, 'first')
  t.equal((await client.get('/open/', { Host: domain })).status, 401)
  await t.rejects(gateway.service.reload(AbortSignal.abort(new Error('late'))), /late/)
  t.equal((await client.get('/', { Host: domain, Cookie: cookie })).text, 'first', 'given up')
  t.same(await gateway.service.reload(), [])
  t.equal((await client.get('/', { Host: domain, Cookie: cookie })).text, 'second')
  t.equal((await client.get('/open/', { Host: domain })).status, 200)
})

t.test('strangers cannot push out the failures of users and of logins', async t => {
  const gateway = await startGateway(t)
  const file = join(gateway.directory, 'app.json.failures.json')
  const client = await RawClient.connect(t, gateway.port)
  const fails = async (fields: Record<string, string>) => {
    const { text } = await client.get('http://other.example.org/', {
      ...{ Host: domain, 'Sec-Fetch-Mode': 'cors', ...fields },
    })
    return String(JSON.parse(text).requestId)
  }
  const cookies = gateway.saml.cookies(requestWith(Fields.empty))
  cookies.own({ issuer: 'i', subject: 's' })
  const owner = cookieOf(cookies.lines)
  const ids = [await fails({ Cookie: owner }), await fails({ Cookie: stateCookie(gateway.saml) })]
  const early = await fails({})
  for (let i = 0; i < 250; i += 1) await fails({ Cookie: `${owner.slice(0, -2)}AA` })
  client.end()
  await gateway.stop()
  for (const id of ids) t.ok((await explainFromFile(id, file)).found)
  t.notOk((await explainFromFile(early, file)).found)
})

/** What a browser sends whose last login was completed. */
function stateCookie(saml: SamlParts): string {
  const last = { at: saml.clock.now(), depth: 0, ahead: 0 }
  const cookies = saml.cookies(requestWith(Fields.empty))
  cookies.know({ last })
  return cookieOf(cookies.lines)
}

t.test('a failure can be explained by the ID on its page, also after a restart', async t => {
  const gateway = await startGateway(t)
  const cookie = await gateway.logIn({ email: ['ada@example.org'] })
  const client = await RawClient.connect(t, gateway.port)
  const answer = await client.get('/x?secret=1', { Host: domain, Cookie: cookie })
  const { requestId } = JSON.parse(answer.text)
  const place = lockOf(gateway.config.configPath)
  const asked = (reference: string) =>
    askOwner(place, { do: 'explain', reference }, systemClock).then(reply => reply?.answer)
  t.match(await asked(`PROXY-ERROR ${requestId}`), {
    ...{ code: 0, complaints: [], out: /^PROXY-ERROR backend_connect[\s\S]*GET \/x$/m },
  })
  t.match(await asked('unknown'), {
    code: 1,
    out: '',
    complaints: [/^no failure has the request ID/],
  })
  await t.rejects(asked('x'.repeat(1001)), /does not know/)
  client.end()
  await gateway.stop()
  const file = failuresFile(gateway.config.configPath)
  const { found, lines } = await explainFromFile(`PROXY-ERROR ${requestId}`, file)
  t.ok(found)
  t.match(lines.join('\n'), /^PROXY-ERROR backend_connect[\s\S]*GET \/x$/m)
  t.notMatch(await readFile(file, 'utf8'), /secret|authproxy_session/)
  t.notOk((await explainFromFile('unknown', file)).found)
})
