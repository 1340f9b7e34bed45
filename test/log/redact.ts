import t from 'tap'
import { Failure } from '../../lib/errors.ts'
import {
  clean,
  cleanText,
  isSecretName,
  printable,
  REDACTED,
  redactUrl,
} from '../../lib/log/redact.ts'
import { cpuTimeOf } from '../fixtures/time/cpu-time.ts'

t.test('no userinfo survives in a URL', t => {
  const table: ReadonlyArray<readonly [string, string]> = [
    ['http://archive.example.org/a@b', 'http://archive.example.org/a@b'],
    ['http://bob:s3@h.example.org/x', `http://${REDACTED}@h.example.org/x`],
    ['http://bob@h.example.org', `http://${REDACTED}@h.example.org`],
    ['http://bob:a@b@h.example.org/x', `http://${REDACTED}@h.example.org/x`],
    ['http://bob:pa/ss@h.example.org/x', `http://${REDACTED}@h.example.org/x`],
    [
      'see "http://u:p@a/x" and <https://u:p@b/y>',
      `see "http://${REDACTED}@a/x" and <https://${REDACTED}@b/y>`,
    ],
    ['//u:p@h/', `//${REDACTED}@h/`],
    ['http://[2001:db8::1]:80/a@b', 'http://[2001:db8::1]:80/a@b'],
    ['http://h:8080/pool//x@y', `http://h:8080/pool//${REDACTED}@y`],
    ['mail bob@example.org', 'mail bob@example.org'],
  ]
  for (const [text, expected] of table) {
    t.equal(redactUrl(text), expected)
  }
  t.end()
})

t.test('no secret survives in a query', t => {
  t.equal(redactUrl('/x?a=1&token=abc&b=2'), `/x?a=1&token=${REDACTED}&b=2`)
  t.equal(redactUrl('/x?X-Amz-Signature=ff#top'), `/x?X-Amz-Signature=${REDACTED}#top`)
  t.equal(
    redactUrl('/saml/acs?SAMLResponse=PHg%2B&RelayState=r'),
    `/saml/acs?SAMLResponse=${REDACTED}&RelayState=${REDACTED}`,
  )
  t.equal(redactUrl('/x?tokens=3'), '/x?tokens=3')
  t.equal(redactUrl('/x?Signature=a&sig=b'), `/x?Signature=${REDACTED}&sig=${REDACTED}`)
  const escaped = (host: string) => `/explain?url=http%3A%2F%2F${host}%2Fa%40b&x=1`
  t.equal(redactUrl('/explain?url=http%3A%2F%2Fh%2Fa'), '/explain?url=http%3A%2F%2Fh%2Fa')
  t.notMatch(redactUrl(escaped('bob%3As3cret%40h')), 's3cret')
  t.match(redactUrl(escaped('bob%3As3cret%40h')), /%40b&x=1$/)
  t.end()
})

t.test('a fact about a signature is not a secret', t => {
  const facts = { suite: 'http://h/dists/stable', signature: 'good', by: 'ABCD' }
  t.strictSame(clean(facts), facts)
  t.strictSame(clean({ 'X-Amz-Signature': 'ff' }), { 'X-Amz-Signature': REDACTED })
  t.end()
})

t.test('hostile text costs linear time', async t => {
  const n = 400_000
  const texts = [
    '//'.repeat(n),
    'a://'.repeat(n),
    '//@'.repeat(n),
    `${'//a:b/'.repeat(50_000)}@`,
    `${'//a'.repeat(n)} @`,
    `?${'a'.repeat(n)}`,
    '?&'.repeat(n),
  ]
  const time = await cpuTimeOf(() => {
    for (const text of texts) {
      redactUrl(text)
      cleanText(text)
    }
  })
  t.ok(time < 8000, `${time} ms`)
})

t.test('63: values under a secret name are replaced, wherever they are', t => {
  for (const name of [
    'authorization',
    'Proxy-Authorization',
    'proxyAuthorization',
    'Cookie',
    'setCookie',
    'password',
    'SAMLResponse',
  ]) {
    t.ok(isSecretName(name), name)
  }
  for (const name of ['target', 'status', 'tokens', 'author']) t.notOk(isSecretName(name), name)
  t.strictSame(
    clean({ fields: { Cookie: 'a=b', Host: 'h' }, list: [{ password: 'x' }], token: 5 }),
    {
      fields: { Cookie: REDACTED, Host: 'h' },
      list: [{ password: REDACTED }],
      token: REDACTED,
    },
  )
  t.end()
})

t.test('what is logged is bounded and plain', t => {
  const cycle: Record<string, unknown> = {}
  cycle['self'] = cycle
  const out = clean({
    cycle,
    long: 'x'.repeat(10_000),
    bytes: Buffer.alloc(5),
    big: 5n,
    nothing: undefined,
    none: null,
    fn: () => 1,
    date: new Date(0),
    bad: new Date(Number.NaN),
    many: new Array(500).fill(1),
  })
  t.match(JSON.stringify(out['cycle']), /\[deeper\]/)
  t.ok(String(out['long']).length < 8300)
  t.match(out, {
    bytes: '[5 bytes]',
    big: '5',
    none: null,
    date: '1970-01-01T00:00:00.000Z',
    bad: 'invalid date',
  })
  t.notOk('nothing' in out)
  t.equal(Array.isArray(out['many']) && out['many'].length, 100)
  t.end()
})

t.test('an error brings its code, facts and causes, without secrets', t => {
  const cause = Object.assign(new Error('connect http://u:p@h/'), { code: 'ECONNREFUSED' })
  const failure = new Failure('no origin', {
    code: 'ORIGIN',
    fault: 'upstream',
    publicText: 'x',
    facts: { origin: 'h', password: 'p' },
    cause,
  })
  const { error } = clean({ error: failure })
  t.match(error, {
    message: 'no origin',
    code: 'ORIGIN',
    fault: 'upstream',
    origin: 'h',
    password: REDACTED,
    cause: { code: 'ECONNREFUSED', message: `connect http://${REDACTED}@h/` },
  })
  t.match(error, { stack: /redact/ })
  t.notMatch(JSON.stringify(error), 'u:p@')
  t.end()
})

t.test('control characters are written out', t => {
  t.equal(printable('a\u001b[31m\r\n\u202eb'), 'a\\u001b[31m\\u000d\\u000a\\u202eb')
  const text = 'a tag \u{e0067}, \u200d and \u2028'
  t.equal(JSON.parse(printable(JSON.stringify(text))), text, 'as JSON and YAML read it')
  t.end()
})
