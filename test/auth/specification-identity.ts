/**
 * The specification, section 2: the dynamic configuration, sessions, identities, and what the IdP's application has to say.
 */
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import type { DevAttribute, DevUser } from '../../demo/idp/profile.ts'
import { makeDynamicConfig } from '../../lib/auth/keys/dynamic-config.ts'
import { saveDynamicConfig } from '../../lib/auth/keys/dynamic-file.ts'
import { nameIdFormats } from '../../lib/saml/xml/vocabulary.ts'
import { ownDirectory, startWhole, type Whole } from '../fixtures/gateway/whole-gateway.ts'
import { eventually } from '../fixtures/process/ports.ts'
import { htmlOf, readAsked } from '../fixtures/saml/browser.ts'
import { alice, sp } from '../fixtures/saml/idp.ts'
import { keptPair } from '../fixtures/saml/keys.ts'

const nobody: DevUser = { name: 'nobody' }

/** Fields the backend gets for somebody with these attributes. */
async function seenAs(
  gateway: Whole,
  attributes: readonly DevAttribute[],
  nameId = { value: 'the-name-id', format: nameIdFormats.transient },
) {
  const browser = gateway.newBrowser()
  await browser.signIn(gateway.idp, { user: nobody, assertion: { attributes, nameId } })
  await browser.navigate('/')
  return gateway.backend.requests.at(-1)?.fields
}

function payloadOf(token: string): Record<string, unknown> {
  return JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString())
}

t.test('2. Dynamic configuration: written by the service at configPath', async t => {
  const directory = await ownDirectory(t)
  const configPath = join(directory, 'elsewhere.json')
  await startWhole(t, { settings: { configPath } })
  t.equal(JSON.parse(await readFile(configPath, 'utf8')).entityId, sp.entityId)
})

t.test('2. Dynamic configuration: it holds the session and SAML keys', async t => {
  const { config, browser } = await startWhole(t)
  const held = JSON.parse(await readFile(config.configPath, 'utf8'))
  t.match(held, { session: [{ kid: String, key: String }], saml: [{ privateKey: /PRIVATE KEY/ }] })
  t.equal(htmlOf(await browser.navigate('/saml/certificate.crt')), held.saml[0].certificate)
})

t.test('2., 7. Dynamic configuration: the directory has to exist and be writable', async t => {
  const directory = await ownDirectory(t)
  const message = /^failed to save dynamic configuration/
  const missing = join(directory, 'missing', 'app.json')
  await t.rejects(startWhole(t, { settings: { configPath: missing } }), { message })
  await writeFile(join(directory, 'file'), '')
  const blocked = join(directory, 'file', 'app.json')
  for (const configPath of [blocked, '/proc/app.json']) {
    await t.rejects(startWhole(t, { settings: { configPath } }), { message })
  }
  await mkdir(join(directory, 'there'))
  await startWhole(t, { settings: { configPath: join(directory, 'there', 'app.json') } })
})

t.test('2. Dynamic configuration: deleting or replacing it rotates the keys', async t => {
  const gateway = await startWhole(t)
  const { browser, idp, config } = gateway
  const certificate = async () => htmlOf(await browser.navigate('/saml/certificate.crt'))
  const known = async () => htmlOf(await browser.navigate('/')) === 'the application'
  const seen = new Set([await certificate()])
  const making = { entityId: sp.entityId, domain: sp.domain, now: Date.now() }
  const random = (size: number) => Buffer.alloc(size, 7)
  const other = await makeDynamicConfig({ ...making, random, makePair: keptPair })
  for (const act of [
    () => rm(config.configPath),
    () => saveDynamicConfig(config.configPath, other),
  ]) {
    await browser.signIn(idp)
    t.ok(await known())
    await act()
    t.ok(await eventually(async () => !(await known())), 'sessions are over')
    t.notOk(seen.has(await certificate()), 'and the certificate is another one')
    seen.add(await certificate())
  }
})

