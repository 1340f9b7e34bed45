/**
 * Attacks before anything is parsed: forms, base64, and answers without a login. And that strangers learn nothing from the page.
 */
import { createHash } from 'node:crypto'
import t from 'tap'
import { encryptElement } from '../../../demo/idp/encrypt.ts'
import { writeResponse } from '../../../demo/idp/response.ts'
import { ns, status } from '../../../lib/saml/xml/vocabulary.ts'
import { makeClient } from '../../fixtures/http/origin-client.ts'
import { reply, ScriptedOrigin } from '../../fixtures/http/scripted-origin.ts'
import { good } from '../../fixtures/saml/attack-toolkit.ts'
import { formOf, hrefOf, pathOf, readAsked } from '../../fixtures/saml/browser.ts'
import { ScriptedIdp } from '../../fixtures/saml/idp.ts'
import { rsaPair } from '../../fixtures/saml/keys.ts'
import { keyPair, SamlLab } from '../../fixtures/saml/lab.ts'

t.test('26, 37: refused: without a login under way nothing is even parsed', async t => {
  const lab = await SamlLab.open(t, 'entra')
  await lab.browser.deliverRaw(formOf({ SAMLResponse: 'PGE+' }), '/saml/acs?again')
  t.strictSame(lab.codes, ['login_cookie_missing'])
  lab.browser.cookies.set(`__Host-authproxy_login.${'A'.repeat(27)}`, 's1.AAAA')
  await lab.browser.deliverRaw(formOf({ SAMLResponse: 'PGE+' }))
  t.equal(lab.codes.at(-1), 'login_cookie_invalid')
})

t.test('37: refused: forms and base64 that are not what they should be', async t => {
  const lab = await SamlLab.open(t, 'entra')
  const asked = await lab.browser.login('/')
  const real = Buffer.from(good(lab, asked.id)).toString('base64')
  const cases: ReadonlyArray<readonly [string, string]> = [
    [formOf({ SAMLResponse: '!!!!' }), 'base64'],
    [formOf({ SAMLResponse: `${real}====` }), 'base64'],
    [formOf({ SAMLResponse: `${real.slice(0, 40)}*${real.slice(40)}` }), 'base64'],
    [formOf({ SAMLResponse: '' }), 'base64'],
    // Of the other alphabet, without its padding, with bits behind the last byte, and with what is no ASCII.
    ...['PD94_-', 'PD9', 'PD94bQ', 'PD94bR==', 'PD94é'].map(
      text => [formOf({ SAMLResponse: text }), 'base64'] as const,
    ),
    [formOf({ SAMLResponse: Buffer.from([0x3c, 0xff, 0xfe]).toString('base64') }), 'xml_not-utf8'],
    [`${formOf({ SAMLResponse: real })}&${formOf({ SAMLResponse: real })}`, 'form_malformed'],
    ['SAMLResponse=%zz', 'form_malformed'],
    ['nothing=at+all', 'form_malformed'],
    [`SAMLResponse=x${'&a'.repeat(101)}`, 'form_malformed'],
    [`SAMLResponse=${'A'.repeat(2_100_000)}`, 'form_too_large'],
  ]
  for (const [content, code] of cases) {
    await lab.browser.deliverRaw(content)
    t.equal(lab.codes.at(-1), code, code)
  }
  t.strictSame(lab.subjects, [])
  await lab.browser.deliverRaw(formOf({ SAMLResponse: real.replace(/.{76}/g, '$&\r\n') }))
  t.equal(lab.subjects.length, 1, 'broken lines are base64 still')
})

t.test('38: whatever is wrong, strangers see the same page', async t => {
  const lab = await SamlLab.open(t, 'entra')
  const asked = await lab.browser.login('/')
  const answers: string[] = []
  for (const text of [
    lab.idp.respond({ inResponseTo: asked.id, signs: 'nothing' }),
    lab.idp.respond({ inResponseTo: asked.id, key: rsaPair('stranger') }),
    lab.idp.respond({ inResponseTo: asked.id, assertion: { audience: 'x' } }),
    writeResponse({
      ...lab.idp.writing({ inResponseTo: asked.id }),
      encryptTo: rsaPair('stranger').certificate,
    }),
  ]) {
    const { content } = await lab.browser.deliver(text)
    answers.push(
      content.kind === 'bytes' ? createHash('sha256').update(content.bytes).digest('hex') : '',
    )
  }
  t.equal(new Set(answers).size, 1)
  t.equal(new Set(lab.codes).size, 4)
})

