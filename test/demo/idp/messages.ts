import t from 'tap'
import { serviceOf } from '../../../demo/idp/messages.ts'

t.test('gateways of this machine are known by their entity ID', async t => {
  t.strictSame(serviceOf('https://localhost:8443/saml/metadata', []), {
    entityId: 'https://localhost:8443/saml/metadata',
    acs: 'https://localhost:8443/saml/acs',
    slo: 'https://localhost:8443/saml/slo',
  })
  for (const host of [
    '127.0.0.1',
    '127.3.2.1:81',
    '[::1]:8443',
    'app.localhost',
    'app.example.test',
  ]) {
    t.type(serviceOf(`https://${host}/saml/metadata`, []), 'object', host)
  }
})

t.test('others are refused with a sentence, unless they were named', async t => {
  const refused = [
    'https://app.example.org/saml/metadata',
    'https://127.0.0.1.evil.example.org/saml/metadata',
    'https://evil.org/.localhost/saml/metadata',
    'https://localhost.evil.org/saml/metadata',
    'https://user@evil.org/saml/metadata',
    'https://localhost/saml/metadata?x=1',
    'https://localhost/other',
    'javascript://localhost/saml/metadata',
    'urn:example:sp',
    '',
  ]
  for (const entityId of refused) t.type(serviceOf(entityId, []), 'string', entityId)
  t.match(
    serviceOf('https://app.example.org/saml/metadata', []),
    /others may have as well.*--for app\.example\.org/,
  )
  t.type(serviceOf('https://app.example.org/saml/metadata', ['App.example.org']), 'object')
})
