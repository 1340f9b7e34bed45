/**
 * Attacks before anything is parsed: forms, base64, and answers without a login. And that strangers learn nothing from the page.
 */
import { createHash } from 'node:crypto'
import t from 'tap'
import { writeResponse } from '../../../lib/tools/dev-idp/response.ts'
import { good } from '../../fixtures/saml/attack-toolkit.ts'
import { formOf } from '../../fixtures/saml/browser.ts'
import { rsaPair } from '../../fixtures/saml/keys.ts'
import { SamlLab } from '../../fixtures/saml/lab.ts'

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
    [`SAMLResponse=${'A'.repeat(1_100_000)}`, 'form_too_large'],
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

t.test(
  '38: a login has so many tries to have something decrypted, at once or one by one',
  async t => {
    const lab = await SamlLab.open(t, 'entra')
    const asked = await lab.browser.login('/')
    const guess = lab.idp.respond({
      inResponseTo: asked.id,
      encryptTo: rsaPair('stranger').certificate,
    })
    await Promise.all(Array.from({ length: 40 }, () => lab.browser.deliver(guess)))
    t.equal(lab.codes.filter(code => code === 'encryption_key').length, 32)
    t.equal(lab.codes.filter(code => code === 'encryption_tries').length, 8)
    const other = lab.browser.other()
    const again = await other.login('/')
    await other.deliver(good(lab, again.id))
    t.equal(lab.subjects.length, 1, 'another login is not concerned')
  },
)

t.test('38: a network has so many tries in an hour for answers without a login', async t => {
  const lab = await SamlLab.open(t, 'okta', { config: { idpInitiated: true } })
  const guess = () => lab.idp.respond({ encryptTo: rsaPair('stranger').certificate })
  const deliver = () => lab.browser.deliver(lab.idp.respond({}))
  await lab.browser.deliver(guess())
  lab.clock.advance(59 * 60_000)
  for (let i = 0; i < 31; i += 1) await lab.browser.deliver(guess())
  await deliver()
  t.equal(lab.codes.at(-1), 'encryption_tries')
  lab.clock.advance(61_000)
  await deliver()
  t.equal(lab.subjects.length, 1, 'later guesses do not make the hour longer')
})
