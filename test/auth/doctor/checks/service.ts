import { writeFile } from 'node:fs/promises'
import t from 'tap'
import { startGateway } from '../../../fixtures/gateway/gateway.ts'
import { startPatient } from '../../../fixtures/gateway/patient.ts'
import { reply, ScriptedOrigin } from '../../../fixtures/http/scripted-origin.ts'
import { freePort } from '../../../fixtures/process/ports.ts'

t.test('a service that does not run, or is another one, is told', async t => {
  const patient = await startPatient(t)
  const { gateway, backend } = patient
  const at = (port: number) => patient.configWith({ listen: { address: '127.0.0.1', port } })
  t.match(await patient.find('service', { config: at(await freePort()) }), {
    state: 'wrong',
    found: /^no answer from 127\.0\.0\.1:\d+: .*ECONNREFUSED/,
    mend: /systemctl start authproxy@test/,
  })
  t.match(await patient.find('service', { config: at(backend.port) }), {
    state: 'wrong',
    found: /^another program answers at .* with 200$/,
  })
  const other = await startGateway(t)
  t.match(await patient.find('service', { config: at(other.port) }), { state: 'wrong' })
  t.match(await patient.find('service'), { state: 'right', found: /^version \d.* runs for https:/ })
  await gateway.stop()
  t.match(await patient.find('service'), { state: 'wrong' })
  const found = await patient.examined()
  t.match(
    found.find(({ what }) => what === 'loop'),
    { state: 'doubtful', mend: /only a running service can tell/ },
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
