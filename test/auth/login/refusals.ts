/**
 * What follows a login that the identity provider refuses, or that was begun there: the login goes on by itself where that helps, and
 * else the page leads to where the person was going.
 */
import t from 'tap'
import { failureTable } from '../../../lib/auth/pages/failures.ts'
import { formOf, hrefOf, htmlOf, inputsOf, pathOf, readAsked } from '../../fixtures/saml/browser.ts'
import { SamlLab, signIn } from '../../fixtures/saml/lab.ts'

const navigation = [
  ['Sec-Fetch-Mode', 'navigate'],
  ['Sec-Fetch-Dest', 'document'],
  ['Accept', 'text/html'],
] as const
const prefix = 'urn:oasis:names:tc:SAML:2.0:status:'

/** A Response that signs no one in: Keycloak sends such a one unsigned. */
function refusal(lab: SamlLab, codes: readonly string[], message = ''): string {
  const said = message === '' ? '' : `<samlp:StatusMessage>${message}</samlp:StatusMessage>`
  const inner = codes
    .slice(1)
    .map(code => `<samlp:StatusCode Value="${prefix}${code}"/>`)
    .join('')
  return (
    `<samlp:Response xmlns:samlp="urn:oasis:names:tc:SAML:2.0:protocol" ID="_r" Version="2.0" ` +
    `IssueInstant="${new Date(lab.clock.now()).toISOString()}"><samlp:Status>` +
    `<samlp:StatusCode Value="${prefix}${codes[0]}">${inner}</samlp:StatusCode>${said}</samlp:Status></samlp:Response>`
  )
}

t.test('authentication_expired of Keycloak begins the login again, once', async t => {
  const lab = await SamlLab.open(t, 'keycloak')
  const xml = refusal(lab, ['Responder', 'AuthnFailed'], 'authentication_expired')
  const content = Buffer.from('a=1')
  const form = { contentType: 'text/plain', content }
  const asked = await lab.browser.login('/save?id=1', {
    form,
    fields: [['Origin', 'https://app.example.org']],
  })
  const answer = await lab.browser.deliver(xml, asked.relayState)
  t.equal(answer.status, 303)
  t.match(hrefOf(answer), `flow=${asked.relayState}&resume=1`)
  const page = await lab.browser.get(pathOf(hrefOf(answer)), ...navigation)
  const next = readAsked(await lab.browser.get(pathOf(hrefOf(page)), ...navigation))
  t.match(next.relayState, /^again\./)
  t.match(htmlOf(next.response), `data-of="${asked.relayState}"`, 'the tab keeps its fragment')
  t.strictSame(lab.codes, [])

  const second = await lab.browser.deliver(xml, next.relayState)
  t.equal(second.status, 403, 'not for ever')
  t.match(lab.failures.at(-1), {
    code: 'idp_status',
    words: {
      back: `https://app.example.org/__authproxy-redirect?flow=${next.relayState}&resume=1`,
    },
  })
  const taken = await lab.browser.deliver(
    lab.idp.respond({ inResponseTo: next.id }),
    next.relayState,
  )
  const back = htmlOf(await lab.browser.get(pathOf(hrefOf(taken))))
  t.match(back, 'action="https://app.example.org/save?id=1"', 'the form has not been lost')
})

t.test('not for a login that this browser has not begun', async t => {
  const lab = await SamlLab.open(t, 'keycloak')
  await lab.browser.login('/a')
  const xml = refusal(lab, ['Responder', 'AuthnFailed'], 'authentication_expired')
  t.equal((await lab.browser.deliver(xml, 'A'.repeat(27))).status, 403)
  t.strictSame(lab.codes, ['idp_status'])
})

t.test('the page of a refused login leads to where the person was going', async t => {
  const lab = await SamlLab.open(t, 'okta')
  const asked = await lab.browser.login('/deep?link=1')
  for (const relayState of [asked.relayState, '']) {
    await lab.browser.deliver(refusal(lab, ['Responder', 'RequestDenied']), relayState)
    const back = `${lab.failures.at(-1)?.words?.['back']}`
    t.match(back, `flow=${asked.relayState}&resume=1`, 'also when it is the only login')
  }
  const { back = '' } = lab.failures.at(-1)?.words ?? {}
  const page = await lab.browser.get(pathOf(back), ...navigation)
  const again = readAsked(await lab.browser.get(pathOf(hrefOf(page)), ...navigation))
  const taken = await lab.browser.deliver(
    lab.idp.respond({ inResponseTo: again.id }),
    again.relayState,
  )
  const end = await lab.browser.get(pathOf(hrefOf(taken)))
  t.equal(hrefOf(end), 'https://app.example.org/deep?link=1')
})

