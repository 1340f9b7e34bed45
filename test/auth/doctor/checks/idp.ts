import { writeFile } from 'node:fs/promises'
import t from 'tap'
import { systemClock } from '../../../../lib/async/clock.ts'
import { developmentMark } from '../../../../lib/saml/metadata/idp-metadata.ts'
import { startPatient } from '../../../fixtures/gateway/patient.ts'
import { reply, ScriptedOrigin } from '../../../fixtures/http/scripted-origin.ts'
import { tunnelTo } from '../../../fixtures/http/tunnel-to.ts'

const day = 86_400_000
const what = 'IdP metadata'

t.test('metadata from an address: what comes of it, and the copy of what came last', async t => {
  const patient = await startPatient(t)
  const { publisher, metadata, gateway } = patient
  t.match(await patient.find(what), {
    state: 'right',
    found: /\/metadata: \S+, 1 signing key, no single logout, valid for ever$/,
  })
  const odd = metadata.replace('<md:KeyDescriptor', '<md:KeyDescriptor use="signing"/>$&')
  publisher.at('/metadata', reply({ content: odd }))
  t.match(await patient.find('IdP metadata in detail'), { state: 'doubtful', found: /KeyInfo/ })
  const cache = gateway.config.saml.metadataCacheFile
  const cases: ReadonlyArray<readonly [content: string, status: number, found: RegExp]> = [
    ['', 503, /answered 503 instead of 200/],
    [metadata, 301, /answered 301 instead of 200/],
    ['<html>a login page</html>', 200, /of no use/],
    [metadata.slice(0, -20), 200, /of no use/],
    [metadata.replaceAll('IDPSSODescriptor', 'SPSSODescriptor'), 200, /no identity provider/],
    [
      metadata.replace('entityID=', 'validUntil="2001-01-01T00:00:00Z" entityID='),
      200,
      /expired at 2001/,
    ],
    [
      metadata.replace(/<ds:X509Certificate>[^<]+/, '<ds:X509Certificate>x'),
      200,
      /no usable signing/,
    ],
  ]
  for (const [content, status, found] of cases) {
    publisher.at('/metadata', reply({ status, content }))
    const wrong = await patient.find(what)
    t.match(wrong, { state: 'wrong', found, mend: /no usable copy/ })
    const advice = status === 200 ? /the address answers.*set idpMetadataURL/ : /has to answer 200/
    t.match(wrong, { mend: advice }, `${found}`)
  }
  const ofDevelopment = metadata.replace(
    'entityID=',
    `xmlns:dev="${developmentMark}" dev:only="true" entityID=`,
  )
  publisher.at('/metadata', reply({ content: ofDevelopment }))
  const { saml } = gateway.config
  const elsewhere = patient.configWith({ saml: { ...saml, baseUrl: 'https://app.example.org' } })
  t.match(await patient.find(what, { config: elsewhere }), {
    ...{ state: 'wrong', found: /of authproxy dev-idp/ },
    mend: /set domain: app\.localhost; to let users in, set idpMetadataURL/,
  })
  publisher.at('/metadata', reply({ content: metadata }))
  t.match(await patient.find(what, { ca: [] }), {
    state: 'wrong',
    found: /certificate/i,
    mend: /NODE_EXTRA_CA_CERTS=\S+\.pem.*idpMetadataFile/,
  })
  publisher.at('/metadata', reply({ status: 503 }))
  await writeFile(cache, metadata)
  t.match(await patient.find(what), {
    state: 'doubtful',
    mend: /the metadata fetched last is used/,
  })
  await publisher.close()
  const { HTTPS_PROXY: before } = process.env
  t.teardown(() => {
    if (before === undefined) delete process.env['HTTPS_PROXY']
    else process.env['HTTPS_PROXY'] = before
  })
  process.env['HTTPS_PROXY'] = 'http://proxy.example.org:3128'
  t.match(await patient.find(what), {
    ...{ state: 'doubtful', found: /ECONNREFUSED/ },
    mend: /HTTPS_PROXY, which authproxy does not use.*set idpMetadataProxy: http:\/\/proxy\.example\.org:3128/,
  })
  t.match(await patient.find('clock against the IdP'), { state: 'doubtful', mend: /date -u/ })
})

