/**
 * Good signatures over assertions that are not for us, not now, or not to this browser.
 */
import t from 'tap'
import { ns } from '../../../lib/saml/xml/vocabulary.ts'
import { assertionPart, attackedLab, edit, good } from '../../fixtures/saml/attack-toolkit.ts'
import { hrefOf, pathOf, readAsked } from '../../fixtures/saml/browser.ts'
import { sp } from '../../fixtures/saml/idp.ts'
import { SamlLab } from '../../fixtures/saml/lab.ts'

const { refuses } = await attackedLab()

// Names and namespaces.
refuses('30: two Status, one of them Success', 'response_form', (lab, id) =>
  edit(lab.idp.respond({ inResponseTo: id, signs: 'assertion' }), [
    '</samlp:Status>',
    '</samlp:Status><samlp:Status><samlp:StatusCode Value="urn:x"/></samlp:Status>',
  ]),
)
refuses('12: a Response of a foreign namespace', 'response_form', (lab, id) =>
  edit(good(lab, id), [ns.protocol, 'urn:oasis:names:tc:SAML:1.0:protocol']),
)
refuses(
  '12: a Response of a foreign namespace around what is all of SAML',
  'response_form',
  (lab, id) =>
    edit(
      good(lab, id),
      ['<samlp:Response ', '<evil:Response xmlns:evil="urn:evil" '],
      ['</samlp:Response>', '</evil:Response>'],
    ),
)
refuses('12: an Assertion of a foreign namespace', 'response_form', (lab, id) =>
  edit(good(lab, id), [
    new RegExp(`<saml:Assertion xmlns:saml="${ns.assertion}"`),
    '<saml:Assertion xmlns:saml="urn:evil"',
  ]),
)
refuses('16, 30: a Status that is no success, with an assertion', 'idp_status', (lab, id) =>
  lab.idp.respond({
    inResponseTo: id,
    response: { status: 'urn:oasis:names:tc:SAML:2.0:status:Responder' },
  }),
)
refuses('30: no StatusCode', 'response_form', (lab, id) =>
  edit(good(lab, id), [/<samlp:StatusCode[^>]*\/>/, '']),
)
refuses('1: a Response inside the Status', 'response_form', (lab, id) =>
  edit(good(lab, id), ['<samlp:Status>', '<samlp:Status><samlp:Response/>']),
)
refuses('20: more elements around the assertion than any Status has', 'response_form', (lab, id) =>
  edit(good(lab, id), ['<samlp:Status>', `<samlp:Status>${'<samlp:StatusDetail/>'.repeat(100)}`]),
)
refuses('30: no assertion at all', 'assertion_missing', (lab, id) =>
  edit(good(lab, id), [assertionPart, '']),
)

