/**
 * Back from the IdP: the session has to have come along, and what the person wanted goes on.
 */
import t from 'tap'
import { Fields } from '../../../lib/http/message/field.ts'
import {
  formOf,
  hrefOf,
  htmlOf,
  inputsOf,
  makeRequest,
  pathOf,
  readAsked,
  type TestBrowser,
} from '../../fixtures/saml/browser.ts'
import { SamlLab, signIn } from '../../fixtures/saml/lab.ts'

t.test('the login address begins a login that comes back', async t => {
  const lab = await SamlLab.open(t, 'entra')
  const response = await lab.browser.get(pathOf(lab.service.loginAddress('/page?x=1')), [
    'Sec-Fetch-Mode',
    'navigate',
  ])
  const asked = readAsked(response)
  const answer = await lab.browser.deliver(
    lab.idp.respond({ inResponseTo: asked.id }),
    asked.relayState,
  )
  t.equal(hrefOf(await lab.browser.get(pathOf(hrefOf(answer)))), 'https://app.example.org/page?x=1')
})

t.test('a target in absolute form has the query of one in origin form', async t => {
  const lab = await SamlLab.open(t, 'entra')
  await signIn(lab)
  for (const [path, query, status] of [
    ['/__authproxy-redirect', 'login=%2Fpage', 303],
    ['/saml/slo', 'SAMLRequest=x', 403],
  ] as const) {
    const request = makeRequest('GET', `${path}?${query}`, { fields: lab.browser.fields() })
    const uri = { scheme: 'https', host: 'app.example.org', port: 443, path, query } as const
    const absolute = { ...request, target: { form: 'absolute', uri } } as const
    const answers = await Promise.all([
      lab.service.handle(request, path),
      lab.service.handle(absolute, path),
    ])
    const told = answers.map(answer => [answer?.status, answer?.fields.get('Location')])
    t.equal(told[0]?.[0], status, path)
    t.strictSame(told[1], told[0], path)
  }
})

t.test(
  'what most likely lost the session is named: the host, the edge, the cookie, the clock',
  async t => {
    const lab = await SamlLab.open(t, 'entra')
    const asked = await lab.browser.login('/x')
    const issued = lab.clock.now() - 200_000
    const old = { inResponseTo: asked.id, response: { issued }, assertion: { issued } }
    await lab.browser.deliver(lab.idp.respond(old), asked.relayState)
    const path = `/__authproxy-redirect?flow=${asked.relayState}&again=1`
    const without = async (host: string, more: { secure?: boolean; proto?: string } = {}) => {
      const [, cookie = ''] = lab.browser.fields().flat
      const fields = Fields.of(
        ['Host', host],
        ['Cookie', cookie.replace(/session=[^;]*/, '')],
        ['X-Forwarded-Proto', more.proto],
      )
      const { secure = true } = more
      const answered = lab.service.handle(
        { ...makeRequest('GET', path), fields, secure },
        '/__authproxy-redirect',
      )
      await answered
      return lab.failures.at(-1)?.facts?.['cause']
    }
    t.equal(await without('app.example.org'), 'clock')
    t.equal(await without('APP.example.org:443'), 'clock')
    t.equal(await without('other.example.org'), 'wrong_host')
    for (const proto of ['http', 'http, http']) {
      t.equal(await without('app.example.org', { secure: false, proto }), 'http_edge', proto)
    }
    lab.diagnosis = { count: 1, bytes: 10, because: 'signature' }
    t.equal(await without('app.example.org'), 'cookie_invalid')
    const saysHttp = { secure: false, proto: 'http' }
    t.equal(await without('app.example.org', saysHttp), 'cookie_invalid', 'so it came by TLS')
  },
)

t.test(
  'a session cookie that does not come back is tried once more from our own site, then explained',
  async t => {
    const lab = await SamlLab.open(t, 'entra')
    const asked = await lab.browser.login('/x')
    const answer = await lab.browser.deliver(
      lab.idp.respond({ inResponseTo: asked.id }),
      asked.relayState,
    )
    const session = lab.browser.cookies.get('session') ?? ''
    lab.browser.cookies.delete('session')
    const first = await lab.browser.get(pathOf(hrefOf(answer)))
    t.equal(first.status, 200)
    t.match(hrefOf(first), /again=1/)
    const strict = lab.browser.other()
    for (const [name, value] of lab.browser.cookies) strict.cookies.set(name, value)
    strict.cookies.set('session', session)
    t.equal(
      hrefOf(await strict.get(pathOf(hrefOf(first)))),
      'https://app.example.org/x',
      'SameSite=Strict works',
    )
    const second = await lab.browser.get(pathOf(hrefOf(first)))
    t.equal(second.status, 403)
    t.match(lab.failures.at(-1), {
      code: 'session_cookie_missing',
      facts: { cause: 'cookie_missing' },
    })
  },
)

