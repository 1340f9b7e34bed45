/**
 * The rules of access: the table of verdicts, and what the table does not show.
 */
import t from 'tap'
import { isAmbiguous } from '../../../lib/auth/access/passthrough.ts'
import {
  askedPath,
  couldBeFor,
  coversRule,
  isFor,
  pathRule,
  pathRuleProblem,
} from '../../../lib/auth/access/path-rule.ts'
import {
  type AccessRules,
  judgeAccess,
  matchesPattern,
  wantedBy,
} from '../../../lib/auth/access/rules.ts'
import { configCheck } from '../../../lib/auth/config/loading/load-config.ts'
import { decodeConfig } from '../../../lib/config/config-file.ts'
import { Fields } from '../../../lib/http/message/field.ts'
import { accessTable, personOf, ruleSets } from '../../fixtures/gateway/access-table.ts'

const least = `domain: app.example.org
idpMetadataURL: https://idp.example.org/metadata
proxy: { listenAddress: "127.0.0.1:8080", targetURL: "http://127.0.0.1:3000" }
`

function rulesIn(text: string): AccessRules {
  const loaded = decodeConfig(`${text}${least}`, 'app.yaml', configCheck('app'))
  if (!loaded.ok) throw new Error(loaded.problems.join('\n'))
  const { access } = loaded.value
  if (access === undefined) throw new Error('no rules')
  return access
}

const now = Date.UTC(2030, 0, 1)

t.test('72, 73, 74, 75: two hundred requests have the verdict of the table', t => {
  const sets = new Map(Object.entries(ruleSets).map(([name, text]) => [name, rulesIn(text)]))
  t.ok(accessTable.length >= 200)
  for (const { set, who, method, path, verdict, line } of accessTable) {
    const access = sets.get(set)
    if (access === undefined) throw new Error(set)
    const wanted = wantedBy({ method, fields: Fields.empty }, { path }, access)
    const judged = judgeAccess(access, wanted, { person: personOf(who, now), now })
    t.same([judged.verdict, judged.rule?.line], [verdict, line], `${set} ${who} ${method} ${path}`)
  }
  t.end()
})

t.test('74: a method that a field names has to be allowed as well', t => {
  const access = rulesIn(ruleSets['A'] ?? '')
  const aud = personOf('aud', now)
  for (const [name, value, verdict] of [
    ['X-HTTP-Method-Override', 'DELETE', 'ambiguous'],
    ['x-http-method', ' delete ', 'ambiguous'],
    ['X_Method_Override', 'PUT', 'ambiguous'],
    ['X-HTTP-Method-Override', 'GET, PATCH', 'ambiguous'],
    ['X.HTTP.Method.Override', 'PATCH', 'ambiguous'],
    ['X-HTTP-MethodOverride', 'PATCH', 'ambiguous'],
    ['X-HTTP-Method-Override', `${'A B C D E F G H I J K L M'}`, 'ambiguous'],
    ['X-HTTP-Method-Override', 'GET', 'allowed'],
    ['X-HTTP-Method-Override', 'REPORT', 'allowed'],
    ['X-Other', 'DELETE', 'allowed'],
  ] as const) {
    const fields = Fields.of([name, value])
    const wanted = wantedBy({ method: 'GET', fields }, { path: '/admin/x' }, access)
    const judged = judgeAccess(access, wanted, { person: aud, now })
    t.equal(judged.verdict, verdict, `${name}: ${value}`)
  }
  for (const [query, verdict] of [
    ['_method=DELETE', 'ambiguous'],
    ['a=1&_method=delete&b', 'ambiguous'],
    ['_METHOD=Put', 'ambiguous'],
    ['%5fm%65thod=%44ELETE', 'ambiguous'],
    ['+.method=DELETE', 'ambiguous'],
    ['a;_method=PATCH', 'ambiguous'],
    ['_HttpMethod=PATCH', 'ambiguous'],
    ['X-HTTP-Method-Override=DELETE', 'ambiguous'],
    ['x.method.override=DELETE', 'ambiguous'],
    ['x_http_method=PUT', 'ambiguous'],
    ['methodOverride=PUT', 'ambiguous'],
    ['_method=GET', 'allowed'],
    ['_method', 'allowed'],
    ['method=DELETE', 'allowed'],
    ['x_method=DELETE&my_method=DELETE', 'allowed'],
    ['q=_method=DELETE', 'allowed'],
    ['%ff%', 'allowed'],
  ] as const) {
    const wanted = wantedBy(
      { method: 'GET', fields: Fields.empty },
      { path: '/admin/x', query },
      access,
    )
    t.equal(judgeAccess(access, wanted, { person: aud, now }).verdict, verdict, query)
  }
  t.end()
})

