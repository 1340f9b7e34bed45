import t from 'tap'
import { claims, mapClaims } from '../../../lib/auth/config/claims.ts'
import type { SamlAttribute } from '../../../lib/saml/subject.ts'

function attribute(name: string, values: readonly string[], friendlyName?: string): SamlAttribute {
  return { name, friendlyName, values }
}

function mapped(attributes: readonly SamlAttribute[], loose = false) {
  return Object.fromEntries(
    mapClaims(attributes, { claims: [], looseNames: loose, stripDomains: [] }, true),
  )
}

t.test('no alias stands for two claims', t => {
  const seen = new Map<string, string>()
  for (const { name, aliases } of claims) {
    for (const alias of aliases) {
      t.notOk(seen.has(alias), `${alias} of ${name}`)
      seen.set(alias, name)
    }
  }
  t.notOk(seen.has('http://schemas.xmlsoap.org/ws/2005/05/identity/claims/nameidentifier'))
  t.end()
})

t.test('every alias leads to its claim', t => {
  for (const { name, aliases } of claims) {
    for (const alias of aliases) t.same(mapped([attribute(alias, ['v'])])[name], ['v'], alias)
  }
  t.end()
})

t.test('what identity providers really send is understood', t => {
  const soap = 'http://schemas.xmlsoap.org/ws/2005/05/identity/claims'
  const windows = 'http://schemas.microsoft.com/ws/2008/06/identity/claims'
  const cases: ReadonlyArray<
    readonly [who: string, sent: SamlAttribute[], expected: Record<string, string[]>]
  > = [
    [
      'Entra',
      [
        attribute(`${soap}/emailaddress`, ['ada@example.org']),
        attribute(`${soap}/name`, ['ada@tenant.example']),
        attribute(`${windows}/groups`, ['11-22', '33-44']),
        attribute(`${soap}/nameidentifier`, ['opaque']),
      ],
      { email: ['ada@example.org'], name: ['ada@tenant.example'], groups: ['11-22', '33-44'] },
    ],
    [
      'ADFS',
      [
        attribute(`${windows}/windowsaccountname`, ['CORP\\ada']),
        attribute(`${windows}/role`, ['r']),
      ],
      { sAMAccountName: ['CORP\\ada'], domain: ['CORP'], roles: ['r'] },
    ],
    [
      'Keycloak, an element for every role',
      [attribute('Role', ['a']), attribute('Role', ['b']), attribute('Role', ['c'])],
      { roles: ['a', 'b', 'c'] },
    ],
    [
      'Shibboleth',
      [
        attribute('urn:oid:0.9.2342.19200300.100.1.3', ['ada@example.org'], 'mail'),
        attribute(
          'urn:oid:1.3.6.1.4.1.5923.1.1.1.6',
          ['ada@example.org'],
          'eduPersonPrincipalName',
        ),
      ],
      { email: ['ada@example.org'], eppn: ['ada@example.org'] },
    ],
    [
      'a FriendlyName',
      [attribute('urn:example:1', ['ada@example.org'], 'mail')],
      { email: ['ada@example.org'] },
    ],
    [
      'nothing but white space',
      [attribute('email', ['', '  ']), attribute('mail', ['a@b'])],
      { email: ['a@b'] },
    ],
    ['an attribute without a value', [attribute('email', [])], {}],
    ['names of the language', [attribute('__proto__', ['x']), attribute('constructor', ['y'])], {}],
    [
      'too many groups for Entra',
      [attribute('http://schemas.microsoft.com/claims/groups.link', ['https://graph.example/x'])],
      { groupsOverage: ['true'] },
    ],
  ]
  for (const [who, sent, expected] of cases) t.same(mapped(sent), expected, who)
  t.end()
})

t.test('an exact Name wins over a FriendlyName, the earlier alias over the later', t => {
  t.same(
    mapped([attribute('urn:x', ['friendly'], 'email'), attribute('mail', ['exact'])])['email'],
    ['exact'],
  )
  t.same(mapped([attribute('mail', ['second']), attribute('email', ['first'])])['email'], ['first'])
  t.end()
})

t.test('names typed by hand count when that is allowed', t => {
  const sent = [attribute('http://okta.example/EMAIL', ['ada@example.org'])]
  t.same(mapped(sent)['email'], undefined)
  t.same(mapped(sent, true)['email'], ['ada@example.org'])
  t.end()
})

t.test('attributes of the operator’s own are kept, more names of known ones are asked first', t => {
  const more = [
    { name: 'costCentre', field: 'CostCentre', list: false, aliases: ['urn:example:cc'] },
    { name: 'email', field: 'Email', list: false, aliases: ['urn:example:work-mail'] },
  ]
  const sent = [
    attribute('urn:example:cc', ['42']),
    attribute('email', ['b']),
    attribute('urn:example:work-mail', ['a']),
  ]
  const found = mapClaims(sent, { claims: more, looseNames: false, stripDomains: [] }, true)
  t.same(found.get('costCentre'), ['42'])
  t.same(found.get('email'), ['a'])
  t.end()
})

t.test('loose names have no white space around them', t => {
  const typed = ['email ', ' Email', 'urn:x/email\t', '\u00a0email\n', 'urn:x: EMAIL']
  for (const name of typed) {
    t.same(mapped([attribute(name, ['a@b'])], true), { email: ['a@b'] }, JSON.stringify(name))
    t.same(mapped([attribute(name, ['a@b'])]), {}, 'exactly, unless it is asked for')
  }
  t.same(mapped([attribute('e mail', ['a@b'])], true), {})
  t.end()
})
