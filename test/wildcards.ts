import t from 'tap'
import { fitsPattern, wildcardPattern } from '../lib/wildcards.ts'

t.test('a wildcard stands for any text, none included, and all else for itself', t => {
  for (const [pattern, fitting, other] of [
    ['stable', ['stable'], ['Stable', 'stable-security', '']],
    ['*', ['', 'x'], []],
    ['stable*', ['stable', 'stable-security'], ['unstable']],
    ['*-security*', ['a-security', 'a-security/updates'], ['a_security']],
    ['a*a', ['aa', 'aba'], ['a']],
    ['a*b*b', ['abb', 'a/b/b'], ['ab', 'abc']],
    ['a.b', ['a.b'], ['aab']],
  ] as const) {
    for (const text of fitting)
      t.ok(fitsPattern(text, wildcardPattern(pattern)), `${pattern} ${text}`)
    for (const text of other)
      t.notOk(fitsPattern(text, wildcardPattern(pattern)), `${pattern} ${text}`)
  }
  t.end()
})