t.test('a value fits a pattern letter by letter, `*` for any text', t => {
  for (const [value, pattern, expected] of [
    ['ops', 'ops', true],
    ['Ops', 'ops', false],
    ['ops', '*', true],
    ['', '*', true],
    ['ops-1', 'ops-*', true],
    ['ops', 'ops*', true],
    ['devops', '*ops', true],
    ['cn=ops,ou=x', 'cn=*,ou=x', true],
    ['aba', 'ab*ba', false],
    ['abba', 'ab*ba', true],
    ['a.b', 'a?b', false],
    ['axb', 'a.b', false],
    ['abcabc', 'a*b*c', true],
    ['acb', 'a*b*c', false],
    ['a*b', 'a*b', true],
    ['ops\n', 'ops', false],
  ] as const) {
    t.equal(matchesPattern(value, pattern), expected, `${value} ${pattern}`)
  }
  const long = `${'a'.repeat(50_000)}b`
  t.notOk(matchesPattern(long, `${'*a'.repeat(200)}*c`), 'in linear time')
  t.end()
})

t.test('a path that is taken as plain is read in one way, and long ones are read at once', t => {
  for (const path of ['/', '/a', '/a.b/c-d/', '/~u/x_y', '/a..b', '/x.tar.gz']) {
    t.notOk(askedPath(path).ambiguous || isAmbiguous(path), path)
    t.equal(askedPath(path).decoded, path)
  }
  for (const path of [
    `/${'.'.repeat(60_000)}x`,
    `/${'a.'.repeat(30_000)}`,
    `/${'a'.repeat(60_000)}!`,
    `/a${'%20'.repeat(20_000)}x`,
    '/a'.repeat(30_000),
  ]) {
    askedPath(path)
  }
  t.end()
})

t.test('a path behind `= ` is this one path, also with a slash at its end', t => {
  for (const [written, asked, is] of [
    ['= /', '/', 'for'],
    ['= /', '/a', 'no'],
    ['= /a/', '/a/', 'for'],
    ['= /a/', '/%61/', 'for'],
    ['= /a/', '/a', 'mistakable'],
    ['= /a/', '/A/', 'mistakable'],
    ['= /a/', '/a/b', 'no'],
    ['= /a', '/a', 'for'],
  ] as const) {
    const [rule, path] = [pathRule(written), askedPath(asked)]
    const other = couldBeFor(rule, path) ? 'mistakable' : 'no'
    t.equal(isFor(rule, path) ? 'for' : other, is, `${written} ${asked}`)
  }
  t.ok(coversRule(pathRule('/'), pathRule('= /')))
  t.notOk(coversRule(pathRule('= /'), pathRule('/')), 'the folder has more')
  t.ok(coversRule(pathRule('= /a/'), pathRule('= /a/')))
  t.end()
})

t.test('the path of a rule is plain', t => {
  for (const [path, problem] of [
    ['/', undefined],
    ['/a b', /write other characters percent-encoded/],
    ['/a%20b/', undefined],
    ['/caf%C3%A9/', undefined],
    ['/café/', /beyond ASCII/],
    ['admin/', /begins with/],
    ['/admin/*', /no wildcards; end it with/],
    ['/admin?x=1', /no rule depends on the query/],
    ['/a/../b', /dot segments/],
    ['/a//b', /repeated separators/],
    ['/a%2fb', /encoded/],
    ['= /', undefined],
    ['= /a/', undefined],
    ['=/', /begins with/],
    ['= /a/../', /dot segments/],
  ] as const) {
    if (problem === undefined) t.equal(pathRuleProblem(path), undefined, path)
    else t.match(pathRuleProblem(path), problem, path)
  }
  t.end()
})
