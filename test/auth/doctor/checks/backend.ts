import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { makeAuthority } from '../../../fixtures/certificates/certificate.ts'
import { startPatient } from '../../../fixtures/gateway/patient.ts'
import { reply, ScriptedOrigin } from '../../../fixtures/http/scripted-origin.ts'

const day = 86_400_000

t.test(
  'a backend address that leads back is found: straight, through the edge, or by 508',
  async t => {
    const patient = await startPatient(t)
    const { gateway, edge, backend } = patient
    const target = (scheme: 'http' | 'https', port: number) =>
      patient.configWith({
        target: { scheme, host: '127.0.0.1', port, path: '/' },
        targetVerify: false,
      })
    t.match(await patient.find('loop', { config: target('http', gateway.port) }), {
      state: 'wrong',
      found: /leads back to this very service/,
      mend: /proxy\.targetURL/,
    })
    t.match(await patient.find('loop', { config: target('https', edge.port) }), {
      state: 'wrong',
      found: /leads back to this very service/,
    })
    backend.at('/', reply({ status: 508, reason: 'Loop Detected' }))
    t.match(await patient.find('loop'), { state: 'wrong', found: /508/ })
    const login = { 'X-Authproxy-Login': `${gateway.config.baseUrl}/__authproxy-redirect` }
    backend.at('/', reply({ status: 401, fields: login }))
    t.match(await patient.find('loop'), { state: 'wrong', found: /wants a login at/ })
    backend.at('/', reply({ content: 'the application' }))
    t.match(await patient.find('loop'), { state: 'right', found: /does not lead back/ })
    t.equal(
      backend.requests.at(-1)?.fields.get('X-Authproxy-Instance-ID')?.length,
      32,
      'asked with the name of the instance, as requests are forwarded',
    )
    t.equal(backend.requests.at(-1)?.fields.get('Host'), gateway.config.domain)
  },
)

t.test('what the backend answers is judged, and why it does not', async t => {
  const patient = await startPatient(t)
  const { backend } = patient
  for (const [status, state, found] of [
    [200, 'right', /answers 200$/],
    [404, 'right', /answers 404$/],
    [503, 'doubtful', /answers 503$/],
    [421, 'doubtful', /answers 421 for the Host app\.example\.org/],
  ] as const) {
    backend.at('/', reply({ status }))
    t.match(await patient.find('backend'), { state, found })
  }
  const other = { 'X-Authproxy-Login': 'https://other.example.org/__authproxy-redirect' }
  backend.at('/', reply({ status: 401, fields: other }))
  t.match(await patient.find('backend'), { state: 'doubtful', found: /another authproxy/ })
  const windows = { 'WWW-Authenticate': 'Negotiate, NTLM' }
  backend.at('/', reply({ status: 401, fields: windows }))
  t.match(await patient.find('backend'), { state: 'doubtful', mend: /Windows authentication/ })
  backend.at('/', answer => answer.reset())
  t.match(await patient.find('backend'), { state: 'wrong', mend: /HTTP\/1\.1/ })
  const at = (host: string, port: number, scheme: 'http' | 'https' = 'http') =>
    patient.configWith({ target: { scheme, host, port, path: '/' } })
  t.match(await patient.find('backend', { config: at('127.0.0.1', 9) }), {
    state: 'wrong',
    mend: /is the application running/,
  })
  const lookup = async () => {
    throw new Error('ENOTFOUND')
  }
  t.match(await patient.find('backend', { config: at('backend.invalid', 80), lookup }), {
    state: 'wrong',
    mend: /the name backend\.invalid/,
  })
})

t.test('the certificate of the backend: authority, end, and not looked at', async t => {
  const authority = makeAuthority()
  const soon = new Date(Date.now() + 3.5 * day)
  const patient = await startPatient(t)
  const file = join(patient.directory, 'ca.pem')
  await writeFile(file, authority.cert)
  const tls = authority.issue({ names: ['127.0.0.1'], until: soon })
  const backend = await ScriptedOrigin.listen(t, { tls })
  backend.at('*', reply({}))
  const target = { scheme: 'https', host: '127.0.0.1', port: backend.port, path: '/' } as const
  t.match(await patient.find('backend', { config: patient.configWith({ target }) }), {
    state: 'wrong',
    mend: /proxy\.targetCertificates/,
  })
  const known = patient.configWith({ target, targetCertificates: file })
  t.match(await patient.find('backend', { config: known }), { state: 'right' })
  t.match(await patient.find('certificate of the backend', { config: known }), {
    state: 'doubtful',
    found: /, 3 days$/,
  })
  t.match(
    await patient.find('backend', { config: patient.configWith({ target, targetVerify: false }) }),
    { state: 'doubtful', found: /another server could answer in its place/ },
  )
  const gone = patient.configWith({ target, targetCertificates: '/nonexistent/ca.pem' })
  const about = 'proxy.targetCertificates'
  t.match(await patient.find(about, { config: gone }), { state: 'wrong', found: /cannot read/ })
  await writeFile(file, 'not PEM')
  t.match(await patient.find(about, { config: known }), {
    state: 'wrong',
    found: /holds no certificate in PEM/,
  })
})

t.test('a server that takes fields in ASCII alone is found, also by its WebSockets', async t => {
  const patient = await startPatient(t)
  const { backend } = patient
  const find = (fails: (beyond: boolean, opens: boolean) => boolean, config = {}) => {
    backend.at('/', answer => {
      const { fields } = backend.requests.at(-1) ?? {}
      const beyond = /[^\x20-\x7e]/.test(fields?.get('X-Authproxy-Doctor') ?? '')
      const status = fails(beyond, fields?.has('Upgrade') === true) ? 500 : 200
      return reply({ status })(answer)
    })
    return patient.find('names beyond ASCII', { config: patient.configWith(config) })
  }
  t.match(await find(() => false), { state: 'right' })
  t.match(await find((beyond, opens) => beyond && opens), {
    state: 'doubtful',
    found: /opens a WebSocket is answered 200 with a field in ASCII, and 500 with/,
    mend: /identity\.encoding: percent/,
  })
  t.match(await find(beyond => beyond), { state: 'doubtful', found: /^a request is answered 200/ })
  t.match(await find((_, opens) => opens), { state: 'right' }, 'no WebSockets at all')
  t.ok(
    backend.requests.every(({ head }) => !/X-Authproxy-User/i.test(head)),
    'no user is named, so that none is made',
  )
  const { identityFields } = patient.gateway.config
  const percent = { identityFields: { ...identityFields, encoding: 'percent' } }
  t.equal(await find(() => false, percent), undefined)
})
