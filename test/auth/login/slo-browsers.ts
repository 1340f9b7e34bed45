/**
 * Who may sign a user out: a person, and the IdP; not the pages of other sites.
 */
import t from 'tap'
import { logoutResponseXml } from '../../../lib/saml/binding/message-xml.ts'
import { signElement } from '../../../lib/saml/signature/sign.ts'
import { status } from '../../../lib/saml/xml/vocabulary.ts'
import { formOf, hrefOf, htmlOf, inputsOf } from '../../fixtures/saml/browser.ts'
import { sp } from '../../fixtures/saml/idp.ts'
import { rsaPair } from '../../fixtures/saml/keys.ts'
import { SamlLab, signIn } from '../../fixtures/saml/lab.ts'
import { byRedirect, request, sent } from '../../fixtures/saml/logout.ts'

t.test(
  '70: a page of another site asks first, and a person who follows a link there is signed out',
  async t => {
    const lab = await SamlLab.open(t, 'entra')
    await signIn(lab)
    const answer = await lab.browser.get('/saml/slo', ['Sec-Fetch-Site', 'cross-site'])
    t.match(htmlOf(answer), /Sign out\?/)
    t.equal(lab.browser.cookies.has('session'), true)
    await lab.browser.post('/saml/slo', '')
    t.equal(lab.browser.cookies.has('session'), false)
    await signIn(lab)
    const followed = {
      ...{ 'Sec-Fetch-Site': 'cross-site', 'Sec-Fetch-Mode': 'navigate' },
      ...{ 'Sec-Fetch-Dest': 'document', 'Sec-Fetch-User': '?1' },
    }
    await lab.browser.get('/saml/slo', ...Object.entries(followed))
    t.equal(lab.browser.cookies.has('session'), false)
  },
)

t.test('70: a form of another origin signs no user out, and HEAD none at all', async t => {
  const lab = await SamlLab.open(t, 'google')
  await signIn(lab)
  const post = (...fields: ReadonlyArray<readonly [string, string]>) =>
    lab.browser.post('/saml/slo', '', ...fields)
  for (const fields of [
    [['Origin', 'https://evil.example']],
    [['Origin', 'null']],
    [
      ['Origin', 'https://other.example.org'],
      ['Sec-Fetch-Site', 'same-site'],
      ['Sec-Fetch-User', '?1'],
    ],
    [
      ['Sec-Fetch-Site', 'cross-site'],
      ['Sec-Fetch-Mode', 'navigate'],
      ['Sec-Fetch-Dest', 'document'],
      ['Sec-Fetch-User', '?1'],
    ],
  ] as const) {
    t.match(htmlOf(await post(...fields)), /Sign out\?/)
    t.equal(lab.browser.cookies.has('session'), true)
  }
  await lab.browser.head('/saml/slo')
  t.equal(lab.browser.cookies.has('session'), true)
  await lab.browser.head(byRedirect('SAMLRequest', request(lab)))
  t.equal(lab.browser.cookies.has('session'), true)
  t.strictSame(lab.revoked, [])
  // Our own page has no referrer, so its form says the same origin by Sec-Fetch-Site alone.
  await post(['Origin', 'null'], ['Sec-Fetch-Site', 'same-origin'])
  t.equal(lab.browser.cookies.has('session'), false)
})

/** The content of a post with a LogoutRequest that the IdP has signed. */
function signedPost(lab: SamlLab, more: Parameters<typeof request>[1] = {}): string {
  const xml = signElement(request(lab, { id: '_theirs', ...more }), {
    id: '_theirs',
    key: rsaPair('idp'),
  })
  return formOf({ SAMLRequest: Buffer.from(xml).toString('base64'), RelayState: 'their state' })
}

t.test(
  'a LogoutRequest that comes without a session cookie ends the session by the list',
  async t => {
    const lab = await SamlLab.open(t, 'entra')
    await signIn(lab)
    // The browser holds the cookie back: SameSite=Lax.
    const answer = await lab.browser.other().post('/saml/slo', signedPost(lab))
    t.match(sent(t, hrefOf(answer)), /status:Success/)
    t.match(lab.revoked, [{ nameId: 'alice@example.org' }])
  },
)

t.test(
  'without such a list a page of ours posts it once more, so that the cookie comes',
  async t => {
    const lab = await SamlLab.open(t, 'entra')
    lab.revocation = false
    await signIn(lab)
    const held = lab.browser.other()
    const page = await held.post('/saml/slo', signedPost(lab))
    t.match(htmlOf(page), /<form id="form" method="post" action="\/saml\/slo\?again"/)
    t.match(page.fields.get('Content-Security-Policy'), `frame-ancestors ${lab.idp.baseUrl}`)
    t.strictSame(lab.revoked, [], 'nothing is used up yet')
    const again = formOf(inputsOf(htmlOf(page)))
    const answer = await lab.browser.post('/saml/slo?again', again)
    t.match(sent(t, hrefOf(answer)), /status:Success/)
    t.equal(new URL(hrefOf(answer)).searchParams.get('RelayState'), 'their state')
    t.equal(lab.browser.cookies.has('session'), false)
  },
)