t.test(
  'metadata by way of a proxy: through its tunnel, or what the proxy has against it',
  async t => {
    const patient = await startPatient(t)
    const { publisher, gateway } = patient
    const parent = await ScriptedOrigin.listen(t)
    parent.at('*', tunnelTo(publisher.port))
    const { saml } = gateway.config
    const through = { host: '127.0.0.1', port: parent.port, credentials: 'ann:s3cret' }
    const config = patient.configWith({ saml: { ...saml, idpMetadataProxy: through } })
    const by = `by the proxy 127.0.0.1:${parent.port}`
    t.match(await patient.find(what, { config }), { state: 'right', found: by })
    t.match(await patient.find('clock against the IdP', { config }), { state: 'right' })
    const asked = parent.requests.map(({ method, target }) => `${method} ${target}`)
    t.strictSame(new Set(asked), new Set([`CONNECT 127.0.0.1:${publisher.port}`]))
    parent.at('*', reply({ status: 407 }))
    const refused = await patient.find(what, { config })
    t.match(refused, {
      ...{ state: 'wrong', found: /CONNECT was answered 407/ },
      mend: `by its proxy: curl --proxy http://127.0.0.1:${parent.port}`,
    })
    t.notMatch(JSON.stringify(refused), 's3cret')
  },
)

t.test('metadata from a file: there, of use, in time', async t => {
  const patient = await startPatient(t, { metadataFile: true })
  const { metadata, metadataFile: path, gateway } = patient
  t.match(await patient.find(what), { state: 'right', found: /idp\.xml: / })
  await writeFile(
    path,
    metadata.replace('entityID=', 'validUntil="2031-01-01T00:00:00Z" entityID='),
  )
  const clock = { ...systemClock, now: () => Date.UTC(2031, 0, 1) - 3 * day }
  t.match(await patient.find('end of the IdP metadata', { clock }), {
    state: 'doubtful',
    found: 'in 3 days',
    mend: /restart/,
  })
  const { saml } = gateway.config
  const config = patient.configWith({
    saml: { ...saml, idpMetadata: { from: 'file', path: '/nonexistent/idp.xml' } },
  })
  t.match(await patient.find(what, { config }), { state: 'wrong', found: /cannot be read/ })
  await writeFile(path, 'nonsense')
  t.match(await patient.find(what), { state: 'wrong', mend: /and restart/ })
})

t.test('metadata has to be signed where its certificate is named', async t => {
  const patient = await startPatient(t)
  const { saml } = patient.gateway.config
  const certificate = `${patient.directory}/signer.pem`
  await writeFile(certificate, patient.idp.key.certificate)
  const config = patient.configWith({ saml: { ...saml, idpMetadataCertificate: certificate } })
  t.match(await patient.find(what, { config }), { state: 'wrong', found: /is not signed/ })
})

t.test('the clock of the identity provider is read where people sign on', async t => {
  const patient = await startPatient(t)
  const { publisher } = patient
  const about = 'clock against the IdP'
  t.match(await patient.find(about), { state: 'right' })
  t.equal(publisher.seen('/sso')[0]?.method, 'HEAD')
  t.notMatch(publisher.seen('/sso')[0]?.target, /SAMLRequest/, 'no login is begun')
  for (const [seconds, state, found] of [
    [-50, 'doubtful', /^ours is (49|50|51) s ahead$/],
    [300, 'wrong', /^ours is (298|299|300|301) s behind$/],
  ] as const) {
    publisher.at('/sso', answer => {
      const Date_ = new Date(Date.now() + seconds * 1000).toUTCString()
      return reply({ status: 400, fields: { Date: Date_ } })(answer)
    })
    t.match(await patient.find(about), { state, found, mend: /NTP/ })
  }
})
