/**
 * The identity provider of the sign-on tests, tried on its own: what it publishes and what its pages say to a browser.
 */
import t from 'tap'
import { makeAuthority } from '../fixtures/certificates/certificate.ts'
import { launchBrowser, noBrowser } from '../fixtures/sso/browser.ts'
import { getText } from '../fixtures/sso/https.ts'
import { serviceProviderMetadata } from '../fixtures/sso/service-provider-metadata.ts'
import { noSimpleSamlPhp, SimpleSamlPhp } from '../fixtures/sso/simplesamlphp.ts'
import { users } from '../fixtures/sso/users.ts'

t.setTimeout(120_000)

t.test('SimpleSAMLphp, started privately', { skip: noSimpleSamlPhp, timeout: 120_000 }, async t => {
  const authority = makeAuthority()
  const idp = await SimpleSamlPhp.start({ authority })
  t.teardown(() => idp.stop())
  const metadata = () => getText(idp.metadataUrl, authority.cert)

  await t.test('publishes its metadata under its public name', async t => {
    const { status, text } = await metadata()
    t.equal(status, 200, await idp.log())
    t.match(text, `entityID="${idp.entityId}"`)
    t.match(text, 'WantAuthnRequestsSigned="false"')
    t.match(
      text,
      /SingleSignOnService Binding="[^"]*HTTP-Redirect" Location="https:\/\/idp\.identity\.test\/simplesaml/,
    )
    t.match(text, /SingleLogoutService/)
    t.equal(text.match(/<ds:X509Certificate>/g)?.length, 2, 'one key, for signing and encryption')
  })

  await t.test('asks for signed requests when told', async t => {
    await idp.behave({ wantSigned: true })
    t.match((await metadata()).text, 'WantAuthnRequestsSigned="true"')
    await idp.behave({ wantSigned: false })
  })

  await t.test('announces a second key', async t => {
    await idp.behave({ nextKey: 'second' })
    t.ok(((await metadata()).text.match(/<ds:X509Certificate>/g)?.length ?? 0) > 2)
    await idp.behave({ nextKey: 'none' })
  })

  await t.test('has outages when told', async t => {
    await idp.outage(true)
    t.equal((await metadata()).status, 503)
    await idp.outage(false)
    t.equal((await metadata()).status, 200)
  })

  await t.test('logs people in', { skip: noBrowser }, async t => {
    const host = 'app.example.test'
    await idp.trust(serviceProviderMetadata(host))
    const browser = await launchBrowser({ [idp.host]: idp.port })
    t.teardown(() => browser.close())
    for (const { name, password } of Object.values(users)) {
      const context = await browser.newContext()
      const page = await context.newPage()
      let response = ''
      await context.route(`https://${host}/**`, async route => {
        response = new URLSearchParams(route.request().postData() ?? '').get('SAMLResponse') ?? ''
        await route.fulfill({ body: 'received' })
      })
      await page.goto(idp.unsolicitedUrl(`https://${host}/saml/metadata`))
      await page.fill('input[name=username]', name)
      await page.fill('input[name=password]', password)
      await page.press('input[name=password]', 'Enter')
      await page.waitForURL(`https://${host}/**`)
      const xml = Buffer.from(response, 'base64').toString()
      t.match(xml, 'status:Success', name)
      t.match(xml, /<saml:NameID[^>]*>[^<]+</, name)
      await context.close()
    }
  })
})
