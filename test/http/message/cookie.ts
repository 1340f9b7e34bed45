import t from 'tap'
import {
  cookiePairs,
  setCookie,
  setCookieName,
  withoutCookies,
} from '../../../lib/http/message/cookie.ts'
import { Fields } from '../../../lib/http/message/field.ts'

t.test('cookies come in their order, those of one name too', t => {
  const fields = Fields.of(['Cookie', 'a=1; b = 2 ;c;=d; a=3='], ['cookie', 'e="x y"'])
  t.same(cookiePairs(fields, /[a-e=]/g), [
    { name: 'a', value: '1' },
    { name: 'b', value: '2' },
    { name: '', value: 'd' },
    { name: 'a', value: '3=' },
    { name: 'e', value: '"x y"' },
  ])
  t.same(cookiePairs(fields, /b|x/g), [
    { name: 'b', value: '2' },
    { name: 'e', value: '"x y"' },
  ])
  t.same(cookiePairs(Fields.empty, /a/g), [])
  t.end()
})

t.test('what is dropped goes, what stays keeps its bytes', t => {
  const drop = (name: string) => name === 's'
  for (const [before, after] of [
    ['a=1; s=2; b= 3', 'a=1; b= 3'],
    ['s=1', undefined],
    ['s=1; s=2;', undefined],
    ['a=1;b=2', 'a=1;b=2'],
    ['s', undefined],
    ['a="s=1"; s=1', 'a="s=1"'],
    [' s =1; x=y', 'x=y'],
  ] as const) {
    t.equal(withoutCookies(Fields.of(['Cookie', before]), /s/g, drop).get('Cookie'), after, before)
  }
  t.end()
})

t.test('a line of half a million cookies takes no longer than a search of it', t => {
  const word = /ours/g
  const drop = (name: string) => name.startsWith('ours')
  const line = (cookie: string) => Fields.of(['Cookie', cookie])
  const many = 'a=;'.repeat(350_000)
  t.same(cookiePairs(line(`${many}ours=1;${many}`), word), [{ name: 'ours', value: '1' }])
  const left = withoutCookies(line(`${many}ours=1;${many}`), word, drop).get('Cookie')
  t.equal(left?.length, 2 * many.length)
  const flood = line('ours=;'.repeat(170_000))
  t.equal(cookiePairs(flood, word).length, 1000)
  t.notOk(withoutCookies(flood, word, drop).has('Cookie'), 'more than a thousand of ours: none')
  t.equal(cookiePairs(line('ours'.repeat(250_000)), word).length, 0, 'one long piece')
  t.end()
})

t.test('a Set-Cookie line is safe, or is not made', t => {
  t.equal(setCookie('n', 'v'), 'n=v; Path=/; Secure; HttpOnly; SameSite=Lax')
  t.equal(
    setCookie('n', '', { maxAge: 0, domain: 'example.org', sameSite: 'None', path: '/saml' }),
    'n=; Path=/saml; Domain=example.org; Max-Age=0; Secure; HttpOnly; SameSite=None',
  )
  for (const [name, value] of [
    ['a b', ''],
    ['a', 'b;c'],
    ['a', 'b\r\nc'],
    ['', 'x'],
    ['a', '"'],
    ['a', 'ü'],
  ] as const) {
    t.throws(() => setCookie(name, value))
  }
  t.equal(setCookieName(' n = v; Path=/'), 'n')
  t.end()
})
