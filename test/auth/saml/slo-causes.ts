/**
 * Who causes a logout: a person who opens the address, another origin, or a message of the IdP without the session's cookie.
 */
import { inflateRawSync } from 'node:zlib'
import t from 'tap'
import { hrefOf, htmlOf, makeRequest } from '../../fixtures/saml-browser.ts'
import { SamlLab, signIn } from '../../fixtures/saml-lab.ts'
import {
  logoutByRedirect as byRedirect,
  logoutRequest as request,
} from '../../fixtures/saml-logout.ts'

t.test(
  'a post of another origin and a HEAD ask first; a link of another site does not',
  async t => {
    const lab = await SamlLab.open(t, 'google')
    await signIn(lab)
    const foreign: Readonly<Record<string, string>>[] = [
      { Origin: 'https://evil.example' },
      { Origin: 'null' },
      { Origin: 'https://other.example.org', 'Sec-Fetch-Site': 'same-site' },
      {
        'Sec-Fetch-Site': 'cross-site',
        'Sec-Fetch-Mode': 'navigate',
        'Sec-Fetch-Dest': 'document',
      },
    ]
    for (const fields of foreign) {
      const more = lab.browser.fields(...Object.entries(fields))
      const asked = makeRequest('POST', '/saml/slo', { fields: more })
      const answer = await lab.service.handle(asked, '/saml/slo')
      t.match(answer && htmlOf(answer), /Sign out\?/)
    }
    const head = makeRequest('HEAD', '/saml/slo', { fields: lab.browser.fields() })
    const answered = await lab.service.handle(head, '/saml/slo')
    t.notOk(answered?.fields.has('Set-Cookie'))
    t.strictSame(lab.revoked, [])
    const link = [
      ['Sec-Fetch-Site', 'cross-site'],
      ['Sec-Fetch-Mode', 'navigate'],
      ['Sec-Fetch-Dest', 'document'],
    ] as const
    await lab.browser.get('/saml/slo', ...link)
    t.equal(lab.browser.cookies.has('session'), false)
  },
)

t.test('a signed LogoutRequest that came without the cookie clears it all the same', async t => {
  const lab = await SamlLab.open(t, 'entra')
  await signIn(lab)
  lab.browser.cookies.delete('session')
  for (const revokes of [true, false]) {
    lab.revokes = revokes
    const answer = await lab.browser.get(byRedirect('SAMLRequest', request(lab)))
    t.match(answer.fields.all('Set-Cookie'), [/^session=; Max-Age=0/])
  }
  lab.clock.advance(61_000)
  await signIn(lab)
  const other = {
    value: 'bob',
    format: undefined,
    nameQualifier: undefined,
    spNameQualifier: undefined,
  }
  const answer = await lab.browser.get(byRedirect('SAMLRequest', request(lab, { nameId: other })))
  const answered = new URL(hrefOf(answer)).searchParams.get('SAMLResponse') ?? ''
  const xml = inflateRawSync(Buffer.from(answered, 'base64')).toString()
  t.match(xml, 'status:Responder', 'nothing has ended')
  t.equal(lab.browser.cookies.has('session'), true)
})

t.test('a signed message that does not say where it is for is refused', async t => {
  const lab = await SamlLab.open(t, 'entra')
  await signIn(lab)
  const bare = request(lab).replace(/ Destination="[^"]*"/, '')
  await lab.browser.get(byRedirect('SAMLRequest', bare))
  t.same(lab.codes, ['logout_destination'])
  t.equal(lab.browser.cookies.has('session'), true)
})
