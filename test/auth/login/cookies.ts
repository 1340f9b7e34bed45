/**
 * The cookies of a login are opened once for a request, and each that its answer changes is written once.
 */
import { randomBytes } from 'node:crypto'
import t from 'tap'
import { type Flow, loginCookies } from '../../../lib/auth/login/cookies.ts'
import { Fields } from '../../../lib/http/message/field.ts'
import type { Response } from '../../../lib/http/message/message.ts'
import { hrefOf, pathOf } from '../../fixtures/saml/browser.ts'
import { sp } from '../../fixtures/saml/idp.ts'
import { rsaPair } from '../../fixtures/saml/keys.ts'
import { SamlLab } from '../../fixtures/saml/lab.ts'
import { ManualClock } from '../../fixtures/time/manual-clock.ts'

const SEALED = /^__Host-authproxy_(?:login\.|state|last)/

t.test('in each step of a login, its failures and a logout', async t => {
  const lab = await SamlLab.open(t, 'entra')
  const keys = lab.sealing
  let uses = 0
  Object.defineProperty(lab, 'sealing', {
    get: () => {
      uses += 1
      return keys
    },
  })
  const { browser } = lab
  let steps = 0
  /** The keys are taken once for each cookie that is opened, and once for each that is sealed. */
  const once = async <T extends Response | { readonly response: Response }>(
    what: string,
    step: () => Promise<T>,
  ) => {
    const opened = [...browser.cookies.keys()].filter(name => SEALED.test(name))
    uses = 0
    const answered = await step()
    const { fields } = 'response' in answered ? answered.response : answered
    const written = fields.all('Set-Cookie').filter(line => SEALED.test(line))
    const names = written.map(line => line.split('=', 1)[0])
    t.equal(new Set(names).size, names.length, `${what}: no cookie is written twice`)
    const sealed = written.filter(line => !/max-age=0/i.test(line)).length
    t.ok(uses <= opened.length + sealed, `${what}: ${uses} uses of keys`)
    steps += opened.length
    return answered
  }
  const asked = await once('begin', () => browser.login('/deep'))
  await once('a second tab', () => browser.login('/other'))
  const wrong = lab.idp.respond({ inResponseTo: asked.id, key: rsaPair('stranger') })
  await once('refused', () => browser.deliver(wrong, asked.relayState))
  const answer = await once('answer', () =>
    browser.deliver(lab.idp.respond({ inResponseTo: asked.id }), asked.relayState),
  )
  await once('back', () => browser.get(pathOf(hrefOf(answer))))
  await once('again', () => browser.get(pathOf(hrefOf(answer))))
  await once('logout', () => browser.get('/saml/slo'))
  await once('begin again', () => browser.login('/deep'))
  t.ok(steps > 8, 'cookies came along')
})

t.test('an object for each request, and the last that is written of a cookie', t => {
  const clock = new ManualClock(0)
  const keys = { sealingKeys: () => [{ kid: 'a', key }] }
  const key = randomBytes(32)
  const config = () => ({ entityId: sp.entityId, loginTime: 600_000 })
  const cookies = loginCookies({ keys, config, clock, random: randomBytes })
  const request = { fields: Fields.empty }
  t.equal(cookies(request), cookies(request))
  t.not(cookies(request), cookies({ fields: Fields.empty }))
  const first = cookies(request)
  const flow: Flow = { id: first.newId(false), began: 0, returnTo: '/a', depth: 0, done: false }
  first.begin(flow, { small: false })
  first.keep({ ...flow, done: true })
  first.know({ logout: 'a' })
  first.know({})
  const lines = first.lines.all('Set-Cookie')
  t.equal(lines.length, 2)
  t.match(lines[1], /_state=;.*Max-Age=0/)
  const Cookie = lines[0]?.split(';')[0]
  t.match(cookies({ fields: Fields.of(['Cookie', Cookie]) }).flow(flow.id), { done: true })
  t.end()
})
