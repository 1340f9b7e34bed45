/**
 * Many tabs of one browser that log in at the same time: each ends on its own page, fragment and form included.
 */
import t from 'tap'
import { formOf, hrefOf, htmlOf, inputsOf, pathOf, readAsked } from '../../fixtures/saml/browser.ts'
import { SamlLab, signIn } from '../../fixtures/saml/lab.ts'
import { Tab } from '../../fixtures/saml/tab.ts'

t.setTimeout(600_000)

const base = 'https://app.example.org'

function tabsOf(lab: SamlLab, count: number): readonly Tab[] {
  return Array.from({ length: count }, () => new Tab(lab))
}

for (const count of [2, 8, 30]) {
  for (const [name, query] of [
    ['short links', 'x=1'],
    ['links of 600 characters', 'q'.repeat(600)],
  ] as const) {
    t.test(`${count} tabs begun at once with ${name} end on their own pages`, async t => {
      const lab = await SamlLab.open(t, 'entra')
      const tabs = tabsOf(lab, count)
      const addresses = tabs.map((_, i) => `/tab/${i}?${query}#part-${i}`)
      await Promise.all(tabs.map((tab, i) => tab.open(addresses[i] ?? '')))
      await Promise.all(tabs.map(tab => tab.answered()))
      await Promise.all(tabs.map(tab => tab.arrive()))
      t.same(
        tabs.map(tab => tab.at),
        addresses.map(address => `${base}${address}`),
      )
      t.same(lab.codes, [])
      const left = [...lab.browser.cookies.keys()].filter(key => key.includes('_login.'))
      t.same(left, [], 'the cookies of logins that are done are removed')
    })
  }
}

t.test('tabs begun one after the other keep their cookies within bounds', async t => {
  const lab = await SamlLab.open(t, 'entra')
  const tabs = tabsOf(lab, 40)
  for (const [i, tab] of tabs.entries()) {
    await tab.open(`/a/${i}?${'q'.repeat(i % 2 === 0 ? 30 : 2000)}#f${i}`)
    const cookies = [...lab.browser.cookies].filter(([key]) => key.includes('_login.'))
    t.ok(cookies.length <= 32)
    const size = cookies.reduce((sum, [key, value]) => sum + key.length + value.length + 3, 0)
    t.ok(size < 8000, `${size} characters`)
  }
  for (const tab of tabs) {
    await tab.answered()
    await tab.arrive()
  }
  for (const tab of tabs.filter(({ at }) => at === undefined)) {
    await tab.answered()
    await tab.arrive()
  }
  t.same(
    tabs.map(({ at }) => at?.replace(/\?q+/, '')),
    tabs.map((_, i) => `${base}/a/${i}#f${i}`),
    'those without a cookie as well',
  )
  t.ok(
    tabs.some(tab => tab.asked?.relayState.startsWith('again.')),
    'some were not known any more',
  )
  t.same(lab.codes, [])
})

t.test('a login that took too long begins again, once, and ends on its page', async t => {
  const lab = await SamlLab.open(t, 'entra')
  const [tab = new Tab(lab)] = tabsOf(lab, 1)
  await tab.open('/slow?x=1#there')
  lab.clock.advance(700_000)
  await tab.answered()
  await tab.arrive()
  t.match(tab.asked?.relayState, /^again\./)
  await tab.answered()
  await tab.arrive()
  t.equal(tab.at, `${base}/slow?x=1#there`)
  t.same(lab.codes, [])
})

t.test('a browser that keeps no cookies sees a page after the second time', async t => {
  const lab = await SamlLab.open(t, 'entra')
  const [tab = new Tab(lab)] = tabsOf(lab, 1)
  await tab.open('/x')
  for (let turn = 0; turn < 2; turn += 1) {
    lab.browser.cookies.clear()
    await tab.answered()
    lab.browser.cookies.clear()
    if (turn === 0) await tab.arrive()
  }
  t.same(lab.codes, ['login_cookie_missing'])
})

