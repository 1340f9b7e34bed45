/** Which page, or none, answers a navigation whose login could not be finished. */
import t from 'tap'
import { cannotLogIn } from '../../../lib/auth/login/addresses.ts'
import { Fields } from '../../../lib/http/message/field.ts'
import { textResponse } from '../../../lib/http/message/reply.ts'
import { makeRequest } from '../../fixtures/saml/browser.ts'

const request = makeRequest('GET', '/')

t.test('a login that could not be finished is not begun', t => {
  const to = { domain: 'app.example.org', base: 'https://app.example.org', returnTo: '/' }
  for (const [fields, code] of [
    [{ Host: 'app.example.org' }, undefined],
    [{ Host: 'app.example.org:443' }, undefined],
    [{ Host: 'other.example.org' }, 'wrong_host'],
    [{}, 'wrong_host'],
    [{ Host: 'app.example.org', 'X-Forwarded-Proto': 'http' }, 'without_tls'],
    [{ Host: 'app.example.org', 'X-Forwarded-Proto': 'https, http' }, undefined],
    // Browsers send these over TLS alone: the edge is wrong.
    [
      { Host: 'app.example.org', 'X-Forwarded-Proto': 'http', 'Sec-Fetch-Mode': 'navigate' },
      undefined,
    ],
    [
      { Host: 'app.example.org', 'X-Forwarded-Proto': 'http', Cookie: '__authproxy_session=x' },
      undefined,
    ],
  ] as ReadonlyArray<readonly [Record<string, string>, string | undefined]>) {
    const asked = { ...request, secure: false, fields: Fields.of(...Object.entries(fields)) }
    let got: string | undefined
    cannotLogIn(asked, to, report => {
      got = report.code
      return textResponse(400, '')
    })
    t.equal(got, code, JSON.stringify(fields))
  }
  t.end()
})