// What the assertion says.
const wrong: ReadonlyArray<readonly [string, string, Parameters<SamlLab['idp']['respond']>[0]]> = [
  [
    '27: meant for another service',
    'audience',
    { assertion: { audience: 'https://other.example.org/saml/metadata' } },
  ],
  [
    '27: for another recipient',
    'recipient',
    { assertion: { recipient: 'https://other.example.org/saml/acs' } },
  ],
  [
    '27: for another destination',
    'destination',
    { response: { destination: 'https://other.example.org/saml/acs' } },
  ],
  [
    '27: signed without a destination',
    'destination',
    { signs: 'both', response: { destination: undefined } },
  ],
  [
    '28: from another issuer with the same key',
    'issuer',
    { assertion: { issuer: 'https://other-idp.example.org' } },
  ],
  [
    '28: in a response of another issuer',
    'issuer',
    { response: { issuer: 'https://other-idp.example.org' } },
  ],
  ...[...'\u00a0\u2000\u3000\ufeff'].flatMap(
    space =>
      [
        [
          `27: for an audience that ends in ${JSON.stringify(space)}`,
          'audience',
          { assertion: { audience: `${sp.entityId}${space}` } },
        ],
        [
          `28: of an issuer that ends in ${JSON.stringify(space)}`,
          'issuer',
          {
            assertion: {
              issuer: `https://idp.example.org/00000000-0000-4000-8000-000000000000/${space}`,
            },
          },
        ],
      ] as const,
  ),
  ['12: of SAML 1.1', 'version', { assertion: { version: '1.1' } }],
  [
    '29: confirmed by something other than its bearer',
    'subject_confirmation',
    { assertion: { method: 'urn:oasis:names:tc:SAML:2.0:cm:sender-vouches' } },
  ],
  [
    '31: with an unknown condition',
    'conditions',
    { assertion: { conditions: '<saml:Condition xmlns:saml="urn:x"/>' } },
  ],
]
for (const [what, code, answer] of wrong) {
  refuses(what, code, (lab, inResponseTo) => lab.idp.respond({ inResponseTo, ...answer }))
}
refuses('26: an answer to a request that was not made', 'in_response_to', lab =>
  lab.idp.respond({ inResponseTo: '_other' }),
)
t.test('25: refused: an answer to no request', async t => {
  const lab = await SamlLab.open(t, 'entra')
  const asked = await lab.browser.login('/')
  const dropped = await lab.browser.deliver(lab.idp.respond({}))
  t.match(hrefOf(dropped), '/__authproxy-redirect?login=%2F&again=1')
  t.strictSame(lab.subjects, [], 'another login begins in its place')
  const named = await lab.browser.deliver(lab.idp.respond({}), asked.relayState)
  t.match(hrefOf(named), 'resume=1', 'with a RelayState of ours the login begins again')
  t.strictSame(lab.subjects, [])
})
refuses(
  '25: an assertion to no request in a response that names ours',
  'in_response_to',
  (lab, id) => lab.idp.respond({ inResponseTo: id, assertion: { inResponseTo: undefined } }),
)
refuses(
  '25: an unsigned InResponseTo that contradicts the signed one',
  'in_response_to',
  (lab, id) => edit(good(lab, id), [`InResponseTo="${id}"`, 'InResponseTo="_other"']),
)

const hour = 3_600_000
const late: ReadonlyArray<
  readonly [string, string, (now: number) => Parameters<SamlLab['idp']['respond']>[0]]
> = [
  ['32: that has expired', 'expired', now => ({ assertion: { notOnOrAfter: now - 61_000 } })],
  [
    '32: that is not valid yet',
    'not_yet_valid',
    now => ({ assertion: { notBefore: now + 61_000 } }),
  ],
  ['32: issued in the future', 'issue_instant', now => ({ assertion: { issued: now + 61_000 } })],
  ['32: issued long ago', 'too_old', now => ({ assertion: { issued: now - hour } })],
  [
    '32: whose session is over',
    'session_over',
    now => ({ assertion: { sessionNotOnOrAfter: now - 1 } }),
  ],
]
for (const [what, code, answer] of late) {
  refuses(what, code, (lab, inResponseTo) => {
    const { response, assertion } = answer(lab.clock.now())
    return lab.idp.respond({
      inResponseTo,
      ...(response && { response }),
      ...(assertion && { assertion }),
    })
  })
}

t.test('26: refused: an answer to the request of another browser', async t => {
  const lab = await SamlLab.open(t, 'entra')
  const victim = lab.browser.other()
  const asked = await lab.browser.login('/')
  const own = await victim.login('/')
  const answer = await victim.deliver(good(lab, asked.id), asked.relayState)
  t.equal(answer.status, 303)
  t.match(hrefOf(answer), 'resume=1', 'it begins a login of its own')
  await victim.deliver(good(lab, asked.id), own.relayState)
  t.strictSame(lab.codes, ['in_response_to'])
  t.strictSame(lab.subjects, [])
  await victim.deliver(good(lab, own.id), own.relayState)
  t.equal(lab.subjects.length, 1)
})

