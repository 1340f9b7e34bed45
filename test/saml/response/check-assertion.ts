import t from 'tap'
import type { SamlConfig } from '../../../lib/auth/config/config.ts'
import { checkAssertion } from '../../../lib/saml/response/check-assertion.ts'
import { bearer } from '../../../lib/saml/xml/vocabulary.ts'
import { sp } from '../../fixtures/saml/idp.ts'
import { SamlLab } from '../../fixtures/saml/lab.ts'

const idp = 'https://idp.example.org'
const now = Date.parse('2026-11-20T12:00:00Z')
const at = (moment: number) => ({ text: new Date(moment).toISOString(), moment })

const head = { id: '_r', version: '2.0', issuer: idp, issued: at(now) }
const response = { ...head, destination: sp.acsUrl, inResponseTo: '_a', signed: true }
const confirmation = {
  method: bearer,
  recipient: sp.acsUrl,
  inResponseTo: '_a',
  notBefore: undefined,
  notOnOrAfter: at(now + 60_000),
}
const conditions = {
  notBefore: undefined,
  notOnOrAfter: undefined,
  audiences: [[sp.entityId]],
  unknown: [],
}
const statement = {
  instant: at(now),
  sessionIndex: '_s',
  sessionNotOnOrAfter: undefined,
  contextClass: 'urn:password',
}
const assertion = {
  ...head,
  nameId: undefined,
  confirmations: [confirmation],
  conditions,
  statements: [statement],
  attributes: [],
  unread: [],
}

const { config } = await SamlLab.open(t, 'entra')

/** The verdict on a good answer to the request `_a` with something else in its place. */
function judge(
  what: {
    readonly response?: Partial<Parameters<typeof checkAssertion>[0]['response']>
    readonly assertion?: Partial<Parameters<typeof checkAssertion>[0]['assertion']>
    readonly config?: Partial<SamlConfig>
  } = {},
) {
  const expected = {
    config: { ...config, ...what.config },
    idp,
    requests: new Map([['_a', { began: now - 1000 }]]),
  }
  const message = {
    response: { ...response, ...what.response },
    assertion: { ...assertion, ...what.assertion },
  }
  return checkAssertion(message, expected, now)
}

/** Why it is refused; `ok` when it is not. */
function reason(what: Parameters<typeof judge>[0]): string {
  const verdict = judge(what)
  return verdict.ok ? 'ok' : verdict.because
}

t.test('what an answer has to say about its login', t => {
  const exactly = { authnContext: ['urn:password', 'urn:card'] }
  const anew = { forceAuthn: true }
  const statements = (more: Partial<typeof statement> | { contextClass: undefined }) => ({
    statements: [{ ...statement, ...more }],
  })
  const asked = now - 1000 - config.clockSkew
  for (const [what, because, given] of [
    ['a good one', 'ok', {}],
    ['no AuthnStatement', 'authn_statement', { assertion: { statements: [] } }],
    ['a context that was asked for', 'ok', { config: exactly }],
    [
      'another context',
      'authn_context',
      { config: exactly, assertion: statements({ contextClass: 'urn:none' }) },
    ],
    [
      'no context',
      'authn_context',
      { config: exactly, assertion: statements({ contextClass: undefined }) },
    ],
    [
      'another context, which may be a stronger one',
      'ok',
      {
        config: { ...exactly, authnContextComparison: 'minimum' as const },
        assertion: statements({ contextClass: 'urn:none' }),
      },
    ],
    [
      'a login just late enough',
      'ok',
      { config: anew, assertion: statements({ instant: at(asked) }) },
    ],
    [
      'a login before it was asked for',
      'authn_stale',
      { config: anew, assertion: statements({ instant: at(asked - 1) }) },
    ],
    ['an earlier login', 'ok', { assertion: statements({ instant: at(asked - 1) }) }],
    [
      'a login by a clock that is a little ahead',
      'ok',
      { config: anew, assertion: statements({ instant: at(now + config.clockSkew) }) },
    ],
    [
      'a login of the future, which may be hours old',
      'authn_future',
      { config: anew, assertion: statements({ instant: at(now + config.clockSkew + 1) }) },
    ],
    [
      'a login of the future where it does not matter',
      'ok',
      { assertion: statements({ instant: at(now + 7_200_000) }) },
    ],
  ] as const) {
    t.equal(reason(given), because, what)
  }
  t.end()
})

t.test('a login lies in the future for no rule and no application', t => {
  const { clockSkew } = config
  for (const [written, believed] of [
    [now - 7_200_000, now - 7_200_000],
    [now, now],
    [now + 1, now],
    [now + clockSkew, now],
    [now + clockSkew + 1, undefined],
    [now + 7_200_000, undefined],
  ] as const) {
    const verdict = judge({ assertion: { statements: [{ ...statement, instant: at(written) }] } })
    const expected = { authnInstant: believed, authenticated: believed ?? now }
    t.match(verdict, { ok: true, subject: expected }, String(written - now))
  }
  t.end()
})

