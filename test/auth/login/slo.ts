import t from 'tap'
import type { UsedIds } from '../../../lib/auth/login/used-answers.ts'
import { logoutResponseXml } from '../../../lib/saml/binding/message-xml.ts'
import { signElement } from '../../../lib/saml/signature/sign.ts'
import { nameIdFormats, status } from '../../../lib/saml/xml/vocabulary.ts'
import { formOf, hrefOf, htmlOf, inputsOf } from '../../fixtures/saml/browser.ts'
import { sp } from '../../fixtures/saml/idp.ts'
import { rsaPair } from '../../fixtures/saml/keys.ts'
import { SamlLab, signIn } from '../../fixtures/saml/lab.ts'
import { byRedirect, request, sent } from '../../fixtures/saml/logout.ts'

t.test('signing out ends the session here and begins single logout', async t => {
  const lab = await SamlLab.open(t, 'entra')
  await signIn(lab)
  const answer = await lab.browser.get('/saml/slo')
  t.equal(answer.status, 303)
  t.equal(lab.browser.cookies.has('session'), false)
  t.match(lab.revoked, [{ sessionId: [...lab.sessions.keys()][0] }])
  const xml = sent(t, hrefOf(answer))
  t.match(xml, /<samlp:LogoutRequest [^>]*Destination="https:\/\/idp\.example\.org\/slo"/)
  t.match(xml, /<saml:NameID [^>]*Format="[^"]*emailAddress">alice@example\.org</)
  t.match(xml, /<samlp:SessionIndex>_session1</)
  const id = /ID="([^"]+)"/.exec(xml)?.[1] ?? ''
  const response = (inResponseTo: string, code: string) =>
    logoutResponseXml({
      id: '_r',
      issuer: lab.idp.entityId,
      issued: lab.clock.now(),
      destination: sp.sloUrl,
      inResponseTo,
      status: code,
    })
  const done = await lab.browser.get(byRedirect('SAMLResponse', response(id, status.success)))
  t.match(htmlOf(done), /at the identity provider has ended/)
  t.match(htmlOf(done), /Sign in again/)
  const unsigned = byRedirect('SAMLResponse', response(id, status.success), 'unsigned')
  t.match(htmlOf(await lab.browser.get(unsigned)), /did not confirm/)
  await signIn(lab)
  await lab.browser.get(byRedirect('SAMLResponse', response('_other', status.success)))
  t.strictSame(lab.codes, ['logout_in_response_to'])
  t.equal(lab.browser.cookies.has('session'), true, 'an unsolicited answer signs no user out')
  lab.browser.cookies.delete('session')
  const others = [
    byRedirect('SAMLResponse', response('_other', status.success)),
    byRedirect('SAMLResponse', response(id, status.partialLogout)),
  ]
  for (const other of others) t.match(htmlOf(await lab.browser.get(other)), /did not confirm/)
})

t.test('without single logout at the IdP the page says that its session stays', async t => {
  const lab = await SamlLab.open(t, 'google')
  await signIn(lab)
  const answer = await lab.browser.get('/saml/slo')
  t.equal(answer.status, 200)
  t.match(htmlOf(answer), /stays active/)
  t.equal(lab.browser.cookies.has('session'), false)
  const again = await lab.browser.get('/saml/slo')
  t.match(htmlOf(again), /no session/)
  t.notMatch(htmlOf(again), /refresh|script/, 'it does not sign in again')
})

t.test('a LogoutRequest of an IdP that names no place for answers ends with a page', async t => {
  const lab = await SamlLab.open(t, 'entra', { metadata: { logout: undefined } })
  await signIn(lab)
  const answer = await lab.browser.get(byRedirect('SAMLRequest', request(lab)))
  t.equal(answer.status, 200)
  t.match(htmlOf(answer), /You are signed out/)
  t.equal(lab.browser.cookies.has('session'), false)
  t.equal(lab.revoked.length, 1)
})

t.test('an IdP that logs out by POST gets a signed form', async t => {
  const lab = await SamlLab.open(t, 'adfs', { metadata: { logoutBindings: ['post'] } })
  await signIn(lab)
  const answer = await lab.browser.get('/saml/slo')
  const xml = Buffer.from(inputsOf(htmlOf(answer))['SAMLRequest'] ?? '', 'base64').toString()
  t.match(xml, /<ds:SignatureValue>/)
  t.match(answer.fields.get('X-Form-Action'), 'https:')
  t.equal(answer.fields.get('Referrer-Policy'), 'origin', 'or the post says "Origin: null"')
  t.match(answer.fields.get('Content-Security-Policy'), "frame-ancestors 'none'")
})