t.test('three logins without a session stop at a page that names the cause', async t => {
  const causes: ReadonlyArray<
    readonly [string, (lab: SamlLab) => Array<readonly [string, string]>]
  > = [
    ['cookie_missing', () => []],
    [
      'cookie_invalid',
      lab => {
        lab.diagnosis = { count: 2, bytes: 3000, because: 'signature' }
        return []
      },
    ],
    ['http_edge', () => [['X-Forwarded-Proto', 'http']]],
  ]
  for (const [cause, arrange] of causes) {
    const lab = await SamlLab.open(t, 'entra')
    const fields = arrange(lab)
    for (let turn = 0; turn < 3; turn += 1) {
      await signIn(lab)
      lab.browser.cookies.delete('session')
      lab.clock.advance(2000)
    }
    const request = makeRequest('GET', '/', { fields: lab.browser.fields(...fields) })
    const page = lab.browser.keep(
      await lab.service.startLogin({ ...request, secure: false }, { returnTo: '/' }),
    )
    t.equal(page.status, 403)
    t.match(lab.failures.at(-1), { code: 'login_loop', facts: { cause } })
    await lab.browser.login('/')
    t.equal(lab.codes.length, 1, 'trying again is a new beginning')
  }
})

t.test('signing in once a minute is no loop', async t => {
  const lab = await SamlLab.open(t, 'entra')
  for (let turn = 0; turn < 6; turn += 1) {
    await signIn(lab)
    lab.browser.cookies.delete('session')
    lab.clock.advance(61_000)
  }
  t.strictSame(lab.codes, [])
})

const own: Array<readonly [string, string]> = [
  ['Sec-Fetch-Site', 'same-origin'],
  ['Origin', 'https://app.example.org'],
]
const form = {
  contentType: 'application/x-www-form-urlencoded',
  content: Buffer.from('text=a%26b%0D%0Ac&submit=%C3%A9'),
}

/** A login that was begun by a form, up to the page behind it. */
async function comeBackWithForm(lab: SamlLab, browser: TestBrowser, fields = own) {
  const asked = await browser.login('/save?id=7', { form, fields })
  const xml = lab.idp.respond({ inResponseTo: asked.id })
  const address = pathOf(hrefOf(await browser.deliver(xml, asked.relayState)))
  return { address, page: await browser.get(address) }
}

t.test('the page behind the login posts a handle, and holds nothing of the form', async t => {
  const lab = await SamlLab.open(t, 'entra')
  await signIn(lab)
  lab.browser.cookies.delete('session')
  const { page, address } = await comeBackWithForm(lab, lab.browser)
  t.match(htmlOf(page), 'action="https://app.example.org/save?id=7"')
  t.strictSame(Object.keys(inputsOf(htmlOf(page))), ['__authproxy_form'])
  t.notMatch([htmlOf(page), ...lab.browser.cookies.values()].join(), /a%26b|a&b/)
  t.equal(page.fields.get('Referrer-Policy'), 'same-origin')
  t.equal(htmlOf(await lab.browser.get(address)), htmlOf(page), 'a reload of it changes nothing')
})

t.test('a form of another site is not kept, that of a first visit is', async t => {
  const lab = await SamlLab.open(t, 'entra')
  await signIn(lab)
  lab.browser.cookies.delete('session')
  for (const fields of [
    [
      ['Sec-Fetch-Site', 'cross-site'],
      ['Origin', 'https://evil.example'],
    ],
    [['Origin', 'https://evil.example']],
    [],
  ] as Array<Array<readonly [string, string]>>) {
    lab.clock.advance(61_000) // or it would look like a loop
    t.notMatch(htmlOf((await comeBackWithForm(lab, lab.browser, fields)).page), '<form')
  }
  t.match(htmlOf((await comeBackWithForm(lab, lab.browser.other())).page), '<form')
})

