/**
 * The names of the fields in which a backend reads who asks: what is sent, what is removed from clients, what is no name.
 */
import t, { type Test } from 'tap'
import { isSameField } from '../../../lib/auth/access/foreign-names.ts'
import { tokenField } from '../../../lib/auth/access/passthrough.ts'
import {
  fieldNameProblem,
  fieldNames,
  strippedNames,
} from '../../../lib/auth/config/field-names.ts'
import { configCheck } from '../../../lib/auth/config/loading/load-config.ts'
import { harmlessTrailers } from '../../../lib/auth/identity/backend-fields.ts'
import { Fields } from '../../../lib/http/message/field.ts'
import { handshake } from '../../fixtures/gateway/access-lab.ts'
import { arranged } from '../../fixtures/gateway/attacked.ts'
import { domain } from '../../fixtures/gateway/gateway.ts'

const person = {
  email: ['ada@example.org'],
  displayName: ['Ada, Countess'],
  uid: ['ada'],
  groups: ['ops', 'site admins', 'a|b,c', 'Grün'],
}

async function told(t: Test, identity: Readonly<Record<string, unknown>>, fields = '') {
  const { gateway, send, backend } = await arranged(t, { settings: { identity } })
  const cookie = await gateway.logIn(person)
  await send(`GET / HTTP/1.1\nHost: ${domain}\nCookie: ${cookie}\n${fields}\n`)
  const sent = backend.requests.at(-1)?.fields ?? Fields.empty
  const ours = [...sent].filter(
    ([name]) => /user|group|name|email|team|role|authproxy/i.test(name) && !/-ID$/.test(name),
  )
  return Object.fromEntries(
    ours.map(([name, value]) => [name, Buffer.from(value, 'latin1').toString()]),
  )
}

t.test('each set of names carries what its readers expect', async t => {
  t.strictSame(await told(t, { names: 'remote' }), {
    'Remote-User': 'ada@example.org',
    'Remote-Groups': 'ops,site admins,a|b%2Cc,Grün',
    'Remote-Name': 'Ada, Countess',
    'Remote-Email': 'ada@example.org',
  })
  t.strictSame(await told(t, { names: 'auth-request' }), {
    'X-Auth-Request-User': 'ada@example.org',
    'X-Auth-Request-Email': 'ada@example.org',
    'X-Auth-Request-Groups': 'ops,site admins,a|b%2Cc,Grün',
    'X-Auth-Request-Preferred-Username': 'ada',
  })
  t.strictSame(
    await told(t, { names: 'webauth' }),
    {
      'X-WEBAUTH-USER': 'ada@example.org',
      'X-WEBAUTH-NAME': 'Ada, Countess',
      'X-WEBAUTH-EMAIL': 'ada@example.org',
      'X-WEBAUTH-GROUPS': 'ops,site%20admins,a|b%2Cc,Grün',
    },
    'no group falls into two where the reader splits at spaces',
  )
  const standard = await told(t, {})
  t.equal(standard['X-Authproxy-User'], 'ada@example.org')
  t.strictSame(standard, await told(t, { names: 'authproxy' }))
  const both = await told(t, { names: ['authproxy', 'remote'] })
  t.match(both, { 'X-Authproxy-User': 'ada@example.org', 'Remote-User': 'ada@example.org' })
})

t.test('names of the operator have the form that is told', async t => {
  const names = [
    { field: 'X-Forwarded-User', from: ['uid', 'user'] },
    { field: 'X-Forwarded-Groups', from: 'groups', separator: '|' },
    { field: 'X-Groups-Json', from: 'groups', form: 'json' },
    { field: 'X-Group', from: 'groups', form: 'first' },
    { field: 'X-Spaced-Groups', from: 'groups', separator: ' ' },
    { field: 'X-Role', from: ['roles', 'title'] },
    { field: 'X-Other-Name', from: ['title', 'displayName'] },
  ]
  t.strictSame(await told(t, { names }), {
    'X-Forwarded-User': 'ada',
    'X-Forwarded-Groups': 'ops|site admins|a%7Cb,c|Grün',
    'X-Groups-Json': '["ops","site admins","a|b,c","Gr\\u00fcn"]',
    'X-Group': 'ops',
    'X-Spaced-Groups': 'ops site%20admins a|b,c Grün',
    'X-Other-Name': 'Ada, Countess',
  })
  const percent = await told(t, { names, encoding: 'percent' })
  t.equal(percent['X-Forwarded-Groups'], 'ops|site admins|a%7Cb,c|Gr%C3%BCn')
  const small = await told(t, { names, fieldSize: '256', groups: ['none'] })
  t.notOk('X-Forwarded-Groups' in small)
})