t.test('what the identity provider cannot do names the setting that asks for it', async t => {
  const lab = await SamlLab.open(t, 'adfs')
  for (const [inner, as, setting] of [
    ['InvalidNameIDPolicy', 'idp_name_id', 'saml.nameIDFormat'],
    ['NoAuthnContext', 'idp_no_context', 'saml.authnContext'],
    ['RequestUnsupported', 'idp_unsupported', /saml\.forceAuthn/],
    ['UnsupportedBinding', 'idp_unsupported', /samlRequestSigning/],
    ['AuthnFailed', 'idp_authentication', undefined],
    ['Unknown', 'idp_status', undefined],
  ] as const) {
    const asked = await lab.browser.login('/')
    await lab.browser.deliver(refusal(lab, ['Requester', inner]), asked.relayState)
    t.match(lab.failures.at(-1), {
      ...{ code: 'idp_status', as },
      facts: { idpStatus: `Requester ${inner}` },
    })
    if (setting !== undefined) t.match(failureTable().codes[as].setting, setting)
  }
})

t.test('a login begun at the identity provider begins here instead, once', async t => {
  const lab = await SamlLab.open(t, 'okta')
  const first = await lab.browser.deliver(lab.idp.respond({}), '/reports?x=1')
  t.match(htmlOf(first), 'action="/saml/acs?again"')
  const again = formOf(inputsOf(htmlOf(first)))
  const second = await lab.browser.post('/saml/acs?again', again)
  t.equal(second.status, 303)
  t.match(hrefOf(second), '?login=%2Freports%3Fx%3D1&again=1')
  t.strictSame(lab.codes, [])
  t.ok(lab.log.lines.some(({ facts }) => facts['setting'] === 'saml.idpInitiated'))
  const asked = readAsked(await lab.browser.get(pathOf(hrefOf(second)), ...navigation))
  t.strictSame(lab.subjects, [], 'what the first answer said is dropped')

  const unasked = await lab.browser.deliver(lab.idp.respond({}), '')
  t.equal(unasked.status, 403, 'an IdP that never answers a request is not asked for ever')
  t.strictSame(lab.codes, ['unsolicited'])
  const taken = await lab.browser.deliver(
    lab.idp.respond({ inResponseTo: asked.id }),
    asked.relayState,
  )
  const end = await lab.browser.get(pathOf(hrefOf(taken)))
  t.equal(hrefOf(end), 'https://app.example.org/reports?x=1')
})

t.test('nor in a browser that refuses cookies, which is told so', async t => {
  const lab = await SamlLab.open(t, 'okta')
  const first = await lab.browser.deliver(lab.idp.respond({}), '')
  lab.browser.cookies.clear()
  const answer = await lab.browser.post('/saml/acs?again', formOf(inputsOf(htmlOf(first))))
  t.equal(answer.status, 403)
  t.strictSame(lab.codes, ['login_cookie_missing'])
})

t.test('an answer that comes without cookies changes no name of a browser', async t => {
  const lab = await SamlLab.open(t, 'okta')
  lab.browser.cookies.clear()
  const page = await lab.browser.deliver(lab.idp.respond({}), '')
  t.match(htmlOf(page), 'action="/saml/acs?again"')
  const names = page.fields.all('Set-Cookie').map(line => line.split('=')[0])
  t.strictSame(names, ['__Host-authproxy_probe'], 'its own may have been held back')
})

t.test('a user who is signed in arrives where the identity provider says', async t => {
  const lab = await SamlLab.open(t, 'okta')
  await signIn(lab)
  lab.browser.cookies.forEach((_value, name) => {
    if (name !== 'session') lab.browser.cookies.delete(name)
  })
  const answer = await lab.browser.deliver(lab.idp.respond({}), '/reports')
  t.equal(hrefOf(answer), 'https://app.example.org/reports')
})

t.test('a RelayState signs no one out, however its path is written', async t => {
  const lab = await SamlLab.open(t, 'okta')
  await signIn(lab)
  lab.browser.cookies.forEach((_value, name) => {
    if (name !== 'session') lab.browser.cookies.delete(name)
  })
  for (const path of [
    ...['/saml/slo', '/./saml/slo', '/%2e/saml/slo', '/a/../saml/slo', '/a/%2E./saml/slo?x=1'],
    ...['/./__authproxy-redirect?login=/', '/saml/../__authproxy-redirect', '/x/..//evil.example'],
  ]) {
    const answer = await lab.browser.deliver(lab.idp.respond({}), path)
    t.equal(hrefOf(answer), 'https://app.example.org/', path)
  }
})

t.test('in another tab a login is under way: the tile works all the same', async t => {
  const lab = await SamlLab.open(t, 'okta')
  await lab.browser.login('/tab')
  const answer = await lab.browser.deliver(lab.idp.respond({}), '/tile')
  t.match(hrefOf(answer), '?login=%2Ftile&again=1')
})
