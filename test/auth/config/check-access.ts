/**
 * What is wrong or doubtful about rules of access, with the place in the file.
 */
import t from 'tap'
import { configCheck } from '../../../lib/auth/config/loading/load-config.ts'
import { decodeConfig } from '../../../lib/config/config-file.ts'

const least = `domain: app.example.org
idpMetadataURL: https://idp.example.org/metadata
proxy: { listenAddress: "127.0.0.1:8080", targetURL: "http://127.0.0.1:3000" }
`
const load = (rules: string, more = '') =>
  decodeConfig(`access:\n${rules}${least}${more}`, 'app.yaml', configCheck('app'))

t.test('what is wrong with a rule is told with its place', t => {
  for (const [rules, problem] of [
    ['  - allow: signed-in\n', /app.yaml:2:\d+: access\[0\].path not set: name the path/],
    ['  - path: /x\n', /access\[0\].allow not set: say who may/],
    ['  - path: x\n    allow: anyone\n', /app.yaml:2:11: access\[0\].path: .*begins with "\/"/],
    ['  - path: /x/*\n    allow: anyone\n', /no wildcards/],
    [
      '  - path: /x\n    allow: everyone\n',
      /3:12: access\[0\].allow: found "everyone", expected nobody/,
    ],
    ['  - path: /x\n    allow: anyon\n', /did you mean anyone\?/],
    ['  - path: /x\n    allow: no\n', /expected nobody, anyone, signed-in/],
    [
      '  - path: /x\n    allow: [ops]\n',
      /access\[0\].allow\[0\]: found "ops", expected attributes with values/,
    ],
    ['  - path: /x\n    allow: []\n', /empty list; write nobody/],
    ['  - path: /x\n    allow: [{}]\n', /describes no person; write signed-in/],
    ['  - path: /x\n    allow: [{groups: []}]\n', /allow\[0\].groups: has no value/],
    ['  - path: /x\n    allow: [{groups: ""}]\n', /expected a value/],
    ['  - path: /x\n    allow: [{groups: [7]}]\n', /put it between quotes: "7"/],
    [
      '  - path: /x\n    allow:\n      - groups: a\n        departmnt: IT\n',
      /5:9: access\[0\].allow\[0\].departmnt: no attribute has this name; did you mean department\?/,
    ],
    [
      '  - path: /x\n    allow:\n      - shoeSize: "7"\n',
      /identity.attributes names those of your own/,
    ],
    [
      '  - path: /x\n    allow:\n      - eduPersonAffiliation: staff\n',
      /what is sent by this name is called affiliation here/,
    ],
    [
      '  - path: /x\n    allow:\n      - urn:oid:0.9.2342.19200300.100.1.3: a@example.org\n',
      /called email here/,
    ],
    ['  - path: /x\n    allow: anyone\n    methods: [post]\n', /write POST/],
    ['  - path: /x\n    allow: anyone\n    methods: [HEAD]\n', /HEAD goes with GET/],
    [
      '  - path: /x\n    allow: anyone\n    methods: [PSOT]\n',
      /found "PSOT", expected .*; did you mean POST\?/,
    ],
    ['  - path: /x\n    allow: anyone\n    methods: []\n', /names no method/],
    [
      '  - path: /x\n    allow: signed-in\n    login: { maxAge: 1m }\n',
      /login.maxAge: is not longer than saml.clockSkew/,
    ],
    ['  - path: /x\n    allow: signed-in\n    login: { maxage: 1h }\n', /did you mean maxAge/],
    ['  - path: /x\n    allow: signed-in\n    login: { context: strong }\n', /mfa, or the URI/],
    ['  - path: /x\n    allow: signed-in\n    message: "a\\nb"\n', /a line of text/],
    ['  - path: /x\n    alow: signed-in\n', /did you mean allow/],
  ] as const) {
    const loaded = load(rules)
    t.match(loaded.ok ? '' : loaded.problems.join('\n'), problem, rules)
  }
  for (const [rules, problem] of [
    [
      '  - path: /x\n    allow:\n      - groups:\n        department: IT\n',
      /app.yaml:4:9: access\[0\].allow\[0\].groups: has no value; write one, or take the key out/,
    ],
    ['  - path: /x\n    methods:\n    allow: anyone\n', /3:5: access\[0\].methods: has no value/],
    ['  - path: /x\n    allow: signed-in\n    login:\n', /access\[0\].login: has no value/],
    [
      '  - path: /x\n    allow: signed-in\n    login: { maxAge: ~, context: mfa }\n',
      /access\[0\].login.maxAge: has no value/,
    ],
    ['#  - path: /x\n', /app.yaml:1:1: access: has no value/],
  ] as const) {
    t.match(load(rules), { ok: false, problems: [problem] }, rules)
  }
  for (const key of ['paths', 'methods', 'clients', 'expires']) {
    const token = `passthroughTokens:\n  - name: a\n    token: 0123456789abcdef\n    ${key}:\n`
    const loaded = decodeConfig(`${token}${least}`, 'app.yaml', configCheck('app'))
    const problem = `app.yaml:4:5: passthroughTokens[0].${key}: has no value`
    t.match(loaded, { ok: false, problems: [new RegExp(problem.replaceAll(/[[\].]/g, '\\$&'))] })
  }
  t.ok(decodeConfig(`passthroughTokens:\n${least}`, 'app.yaml', configCheck('app')).ok)
  const empty = decodeConfig(`access: []\n${least}`, 'app.yaml', configCheck('app'))
  t.match(empty, { ok: false, problems: [/a list without rules/] })
  t.end()
})

