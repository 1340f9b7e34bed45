import t from 'tap'
import { readPost } from '../../../lib/auth/login/bindings.ts'
import { Fields } from '../../../lib/http/message/field.ts'
import { makeRequest } from '../../fixtures/saml/browser.ts'
import { ManualClock } from '../../fixtures/time/manual-clock.ts'

const urlencoded = 'application/x-www-form-urlencoded'
const limits = { clock: new ManualClock(0) }

function read(content: string, fields: Fields) {
  return readPost(makeRequest('POST', '/saml/acs', { fields, content }), limits, { size: 150 })
}

t.test('a form carries one message, or why not', async t => {
  const answer = { name: 'SAMLResponse', encoded: 'a b', relayState: undefined }
  for (const [content, expected] of [
    ['SAMLResponse=a+b', answer],
    ['x=1&SAML%52esponse=a%20b', answer],
    ['SAMLRequest=a&RelayState=', { name: 'SAMLRequest', encoded: 'a', relayState: '' }],
    ['', undefined],
    ['RelayState=x&SAMLart=y', undefined],
    ['SAMLResponse=a&SAMLResponse=a', 'form_malformed'],
    ['SAMLResponse=a&SAMLRequest=a', 'form_malformed'],
    ['SAMLResponse=%', 'form_malformed'],
    ['%80=a&SAMLResponse=a', 'form_malformed'],
    ['a&'.repeat(150), 'form_malformed'],
    ['SAMLResponse=a'.padEnd(301), 'form_too_large'],
  ] as const) {
    t.same(await read(content, Fields.of(['Content-Type', urlencoded])), expected, content)
  }
})

t.test('the type and the announced length are looked at before anything is read', async t => {
  for (const [type, length, expected] of [
    [`${urlencoded}; charset=utf-8`, '14', { encoded: 'a' }],
    [undefined, '14', 'form_type'],
    ['text/plain', '14', 'form_type'],
    ['application/json', '14', 'form_type'],
    [`text/x-www-form-urlencoded`, '14', 'form_type'],
    ['multipart/form-data; boundary=x', '14', 'form_type'],
    [urlencoded, '301', 'form_too_large'],
  ] as const) {
    const fields = Fields.of(['Content-Type', type], ['Content-Length', length])
    t.match(await read('SAMLResponse=a', fields), expected, `${type}`)
  }
})