t.test('and where no cookie comes then either, the IdP is not told of a success', async t => {
  const lab = await SamlLab.open(t, 'entra')
  lab.revocation = false
  await signIn(lab)
  const answer = await lab.browser.other().post('/saml/slo?again', signedPost(lab))
  t.match(sent(t, hrefOf(answer)), /status:Responder/)
  t.strictSame(answer.fields.all('Set-Cookie'), [])
})

t.test(
  '93: a signed LogoutRequest for somebody else, posted by another site, removes no cookie',
  async t => {
    for (const revocation of [true, false]) {
      const lab = await SamlLab.open(t, 'entra')
      lab.revocation = revocation
      await signIn(lab)
      const nameId = { value: 'mallory@example.org', format: undefined }
      const content = signedPost(lab, {
        nameId: { ...lab.subjects[0]?.nameId, ...nameId } as never,
      })
      // As the browser of the victim posts it for another site: without the session, which it keeps.
      const posted = await lab.browser.other().post('/saml/slo', content)
      t.strictSame(posted.fields.all('Set-Cookie'), [], 'no cookie is removed')
      const again = await lab.browser.post('/saml/slo?again', content)
      t.strictSame(again.fields.all('Set-Cookie'), [], 'nor where the session is seen')
      t.equal(lab.browser.cookies.has('session'), true)
    }
  },
)

t.test('33: unsigned logout messages are refused before they are parsed', async t => {
  const lab = await SamlLab.open(t, 'entra')
  await signIn(lab)
  for (const name of ['SAMLRequest', 'SAMLResponse'] as const) {
    await lab.browser.get(byRedirect(name, '<no xml', 'unsigned'))
    t.equal(lab.codes.at(-1), 'logout_signature_missing')
  }
})

t.test(
  '70: an image, a beacon or a page fetched ahead signs no user out, not even from our own pages',
  async t => {
    const lab = await SamlLab.open(t, 'google')
    await signIn(lab)
    const own = { 'Sec-Fetch-Site': 'same-origin' }
    for (const fields of [
      { ...own, 'Sec-Fetch-Mode': 'no-cors', 'Sec-Fetch-Dest': 'image' },
      { ...own, 'Sec-Fetch-Mode': 'no-cors', 'Sec-Fetch-Dest': 'empty' },
      { ...own, 'Sec-Fetch-Mode': 'navigate', 'Sec-Fetch-Dest': 'embed' },
      { ...own, 'Sec-Fetch-Mode': 'navigate', 'Sec-Purpose': 'prefetch;prerender' },
      { Purpose: 'prefetch' },
      { 'X-Moz': 'prefetch' },
      { 'X-Purpose': 'preview' },
      {
        'Sec-Fetch-Site': 'cross-site',
        'Sec-Fetch-Mode': 'navigate',
        'Sec-Fetch-Dest': 'document',
      },
    ]) {
      t.match(htmlOf(await lab.browser.get('/saml/slo', ...Object.entries(fields))), /Sign out\?/)
      t.equal(lab.browser.cookies.has('session'), true)
    }
    t.strictSame(lab.revoked, [])
    const script = { ...own, 'Sec-Fetch-Mode': 'cors', 'Sec-Fetch-Dest': 'empty' }
    await lab.browser.get('/saml/slo', ...Object.entries(script))
    t.equal(lab.browser.cookies.has('session'), false, 'a script of the application may')
  },
)

t.test(
  'a browser without Fetch metadata is asked once: the form of the page says its origin',
  async t => {
    const lab = await SamlLab.open(t, 'google')
    await signIn(lab)
    const page = await lab.browser.post('/saml/slo', '', ['Origin', 'https://evil.example'])
    t.match(htmlOf(page), /Sign out\?/)
    t.equal(page.fields.get('Referrer-Policy'), 'same-origin', 'or the form would say "null"')
    await lab.browser.post('/saml/slo', '', ['Origin', 'https://app.example.org'])
    t.equal(lab.browser.cookies.has('session'), false)
  },
)

t.test(
  'an answer to our logout that is refused does not say that no user was signed out',
  async t => {
    const lab = await SamlLab.open(t, 'entra')
    await signIn(lab)
    const [, id = ''] =
      /ID="([^"]+)"/.exec(sent(t, hrefOf(await lab.browser.get('/saml/slo')))) ?? []
    const answer = (issued: number) =>
      logoutResponseXml({
        ...{ id: '_answer', issuer: lab.idp.entityId, issued, destination: sp.sloUrl },
        ...{ inResponseTo: id, status: status.success },
      })
    const late = byRedirect('SAMLResponse', answer(lab.clock.now() + 3_600_000))
    const page = await lab.browser.get(late)
    t.match(lab.failures.at(-1), { code: 'logout_issue_instant', as: 'logout_unconfirmed' })
    t.match(htmlOf(page), /You are signed out\nYour session here has ended/)

    // Signed in again, the answer to the logout of before ends nothing, and says nothing else.
    await signIn(lab)
    await lab.browser.get(byRedirect('SAMLResponse', answer(lab.clock.now())))
    t.equal(lab.browser.cookies.has('session'), true)
    t.match(lab.failures.at(-1), { code: 'logout_in_response_to', as: 'logout_refused' })
  },
)
