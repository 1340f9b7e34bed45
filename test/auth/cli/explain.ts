import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { checkNames } from '../../../lib/auth/doctor/checks/examine.ts'
import { adviceOn, explainFromFile } from '../../../lib/auth/explain.ts'
import type { FailureRecord } from '../../../lib/auth/pages/failure-records.ts'
import { type FailureText, failureTable } from '../../../lib/auth/pages/failures.ts'
import { packageRoot } from '../../../lib/package.ts'

const record = {
  ...{ id: 'r1', at: Date.UTC(2030, 0, 1), category: 'SAML-ERROR', code: 'audience' },
  ...{ title: 'Signing in did not work', status: 403, client: '192.0.2.1' },
  ...{ method: 'POST', path: '/saml/acs', facts: { issuer: 'urn:idp', tries: 2 } },
  sender: 'other' as const,
  findings: [
    { what: 'Issuer', ok: true, expected: 'urn:idp', received: 'urn:idp' },
    { what: 'Audience', ok: false, expected: 'urn:us', received: 'urn:\u001b[2Jthem' },
    { what: 'Version', ok: true, expected: 'until noon', received: 'eleven' },
  ],
}

t.test(
  'a failure is told check by check, and what a stranger wrote is printed as text',
  async t => {
    const file = join(t.testdir(), 'failures.json')
    const plain = { ...record, id: 'r2', code: 'other', facts: {}, findings: [] }
    const damaged = [
      7,
      { ...record, status: 'x' },
      { ...record, path: 7 },
      { ...record, findings: 7 },
      { ...record, facts: undefined },
      { ...record, sender: undefined },
      { ...record, shown: { toString: 7 } },
    ]
    await writeFile(file, JSON.stringify({ failures: [record, plain, ...damaged] }))
    for (const reference of ['r1', 'SAML-ERROR r1', 'SAML-ERROR: r1 ']) {
      const { found, lines } = await explainFromFile(reference, file)
      t.equal(found, true)
      t.same(lines.slice(0, 2), ['SAML-ERROR audience', 'Signing in did not work (status 403)'])
      t.ok(lines.includes('issuer       urn:idp') && lines.includes('tries        2'))
      t.same(lines.slice(lines.indexOf('ok    Issuer')), [
        'ok    Issuer',
        ...['WRONG Audience', '      expected urn:us', '      received urn:\\u001b[2Jthem'],
        ...['ok    Version', '      expected until noon', '      received eleven'],
        ...['', 'what to do'],
        ...adviceOn(record).map(sentence => `  - ${sentence}`),
      ])
    }
    const { lines } = await explainFromFile('r2', file)
    t.equal(lines.at(-1), 'request      POST /saml/acs')
  },
)

t.test('what is not known says since when failures are', async t => {
  const file = join(t.testdir(), 'failures.json')
  t.match(await explainFromFile('r3', file), {
    found: false,
    lines: [/no failure has been kept yet$/],
  })
  for (const [text, line] of [
    [JSON.stringify({ failures: [record] }), /^no failure .* r3; .* since 2030-01-01T00:00:00/],
    [JSON.stringify({ failures: [] }), /^no failure has the request ID r3$/],
    ['[]', /^no failure has the request ID r3$/],
    ['{', /it cannot be read$/],
  ] as const) {
    await writeFile(file, text)
    t.match(await explainFromFile('r3', file), { found: false, lines: [line] })
  }
})

t.test('the advice on a code names the setting or the choice at the identity provider', t => {
  const about = (code: string, more: Partial<FailureRecord> = {}) =>
    adviceOn({ ...record, findings: [], code, ...more }).join(' ')
  for (const [words, advice] of [
    ['saml.idpInitiated', about('unsolicited')],
    ['saml.idpInitiated', about('login_cookie_missing')],
    ['saml.allowSHA1', about('signature_sha1')],
    ['saml.allowSHA1', about('logout_signature_sha1')],
    ['saml.allowUnsignedLogout', about('logout_signature_missing')],
    ['sign the Response', about('signature_missing')],
    ['saml.clockSkew', about('expired')],
    ['saml.clockSkew', about('logout_too_old')],
    ['encryption certificate', about('encryption_key')],
    ['changing certificates does not help', about('encryption_document')],
    ['entity ID', about('audience')],
    ['saml.nameIDFormat', about('idp_status', { shown: 'idp_name_id' })],
    ['saml.clockSkew', about('expired', { shown: 'clocks_differ' })],
    ['sign logout messages', about('logout_signature_missing', { shown: 'logout_unconfirmed' })],
    ['encrypted', about('logout_encrypted_id', { shown: 'logout_refused' })],
    ['its own log', about('idp_status')],
    ['saml.responseSize', about('xml_too-many-elements')],
    ['saml.responseSize', about('encryption_limit')],
    ['saml.replaySize', about('request_not_kept', { facts: { because: 'too-large' } })],
    ['RSA with SHA-256', about('signature_algorithm')],
    [
      'exclusive canonicalisation',
      about('signature_algorithm', { shown: 'signature_canonicalisation' }),
    ],
    ['examines this: clock against the IdP', about('expired')],
  ] as const) {
    t.match(advice, words)
  }
  for (const code of ['constructor', 'internal', 'logout_toString']) t.equal(about(code), '')
  t.equal(about('request_not_kept'), '')
  t.end()
})

const codes = Object.entries(failureTable().codes)

t.test(
  'every setting that the table of failures names is one, and every check of doctor',
  async t => {
    const manual = await readFile(join(packageRoot(), 'docs/authproxy-configuration.md'), 'utf8')
    const checks = checkNames()
    for (const [code, { administrator, advice = [], setting = '', doctor }] of codes) {
      const text = [administrator, ...advice].join(' ')
      const named = text.match(/\b(?:saml|identity|session|keys|proxy|state)\.[a-z]\w+/gi) ?? []
      for (const name of [...named, ...setting.split(', ')])
        t.ok(manual.includes(name), `${code}: ${name}`)
      if (doctor !== undefined) t.ok(checks.includes(doctor), `${code}: ${doctor}`)
    }
  },
)

t.test('a page does not tell which check has refused a forged answer', t => {
  const page = ({ advice, setting, doctor, idpStatuses, ...shown }: FailureText) => shown
  const refused = page(failureTable().codes.login_refused)
  const own = codes.filter(([, { text }]) => text === refused.text)
  t.ok(own.length > 20, `${own.length} codes`)
  for (const [code, row] of own) t.same(page(row), refused, code)
  const elsewhere = /^(?:logout_|lost_|access_|idp_|xml_too|form_|login_|subject_|resubmission_)/
  const others = codes.filter(
    ([code, row]) =>
      row.category === 'SAML-ERROR' &&
      !own.some(([name]) => name === code) &&
      !elsewhere.test(code),
  )
  // What the IdP or this service is to blame for, and what it has signed.
  t.same(
    others.map(([code]) => code),
    [
      ...['acs_get', 'store_away', 'clocks_differ', 'clocks_differ_late'],
      ...['authn_context', 'authn_stale', 'authn_future', 'verifier_busy', 'used_ids_full'],
      ...['session_over', 'cookie_too_large'],
    ],
  )
  t.end()
})
