/**
 * New keys while people are signed in and signing in: `authproxy rotate-keys` as operators run it, and the dynamic file deleted.
 */
import { rm } from 'node:fs/promises'
import t from 'tap'
import { eventually } from '../fixtures/process/ports.ts'
import { failureShown, recordOf } from '../fixtures/sso/look.ts'
import { noStage, type Stage, setStage, told } from '../fixtures/sso/stage.ts'
import { users } from '../fixtures/sso/users.ts'

t.setTimeout(300_000)

t.test('new keys', { skip: noStage, timeout: 300_000 }, async t => {
  const stage = await setStage(t)
  const certificates = async () => {
    const { text } = await stage.ask('/saml/metadata.xml')
    return new Set(text.match(/(?<=<ds:X509Certificate>)[^<]+/g))
  }
  const rotate = async () => {
    const before = (await stage.ask('/saml/certificate.crt')).text
    const { code, output } = await stage.gateway.run('rotate-keys')
    t.equal(code, 0, output)
    t.match(output, /Sessions go on/)
    const used = await eventually(
      async () => (await stage.ask('/saml/certificate.crt')).text !== before,
    )
    t.ok(used, 'the running instance has them')
  }

  await t.test('rotated during a session: it goes on, without a way to the IdP', async t => {
    const page = await stage.signedIn(users.ada)
    const elsewhere: string[] = []
    page.on('request', request => {
      if (!request.url().startsWith(stage.base)) elsewhere.push(request.url())
    })
    t.equal((await certificates()).size, 1)
    await rotate()
    await page.goto(`${stage.base}/after?x=1`)
    t.equal(await told(page, 'User'), 'ada@example.test')
    t.equal(page.url(), `${stage.base}/after?x=1`)
    t.strictSame(elsewhere, [])
    t.equal((await certificates()).size, 2, 'both certificates are published')
    await page.context().close()
  })

  await t.test('rotated during a login: it arrives where it was going', async t => {
    const page = await stage.open('/deep?x=1#there')
    await page.waitForURL(`${stage.idp.base}/**`)
    await rotate()
    await stage.logIn(page, users.ada)
    t.equal(page.url(), `${stage.base}/deep?x=1#there`)
    await page.context().close()
  })

  await t.test('an IdP that knows the old certificate alone still encrypts to us', async t => {
    await stage.idp.behave({ encrypt: true })
    const page = await stage.signedIn(users.ada)
    t.equal(await told(page, 'User'), 'ada@example.test')
    await page.context().close()
  })

  await t.test('and takes our logout, which is signed', async t => {
    const page = await stage.signedIn(users.ada)
    await page.click('text=Sign out')
    await page.waitForURL(`${stage.base}/saml/slo**`)
    t.match(await page.textContent('main'), /and at the identity provider has ended/)
    await page.context().close()
  })

  await t.test('with the metadata read anew: encrypted, signed, and logout', async t => {
    await stage.introduce()
    await stage.idp.behave({ encrypt: true, wantSigned: true })
    await stage.restart()
    const page = await stage.signedIn(users.ada)
    t.equal(await told(page, 'User'), 'ada@example.test')
    await page.click('text=Sign out')
    await page.waitForURL(`${stage.base}/saml/slo**`)
    t.match(await page.textContent('main'), /and at the identity provider has ended/)
    await page.context().close()
    await stage.idp.behave({ encrypt: false, wantSigned: false })
    await stage.restart()
    await stage.introduce()
  })

  await t.test('the file deleted during a login: it begins again and ends on its page', async t => {
    const page = await stage.open('/deep?x=1#there')
    await page.waitForURL(`${stage.idp.base}/**`)
    await remake(stage)
    await stage.submit(page, users.ada)
    await stage.arrived(page)
    t.equal(page.url(), `${stage.base}/deep?x=1#there`)
    t.equal(await told(page, 'User'), 'ada@example.test')
    await page.context().close()
  })

  await t.test('the file deleted, and the IdP encrypts to the certificate of before', async t => {
    await stage.introduce()
    await remake(stage)
    await stage.idp.behave({ encrypt: true })
    const page = await stage.open('/')
    await stage.submit(page, users.ada)
    await page.waitForURL(`${stage.base}/**`)
    const { text, requestId } = await failureShown(t, page, 'keys-deleted-encrypted')
    t.match(text, /authproxy explain/)
    t.match(await recordOf(() => stage.gateway.log, requestId), { code: 'encryption_key' })
    await stage.introduce()
    await page.click('.button')
    await stage.arrived(page)
    await page.context().close()
  })
})

/** Deletes the dynamic file and waits for the running instance to have made another. */
async function remake(stage: Stage): Promise<void> {
  const before = (await stage.ask('/saml/certificate.crt')).text
  await rm(stage.gateway.dynamicFile)
  const made = await eventually(
    async () => (await stage.ask('/saml/certificate.crt')).text !== before,
    30_000,
  )
  if (!made) throw new Error(`no new keys after 30 s: ${stage.gateway.output.slice(-1000)}`)
}