t.test(
  '70: the answer to a LogoutRequest by POST may be framed by the IdP, and by no one else',
  async t => {
    const lab = await SamlLab.open(t, 'adfs', { metadata: { logoutBindings: ['post'] } })
    await signIn(lab)
    const xml = signElement(request(lab, { id: '_theirs' }), { id: '_theirs', key: rsaPair('idp') })
    const content = formOf({ SAMLRequest: Buffer.from(xml).toString('base64') })
    const answer = await lab.browser.post('/saml/slo', content)
    t.match(inputsOf(htmlOf(answer)), { SAMLResponse: /./ })
    const policy = answer.fields.get('Content-Security-Policy') ?? ''
    t.equal(/frame-ancestors ([^;]*)/.exec(policy)?.[1], lab.idp.baseUrl)
    t.notOk(answer.fields.has('X-Frame-Options'), 'it cannot name an origin')
    const refused = await lab.browser.post('/saml/slo', content)
    t.equal(refused.status, 403)
    t.notMatch(refused.fields.get('Content-Security-Policy'), lab.idp.baseUrl)
  },
)

for (const binding of ['redirect', 'post'] as const) {
  t.test(
    `the IdP signs a user out by ${binding}, and is answered at its ResponseLocation`,
    async t => {
      const lab = await SamlLab.open(t, 'entra', {
        metadata: { logoutResponse: 'https://idp.example.org/slo/done' },
      })
      await signIn(lab)
      const xml = request(lab, { id: '_theirs' })
      const answer =
        binding === 'redirect'
          ? await lab.browser.get(byRedirect('SAMLRequest', xml))
          : await lab.browser.post(
              '/saml/slo',
              formOf({
                SAMLRequest: Buffer.from(
                  signElement(xml, { id: '_theirs', key: rsaPair('idp') }),
                ).toString('base64'),
                RelayState: 'their state',
              }),
            )
      t.equal(lab.browser.cookies.has('session'), false)
      t.match(lab.revoked, [
        { issuer: lab.idp.entityId, nameId: 'alice@example.org', sessionIndexes: ['_session1'] },
      ])
      t.ok(hrefOf(answer).startsWith('https://idp.example.org/slo/done?SAMLResponse='))
      t.equal(new URL(hrefOf(answer)).searchParams.get('RelayState'), 'their state')
      t.match(sent(t, hrefOf(answer)), /InResponseTo="_theirs".*status:Success/)
      const replay = await lab.browser.get(byRedirect('SAMLRequest', xml))
      t.equal(replay.status, 403)
      t.strictSame(lab.codes, ['logout_replay'])
    },
  )
}

t.test('a LogoutRequest for another user does not end this session', async t => {
  const lab = await SamlLab.open(t, 'entra')
  await signIn(lab)
  const nameId = {
    value: 'bob@example.org',
    format: nameIdFormats.transient,
    nameQualifier: undefined,
    spNameQualifier: undefined,
  }
  const answer = await lab.browser.get(byRedirect('SAMLRequest', request(lab, { nameId })))
  t.equal(answer.status, 303, 'it is answered all the same')
  t.equal(lab.browser.cookies.has('session'), true)
  t.match(lab.revoked, [{ nameId: 'bob@example.org' }])
})

