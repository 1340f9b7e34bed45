import t from 'tap'
import {
  checkToken,
  isAmbiguous,
  passthroughPrefix,
  prefixProblem,
  tokenDigest,
  tokenField,
} from '../../../lib/auth/access/passthrough.ts'
import { Fields } from '../../../lib/http/message/field.ts'

t.test('a prefix is literal, and compared from the start', t => {
  const prefixes = ['/api', '/public/']
  for (const [path, prefix] of [
    ['/api', '/api'],
    ['/api-admin', '/api'],
    ['/public/x', '/public/'],
    ['/public', undefined],
    ['/x/public/', undefined],
    ['/PUBLIC/', undefined],
    ['/api/../admin', undefined],
    ['/api/%2e%2e/admin', undefined],
  ] as const) {
    t.equal(passthroughPrefix(path, prefixes), prefix, path)
  }
  t.end()
})

t.test('long names in any script are read in one way, up to a bound', t => {
  const letters = '%e6%97%a5'
  t.notOk(isAmbiguous(`/public/${letters.repeat(2000)}`))
  t.ok(isAmbiguous(`/public/${letters.repeat(2100)}`), 'more than are folded')
  t.notOk(isAmbiguous(`/public/${'a'.repeat(60_000)}`))
  t.ok(isAmbiguous('/public/%e6%97'), 'not UTF-8')
  t.ok(isAmbiguous('/public/.%20.'))
  t.notOk(isAmbiguous('/public/.a.'))
  t.end()
})

t.test('a prefix that would mean more than it says is a problem', t => {
  for (const [prefix, problem] of [
    ['/public/', undefined],
    ['/a.b/c_d', undefined],
    ['', /begins with/],
    ['public/', /begins with/],
    ['/', /every request/],
    ['/a?b', /path alone/],
    ['/a#b', /path alone/],
    ['/a//b', /always need a login/],
    ['/a/%2e', /always need a login/],
  ] as const) {
    if (problem === undefined) t.equal(prefixProblem(prefix), undefined, prefix)
    else t.match(prefixProblem(prefix), problem, prefix)
  }
  t.end()
})

t.test('65: a token passes until it expires, alone on its line, as a Bearer', t => {
  const now = 1000
  const token = (name: string, text: string, expires?: number) => {
    return { name, sha256: tokenDigest(text), expires }
  }
  const tokens = [token('a', 'secret-a'), token('b', 'secret-b', now + 1), token('c', 'c', now)]
  for (const [lines, verdict] of [
    [[], undefined],
    [['Bearer secret-a'], { name: 'a' }],
    [['bEARER   secret-b'], { name: 'b', expires: now + 1 }],
    [['Bearer c'], { because: 'expired' }],
    [['Bearer secret'], { because: 'unknown', presented: 'secret' }],
    [['Bearer'], { because: 'malformed' }],
    [['secret-a'], { because: 'malformed' }],
    [['Bearer secret-a '], { because: 'malformed' }],
    [[`Bearer ${'x'.repeat(8193)}`], { because: 'malformed' }],
    [['Bearer secret-a', 'Bearer secret-a'], { because: 'malformed' }],
  ] as const) {
    const fields = Fields.fromFlat(lines.flatMap(line => [tokenField, line]))
    t.same(checkToken(fields, tokens, now), verdict, lines.join())
  }
  t.end()
})