t.test('what holds without a login of this browser', t => {
  const unasked = { ...confirmation, inResponseTo: undefined }
  const initiated = {
    config: { idpInitiated: true, forceAuthn: true },
    response: { inResponseTo: undefined },
    assertion: { confirmations: [unasked] },
  }
  t.match(judge(initiated), { ok: true, requestId: undefined })
  t.equal(reason({ ...initiated, config: {} }), 'unsolicited')
  t.equal(reason({ ...initiated, response: { inResponseTo: '_a' } }), 'in_response_to')
  t.equal(reason({ response: { inResponseTo: undefined } }), 'ok')
  t.equal(reason({ response: { inResponseTo: '_b' } }), 'in_response_to')
  t.end()
})

t.test('one of several confirmations is enough', t => {
  const late = { ...confirmation, notOnOrAfter: at(now - 3_600_000) }
  const foreign = { ...confirmation, recipient: 'https://other.example.org' }
  const holder = { ...confirmation, method: 'urn:holder-of-key' }
  for (const [because, confirmations] of [
    ['ok', [holder, late, confirmation]],
    ['expired', [holder, late, foreign]],
    ['recipient', [foreign, late]],
    ['subject_confirmation', [holder]],
    ['subject_confirmation', []],
    ['expired', [{ ...confirmation, notOnOrAfter: undefined }]],
    ['not_yet_valid', [{ ...confirmation, notBefore: at(now + 3_600_000) }]],
  ] as const) {
    t.equal(reason({ assertion: { confirmations } }), because)
  }
  t.end()
})

t.test('every restriction has to name us, and every condition has to be known', t => {
  const other = 'https://other.example.org'
  for (const [because, more] of [
    ['ok', { audiences: [[other, sp.entityId], [sp.entityId]] }],
    ['audience', { audiences: [[sp.entityId], [other]] }],
    ['audience', { audiences: [[]] }],
    ['audience', { audiences: [] }],
    ['conditions', { unknown: ['Delegation'] }],
    ['ok', { notBefore: at(now + config.clockSkew), notOnOrAfter: at(now + 1) }],
    ['not_yet_valid', { notBefore: at(now + config.clockSkew + 1) }],
    ['ok', { notOnOrAfter: at(now - config.clockSkew + 1) }],
    ['expired', { notOnOrAfter: at(now - config.clockSkew) }],
    ['expired', { notOnOrAfter: { text: 'soon', moment: undefined } }],
  ] as const) {
    t.equal(reason({ assertion: { conditions: { ...conditions, ...more } } }), because)
  }
  t.equal(reason({ assertion: { conditions: undefined } }), 'audience')
  t.end()
})

t.test('the session ends when the first of its statements says so', t => {
  const ends = (...moments: readonly number[]) => ({
    assertion: {
      statements: moments.map(moment => ({ ...statement, sessionNotOnOrAfter: at(moment) })),
    },
  })
  t.match(judge(ends(now + 9000, now + 5000)), { ok: true, subject: { sessionEnds: now + 5000 } })
  t.match(judge(), { ok: true, subject: { sessionEnds: undefined } })
  t.equal(reason(ends(now + 9000, now)), 'session_over')
  t.end()
})

t.test('a refusal for a time says how far the clock of the IdP is ahead', t => {
  const ahead = config.clockSkew + 5000
  t.match(judge({ assertion: { issued: at(now + ahead) } }), {
    because: 'issue_instant',
    clockAhead: ahead,
  })
  t.match(judge({ assertion: { issued: undefined } }), {
    because: 'issue_instant',
    clockAhead: undefined,
  })
  t.match(judge({ assertion: { issuer: 'https://other.example.org', issued: at(now + ahead) } }), {
    because: 'issuer',
    clockAhead: undefined,
  })
  t.end()
})

t.test('27: Destination and Recipient are equal when they are one address by RFC 3986', t => {
  const places = (address: string) => [
    reason({ response: { destination: address } }),
    reason({ assertion: { confirmations: [{ ...confirmation, recipient: address }] } }),
  ]
  for (const address of [
    ...['https://app.example.org:443/saml/acs', 'HTTPS://App.Example.ORG/saml/acs'],
    ...['https://APP.example.org:443/saml/acs', 'https://app.example.org:/saml/acs'],
  ]) {
    t.same(places(address), ['ok', 'ok'], address)
  }
  for (const address of [
    ...['https://app.example.org:444/saml/acs', 'http://app.example.org/saml/acs'],
    ...['https://app.example.org:0443/saml/acs', 'https://app.example.org:443:443/saml/acs'],
    ...['https://app.example.org/saml/ACS', 'https://app.example.org/saml/acs/'],
    ...['https://app.example.org/saml/acs?', 'https://app.example.org/x/../saml/acs'],
    ...['https://app.example.org:443@evil.example/saml/acs', 'https://app.example.org./saml/acs'],
    ...['https://app.example.org\\@evil.example/saml/acs', 'https:/app.example.org/saml/acs'],
    ...['https://app.example.org\t/saml/acs', ' https://app.example.org/saml/acs'],
    ...['https://user@app.example.org/saml/acs', 'http://app.example.org:443/saml/acs'],
    ...['https://app.example.org/saml/acs\n', 'https://ap%70.example.org/saml/acs', ''],
  ]) {
    t.same(places(address), ['destination', 'recipient'], address)
  }
  const own = 'https://app.example.org:8443/saml/acs'
  const elsewhere = { config: { acsUrl: own } }
  t.equal(reason({ ...elsewhere, response: { destination: own } }), 'recipient')
  t.equal(reason({ ...elsewhere, response: { destination: sp.acsUrl } }), 'destination')
  t.end()
})