t.test('24: refused: the same answer again, one after the other and all at once', async t => {
  const lab = await SamlLab.open(t, 'okta')
  const asked = await lab.browser.login('/')
  const cookies = new Map(lab.browser.cookies)
  const text = good(lab, asked.id)
  const thieves = Array.from({ length: 10 }, () => {
    const thief = lab.browser.other()
    for (const [name, value] of cookies) thief.cookies.set(name, value)
    return thief
  })
  await Promise.all(thieves.map(thief => thief.deliver(text)))
  t.equal(lab.subjects.length, 1)
  t.strictSame(lab.codes, Array(9).fill('replay'))
  await thieves[0]?.other().deliver(text)
  t.equal(lab.subjects.length, 1)
})

t.test(
  '24: an answer that is posted twice begins the login again, once, and accepts nothing',
  async t => {
    const lab = await SamlLab.open(t, 'okta')
    const asked = await lab.browser.login('/deep')
    const copy = lab.browser.other()
    for (const [name, value] of lab.browser.cookies) copy.cookies.set(name, value)
    const text = good(lab, asked.id)
    await lab.browser.deliver(text, asked.relayState)
    t.equal(lab.subjects.length, 1)
    // The second click, whose browser has not read the first answer; and a second answer to the same request.
    for (const posted of [text, good(lab, asked.id)]) {
      const twice = await copy.deliver(posted, asked.relayState)
      t.equal(twice.status, 303)
      t.match(hrefOf(twice), `/__authproxy-redirect?flow=${asked.relayState}&resume`)
      t.equal(lab.subjects.length, 1, 'nothing is accepted by it')
    }
    t.strictSame(lab.codes, [])
    const resumed = `${pathOf(hrefOf(await copy.deliver(text, asked.relayState)))}&again=1`
    const navigates = { 'Sec-Fetch-Mode': 'navigate', Accept: 'text/html' }
    const next = readAsked(await copy.get(resumed, ...Object.entries(navigates)))
    t.match(next.relayState, /^again\./)
    const second = good(lab, next.id)
    const kept = new Map(copy.cookies)
    await copy.deliver(second, next.relayState)
    t.equal(lab.subjects.length, 2, 'the new login is a login like any other')
    for (const [name, value] of kept) copy.cookies.set(name, value)
    copy.cookies.delete('session')
    const end = await copy.deliver(second, next.relayState)
    t.equal(end.status, 403, 'and it does not begin again once more')
    t.strictSame(lab.codes, ['replay'])
    const other = lab.browser.other()
    t.not(
      (await other.deliver(text, asked.relayState)).status,
      303,
      'no other browser begins anything',
    )
  },
)

t.test('24: an answer is not taken for a second click when it names another login', async t => {
  const lab = await SamlLab.open(t, 'okta')
  const first = await lab.browser.login('/a')
  const second = await lab.browser.login('/b')
  const cookies = new Map(lab.browser.cookies)
  await lab.browser.deliver(good(lab, first.id), first.relayState)
  for (const [name, value] of cookies) lab.browser.cookies.set(name, value)
  t.equal((await lab.browser.deliver(good(lab, first.id), second.relayState)).status, 403)
  t.strictSame(lab.codes, ['replay'])
})

t.test('23: attributes called like what objects inherit are data', async t => {
  const lab = await SamlLab.open(t, 'entra')
  const asked = await lab.browser.login('/')
  const names = ['__proto__', 'constructor', 'toString']
  const attributes = names.map(name => ({ name, values: ['admin'] }))
  const text = lab.idp.respond({ inResponseTo: asked.id, assertion: { attributes } })
  await lab.browser.deliver(text, asked.relayState)
  t.match(lab.subjects[0]?.attributes, attributes)
  const [session] = lab.sessions.values()
  t.strictSame([...(session?.attributes.keys() ?? [])], names)
})