t.test('2. configPath: unique per instance', async t => {
  const first = await startWhole(t)
  await first.stop()
  const second = await startWhole(t, {
    directory: first.directory,
    settings: { domain: 'other.example.org' },
  })
  const told = second.log.lines.find(({ message }) => /needs a file of its own/.test(message))
  t.equal(told?.facts['made_for'], sp.entityId)
})

t.test('2. Session: the cookie is __authproxy_session and holds a signed JWT', async t => {
  const { browser, idp } = await startWhole(t)
  await browser.signIn(idp)
  const token = browser.cookies.get('__authproxy_session') ?? ''
  const [head = '', payload = '', signature = ''] = token.split('.')
  t.match(JSON.parse(Buffer.from(head, 'base64url').toString()), { alg: 'HS256' })
  t.match(payloadOf(token), { iss: sp.entityId, sub: 'alice@example.org', exp: Number })
  const forged = { ...payloadOf(token), sub: 'root@example.org' }
  const body = Buffer.from(JSON.stringify(forged)).toString('base64url')
  const none = Buffer.from('{"alg":"none","typ":"authproxy-session"}').toString('base64url')
  for (const wrong of [
    `${head}.${body}.${signature}`,
    `${head}.${payload}.`,
    `${none}.${payload}.`,
  ]) {
    browser.cookies.set('__authproxy_session', wrong)
    t.ok(readAsked(await browser.navigate('/')), 'nobody without the signature')
  }
  browser.cookies.set('__authproxy_session', token)
  t.equal(htmlOf(await browser.navigate('/')), 'the application')
})

t.test('2. Session: all mapped attributes and groups are stored in the JWT', async t => {
  const gateway = await startWhole(t)
  const { browser, idp, directory } = gateway
  await browser.signIn(idp)
  t.match(payloadOf(browser.cookies.get('__authproxy_session') ?? ''), {
    attrs: { email: ['alice@example.org'], givenName: ['Alice'], groups: ['staff', 'admins'] },
  })
  await gateway.stop()
  const again = await startWhole(t, { directory })
  for (const [name, value] of browser.cookies) again.browser.cookies.set(name, value)
  await again.browser.navigate('/')
  t.equal(again.backend.requests[0]?.fields.get('X-Authproxy-Groups'), 'staff,admins')
})

t.test('2. Session: logout cannot revoke a copied JWT; here only by its list', async t => {
  for (const revocation of [false, true]) {
    const { browser, newBrowser, idp } = await startWhole(t, {
      settings: { session: { revocation } },
    })
    await browser.signIn(idp)
    const thief = newBrowser()
    for (const [name, value] of browser.cookies) thief.cookies.set(name, value)
    await browser.navigate('/saml/slo')
    t.notOk(browser.cookies.has('__authproxy_session'))
    const lives = htmlOf(await thief.navigate('/')) === 'the application'
    t.equal(lives, !revocation, revocation ? 'with the list it dies' : 'without, it lives on')
  }
})

t.test('2. Identity: email, then sAMAccountName, then NameID, the first not empty', async t => {
  const gateway = await startWhole(t)
  const email = (value: string) => ({ name: 'email', values: [value] })
  const sam = (value: string) => ({ name: 'sAMAccountName', values: [value] })
  for (const [attributes, expected] of [
    [[sam('ada'), email('ada@example.org')], 'ada@example.org'],
    [[email(''), sam('ada')], 'ada'],
    [[sam('ada')], 'ada'],
    [[email(''), sam('')], 'the-name-id'],
    [[], 'the-name-id'],
  ] as const) {
    t.equal((await seenAs(gateway, attributes))?.get('X-Authproxy-User'), expected)
  }
})