t.test('38: whatever is wrong with an encrypted answer, strangers see the same', async t => {
  const origin = await ScriptedOrigin.listen(t)
  const idp = new ScriptedIdp('entra', { now: () => 0 })
  origin.at('/metadata', reply({ content: idp.metadata() }))
  const { client } = makeClient(t)
  const lab = await SamlLab.open(t, 'entra', {
    config: { idpMetadata: { from: 'url', url: origin.url('/metadata') } },
    substitutes: { origin: client },
  })
  const { certificate } = keyPair('sp')
  const methods = { content: 'aes256-cbc', key: 'rsa-oaep-mgf1p' } as const
  const guess = (inResponseTo: string) => lab.idp.respond({ inResponseTo, encryptTo: certificate })
  const holding = (id: string, text: string) =>
    guess(id).replace(/<saml:EncryptedAssertion.*<\/saml:EncryptedAssertion>/s, () =>
      encryptElement('EncryptedAssertion', text, { certificate, methods }),
    )
  const answers: string[] = []
  const asks: number[] = []
  for (const wrong of [
    (id: string) =>
      lab.idp.respond({ inResponseTo: id, encryptTo: rsaPair('stranger').certificate }),
    (id: string) => guess(id).replace(/(.*<xenc:CipherValue>)..../s, '$1AAAA'),
    (id: string) => holding(id, '<a'),
    (id: string) => holding(id, '<a/>'),
    (id: string) => lab.idp.respond({ inResponseTo: id, encryptTo: certificate, signs: 'nothing' }),
    (id: string) =>
      lab.idp.respond({ inResponseTo: id, encryptTo: certificate, key: rsaPair('stranger') }),
  ]) {
    lab.clock.advance(60_000)
    const browser = lab.browser.other()
    const asked = await browser.login('/')
    const first = await browser.deliver(wrong(asked.id), asked.relayState)
    const navigation = ['Sec-Fetch-Mode', 'navigate'] as const
    const page = await browser.get(pathOf(hrefOf(first)), navigation)
    const again = readAsked(await browser.get(pathOf(hrefOf(page)), navigation))
    const second = await browser.deliver(wrong(again.id), again.relayState)
    answers.push(
      [first, second].map(each => `${each.status} ${hrefOf(each).replace(/=[^&]+/, '')}`).join(),
    )
    await origin.arrived('/metadata', answers.length + 1)
    asks.push(origin.seen('/metadata').length)
  }
  t.strictSame(
    new Set(answers),
    new Set(['303 https://app.example.org/__authproxy-redirect?flow&resume=1,403 ']),
  )
  t.strictSame(asks, [2, 3, 4, 5, 6, 7], 'the metadata is asked for each time, too')
  t.strictSame(lab.codes, [
    ...['encryption_key', 'encryption_document', 'encryption_document', 'response_form'],
    ...['signature_missing', 'signature_invalid'],
  ])
})

const empty =
  `<samlp:Response xmlns:samlp="${ns.protocol}"><samlp:Status><samlp:StatusCode Value="${status.success}"/></samlp:Status>` +
  `<saml:EncryptedAssertion xmlns:saml="${ns.assertion}"/></samlp:Response>`

t.test('38: posts of another site do not keep a browser from logging in', async t => {
  const lab = await SamlLab.open(t, 'okta')
  const { certificate } = keyPair('sp')
  const asked = await lab.browser.login('/')
  const theirs = () => lab.idp.respond({ signs: 'nothing', encryptTo: certificate })
  for (let i = 0; i < 50; i += 1) {
    await lab.browser.deliver(empty)
    await lab.browser.deliver(theirs())
    await lab.browser.deliver(lab.idp.respond({ encryptTo: rsaPair('stranger').certificate }))
  }
  t.notOk(lab.codes.includes('encryption_tries'))
  await lab.browser.deliver(lab.idp.respond({ inResponseTo: asked.id, encryptTo: certificate }))
  t.equal(lab.subjects.length, 1)
})

t.test('38: an EncryptedKey has so many tries, at once or one by one, in any login', async t => {
  const lab = await SamlLab.open(t, 'entra')
  const asked = await lab.browser.login('/')
  const { certificate } = keyPair('sp')
  const stolen = lab.idp.respond({ inResponseTo: asked.id, encryptTo: certificate })
  const guesses = Array.from({ length: 40 }, (_, i) =>
    stolen.replace(/(.*<xenc:CipherValue>)..../s, `$1AA${String(i).padStart(2, '0')}`),
  )
  const count = (code: string) => lab.codes.filter(each => each === code).length
  await Promise.all(guesses.slice(0, 20).map(guess => lab.browser.deliver(guess)))
  t.equal(count('encryption_document'), 8)
  t.equal(count('encryption_tries'), 12)
  for (const guess of guesses.slice(20)) {
    lab.clock.advance(30 * 60_000)
    const other = lab.browser.other()
    await other.login('/')
    await other.deliver(guess)
  }
  t.equal(count('encryption_document'), 8, 'another login, and hours later')
  t.equal(count('encryption_tries'), 32)
  await lab.restart()
  const again = lab.browser.other()
  const { id } = await again.login('/')
  await again.deliver(lab.idp.respond({ inResponseTo: id, encryptTo: certificate }))
  t.equal(lab.subjects.length, 1, 'another login is not concerned')
})

t.test('38: what the IdP encrypted and signed does not count', async t => {
  const lab = await SamlLab.open(t, 'entra')
  const { certificate } = keyPair('sp')
  const asked = await lab.browser.login('/')
  const good = lab.idp.respond({ inResponseTo: asked.id, encryptTo: certificate })
  for (let i = 0; i < 20; i += 1) {
    const browser = lab.browser.other()
    for (const [name, value] of lab.browser.cookies) browser.cookies.set(name, value)
    await browser.deliver(good)
  }
  t.equal(lab.subjects.length, 1)
  t.strictSame(new Set(lab.codes), new Set(['replay']))
})