t.test('whose form it is, and whether it can be kept, is known before it is read', async t => {
  const lab = await SamlLab.open(t, 'entra')
  const asks = (browser: TestBrowser, returnTo = '/save') =>
    lab.service.formSender(makeRequest('POST', returnTo, { fields: browser.fields() }), returnTo)
  t.equal(asks(lab.browser), 'unknown')
  await signIn(lab)
  t.equal(asks(lab.browser), 'known')
  t.equal(asks(lab.browser, '//evil.example/'), undefined)
  t.equal(asks(lab.browser, '/saml/acs'), undefined)
  const cookie = lab.browser.cookies.get('__Host-authproxy_last') ?? ''
  t.notMatch(Buffer.from(cookie, 'base64url').toString('latin1'), 'alice')
  lab.browser.cookies.set('__Host-authproxy_last', `${cookie.slice(0, -2)}AA`)
  t.equal(asks(lab.browser), 'unknown', 'only we can write the cookie')
})

for (const idpInitiated of [false, true]) {
  t.test(
    `an answer whose cookie was held back is posted once more from our own site (idpInitiated: ${idpInitiated})`,
    async t => {
      const lab = await SamlLab.open(t, 'entra', { config: { idpInitiated } })
      const asked = await lab.browser.login('/x')
      const without = lab.browser.other()
      const xml = lab.idp.respond({ inResponseTo: asked.id })
      const page = await without.deliver(xml, asked.relayState)
      t.match(htmlOf(page), 'action="/saml/acs?again"')
      const again = formOf(inputsOf(htmlOf(page)))
      const answer = await lab.browser.deliverRaw(again, '/saml/acs?again')
      t.equal(answer.status, 303)
      t.equal(lab.subjects.length, 1)
      const lost = await without.deliverRaw(again, '/saml/acs?again')
      t.match(hrefOf(lost), 'resume=1', 'then the login begins again')
      t.strictSame(lab.codes, [])
    },
  )
}

t.test(
  'an answer that comes late from another site, without the session cookie, lets a signed-in user through',
  async t => {
    const lab = await SamlLab.open(t, 'entra')
    const asked = await lab.browser.login('/x')
    const xml = lab.idp.respond({ inResponseTo: asked.id })
    await lab.browser.deliver(xml, asked.relayState)
    const session = lab.browser.cookies.get('session') ?? ''
    lab.browser.cookies.delete('session')
    const page = await lab.browser.deliver(xml, asked.relayState)
    t.match(htmlOf(page), 'action="/saml/acs?again"')
    lab.browser.cookies.set('session', session)
    const again = await lab.browser.deliverRaw(formOf(inputsOf(htmlOf(page))), '/saml/acs?again')
    t.equal(again.status, 303)
    t.strictSame(lab.codes, [])
  },
)

t.test('a reload of the answer lets a signed-in user through', async t => {
  const lab = await SamlLab.open(t, 'entra')
  const asked = await lab.browser.login('/x')
  const xml = lab.idp.respond({ inResponseTo: asked.id })
  await lab.browser.deliver(xml, asked.relayState)
  const again = await lab.browser.deliver(xml, asked.relayState)
  t.equal(hrefOf(await lab.browser.get(pathOf(hrefOf(again)))), 'https://app.example.org/x')
  t.equal(lab.subjects.length, 1)
})

t.test(
  'an image of another site, a script, another name or plain HTTP begins no login',
  async t => {
    const lab = await SamlLab.open(t, 'entra')
    const own = await lab.browser.login('/mine')
    const kept = new Map(lab.browser.cookies)
    for (const target of ['/__authproxy-redirect', '/__authproxy-redirect?login=/x']) {
      for (const fields of [
        { 'Sec-Fetch-Mode': 'no-cors', 'Sec-Fetch-Dest': 'image', 'Sec-Fetch-Site': 'cross-site' },
        { 'Sec-Fetch-Mode': 'cors', 'Sec-Fetch-Dest': 'empty' },
        { Accept: 'image/*' },
      ] as Array<Record<string, string>>) {
        const answer = await lab.browser.get(target, ...Object.entries(fields))
        t.equal(answer.status, 401)
        t.notOk(answer.fields.has('Set-Cookie'))
      }
    }
    t.same(lab.browser.cookies, kept)
    const elsewhere = makeRequest('GET', '/__authproxy-redirect', {
      fields: Fields.of(['Sec-Fetch-Mode', 'navigate']),
    })
    const fields = Fields.of(['Host', 'other.example.org'], ['Sec-Fetch-Mode', 'navigate'])
    await lab.service.handle({ ...elsewhere, fields }, '/__authproxy-redirect')
    t.same(lab.codes, ['wrong_host'])
    await lab.browser.deliver(lab.idp.respond({ inResponseTo: own.id }), own.relayState)
    t.equal(lab.subjects.length, 1)
  },
)
