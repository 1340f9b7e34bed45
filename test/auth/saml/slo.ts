import t, { type Test } from 'tap'
import { logoutRequestXml, logoutResponseXml } from '../../../lib/auth/saml/binding/message-xml.ts'
import {
  checkRedirectSignature,
  type MessageName,
  readRedirect,
  redirectAddress,
} from '../../../lib/auth/saml/binding/redirect.ts'
import { nameIdFormats, status } from '../../../lib/auth/saml/core/vocabulary.ts'
import { signElement } from '../../../lib/auth/saml/signature/sign.ts'
import { sp } from '../../fixtures/idp.ts'
import { formOf, hrefOf, htmlOf, inputsOf, pathOf } from '../../fixtures/saml-browser.ts'
import { rsaPair } from '../../fixtures/saml-keys.ts'
import { keyPair, SamlLab, signIn } from '../../fixtures/saml-lab.ts'

const ours = { certificates: [keyPair('sp').certificate], allowSha1: false }

/** A message we sent by redirect: its XML, after its signature was checked. */
function sent(t: Test, address: string): string {
  const query = readRedirect(address.slice(address.indexOf('?') + 1))
  if (typeof query !== 'object') throw new Error(`no message in ${address}`)
  t.equal(checkRedirectSignature(query, ours), undefined, 'signed by us')
  return query.bytes.toString()
}

/** A LogoutRequest of the IdP for the person of the lab. */
function request(lab: SamlLab, more: Partial<Parameters<typeof logoutRequestXml>[0]> = {}): string {
  const nameId = lab.subjects[0]?.nameId
  if (nameId === undefined) throw new Error('there is no NameID')
  return logoutRequestXml({
    id: `_logout${Math.random()}`,
    issuer: lab.idp.entityId,
    issued: lab.clock.now(),
    destination: sp.sloUrl,
    nameId,
    sessionIndex: lab.subjects[0]?.sessionIndex,
    ...more,
  })
}

function byRedirect(
  name: MessageName,
  xml: string,
  key: ReturnType<typeof rsaPair> | 'unsigned' = rsaPair('idp'),
): string {
  const message = { name, xml, relayState: 'their state' }
  return pathOf(redirectAddress(sp.sloUrl, message, key === 'unsigned' ? undefined : key))
}

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
  await signIn(lab)
  await lab.browser.get(byRedirect('SAMLResponse', response('_other', status.success)))
  t.strictSame(lab.codes, ['logout_in_response_to'])
  t.equal(lab.browser.cookies.has('session'), true, 'an unsolicited answer signs no user out')
  lab.browser.cookies.delete('session')
  const others = [
    byRedirect('SAMLResponse', response('_other', status.success)),
    byRedirect('SAMLResponse', response(id, status.partialLogout)),
    byRedirect('SAMLResponse', response(id, status.success), 'unsigned'),
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

t.test('an IdP that logs out by POST gets a signed form', async t => {
  const lab = await SamlLab.open(t, 'adfs', { metadata: { logoutBindings: ['post'] } })
  await signIn(lab)
  const answer = await lab.browser.get('/saml/slo')
  const xml = Buffer.from(inputsOf(htmlOf(answer))['SAMLRequest'] ?? '', 'base64').toString()
  t.match(xml, /<ds:SignatureValue>/)
  t.match(answer.fields.get('X-Form-Action'), 'https:')
})

t.test('a link on another site asks first, an image there does nothing', async t => {
  const lab = await SamlLab.open(t, 'entra')
  await signIn(lab)
  const answer = await lab.browser.get('/saml/slo', ['Sec-Fetch-Site', 'cross-site'])
  t.match(htmlOf(answer), /Sign out\?/)
  t.equal(lab.browser.cookies.has('session'), true)
  await lab.browser.post('/saml/slo', '')
  t.equal(lab.browser.cookies.has('session'), false)
})

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

t.test('logout messages that are not taken touch no session', async t => {
  const lab = await SamlLab.open(t, 'entra')
  await signIn(lab)
  const good = request(lab, { id: '_x' })
  const idp = rsaPair('idp')
  const now = lab.clock.now()
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
    ['logout_too_old', byRedirect('SAMLRequest', request(lab, { issued: now - 30 * 86_400_000 }))],
    ['logout_issue_instant', byRedirect('SAMLRequest', request(lab, { issued: now + 600_000 }))],
    ['logout_expired', byRedirect('SAMLRequest', request(lab, { notOnOrAfter: now - 120_000 }))],
    ['logout_form', byRedirect('SAMLResponse', good)],
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
  const lab = await SamlLab.open(t, 'entra', { config: { allowUnsignedLogout: true } })
  await signIn(lab)
  await lab.browser.get(byRedirect('SAMLRequest', request(lab), 'unsigned'))
  t.equal(lab.browser.cookies.has('session'), false)
  t.ok(
    lab.log.lines.some(
      line => line.level === 'warn' && /unsigned LogoutRequest/.test(line.message),
    ),
  )
})

t.test(
  'an image, a beacon or a page fetched ahead signs no user out, not even from our own pages',
  async t => {
    const lab = await SamlLab.open(t, 'google')
    await signIn(lab)
    const own = { 'Sec-Fetch-Site': 'same-origin' }
    for (const fields of [
      { ...own, 'Sec-Fetch-Mode': 'no-cors', 'Sec-Fetch-Dest': 'image' },
      { ...own, 'Sec-Fetch-Mode': 'no-cors', 'Sec-Fetch-Dest': 'empty' },
      { ...own, 'Sec-Fetch-Mode': 'navigate', 'Sec-Fetch-Dest': 'embed' },
      { ...own, 'Sec-Fetch-Mode': 'navigate', 'Sec-Purpose': 'prefetch;prerender' },
      {
        'Sec-Fetch-Site': 'cross-site',
        'Sec-Fetch-Mode': 'navigate',
        'Sec-Fetch-Dest': 'document',
      },
    ]) {
      t.match(htmlOf(await lab.browser.get('/saml/slo', ...Object.entries(fields))), /Sign out\?/)
      t.equal(lab.browser.cookies.has('session'), true)
    }
    t.strictSame(lab.revoked, [])
    const script = { ...own, 'Sec-Fetch-Mode': 'cors', 'Sec-Fetch-Dest': 'empty' }
    await lab.browser.get('/saml/slo', ...Object.entries(script))
    t.equal(lab.browser.cookies.has('session'), false, 'a script of the application may')
  },
)