t.test('a field that is too long is left out and named by its own name', async t => {
  const { gateway, send, backend } = await arranged(t, {
    settings: { identity: { names: 'remote', fieldSize: '256' } },
  })
  const groups = Array.from({ length: 100 }, (_, index) => `group-${index}`)
  const cookie = await gateway.logIn({ email: ['ada@example.org'], groups })
  await send(`GET / HTTP/1.1\nHost: ${domain}\nCookie: ${cookie}\n\n`)
  t.equal(backend.requests.at(-1)?.fields.get('X-Authproxy-Omitted'), 'Remote-Groups')
})

const spellings = [
  ...['Remote-User', 'remote_user', 'REMOTE.USER', 'Remote--User', '-Remote_-User-'],
  ...['X-WEBAUTH-GROUPS', 'X_WebAuth_Groups', 'x.webauth-groups', 'X-Auth_Request-Email'],
  ...['X-Own-Name', 'x_own_name', 'X.OWN--name'],
]

t.test('81: names of every set are removed from clients, in every spelling', async t => {
  const token = '0123456789abcdef'
  for (const names of ['authproxy', ['remote', { field: 'X-Own-Name', from: 'displayName' }]]) {
    const { gateway, send, backend, cookie } = await arranged(t, {
      settings: {
        identity: { names },
        cors: 'pass',
        passthroughPaths: ['/open/'],
        passthroughTokens: [{ name: 'monitoring', token }],
        access: [
          { path: '/anyone', allow: 'anyone' },
          { path: '/', allow: 'signed-in' },
        ],
      },
    })
    const claims = spellings
      .filter(name => names !== 'authproxy' || !/own/i.test(name))
      .map(name => `${name}: root\n`)
      .join('')
    const upgrade = Object.entries(handshake)
      .map(([name, value]) => `${name}: ${value}\n`)
      .join('')
    const preflight = 'Origin: https://a.example.net\nAccess-Control-Request-Method: PUT\n'
    const requests: ReadonlyArray<readonly [line: string, more: string]> = [
      ['GET /open/x', ''],
      ['GET /anyone', ''],
      ['GET /x', `Cookie: ${cookie}\n`],
      ['GET /x', `${tokenField}: Bearer ${token}\n`],
      ['OPTIONS /x', preflight],
      ['GET /open/x', upgrade],
      ['GET /x', `Cookie: ${cookie}\n${upgrade}`],
    ]
    for (const [line, more] of requests) {
      const answer = await send(`${line} HTTP/1.1\nHost: ${domain}\n${more}${claims}X-Kept: 1\n\n`)
      t.equal(answer.status, 200, line)
      const { fields = Fields.empty } = backend.requests.at(-1) ?? {}
      t.notOk(
        [...fields].some(([, value]) => value === 'root'),
        `${line} ${names}`,
      )
      t.equal(fields.get('X-Kept'), '1')
    }
    await gateway.stop()
  }
})

t.test('81: nor do they come as trailers', t => {
  const stripped = strippedNames(fieldNames([{ field: 'X-Own', from: ['user'], ...single }]))
  const fields = Fields.of(['Remote_User', 'root'], ['x.own', 'root'], ['Digest', 'kept'])
  t.same([...harmlessTrailers(fields, stripped)], [['Digest', 'kept']])
  t.end()
})

const single = { separator: ',', form: 'first' } as const

