/**
 * Messages that the identity provider and we send each other by POST, in Chromium: single logout in hidden frames, the Origin of
 * our forms, and answers that are posted twice.
 */
import t from 'tap'
import { logoutRequestXml } from '../../lib/saml/binding/message-xml.ts'
import { signElement } from '../../lib/saml/signature/sign.ts'
import { RawClient } from '../fixtures/http/raw-client.ts'
import { eventually } from '../fixtures/process/ports.ts'
import { sp } from '../fixtures/saml/idp.ts'
import { rsaPair } from '../fixtures/saml/keys.ts'
import { noBrowser } from '../fixtures/sso/browser.ts'
import { type At, PageLab } from '../fixtures/sso/page-lab.ts'
import { signIn } from '../fixtures/sso/page-steps.ts'

t.setTimeout(600_000)

/** A form with a signed LogoutRequest for alice, which posts itself into a hidden frame, as a page of `origin` shows it. */
async function showFrame({ context, page, whole }: At, origin: string): Promise<void> {
  const id = '_theirs'
  const xml = logoutRequestXml({
    id,
    issuer: whole.idp.entityId,
    issued: Date.now(),
    destination: sp.sloUrl,
    nameId: {
      value: 'alice@example.org',
      format: 'urn:oasis:names:tc:SAML:1.1:nameid-format:emailAddress',
      nameQualifier: undefined,
      spNameQualifier: undefined,
    },
    sessionIndex: undefined,
  })
  const message = Buffer.from(signElement(xml, { id, key: rsaPair('idp') })).toString('base64')
  const body = `<iframe name="hidden" style="display:none"></iframe>
    <form method="post" target="hidden" action="${sp.sloUrl}">
    <input name="SAMLRequest" value="${message}"></form>
    <script>document.forms[0].submit()</script>`
  await context.route(`${origin}/signing-out`, route =>
    route.fulfill({ contentType: 'text/html', body }),
  )
  // The gateway of the test is on the loopback, and the page of the IdP is not: browsers ask the person about that.
  await context.grantPermissions(['local-network-access'], { origin })
  await page.goto(`${origin}/signing-out`)
}

t.test('messages by POST', { skip: noBrowser, timeout: 600_000 }, async t => {
  const lab = await PageLab.open(t)
  const metadata = { logoutBindings: ['post'] as const, signOnBindings: ['post'] as const }

  for (const revocation of [true, false]) {
    await t.test(`a hidden frame of the IdP gets its answer, revocation ${revocation}`, async t => {
      const settings = { session: { revocation } }
      const at = await lab.stage(t, { gateway: { profile: 'entra', metadata, settings } })
      await signIn(at)
      const answers: string[] = []
      at.page.on('request', request => {
        if (request.url().startsWith(`${at.whole.idp.baseUrl}/slo`)) {
          answers.push(request.postData() ?? '')
        }
      })
      await showFrame(at, at.whole.idp.baseUrl)
      t.ok(await eventually(() => answers.length > 0))
      const [answer = ''] = answers
      const text = new URLSearchParams(answer).get('SAMLResponse') ?? ''
      // The IdP of the test is of the same site, so the browser sends the session along from the page that posts again.
      t.match(Buffer.from(text, 'base64').toString(), /status:Success/)
      await at.page.goto(`${at.base}/fields`)
      const logins = () => at.whole.log.lines.filter(({ message }) => message === 'signed in')
      t.ok(await eventually(() => logins().length === 2), 'the session had ended')
    })
  }

  await t.test('70: a frame of another site shows nothing of it', async t => {
    const at = await lab.stage(t, { gateway: { profile: 'entra', metadata } })
    await signIn(at)
    const refused: string[] = []
    at.page.on('console', message => {
      if (message.text().includes('frame-ancestors')) refused.push(message.text())
    })
    await showFrame(at, 'https://other.example.net')
    t.ok(await eventually(() => refused.length > 0))
  })

  await t.test('the posts to the identity provider say our origin', async t => {
    const at = await lab.stage(t, { gateway: { profile: 'entra', metadata } })
    const origins: Array<string | undefined> = []
    at.page.on('request', request => {
      const isPost = request.method() === 'POST' && request.url().startsWith(at.whole.idp.baseUrl)
      if (isPost) origins.push(request.headers()['origin'])
    })
    await signIn(at)
    await at.page.goto(`${at.base}/saml/slo`)
    await at.page.locator('text=Signed out').waitFor()
    t.same(origins, [at.base, at.base], 'AuthnRequest and LogoutRequest')
  })

  await t.test('24: the answer is posted twice: the login begins again by itself', async t => {
    const at = await lab.stage(t)
    let posts = 0
    let first: number | undefined
    await at.context.route(sp.acsUrl, async route => {
      posts += 1
      if (posts > 1) return route.continue()
      // The gateway takes the first post, and the browser never reads the reply: it posts the same answer again.
      const content = route.request().postData() ?? ''
      const client = await RawClient.connect(t, at.whole.port)
      const lines = [
        'POST /saml/acs HTTP/1.1',
        `Host: ${sp.domain}`,
        `Cookie: ${await at.cookies()}`,
        'Content-Type: application/x-www-form-urlencoded',
        `Content-Length: ${Buffer.byteLength(content)}`,
      ]
      await client.write(`${lines.join('\r\n')}\r\n\r\n${content}`)
      first = (await client.response()).status
      await route.continue()
    })
    await at.page.goto(`${at.base}/deep?x=1#part`).catch(() => {})
    await at.page.locator('text=the application').waitFor()
    t.equal(first, 303, 'the first post signs in')
    t.equal(at.page.url(), `${at.base}/deep?x=1#part`)
    t.same(at.whole.records('SAML-ERROR'), [])
    const again = at.whole.log.lines.filter(({ message }) => message === 'the login begins again')
    t.equal(again[0]?.facts['code'], 'replay')
  })
})
