import { chmod, chown, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { systemClock } from '../../../../lib/async/clock.ts'
import { examineBackend } from '../../../../lib/auth/doctor/checks/backend.ts'
import { judgeFiles } from '../../../../lib/auth/doctor/checks/keys.ts'
import { selfSigned } from '../../../../lib/x509/self-signed.ts'
import { makeAuthority } from '../../../fixtures/certificate.ts'
import { startGateway } from '../../../fixtures/gateway.ts'
import { startPatient } from '../../../fixtures/patient.ts'
import { freePort } from '../../../fixtures/ports.ts'
import { reply, ScriptedOrigin } from '../../../fixtures/scripted-origin.ts'

const day = 86_400_000

t.test('a service that does not run, or is another one, is told', async t => {
  const patient = await startPatient(t)
  const { gateway, backend } = patient
  const at = (port: number) => patient.configWith({ listen: { address: '127.0.0.1', port } })
  t.match(await patient.find('service', { config: at(await freePort()) }), {
    state: 'wrong',
    found: /^nobody answers at 127\.0\.0\.1:\d+: .*ECONNREFUSED/,
    mend: /systemctl start authproxy@test/,
  })
  t.match(await patient.find('service', { config: at(backend.port) }), {
    state: 'wrong',
    found: /^something else answers at .* with 200$/,
  })
  const other = await startGateway(t)
  t.match(await patient.find('service', { config: at(other.port) }), { state: 'wrong' })
  t.match(await patient.find('service'), { state: 'right', found: /^version \d.* runs for https:/ })
  await gateway.stop()
  t.match(await patient.find('service'), { state: 'wrong' })
  const found = await patient.examined()
  t.match(
    found.find(({ what }) => what === 'loop'),
    { state: 'doubtful', mend: /once the service runs/ },
    'a circle cannot be excluded then',
  )
})

t.test('a service whose keys cannot be read is asked no further, and that is said', async t => {
  // A service with real metadata: what answers is known by that alone.
  const patient = await startPatient(t)
  const { baseUrl, configPath, saml } = patient.gateway.config
  const impostor = await ScriptedOrigin.listen(t)
  impostor.at('*', reply({ content: `<EntityDescriptor entityID="${saml.entityId}"/>` }))
  const config = patient.configWith({ listen: { address: '127.0.0.1', port: impostor.port } })
  patient.edge.to = impostor.port
  t.match(await patient.find('service', { config }), {
    state: 'wrong',
    found: `an authproxy for ${baseUrl} answers at 127.0.0.1:${impostor.port}, but not one`,
  })
  t.match(await patient.find('public host', { config }), {
    state: 'wrong',
    found: /but not to one/,
  })
  await writeFile(configPath, '{')
  for (const what of ['service', 'public host']) {
    t.match(await patient.find(what, { config }), {
      state: 'doubtful',
      found: /an authproxy for/,
      mend: /run this as the service user/,
    })
  }
})

t.test('a running service that has another configuration than its file is told', async t => {
  const patient = await startPatient(t)
  const what = 'configuration in force'
  t.match(await patient.find(what), { state: 'right' })
  const config = patient.configWith({ passthroughPaths: ['/new/'] })
  t.match(await patient.find(what, { config }), {
    state: 'doubtful',
    found: /another configuration/,
    mend: /systemctl reload authproxy@test/,
  })
})

t.test('warnings of the configuration are findings', async t => {
  const patient = await startPatient(t)
  t.match(await patient.find('configuration', { warnings: ['app.yaml:3:1: dangerous'] }), {
    state: 'doubtful',
    found: 'app.yaml:3:1: dangerous',
  })
})

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
    { state: 'doubtful', found: /could be anybody/ },
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

t.test('the dynamic configuration: whose it is, who can read it, how long it is good', async t => {
  const patient = await startPatient(t)
  const { configPath, saml } = patient.gateway.config
  const what = 'dynamic configuration'
  t.match(await patient.find(what), { state: 'right' })
  await chmod(configPath, 0o644)
  t.match(await patient.find(what), { state: 'wrong', found: /mode 0644/, mend: /chmod 600/ })
  await chmod(configPath, 0o600)
  const renamed = patient.configWith({ saml: { ...saml, entityId: 'https://other.example.org' } })
  t.match(await patient.find(what, { config: renamed }), { state: 'wrong', found: /was made for/ })
  const lost = patient.configWith({ configPath: join(patient.directory, 'new.json') })
  t.match(await patient.find(what, { config: lost }), { state: 'right', found: /not there yet/ })
  t.match(
    await patient.find('service', { config: lost }),
    { state: 'wrong' },
    'without its keys the service cannot be asked',
  )
  const nowhere = patient.configWith({ configPath: '/nonexistent/app.json' })
  t.match(await patient.find(what, { config: nowhere }), {
    state: 'wrong',
    found: /directory \/nonexistent does not exist/,
  })
  const later = (days: number) => ({ ...systemClock, now: () => Date.now() + days * day })
  for (const [days, state, found] of [
    [0, 'right', /^until \d{4}/],
    [3630, 'doubtful', /, 19 days$|, 20 days$/],
    [3700, 'wrong', /^expired on/],
  ] as const) {
    t.match(await patient.find('own SAML certificate', { clock: later(days) }), { state, found })
  }
  await writeFile(configPath, '{')
  t.match(await patient.find(what), { state: 'wrong', found: /it is not JSON/ })
})

t.test(
  'files of another owner than their directory are told, with the command that mends it',
  t => {
    const directory = { path: '/var/lib/authproxy', owner: 998 }
    const file = (name: string, owner: number, mode = 0o100600) => {
      return { path: `/var/lib/authproxy/${name}`, owner, mode }
    }
    t.same(judgeFiles(directory, [file('app.json', 998)]), [])
    t.match(judgeFiles(directory, [file('app.json', 998), file('app.json.revoked.json', 0)]), [
      {
        state: 'wrong',
        found:
          '/var/lib/authproxy/app.json.revoked.json belongs to user 0, its directory to user 998',
        mend: /chown --reference=\/var\/lib\/authproxy \/var\/lib\/authproxy\/app\.json\.revoked\.json/,
      },
    ])
    t.end()
  },
)

t.test(
  'the owner is seen on disk',
  { skip: process.getuid?.() !== 0 && 'SKIPPED: only root can give a file away' },
  async t => {
    const patient = await startPatient(t)
    await chown(patient.gateway.config.configPath, 65_534, 65_534)
    t.match(await patient.find('owner of files'), { state: 'wrong', found: /user 65534/ })
  },
)

t.test('an old key that still decrypts is mentioned', async t => {
  const { judgeKeys } = await import('../../../../lib/auth/doctor/checks/keys.ts')
  const patient = await startPatient(t)
  const { config } = patient.gateway
  const now = Date.now()
  const pair = async (retires?: number) => ({
    ...(await selfSigned({
      ...{ name: 'app.example.org', now, lifetime: 400 * day, modulusLength: 1024 },
      serialNumber: Buffer.alloc(8, 1),
    })),
    ...{ kid: 'a', created: now, retires },
  })
  const saml = [await pair(), await pair(now + 20 * day)]
  const dynamic = { entityId: config.saml.entityId, session: [], sealing: [], saml, identity: [] }
  t.match(judgeKeys(dynamic, config, now).at(-1), {
    state: 'right',
    found: /the one before decrypts until \d{4}-/,
  })
})

t.test('asking the backend never throws', async t => {
  const patient = await startPatient(t)
  const probe = async () => ({
    outcome: { ok: false, phase: undefined, why: 'for no reason' } as const,
    answer: undefined,
  })
  t.match(await examineBackend(patient.gateway.config, probe, undefined), [{ state: 'wrong' }])
})