t.test('what only resembles one of the names is passed on', t => {
  const stripped = strippedNames(fieldNames(['remote']))
  for (const name of [
    ...['Remote-Users', 'Remote', 'RemoteUser', 'X-Remote-User', 'Remote-User-Agent'],
    ...['X-Auth-Request-Redirect', 'X-WebAuth', 'My-Remote-User'],
  ]) {
    t.notOk(stripped.of(name), name)
  }
  const before = performance.now()
  stripped.of(`Remote${'-'.repeat(1_000_000)}x`)
  stripped.of('-'.repeat(1_000_000))
  t.ok(performance.now() - before < 2000, 'in linear time')
  t.ok(isSameField('X-Own-Name', 'x_own.name'))
  t.notOk(isSameField('X-Own-Name', 'XOwn-Name'))
  t.end()
})

t.test('a name that would hide a field of HTTP, or one of ours, is refused', t => {
  for (const name of [
    ...['Host', 'Cookie', 'authorization', 'Content-Type', 'content-whatever', 'Accept-Language'],
    ...['Accept', 'If-Match', 'Range', 'Origin', 'Sec-Fetch-Site', 'User-Agent', 'From', 'Via'],
    ...['X-Forwarded-For', 'X-Real-IP', 'X-Original-URL', 'Forwarded', 'Proxy-Connection', 'TE'],
    ...['X-Authproxy-User', 'X-Authproxy', 'My-X-Authproxy-Thing', 'X-HTTP-Method-Override'],
    ...['X-Requested-With', 'traceparent', 'Access-Control-Request-Method', 'Upgrade'],
    ...['Remote_User', 'Remote User', 'X--Y', '-X', 'X-', '1-X', '', 'X:Y', 'X-Ü', 'x'.repeat(65)],
  ]) {
    t.type(fieldNameProblem(name), 'string', name)
  }
  for (const name of ['Remote-User', 'X-Forwarded-User', 'X-Remote-User', 'REMOTE', 'X-Team2']) {
    t.equal(fieldNameProblem(name), undefined, name)
  }
  t.end()
})

t.test('the configuration says what is wrong with names', t => {
  const check = (names: unknown, more: Readonly<Record<string, unknown>> = {}) => {
    const { problems = [], warnings } = {
      problems: undefined,
      ...configCheck('test')({
        domain,
        idpMetadataURL: 'https://idp.example.org/metadata',
        proxy: { listenAddress: '127.0.0.1:0', targetURL: 'http://127.0.0.1:9' },
        identity: { names, ...more },
      }),
    }
    return [...problems, ...warnings]
      .map(({ path, text }) => `${path.join('.')}: ${text}`)
      .join('\n')
  }
  const own = (more: object) => [{ field: 'X-Who', from: 'user', ...more }]
  for (const [names, expected, more] of [
    ['remot', /did you mean remote/],
    [[], /names nothing/],
    [3, /found 3, expected/],
    [{ field: 'X-Who', from: 'user' }, /^$/],
    [Array.from({ length: 101 }, () => 'remote'), /more than 100/],
    [own({ field: 'Cookie' }), /identity.names.0.field: .*header of HTTP/],
    [own({ field: 'X_Who' }), /letters, digits and single hyphens/],
    [own({ field: 'X-Authproxy-Who' }), /choose another name/],
    [own({ from: 'usr' }), /no attribute is called usr; did you mean user/],
    [own({ from: [] }), /names nothing/],
    [own({ separator: '/' }), /one of/],
    [own({ form: 'xml' }), /one of list, json, first/],
    [own({ form: 'json', separator: ';' }), /has no effect: the form is json/],
    [own({ feld: 1 }), /did you mean field/],
    [[{ from: 'user' }], /field not set|name the header/],
    [['remote', 'remote'], /Remote-User is named before/],
    [['remote', ...own({ field: 'remote-user' })], /named before, or read as the same/],
    [[{ field: 'X-Team', from: 'department' }], /the application does not learn who asks/],
    [own({ from: ['department', 'user'] }), /identity.only leaves it out/, { only: ['email'] }],
    [
      own({ from: ['costCentre', 'user'] }),
      /^$/,
      { attributes: [{ name: 'costCentre', from: ['x'] }] },
    ],
    ['remote', /^$/],
    [['authproxy', 'webauth', ...own({})], /^$/],
  ] as ReadonlyArray<readonly [unknown, RegExp, Readonly<Record<string, unknown>>?]>) {
    t.match(check(names, more), expected, JSON.stringify(names))
  }
  t.end()
})
