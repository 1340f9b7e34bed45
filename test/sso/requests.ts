/**
 * AuthnRequests as a real identity provider takes them: by POST, signed and not, for a fresh login, for a way of logging in.
 */
import type { Page } from 'playwright-core'
import t from 'tap'
import { failureShown, recordOf } from '../fixtures/sso/look.ts'
import { noStage, setStage, told } from '../fixtures/sso/stage.ts'
import { users } from '../fixtures/sso/users.ts'

t.setTimeout(300_000)
const classes = 'urn:oasis:names:tc:SAML:2.0:ac:classes:'

t.test('requests to the identity provider', { skip: noStage, timeout: 300_000 }, async t => {
  const stage = await setStage(t, { idp: { postOnly: true } })
  const asked = (page: Page) =>
    page.waitForRequest(
      request => request.method() === 'POST' && request.url().includes('SSOService'),
    )
  const messageOf = (text: string | null) =>
    Buffer.from(new URLSearchParams(text ?? '').get('SAMLRequest') ?? '', 'base64').toString()

  await t.test('by POST, not signed: everything survives as by redirect', async t => {
    const page = await (await stage.newContext()).newPage()
    const request = asked(page)
    await page.goto(`${stage.base}/reports?sort=name#summary`)
    const message = messageOf((await request).postData())
    t.match(message, '<samlp:AuthnRequest')
    t.notMatch(message, 'Signature')
    await stage.logIn(page, users.ada)
    t.equal(await told(page, 'User'), 'ada@example.test')
    t.equal(page.url(), `${stage.base}/reports?sort=name#summary`)
    await page.context().close()
  })

  await t.test('by POST, signed, because the metadata asks for it', async t => {
    await stage.idp.behave({ wantSigned: true })
    await stage.restart()
    await stage.introduce()
    const page = await (await stage.newContext()).newPage()
    const request = asked(page)
    await page.goto(`${stage.base}/reports?sort=name#summary`)
    t.match(messageOf((await request).postData()), '<ds:SignatureValue')
    await stage.logIn(page, users.ada)
    t.equal(page.url(), `${stage.base}/reports?sort=name#summary`)
    await page.context().close()
  })

  await t.test('by POST, not signed where that is asked for: refused there', async t => {
    await stage.restart({ samlRequestSigning: 'never' })
    const page = await stage.open('/')
    await page.waitForURL(`${stage.idp.base}/**`)
    t.equal(await page.locator('input[name=username]').count(), 0)
    await page.context().close()
  })

  await t.test('by redirect again, ForceAuthn: the password is asked for each time', async t => {
    await stage.idp.behave({ postOnly: false, wantSigned: false })
    await stage.restart()
    await stage.introduce()
    for (const forceAuthn of [false, true]) {
      await stage.restart({ saml: { forceAuthn } })
      const page = await stage.signedIn(users.ada)
      await page.context().clearCookies({ name: /authproxy/ })
      await page.goto(`${stage.base}/again`)
      if (forceAuthn) await stage.logIn(page, users.ada)
      else await stage.arrived(page)
      t.equal(page.url(), `${stage.base}/again`, forceAuthn ? 'asked' : 'not asked')
      await page.context().close()
    }
  })

  await t.test('AuthnContext: the one people log in by is taken', async t => {
    await stage.restart({ saml: { authnContext: [`${classes}PasswordProtectedTransport`] } })
    const page = await stage.signedIn(users.ada)
    t.equal(await told(page, 'User'), 'ada@example.test')
    await page.context().close()
  })

  await t.test('AuthnContext: another one is refused, with its name in the log', async t => {
    await stage.restart({ saml: { authnContext: [`${classes}SmartcardPKI`] } })
    const page = await stage.open('/')
    await stage.submit(page, users.ada)
    await page.waitForURL(`${stage.base}/**`)
    const { requestId, text } = await failureShown(t, page, 'authn-context')
    t.match(text, /way of signing in/)
    t.match(await recordOf(() => stage.gateway.log, requestId), {
      code: 'authn_context',
      expected: `${classes}SmartcardPKI`,
      received: `${classes}PasswordProtectedTransport`,
    })
    await page.context().close()
  })
})
