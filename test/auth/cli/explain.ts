import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { explain } from '../../../lib/auth/cli/explain.ts'

const record = {
  ...{ id: 'r1', at: Date.UTC(2030, 0, 1), category: 'SAML-ERROR', code: 'audience' },
  ...{ title: 'Signing in did not work', status: 403, client: '192.0.2.1' },
  ...{ method: 'POST', path: '/saml/acs', facts: { issuer: 'urn:idp', tries: 2 } },
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
    const plain = { ...record, id: 'r2', facts: undefined, findings: [] }
    const damaged = [
      7,
      { ...record, status: 'x' },
      { ...record, path: 7 },
      { ...record, findings: 7 },
    ]
    await writeFile(file, JSON.stringify({ failures: [record, plain, ...damaged] }))
    for (const reference of ['r1', 'SAML-ERROR r1', 'SAML-ERROR: r1 ']) {
      const { found, lines } = await explain(reference, file)
      t.equal(found, true)
      t.same(lines.slice(0, 2), ['SAML-ERROR audience', 'Signing in did not work (status 403)'])
      t.ok(lines.includes('issuer       urn:idp') && lines.includes('tries        2'))
      t.same(lines.slice(lines.indexOf('ok    Issuer')), [
        'ok    Issuer',
        ...['WRONG Audience', '      expected urn:us', '      received urn:\\u001b[2Jthem'],
        ...['ok    Version', '      expected until noon', '      received eleven'],
      ])
    }
    const { lines } = await explain('r2', file)
    t.equal(lines.at(-1), 'request      POST /saml/acs')
  },
)

t.test('what is not known says since when failures are', async t => {
  const file = join(t.testdir(), 'failures.json')
  t.match(await explain('r3', file), { found: false, lines: [/no failure has been kept yet$/] })
  for (const [text, line] of [
    [JSON.stringify({ failures: [record] }), /^no failure .* r3; .* since 2030-01-01T00:00:00/],
    [JSON.stringify({ failures: [] }), /^no failure has the request ID r3$/],
    ['[]', /^no failure has the request ID r3$/],
    ['{', /it cannot be read$/],
  ] as const) {
    await writeFile(file, text)
    t.match(await explain('r3', file), { found: false, lines: [line] })
  }
})
