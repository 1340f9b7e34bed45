/**
 * A login that shows nothing to the person (IsPassive), and one that is to be a new one (reauth), asked for by an address.
 */
import t from 'tap'
import { hrefOf, htmlOf, pathOf, readAsked } from '../../fixtures/saml/browser.ts'
import { SamlLab, signIn } from '../../fixtures/saml/lab.ts'

const navigation: ReadonlyArray<readonly [string, string]> = [
  ['Sec-Fetch-Mode', 'navigate'],
  ['Sec-Fetch-Dest', 'document'],
  ['Sec-Fetch-Site', 'same-origin'],
]
const passive = '/__authproxy-redirect?login=%2Fnews%3Fx%3D1&passive'
const reauth = '/__authproxy-redirect?login=%2Fpay&reauth'
const minute = 60_000

/** What an identity provider says that may ask the person nothing, or that cannot do it. */
function refusal(lab: SamlLab, inner = 'NoPassive'): string {
  const prefix = 'urn:oasis:names:tc:SAML:2.0:status:'
  return (
    `<samlp:Response xmlns:samlp="urn:oasis:names:tc:SAML:2.0:protocol" ID="_r" Version="2.0" ` +
    `IssueInstant="${new Date(lab.clock.now()).toISOString()}"><samlp:Status>` +
    `<samlp:StatusCode Value="${prefix}Responder"><samlp:StatusCode Value="${prefix}${inner}"/>` +
    `</samlp:StatusCode></samlp:Status></samlp:Response>`
  )
}

t.test('a passive login of a person the identity provider knows ends with a session', async t => {
  const lab = await SamlLab.open(t, 'entra')
  const asked = readAsked(await lab.browser.get(passive, ...navigation))
  t.match(asked, { isPassive: true, forceAuthn: false })
  const taken = await lab.browser.deliver(
    lab.idp.respond({ inResponseTo: asked.id }),
    asked.relayState,
  )
  const end = await lab.browser.get(pathOf(hrefOf(taken)), ...navigation)
  t.equal(hrefOf(end), 'https://app.example.org/news?x=1')
  t.equal(lab.subjects.length, 1)
  const again = await lab.browser.get(passive, ...navigation)
  t.match([again.status, hrefOf(again)], [303, 'https://app.example.org/news?x=1'])
})

t.test(
  'NoPassive leads back to the page without a session, and is not asked again at once',
  async t => {
    for (const inner of ['NoPassive', 'RequestUnsupported', 'AuthnFailed']) {
      const lab = await SamlLab.open(t, 'entra')
      const asked = readAsked(await lab.browser.get(passive, ...navigation))
      const back = await lab.browser.deliver(refusal(lab, inner), asked.relayState)
      t.equal(back.status, 200)
      t.equal(hrefOf(back), 'https://app.example.org/news?x=1')
      t.match(htmlOf(back), `data-restore="${asked.relayState}"`, 'with its fragment')
      t.strictSame([lab.subjects, lab.codes], [[], []])

      const again = await lab.browser.get(passive, ...navigation)
      t.equal(again.status, 401, 'a page that asks each time ends at a page of ours')
      t.match(htmlOf(again), /You are not signed in/)
      t.match(htmlOf(again), 'href="https://app.example.org/__authproxy-redirect?login=')
      t.notMatch(htmlOf(again), /passive/)
      const active = readAsked(
        await lab.browser.get('/__authproxy-redirect?login=%2Fnews', ...navigation),
      )
      t.equal(active.isPassive, false, 'an ordinary login can begin')
      lab.clock.advance(minute)
      t.ok(readAsked(await lab.browser.get(passive, ...navigation)).isPassive, 'a minute later')
    }
  },
)

t.test('with login.status: 302 the page at which it ends has no error status', async t => {
  const lab = await SamlLab.open(t, 'entra', { config: { loginStatus: 302 } })
  const asked = readAsked(await lab.browser.get(passive, ...navigation))
  await lab.browser.deliver(refusal(lab), asked.relayState)
  const again = await lab.browser.get(passive, ...navigation)
  t.match(htmlOf(again), /You are not signed in/)
  t.equal(again.status, 200)
})

t.test('a refusal leads back only where this browser has asked passively', async t => {
  const lab = await SamlLab.open(t, 'entra')
  const active = await lab.browser.login('/x')
  await lab.browser.deliver(refusal(lab), active.relayState)
  t.strictSame(lab.codes, ['idp_status'], 'for an ordinary login it is an error')
  const asked = readAsked(await lab.browser.get(passive, ...navigation))
  await lab.browser.deliver(refusal(lab), active.relayState)
  t.equal(lab.codes.at(-1), 'idp_status', 'another login of this browser')
  const stranger = await lab.browser.other().deliver(refusal(lab), asked.relayState)
  t.not(hrefOf(stranger), 'https://app.example.org/news?x=1')
  await lab.browser.deliver('<broken', asked.relayState)
  t.not(lab.codes.at(-1), 'idp_status', 'what is no answer at all is refused as ever')
  const taken = await lab.browser.deliver(refusal(lab), asked.relayState)
  t.equal(hrefOf(taken), 'https://app.example.org/news?x=1')
  const spent = await lab.browser.deliver(refusal(lab), asked.relayState)
  t.not(hrefOf(spent), 'https://app.example.org/news?x=1', 'once')
})

t.test('reauth asks for a new login, comes back, and is no loop', async t => {
  const lab = await SamlLab.open(t, 'entra')
  await signIn(lab)
  lab.clock.advance(5 * minute)
  const asked = readAsked(await lab.browser.get(reauth, ...navigation))
  t.match(asked, { forceAuthn: true, isPassive: false })
  const taken = await lab.browser.deliver(
    lab.idp.respond({ inResponseTo: asked.id }),
    asked.relayState,
  )
  const end = await lab.browser.get(pathOf(hrefOf(taken)), ...navigation)
  t.equal(hrefOf(end), 'https://app.example.org/pay')
  t.equal(lab.subjects.length, 2)

  const again = await lab.browser.get(reauth, ...navigation)
  t.match([again.status, hrefOf(again)], [303, 'https://app.example.org/pay'], 'it was just done')
  lab.clock.advance(minute)
  t.ok(readAsked(await lab.browser.get(reauth, ...navigation)).forceAuthn, 'a minute later')
})

t.test('reauth of a stranger, of another site, and with an old login at the provider', async t => {
  const lab = await SamlLab.open(t, 'entra')
  const asked = readAsked(await lab.browser.get(`${reauth}&passive`, ...navigation))
  t.match(asked, { forceAuthn: true, isPassive: false }, 'a new login cannot be silent')
  const authenticated = lab.clock.now() - 10 * minute
  const old = { inResponseTo: asked.id, assertion: { authenticated } }
  await lab.browser.deliver(lab.idp.respond(old), asked.relayState)
  t.equal(lab.subjects.length, 0, 'an old login is none')

  const other = await SamlLab.open(t, 'entra')
  await signIn(other)
  const foreign = [
    ['Sec-Fetch-Mode', 'navigate'],
    ['Sec-Fetch-Dest', 'document'],
    ['Sec-Fetch-Site', 'cross-site'],
  ] as const
  const sent = await other.browser.get(reauth, ...foreign)
  t.match([sent.status, hrefOf(sent)], [303, 'https://app.example.org/pay'])
})
