import t from 'tap'
import type { Config } from '../../../lib/auth/config/config.ts'
import { identityOf } from '../../../lib/auth/session/identity.ts'
import type { VerifiedSubject } from '../../../lib/saml/subject.ts'
import { subject } from '../../fixtures/gateway/gateway.ts'

const rules: Config['identity'] = {
  claims: [],
  looseNames: false,
  stripDomains: [],
  groups: [],
  groupForm: 'whole',
  only: undefined,
}
const persistent = 'urn:oasis:names:tc:SAML:2.0:nameid-format:persistent'
const transient = 'urn:oasis:names:tc:SAML:2.0:nameid-format:transient'

function nameId(value: string, format = persistent): Partial<VerifiedSubject> {
  return { nameId: { value, format, nameQualifier: undefined, spNameQualifier: undefined } }
}

t.test('the subject is the first that is not empty of email, sAMAccountName, NameID', t => {
  const all = { email: ['e@x'], sAMAccountName: ['sam'] }
  for (const [attributes, more, expected, from] of [
    [all, nameId('n'), 'e@x', 'email'],
    [{ ...all, email: [''] }, nameId('n'), 'sam', 'sAMAccountName'],
    [{ ...all, email: [' ', 'second@x'] }, nameId('n'), 'second@x', 'email'],
    [{ sAMAccountName: ['CORP\\sam'] }, nameId('n'), 'CORP\\sam', 'sAMAccountName'],
    [{ email: [' \r\n\te@x\n '] }, nameId('n'), 'e@x', 'email'],
    [{}, nameId('n'), 'n', 'nameId'],
    [{}, nameId('n', transient), 'n', 'transient-nameId'],
    [{ uid: ['ada'] }, nameId('n'), 'n', 'nameId'],
  ] as const) {
    const outcome = identityOf(subject(attributes, more), rules)
    t.match(outcome, { subject: expected, from })
  }
  for (const more of [nameId(''), nameId('  '), {}]) {
    t.equal(identityOf(subject({ uid: ['ada'] }, more), rules), 'no-subject')
  }
  for (const code of [0, 0x7, 0x85, 0xa0, 0x1680, 0x2000, 0x200b, 0x2028, 0x2060, 0x3000, 0xfeff]) {
    const white = String.fromCharCode(code)
    for (const unfit of [`good@x${white}.`, `good@x${white}`, `${white}good@x`]) {
      const name = `${code.toString(16)} at ${unfit.indexOf(white)}`
      t.equal(identityOf(subject({ email: [unfit] }), rules), 'unfit-subject', name)
      t.equal(identityOf(subject({}, nameId(unfit)), rules), 'unfit-subject', name)
    }
  }
  t.equal(identityOf(subject({ email: ['a\nb'] }), rules), 'unfit-subject')
  t.end()
})

t.test('two people of one account name in two domains stay two people', t => {
  const of = (account: string, stripDomains: readonly string[]) =>
    identityOf(subject({ sAMAccountName: [account] }), { ...rules, stripDomains })
  t.match(of('CORP\\admin', []), { subject: 'CORP\\admin' })
  t.match(of('PARTNER\\admin', ['CORP']), { subject: 'PARTNER\\admin' })
  t.match(of('corp\\admin', ['CORP']), { subject: 'admin' })
  const stripped = of('CORP\\admin', ['CORP'])
  t.ok(typeof stripped === 'object')
  if (typeof stripped === 'object') {
    t.same(stripped.attributes.get('domain'), ['CORP'])
    t.same(stripped.attributes.get('sAMAccountName'), ['admin'])
  }
  t.end()
})

t.test('a FriendlyName gives an attribute, never the subject', t => {
  const attributes = [{ name: 'urn:example:x', friendlyName: 'email', values: ['boss@x'] }]
  const outcome = identityOf({ ...subject({}, nameId('n')), attributes }, rules)
  t.match(outcome, { subject: 'n', from: 'nameId' })
  t.same(typeof outcome === 'object' && outcome.attributes.get('email'), ['boss@x'])
  t.end()
})

t.test('groups are chosen and shortened as told', t => {
  const groups = ['app-admins', 'APP-users', 'CN=Staff\\, all,OU=x,DC=y', 'other', 'app-admins']
  const of = (more: Partial<Config['identity']>) => {
    const outcome = identityOf(subject({ email: ['e'], groups }), { ...rules, ...more })
    return typeof outcome === 'string' ? undefined : outcome.attributes.get('groups')
  }
  t.same(of({}), groups.slice(0, 4), 'all, each once')
  t.same(of({ groups: ['app-*'] }), ['app-admins'], 'letter by letter, as in rules')
  t.same(of({ groups: ['CN=Staff*'], groupForm: 'name' }), ['Staff, all'])
  const plain = subject({ email: ['a@x'], groups: ['staff', 'ou=x,cn=y', 'CN=z'] })
  const named = identityOf(plain, { ...rules, groupForm: 'name' })
  t.same(typeof named === 'string' ? named : named.attributes.get('groups'), [
    ...['staff', 'ou=x,cn=y', 'z'],
  ])
  t.same(of({ groups: ['nothing'] }), undefined, 'an empty attribute is none')
  t.same(of({ groups: ['app.admins', '(.*)+$'] }), undefined, 'no pattern is a regular expression')
  t.same(of({ only: ['email'] }), undefined)
  t.end()
})
