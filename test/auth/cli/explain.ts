import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { adviceOn, explainFromFile } from '../../../lib/auth/explain.ts'
import type { FailureRecord } from '../../../lib/auth/pages/failure-records.ts'
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
  const canonical = { ok: false, expected: 'exclusive', received: 'inclusive' }
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
    [
      'saml.nameIDFormat',
      about('idp_status', { facts: { problem: 'Requester / InvalidNameIDPolicy' } }),
    ],
    [
      'saml.authnContext',
      about('idp_status', { facts: { problem: 'Responder / NoAuthnContext' } }),
    ],
    [
      'saml.forceAuthn',
      about('idp_status', { facts: { problem: 'Responder / UnsupportedBinding' } }),
    ],
    ['its own log', about('idp_status', { facts: { problem: 'Responder' } })],
    ['saml.responseSize', about('xml_too-many-elements')],
    ['saml.responseSize', about('encryption_limit')],
    ['passthroughPaths', about('request_not_kept', { facts: { because: 'foreign' } })],
    ['saml.replaySize', about('request_not_kept', { facts: { because: 'too-large' } })],
    ['RSA with SHA-256', about('signature_algorithm')],
    [
      'exclusive canonicalisation',
      about('signature_algorithm', {
        findings: [{ what: 'CanonicalizationMethod', ...canonical }],
      }),
    ],
    [
      'exclusive canonicalisation',
      about('logout_signature_algorithm', { findings: [{ what: 'Transforms', ...canonical }] }),
    ],
  ] as const) {
    t.match(advice, words)
  }
  for (const code of ['constructor', 'internal', 'logout_toString']) t.equal(about(code), '')
  t.equal(about('request_not_kept'), '')
  t.end()
})

t.test('every setting the advice names is one', async t => {
  const text = await readFile(join(packageRoot(), 'lib/auth/explain.ts'), 'utf8')
  const named = new Set(text.match(/\b(?:saml|identity|session|keys)\.[a-z]\w+/gi))
  const manual = await readFile(join(packageRoot(), 'docs/authproxy-configuration.md'), 'utf8')
  for (const name of named) t.ok(manual.includes(`\`${name}\``) || manual.includes(name), name)
})
