/**
 * What is said of the settings of tokens of people: in a file, what is wrong, and what waits for a restart.
 */
import t from 'tap'
import { inForce, needRestart } from '../../../lib/auth/config/config.ts'
import { configCheck } from '../../../lib/auth/config/loading/load-config.ts'
import { decodeConfig } from '../../../lib/config/config-file.ts'

const least = `domain: app.example.org
idpMetadataURL: https://idp.example.org/metadata
proxy: { listenAddress: 127.0.0.1:8080, targetURL: "http://127.0.0.1:3000" }
`
const load = (text: string) => decodeConfig(`${text}\n${least}`, 'app.yaml', configCheck('app'))

t.test('off unless a longest life is set; the rules have their lines', t => {
  const off = load('')
  t.match(off, { ok: true, value: { tokens: { longest: undefined, access: undefined } } })
  const on = load('tokens:\n  longest: 7d\n  access:\n    - { path: /api/, allow: signed-in }')
  t.match(on, {
    ok: true,
    value: { tokens: { longest: 7 * 86_400_000, access: { rules: [{ number: 1, line: 4 }] } } },
    warnings: [],
  })
  t.end()
})

t.test('what is wrong', t => {
  for (const [text, problem] of [
    ['tokens: { longest: 31d }', /tokens\.longest/],
    ['tokens: { longest: 1h }', /tokens\.longest/],
    ['tokens: { longest: 1d }\nsession: { revocation: false }', /needs session\.revocation/],
    ['tokens: { longest: 1d, access: [] }', /tokens\.access: is a list without rules/],
    ['tokens:\n  longest: 1d\n  access:', /tokens\.access: has no value/],
    [
      'tokens:\n  longest: 1d\n  access:\n    - path: /x\n      allow:\n        - groups:',
      /tokens\.access\[0\]\.allow\[0\]\.groups: has no value/,
    ],
    [
      'tokens: { longest: 1d, access: [{ path: /x, allow: [{ departmnt: IT }] }] }',
      /tokens\.access\[0\]\.allow\[0\]\.departmnt: .*did you mean department\?/,
    ],
    [
      'tokens: { longest: 1d, access: [{ path: x, allow: signed-in }] }',
      /tokens\.access\[0\]\.path/,
    ],
    ['tokens: { longest: 1d, access: [{ path: /x }] }', /say who may/],
  ] as const) {
    t.match(load(text), { ok: false, problems: [problem] }, text)
  }
  const unused = load('tokens: { access: [{ path: /x, allow: signed-in }] }')
  t.match(unused, { ok: true, warnings: [/tokens\.access: has no effect without tokens\.longest/] })
  t.end()
})

t.test('a reload takes the rules, a restart the longest life', t => {
  const config = (text: string) => {
    const loaded = load(text)
    if (!loaded.ok) throw new Error(loaded.problems.join('\n'))
    return loaded.value
  }
  const started = config('')
  const wanted = config('tokens: { longest: 1d, access: [{ path: /x, allow: signed-in }] }')
  t.same(needRestart(started, wanted), ['tokens.longest'])
  const now = inForce(started, wanted)
  t.equal(now.tokens.longest, undefined)
  t.equal(now.tokens.access?.rules.length, 1)
  t.end()
})
