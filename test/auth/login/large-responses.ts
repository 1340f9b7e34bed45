/**
 * Answers of the identity provider about people in very many groups: what passes, what is refused, and what the page, the log and
 * `explain` say then.
 */
import { createHash } from 'node:crypto'
import t, { type Test } from 'tap'
import type { DevUser } from '../../../demo/idp/profile.ts'
import { startWhole, type Whole, type WholeOptions } from '../../fixtures/gateway/whole-gateway.ts'
import { htmlOf } from '../../fixtures/saml/browser.ts'
import { alice } from '../../fixtures/saml/idp.ts'

/** Active Directory allows a person in no more. */
const MOST_GROUPS = 1015

/** A person in groups whose names have this many characters, few of them alike: cookies are compressed. */
function memberOf(length: number, count = MOST_GROUPS): DevUser {
  const digits = (i: number) => createHash('sha512').update(`${i}`).digest('hex')
  const name = (i: number) => `CN=Team ${i},`.padEnd(length, digits(i))
  return { ...alice, groups: Array.from({ length: count }, (_, i) => name(i)) }
}

async function opened(t: Test, settings: WholeOptions['settings'] = {}) {
  const whole = await startWhole(t, { profile: 'okta', settings })
  const encryptTo = htmlOf(await whole.browser.navigate('/saml/certificate.crt'))
  return { ...whole, encryptTo }
}

/** The last refused answer as the log has it. */
function lastFacts({ records }: Pick<Whole, 'records'>) {
  return records('SAML-ERROR').findLast(({ message }) => message !== 'request')?.facts
}

for (const way of ['plain', 'encrypted'] as const) {
  t.test(`a person in 1,015 groups with names of 300 bytes gets in, ${way}`, async t => {
    const settings = { identity: { groups: ['CN=Team 7,*', 'CN=Team 1014,*'] } }
    const { idp, browser, backend, codes, encryptTo } = await opened(t, settings)
    const to = way === 'encrypted' ? { encryptTo } : {}
    const { taken } = await browser.signIn(idp, { user: memberOf(300), ...to })
    t.equal(taken.status, 303)
    t.same(codes(), [])
    await browser.navigate('/')
    t.equal(backend.requests.at(-1)?.fields.get('X-Authproxy-Groups')?.split(',').length, 2)
  })
}

t.test('4,000 groups with short names get in', async t => {
  const { idp, browser } = await opened(t, { identity: { groups: ['CN=Team 7,*'] } })
  const { taken } = await browser.signIn(idp, { user: memberOf(16, 4000) })
  t.equal(taken.status, 303)
})

t.test('1,015 groups that no setting leaves out: the page names them, with their size', async t => {
  const { idp, browser, codes } = await opened(t)
  const { taken } = await browser.signIn(idp, { user: memberOf(300) })
  t.match(codes(), ['cookie_too_large'])
  t.match(htmlOf(taken), /groups/)
  t.match(htmlOf(taken), /1015 values/)
  t.match(htmlOf(taken), /identity\.groups/)
})

t.test('an answer over the limit: page and log have the limit and its setting', async t => {
  const whole = await opened(t, { saml: { responseSize: '256K' } })
  const { idp, browser, codes, encryptTo } = whole
  const limit = 256 * 1024
  for (const [user, code, problem] of [
    [memberOf(150), 'xml_too-large', `larger than the limit of ${limit} bytes`],
    [memberOf(1, 2200), 'xml_too-large', `larger than the limit of ${limit} bytes`],
  ] as const) {
    const { taken } = await browser.signIn(idp, { user })
    t.equal(codes().at(-1), code)
    t.match(`${lastFacts(whole)?.['problem']}`, problem)
    t.match(htmlOf(taken), new RegExp(`${limit} bytes`))
    t.match(htmlOf(taken), /saml\.responseSize/)
  }
  await browser.signIn(idp, { user: memberOf(1200), encryptTo })
  t.equal(codes().at(-1), 'form_too_large')
  t.equal(lastFacts(whole)?.['limit'], limit)
})
