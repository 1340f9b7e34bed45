/** Metadata that is fetched by way of the proxy of `idpMetadataProxy`. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { createSamlService } from '../../../lib/auth/login/service.ts'
import { reply, ScriptedOrigin } from '../../fixtures/http/scripted-origin.ts'
import { SamlLab } from '../../fixtures/saml/lab.ts'

const credentials = `Basic ${Buffer.from('ann:s3cret').toString('base64')}`

async function lab(t: Tap, url: string) {
  const parent = await ScriptedOrigin.listen(t)
  const lab = await SamlLab.open(t, 'okta')
  lab.config = {
    ...lab.config,
    idpMetadata: { from: 'url', url },
    idpMetadataProxy: { host: '127.0.0.1', port: parent.port, credentials: 'ann:s3cret' },
  }
  return { lab, parent, open: () => createSamlService(lab.parts()) }
}
type Tap = Parameters<typeof SamlLab.open>[0]

t.test('http in absolute-form, with the credentials of the setting', async t => {
  const url = 'http://idp.example.org/metadata'
  const { lab: at, parent, open } = await lab(t, url)
  parent.at(url, reply({ content: at.idp.metadata() }))
  const service = await open()
  t.teardown(() => service.close())
  t.same(service.problems(), [])
  const [asked] = parent.requests
  t.equal(asked?.target, url)
  t.equal(asked?.fields.get('Host'), 'idp.example.org')
  t.equal(asked?.fields.get('Proxy-Authorization'), credentials)
})

t.test(
  'https by CONNECT; what the proxy answers is told as the proxy’s, without the password',
  async t => {
    const { lab: at, parent, open } = await lab(t, 'https://idp.example.org/metadata')
    parent.at('*', reply({ status: 407 }))
    await t.rejects(open(), { message: /proxy.*CONNECT was answered 407/s })
    t.match(parent.requests, [{ method: 'CONNECT', target: 'idp.example.org:443' }])
    t.equal(parent.requests[0]?.fields.get('Proxy-Authorization'), credentials)
    writeFileSync(join(at.directory, 'cache.xml'), at.idp.metadata())
    const service = await open()
    t.teardown(() => service.close())
    const told = JSON.stringify(at.log.lines, (_, value) =>
      value instanceof Error ? `${value.message} ${JSON.stringify(value)}` : value,
    )
    t.match(told, 'CONNECT was answered 407')
    t.notMatch(told, /s3cret|YW5uOnMzY3JldA/)
  },
)

t.test('407 to http is told as the answer of the proxy', async t => {
  const { parent, open } = await lab(t, 'http://idp.example.org/metadata')
  parent.at('*', reply({ status: 407 }))
  await t.rejects(open(), { message: /parent proxy 127\.0\.0\.1:\d+ answered 407/ })
})