t.test('a known login beside the answer to an unknown one: it goes on or begins again', async t => {
  const lab = await SamlLab.open(t, 'entra')
  const [one = new Tab(lab), two = new Tab(lab)] = tabsOf(lab, 2)
  await one.open('/one#1')
  for (const key of lab.browser.cookies.keys()) lab.browser.cookies.delete(key)
  await two.open('/two#2')
  await one.answered()
  await one.arrive()
  t.match(one.asked?.relayState, /^again\./, 'no session yet')
  await two.answered()
  await two.arrive()
  t.equal(two.at, `${base}/two#2`)
  for (const key of lab.browser.cookies.keys()) {
    if (key.includes('_login.')) lab.browser.cookies.delete(key)
  }
  await one.answered()
  await one.arrive()
  t.equal(one.at, `${base}/one#1`, 'and now there is one')
  t.same(lab.codes, [])
  t.equal(lab.subjects.length, 1)
})

t.test(
  'an IdP that forgot the request and repeats the RelayState: on with a session, else again',
  async t => {
    const lab = await SamlLab.open(t, 'entra')
    const [one = new Tab(lab), two = new Tab(lab)] = tabsOf(lab, 2)
    await one.open('/one#1')
    await two.open('/two#2')
    const { browser, idp } = lab
    const forgetful = () => browser.deliver(idp.respond({}), one.asked?.relayState)
    t.match(hrefOf(await forgetful()), 'resume=1')
    t.equal(lab.subjects.length, 0, 'it signs nobody in')
    await two.answered()
    await two.arrive()
    const on = await browser.get(pathOf(hrefOf(await forgetful())))
    t.equal(hrefOf(on), `${base}/one`)
    t.match(htmlOf(on), `data-restore="${one.asked?.relayState}"`)
    t.equal(lab.subjects.length, 1)
    t.same(lab.codes, [])
  },
)

t.test('an answer that is wrong in more than its request is refused, as ever', async t => {
  const lab = await SamlLab.open(t, 'entra')
  const asked = await lab.browser.login('/')
  await lab.browser.deliver(
    lab.idp.respond({ inResponseTo: '_other', assertion: { audience: 'urn:other' } }),
    asked.relayState,
  )
  await lab.browser.deliver(
    lab.idp.respond({ inResponseTo: '_other', signs: 'nothing' }),
    asked.relayState,
  )
  await lab.browser.deliver(lab.idp.respond({ inResponseTo: '_other' }), 'no login of ours')
  t.same(lab.codes, ['in_response_to', 'signature_missing', 'in_response_to'])
  t.equal(lab.subjects.length, 0)
})

t.test('four forms posted at once each come back to be sent to their address', async t => {
  const lab = await SamlLab.open(t, 'entra')
  await signIn(lab)
  lab.browser.cookies.delete('session')
  lab.clock.advance(61_000)
  const fields: Array<readonly [string, string]> = [
    ['Sec-Fetch-Site', 'same-origin'],
    ['Origin', base],
  ]
  const contentType = 'text/plain'
  const all = await Promise.all(
    [1, 2, 3, 4].map(i =>
      lab.browser.login(`/save?id=${i}`, {
        form: { contentType, content: Buffer.from(`${i}`) },
        fields,
      }),
    ),
  )
  const answers = await Promise.all(
    all.map(asked =>
      lab.browser.deliver(lab.idp.respond({ inResponseTo: asked.id }), asked.relayState),
    ),
  )
  for (const [i, answer] of answers.entries()) {
    const page = htmlOf(await lab.browser.get(pathOf(hrefOf(answer))))
    t.match(page, `action="${base}/save?id=${i + 1}"`)
    t.equal(inputsOf(page)['__authproxy_form'], all[i]?.relayState)
  }
})

t.test('a cookie counts only under its own name', async t => {
  const lab = await SamlLab.open(t, 'entra')
  const one = await lab.browser.login('/one')
  const two = await lab.browser.login('/two')
  const nameOf = (id: string) => `__Host-authproxy_login.${id}`
  const value = lab.browser.cookies.get(nameOf(one.relayState)) ?? ''
  lab.browser.cookies.set(nameOf(two.relayState), value)
  lab.browser.cookies.delete(nameOf(one.relayState))
  const form = formOf({ SAMLResponse: 'PGE+', RelayState: `again.${'A'.repeat(27)}` })
  await lab.browser.deliverRaw(form)
  t.same(lab.codes, ['login_cookie_invalid'])
  t.ok(readAsked((await lab.browser.login('/three')).response))
})
