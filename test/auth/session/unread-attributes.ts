/**
 * Attributes that nothing reads: which they are, and who says so.
 */
import t from 'tap'
import { adviceOn } from '../../../lib/auth/explain.ts'
import { unreadAttributes } from '../../../lib/auth/session/identity.ts'
import type { SamlAttribute } from '../../../lib/saml/subject.ts'
import { startWhole } from '../../fixtures/gateway/whole-gateway.ts'
import { htmlOf } from '../../fixtures/saml/browser.ts'

const named = (name: string, more: Partial<SamlAttribute> = {}): SamlAttribute => {
  return { name, friendlyName: undefined, values: ['x'], ...more }
}

t.test('an attribute is unread when no claim has its name', t => {
  const attributes = [
    ...['UserName', 'DisplayName', 'Groups', 'urn:example:Roles', 'shoeSize', 'Groups'],
    ...['Email', 'groups', 'http://schemas.microsoft.com/claims/groups.link'],
  ].map(name => named(name))
  const others = [
    named('urn:oid:1.2.3', { friendlyName: 'displayName' }),
    named('Empty', { values: [' '] }),
  ]
  const all = [...attributes, ...others]
  t.same(unreadAttributes(all, { claims: [], looseNames: false }), [
    { name: 'UserName', like: 'uid' },
    { name: 'DisplayName', like: 'displayName' },
    { name: 'Groups', like: 'groups' },
    { name: 'urn:example:Roles', like: 'roles' },
    { name: 'shoeSize', like: undefined },
  ])
  t.same(unreadAttributes(all, { claims: [], looseNames: true }), [
    { name: 'shoeSize', like: undefined },
  ])
  const own = { name: 'shoe', field: 'Shoe', list: false, aliases: ['shoeSize'] }
  t.same(unreadAttributes([named('shoeSize')], { claims: [own], looseNames: false }), [])
  const many = Array.from({ length: 2000 }, (_, i) => named(`${i}`.padEnd(1000, 'x')))
  const bounded = unreadAttributes(many, { claims: [], looseNames: false })
  t.equal(bounded.length, 30)
  t.ok(bounded.every(({ name }) => name.length <= 200))
  t.end()
})

t.test('the log names them once a minute, and explain of a refusal says what to set', async t => {
  const settings = { access: [{ path: '/', allow: [{ groups: ['ops'] }] }] }
  const { browser, newBrowser, idp, log } = await startWhole(t, { settings })
  const attributes = ['email', 'Groups', 'shoeSize'].map(name => ({
    name,
    values: name === 'email' ? ['ada@example.org'] : ['ops', 'a secret'],
  }))
  const signIn = (who: typeof browser) => who.signIn(idp, { assertion: { attributes } })
  await signIn(browser)
  await signIn(newBrowser())
  const logins = log.lines.filter(({ message }) => message === 'signed in')
  t.same(
    logins.map(({ facts }) => facts['unreadAttributes']),
    [['Groups', 'shoeSize'], undefined],
  )
  t.notMatch(JSON.stringify(logins), /a secret/)
  t.equal(logins[0]?.facts['attributes'], undefined, 'groups only where log.groups asks for them')
  const refused = await browser.navigate('/')
  t.equal(refused.status, 403)
  t.notMatch(htmlOf(refused), /Groups \(like/)
  const { facts } = log.lines.findLast(({ message }) => /access_refused/.test(message)) ?? {}
  t.equal(facts?.['unreadAttributes'], 'Groups (like groups)')
  const record = {
    ...{ id: 'r', at: 0, category: 'ACCESS-REFUSED', code: 'access_refused', status: 403 },
    ...{ title: '', client: '', method: 'GET', path: '/', findings: [], facts: facts ?? {} },
    sender: 'user' as const,
  }
  t.equal(facts?.['setting'], 'identity.looseNames')
  t.match(adviceOn({ ...record, shown: 'access_refused_unread' }).join(' '), /identity\.looseNames/)
  t.notMatch(adviceOn(record).join(' '), /looseNames/)
})

t.test('with log.groups the line has the groups and the attributes of rules', async t => {
  const settings = {
    access: [{ path: '/', allow: [{ groups: ['ops'], department: ['IT'] }] }],
    log: { groups: true },
  }
  const { browser, idp, log } = await startWhole(t, { settings })
  await browser.signIn(idp)
  const line = log.lines.find(({ message }) => message === 'signed in')
  t.same(line?.facts['attributes'], { groups: ['staff', 'admins'], department: [] })
})
