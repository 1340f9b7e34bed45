/**
 * Single logout with two services behind one identity provider, each with its own gateway, and with two browsers of one person.
 */

import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import type { Page } from 'playwright-core'
import t from 'tap'
import { createApplication } from '../../demo/application.ts'
import { launchBrowser } from '../fixtures/sso/browser.ts'
import { startEdge } from '../fixtures/sso/edge.ts'
import { Gateway } from '../fixtures/sso/gateway.ts'
import { getText } from '../fixtures/sso/https.ts'
import { look } from '../fixtures/sso/look.ts'
import { noStage, setStage, told } from '../fixtures/sso/stage.ts'
import { users } from '../fixtures/sso/users.ts'

t.setTimeout(300_000)

t.test('single logout', { skip: noStage, timeout: 300_000 }, async t => {
  const stage = await setStage(t)
  const wiki = 'wiki.example.test'
  const application = createApplication()
  await new Promise<void>(listening => application.listen(0, '127.0.0.1', listening))
  t.teardown(() => {
    application.closeAllConnections()
    application.close()
  })
  const { port: to } = application.address() as AddressInfo
  const second = await Gateway.start({
    directory: join(stage.directory, 'second'),
    domain: wiki,
    to,
    settings: { idpMetadataURL: stage.idp.metadataUrl },
    env: { NODE_EXTRA_CA_CERTS: join(stage.directory, 'ca.pem') },
  })
  t.teardown(() => second.stop())
  const edge = await startEdge({
    directory: join(stage.directory, 'second-edge'),
    authority: stage.authority,
    host: wiki,
    to: second.port,
  })
  t.teardown(() => edge.process.stop())
  const browser = await launchBrowser({
    [stage.idp.host]: stage.idp.port,
    [stage.host]: stage.edge.port,
    [wiki]: edge.port,
  })
  t.teardown(() => browser.close())
  const theirs = await getText(`https://${wiki}/saml/metadata.xml`, stage.authority.cert, {
    port: edge.port,
  })
  await stage.idp.trust((await stage.ask('/saml/metadata.xml')).text, theirs.text)

  const sessions = async (page: Page) => {
    const cookies = await page.context().cookies([stage.base, `https://${wiki}`])
    return cookies.filter(({ name }) => name === '__authproxy_session').map(({ domain }) => domain)
  }
  /** A browser that is signed in at both services. */
  const atBoth = async () => {
    const page = await (await browser.newContext()).newPage()
    await page.goto(`${stage.base}/`)
    await stage.logIn(page, users.ada)
    await page.goto(`https://${wiki}/`)
    await stage.arrived(page)
    t.equal((await sessions(page)).length, 2)
    return page
  }

  await t.test('begun at the IdP, it ends the sessions of both services', async t => {
    const page = await atBoth()
    await page.goto(stage.idp.logoutUrl)
    await page.waitForURL(`${stage.idp.base}/logout.php**`)
    t.strictSame(await sessions(page), [])
    for (const base of [stage.base, `https://${wiki}`]) {
      await page.goto(`${base}/`)
      await page.locator('input[name=username]').waitFor()
    }
    await page.context().close()
  })

  await t.test('begun at one service, it ends the other one too, and says so', async t => {
    const page = await atBoth()
    await page.goto(`${stage.base}/`)
    await page.click('text=Sign out')
    await page.waitForURL(`${stage.base}/saml/slo**`)
    t.match(await page.textContent('main'), /here and at the identity provider has ended/)
    await look(t, page, 'signed-out-everywhere')
    t.strictSame(await sessions(page), [])
    await page.goto(`https://${wiki}/`)
    await page.locator('input[name=username]').waitFor()
    await page.context().close()
  })

  await t.test('another browser of the same person stays signed in', async t => {
    const [one, other] = [await atBoth(), await atBoth()]
    await one.goto(stage.idp.logoutUrl)
    await one.waitForURL(`${stage.idp.base}/logout.php**`)
    t.strictSame(await sessions(one), [])
    await other.goto(`https://${wiki}/still`)
    t.equal(await told(other, 'User'), 'ada@example.test')
    await other.goto(`${stage.base}/still`)
    t.equal(await told(other, 'User'), 'ada@example.test')
    await Promise.all([one, other].map(page => page.context().close()))
  })

  await t.test('a service that is away: the session at the one it began at ends', async t => {
    const page = await atBoth()
    await second.stop()
    await page.goto(`${stage.base}/`)
    await page.click('text=Sign out')
    await page.waitForURL(`https://${wiki}/saml/slo**`)
    t.strictSame(await sessions(page), [wiki], 'the other could not be told')
    await page.context().close()
  })
})