t.test('5, 33, 35: logout messages that are not taken touch no session', async t => {
  const lab = await SamlLab.open(t, 'entra')
  await signIn(lab)
  const good = request(lab, { id: '_x' })
  const idp = rsaPair('idp')
  const now = lab.clock.now()
  const answer = logoutResponseXml({
    ...{ id: '_y', issuer: lab.idp.entityId, issued: now, destination: sp.sloUrl },
    ...{ inResponseTo: '_z', status: status.success },
  })
  const stray = '<ds:Signature xmlns:ds="http://www.w3.org/2000/09/xmldsig#"/>'
  const signed = byRedirect('SAMLRequest', good)
  const post = (xml: string) => formOf({ SAMLRequest: Buffer.from(xml).toString('base64') })
  const cases: ReadonlyArray<readonly [string, string | { post: string }]> = [
    ['logout_signature_missing', byRedirect('SAMLRequest', good, 'unsigned')],
    ['logout_signature_invalid', byRedirect('SAMLRequest', good, rsaPair('stranger'))],
    ['logout_query', signed.replace('SAMLRequest=', 'SAMLRequest=EVIL&SAMLRequest=')],
    ['logout_query', signed.replace('?', '?SAML%52equest=EVIL&')],
    ['logout_signature_missing', { post: post(good) }],
    [
      'logout_signature_invalid',
      { post: post(signElement(good, { id: '_x', key: rsaPair('stranger') })) },
    ],
    [
      'logout_signature_invalid',
      { post: post(signElement(good, { id: '_x', key: idp }).replace('alice', 'admin')) },
    ],
    [
      'logout_xml_processing-instruction',
      { post: post(signElement(good, { id: '_x', key: idp }).replace('alice', '<?p not-?>admin')) },
    ],
    [
      'logout_issuer',
      byRedirect('SAMLRequest', request(lab, { issuer: 'https://other.example.org' })),
    ],
    [
      'logout_destination',
      byRedirect('SAMLRequest', request(lab, { destination: 'https://other.example.org/slo' })),
    ],
    [
      'logout_destination',
      byRedirect('SAMLRequest', request(lab).replace(/ Destination="[^"]*"/, '')),
    ],
    ['logout_too_old', byRedirect('SAMLRequest', request(lab, { issued: now - 30 * 86_400_000 }))],
    ['logout_issue_instant', byRedirect('SAMLRequest', request(lab, { issued: now + 600_000 }))],
    ['logout_expired', byRedirect('SAMLRequest', request(lab, { notOnOrAfter: now - 120_000 }))],
    ['logout_form', byRedirect('SAMLResponse', good)],
    ['logout_form', byRedirect('SAMLRequest', good.replaceAll('LogoutRequest', 'AuthnRequest'))],
    ['logout_form', byRedirect('SAMLRequest', good.replace(/<saml:NameID.*<\/saml:NameID>/s, ''))],
    ['logout_form', byRedirect('SAMLResponse', answer.replace(/<samlp:Status>.*Status>/s, ''))],
    [
      'logout_form',
      byRedirect('SAMLRequest', good.replace('</saml:Issuer>', `</saml:Issuer><X>${stray}</X>`)),
    ],
    ['logout_version', byRedirect('SAMLRequest', good.replace('Version="2.0"', 'Version="1.1"'))],
    ['logout_issuer', byRedirect('SAMLResponse', answer.replace(lab.idp.entityId, 'urn:other'))],
    [
      'logout_expired',
      byRedirect(
        'SAMLRequest',
        request(lab, { notOnOrAfter: now }).replace(/(NotOnOrAfter=")[^"]*/, '$1soon'),
      ),
    ],
    ['logout_form_too_large', { post: `SAMLRequest=${'A'.repeat(140_000)}` }],
    ['logout_xml_too-large', { post: post(`${good}${' '.repeat(33_000)}`) }],
    ['logout_query', byRedirect('SAMLRequest', `${good}${' '.repeat(33_000)}`)],
    ['logout_base64', { post: formOf({ SAMLRequest: '*' }) }],
    ['logout_form_malformed', { post: formOf({ SAMLRequest: 'AA', SAMLResponse: 'AA' }) }],
  ]
  for (const [code, message] of cases) {
    const answer =
      typeof message === 'string'
        ? await lab.browser.get(message)
        : await lab.browser.post('/saml/slo', message.post)
    t.equal(lab.codes.at(-1), code)
    t.ok(answer.status >= 400)
  }
  t.equal(lab.browser.cookies.has('session'), true)
  t.strictSame(lab.revoked, [])
})

t.test('unsigned LogoutRequests are taken when that is switched on, loudly', async t => {
  const used: string[] = []
  const usedIds: UsedIds = {
    async consume(ids) {
      used.push(...ids)
      return 'first'
    },
    livingMarks: () => [],
    close: async () => {},
  }
  const lab = await SamlLab.open(t, 'entra', {
    config: { allowUnsignedLogout: true },
    substitutes: { usedIds },
  })
  await signIn(lab)
  await lab.browser.get(byRedirect('SAMLRequest', request(lab), 'unsigned'))
  t.equal(lab.browser.cookies.has('session'), false)
  t.match(lab.revoked, [{ nameId: 'alice@example.org', by: 'anyone' }])
  t.notOk(
    used.some(id => id.startsWith('logout')),
    'or strangers could fill the replay cache, and keep all users from logging in',
  )
  await lab.browser.get(byRedirect('SAMLRequest', request(lab, { id: '_signed' })))
  t.equal(used.at(-1), 'logout _signed')
  t.match(lab.revoked.at(-1), { by: 'known' })
  t.ok(
    lab.log.lines.some(
      line => line.level === 'warn' && /unsigned LogoutRequest/.test(line.message),
    ),
  )
})

t.test('a refused logout message says what was expected and what came', async t => {
  const lab = await SamlLab.open(t, 'entra')
  await signIn(lab)
  const now = lab.clock.now()
  for (const [what, message] of [
    ['Destination', request(lab, { destination: 'https://other.example.org/saml/slo' })],
    ['Issuer', request(lab, { issuer: `${lab.idp.entityId}/` })],
    ['IssueInstant', request(lab, { issued: now + 600_000 })],
    ['NotOnOrAfter', request(lab, { notOnOrAfter: now - 120_000 })],
    ['Version', request(lab).replace('Version="2.0"', 'Version="1.1"')],
  ] as const) {
    await lab.browser.get(byRedirect('SAMLRequest', message))
    const [finding] = lab.failures.at(-1)?.findings ?? []
    t.match(finding, { what, ok: false, expected: /./, received: /./ }, what)
    t.match(lab.failures.at(-1)?.facts, { issuer: /./, signed: true })
  }
  await lab.browser.get(byRedirect('SAMLRequest', request(lab), 'unsigned'))
  t.match(lab.failures.at(-1)?.findings, [{ what: 'Signature', received: '(nothing)' }])
  await lab.browser.get(byRedirect('SAMLRequest', request(lab), rsaPair('stranger')))
  t.match(lab.failures.at(-1)?.findings, [{ what: 'SigAlg and Signature', received: /rsa-sha256/ }])
  t.strictSame(lab.revoked, [])
  const same = sp.sloUrl.replace('app.example.org', 'App.example.org:443')
  await lab.browser.get(byRedirect('SAMLRequest', request(lab, { destination: same })))
  t.equal(lab.revoked.length, 1, 'the same address with its port and a capital')
})