t.test('2. Identity: empty attributes are omitted from the headers', async t => {
  const fields = await seenAs(await startWhole(t), [
    { name: 'email', values: ['ada@example.org'] },
    { name: 'givenName', values: [''] },
    { name: 'groups', values: [] },
  ])
  t.equal(fields?.get('X-Authproxy-Email'), 'ada@example.org')
  t.notOk(fields?.has('X-Authproxy-Given-Name'))
  t.notOk(fields?.flat.some(name => /^X-Authproxy-(?:Given|Groups)/i.test(name)))
})

t.test('2. Identity: multi-valued groups are one comma-separated value', async t => {
  const gateway = await startWhole(t)
  const listed = await seenAs(gateway, [{ name: 'groups', values: ['a', 'b c', 'd'] }])
  t.same(listed?.all('X-Authproxy-Groups'), ['a,b c,d'])
  const repeated = ['a', 'b'].map(value => ({ name: 'groups', values: [value] }))
  t.same((await seenAs(gateway, repeated))?.all('X-Authproxy-Groups'), ['a,b'])
  const comma = await seenAs(gateway, [{ name: 'groups', values: ['cn=x,dc=y', 'z'] }])
  t.same(comma?.all('X-Authproxy-Groups'), ['cn=x%2Cdc=y,z'], 'a comma of a name is told apart')
})

t.test('2. Identity: claim aliases are mapped to attribute headers', async t => {
  const gateway = await startWhole(t)
  for (const name of [
    'mail',
    'urn:oid:0.9.2342.19200300.100.1.3',
    'http://schemas.xmlsoap.org/ws/2005/05/identity/claims/emailaddress',
  ]) {
    const fields = await seenAs(gateway, [{ name, values: ['ada@example.org'] }])
    t.equal(fields?.get('X-Authproxy-Email'), 'ada@example.org', name)
    t.equal(fields?.get('X-Authproxy-User'), 'ada@example.org', name)
  }
})

t.test('2. IdP application: entity ID, ACS and SLO URLs, transient NameIDs', async t => {
  const { browser } = await startWhole(t)
  const metadata = htmlOf(await browser.navigate('/saml/metadata.xml'))
  t.match(metadata, 'entityID="https://app.example.org/saml/metadata"')
  t.match(metadata, /AssertionConsumerService [^>]*Location="https:\/\/app.example.org\/saml\/acs"/)
  t.match(metadata, /SingleLogoutService [^>]*Location="https:\/\/app.example.org\/saml\/slo"/)
  t.match(metadata, nameIdFormats.transient)
})

t.test('2. IdP application: email, sAMAccountName or NameID is enough', async t => {
  const gateway = await startWhole(t)
  const nameId = { value: '', format: nameIdFormats.transient }
  const email = await seenAs(gateway, [{ name: 'email', values: ['a@example.org'] }], nameId)
  t.equal(email?.get('X-Authproxy-User'), 'a@example.org')
  const sam = await seenAs(gateway, [{ name: 'sAMAccountName', values: ['sam'] }], nameId)
  t.equal(sam?.get('X-Authproxy-User'), 'sam')
})

t.test('2. IdP application: assertions encrypted to /saml/certificate.crt', async t => {
  const { browser, idp, backend, codes } = await startWhole(t)
  const encryptTo = htmlOf(await browser.navigate('/saml/certificate.crt'))
  await browser.signIn(idp, { user: alice, encryptTo })
  await browser.navigate('/')
  t.equal(backend.requests[0]?.fields.get('X-Authproxy-User'), 'alice@example.org')
  t.same(codes(), [])
})

t.test('2. samlRequestSigning: whether authentication requests are signed', async t => {
  for (const [samlRequestSigning, wantAuthnRequestsSigned, signed] of [
    ['never', true, false],
    ['always', false, true],
    ['auto', true, true],
    ['auto', false, false],
  ] as const) {
    const { browser } = await startWhole(t, {
      settings: { samlRequestSigning },
      metadata: { wantAuthnRequestsSigned },
    })
    const { address } = readAsked(await browser.navigate('/'))
    t.equal(new URL(address).searchParams.has('Signature'), signed, samlRequestSigning)
  }
})