t.test('what is doubtful about rules is told, and stops nothing', t => {
  for (const [rules, warning, more] of [
    [
      '  - { path: /, allow: signed-in }\n  - { path: /admin/, allow: nobody }\n',
      /3:\d+: access\[1\]: is never reached: rule 1/,
    ],
    ['  - { path: /x/, allow: signed-in }\n  - { path: /x, allow: nobody }\n', /never reached/],
    [
      '  - { path: /, allow: signed-in }\n  - { path: /x/, allow: [{ groups: ops }], enforce: watch }\n',
      /access\[1\]: is never reached: rule 1/,
    ],
    [
      '  - { path: /, allow: [{ groups: staff }], enforce: watch }\n  - { path: /x/, allow: [{ groups: ops }] }\n  - { path: /, allow: signed-in }\n',
      /access\[1\]: does not stop people whom rule 1 allows/,
    ],
    [
      '  - { path: /x, allow: signed-in, enforce: watch }\n  - { path: /x, allow: [{ groups: ops }] }\n',
      /access\[1\]: does not stop people whom rule 1 allows/,
    ],
    [
      '  - { path: /x/, methods: [GET, POST], allow: signed-in }\n  - { path: /x/y, methods: [GET], allow: nobody }\n',
      /never reached/,
    ],
    [
      '  - { path: /admin/css/, allow: anyone }\n  - { path: /admin/, allow: [{ groups: ops }] }\n',
      /access\[0\].allow: lets in people without a login below \/admin\/, which rule 2 restricts/,
    ],
    ['  - { path: /x, allow: anyone, login: { maxAge: 1h } }\n', /login: has no effect/],
    [
      '  - { path: /admin, allow: [{ groups: ops }] }\n  - { path: /, allow: signed-in }\n',
      /2:13: access\[0\].path: is this one path: rule 2 lets in more people below \/admin\/; write \/admin\/ if/,
    ],
    [
      '  - { path: /a, allow: nobody }\n  - { path: /a/, methods: [GET], allow: anyone }\n  - { path: /, allow: nobody }\n',
      /access\[0\].path: .*rule 2/,
    ],
    [
      '  - { path: /a, methods: [POST], allow: nobody }\n  - { path: /a/, methods: [GET], allow: signed-in }\n  - { path: /, methods: [GET, POST], allow: signed-in }\n',
      /access\[0\].path: .*rule 3/,
    ],
    [
      '  - { path: /a, allow: signed-in, login: { context: mfa } }\n  - { path: /, allow: signed-in }\n',
      /access\[0\].path: .*rule 2/,
    ],
    [
      '  - { path: /x, allow: [{ groups: [app-ops, ops] }] }\n',
      /"ops" is in no session: identity.groups keeps no such group/,
      'identity: { groups: ["app-*"] }\n',
    ],
    [
      '  - { path: /x, allow: [{ groups: "cn=ops,ou=x" }] }\n',
      /keeps only the common name/,
      'identity: { groupForm: name }\n',
    ],
    [
      '  - { path: /x, allow: [{ department: IT }] }\n',
      /identity.only leaves it out/,
      'identity: { only: [groups] }\n',
    ],
  ] as const) {
    const loaded = load(rules, more)
    t.ok(loaded.ok, rules)
    t.match(loaded.warnings.join('\n'), warning, rules)
    t.equal(loaded.warnings.length, 1, loaded.warnings.join('\n'))
  }
  const good = [
    '  - { path: /x/, methods: [GET], allow: signed-in }\n  - { path: /x/, allow: nobody }\n',
    '  - { path: /x, allow: signed-in }\n  - { path: /x/, allow: nobody }\n',
    '  - { path: /a, allow: nobody }\n',
    '  - { path: /x/, allow: [{ groups: ops }], enforce: watch }\n  - { path: /x/, allow: [{ groups: staff }] }\n',
    '  - { path: = /admin, allow: [{ groups: ops }] }\n  - { path: /, allow: signed-in }\n',
    '  - { path: /a, allow: [{ groups: ops }] }\n  - { path: /a/, allow: nobody }\n  - { path: /, allow: signed-in }\n',
    '  - { path: /robots.txt, allow: nobody }\n  - { path: /, allow: signed-in }\n',
    '  - { path: /a, methods: [POST], allow: nobody }\n  - { path: /, methods: [GET], allow: anyone }\n',
    '  - { path: /public/, allow: anyone }\n  - { path: /, allow: [{ groups: ops, users: "*@example.org" }] }\n',
  ]
  for (const rules of good) t.match(load(rules), { ok: true, warnings: [] }, rules)
  t.end()
})

t.test('the rules know their lines', t => {
  const loaded = load(
    '  - path: /a\n    allow: nobody\n\n  # a comment\n  - path: /\n    allow: signed-in\n',
  )
  const access = loaded.ok ? loaded.value.access : undefined
  t.same(
    access?.rules.map(({ number, line }) => [number, line]),
    [
      [1, 2],
      [2, 6],
    ],
  )
  t.end()
})
