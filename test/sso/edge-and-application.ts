/**
 * The edge and the sample application of the sign-on tests, tried without a gateway between them: what the gateway is
 * measured against later.
 */
import type { AddressInfo } from 'node:net'
import t from 'tap'
import { createApplication } from '../../demo/application.ts'
import { makeAuthority } from '../fixtures/certificates/certificate.ts'
import { launchBrowser, noBrowser } from '../fixtures/sso/browser.ts'
import { noEdge, startEdge } from '../fixtures/sso/edge.ts'
import { getText } from '../fixtures/sso/https.ts'
import { talk } from '../fixtures/sso/websocket.ts'

t.setTimeout(90_000)
const host = 'app.example.test'

t.test('an edge before the application', { skip: noEdge, timeout: 90_000 }, async t => {
  const application = createApplication()
  await new Promise<void>(listening => application.listen(0, '127.0.0.1', listening))
  t.teardown(() => {
    application.closeAllConnections()
    application.close()
  })
  const { port: to } = application.address() as AddressInfo
  const authority = makeAuthority()
  const edge = await startEdge({ directory: t.testdir(), authority, host, to })
  t.teardown(() => edge.process.stop())
  const ask = (target: string, options = {}) =>
    getText(`https://${host}${target}`, authority.cert, { port: edge.port, ...options })

  await t.test('hands on the public Host and says https', async t => {
    const { fields } = JSON.parse(
      (await ask('/fields', { fields: { 'X-Forwarded-Proto': 'http' } })).text,
    )
    t.equal(fields[fields.indexOf('Host') + 1], host)
    t.equal(fields[fields.indexOf('X-Forwarded-Proto') + 1], 'https')
  })

  await t.test('lets a megabyte of fields through', async t => {
    const { status, text } = await ask('/fields', { fields: { 'X-Large': 'x'.repeat(1_000_000) } })
    t.equal(status, 200)
    t.ok(text.length > 1_000_000)
  })

  await t.test('streams uploads and downloads', async t => {
    const sent = await ask('/upload', { method: 'POST', content: Buffer.alloc(3_000_000) })
    t.equal(JSON.parse(sent.text).bytes, 3_000_000)
    t.equal((await ask('/download?bytes=3000000')).text.length, 3_000_000)
  })

  await t.test('upgrades WebSockets, and hands on their refusal', async t => {
    const where = { host, port: edge.port, ca: authority.cert }
    const said = await talk({ ...where, target: '/socket', say: ['one', 'x'.repeat(70_000)] })
    t.equal(said.status, 101)
    t.strictSame(said.heard.slice(1), ['one', 'x'.repeat(70_000)])
    t.equal((await talk({ ...where, target: '/socket?refuse=403', say: [] })).status, 403)
  })

  await t.test('in a browser, everything on the page works', { skip: noBrowser }, async t => {
    const browser = await launchBrowser({ [host]: edge.port })
    t.teardown(() => browser.close())
    const page = await browser.newPage()
    const complaints: string[] = []
    page.on('console', message => complaints.push(message.text()))
    page.on('pageerror', error => complaints.push(String(error)))
    await page.goto(`https://${host}/reports?sort=name#summary`)
    t.equal(await page.textContent('#user'), 'No identity')
    t.equal(await page.textContent('#target'), 'GET /reports?sort=name')
    t.equal(await page.textContent('#fragment'), '#summary')
    const says = (id: string, hasText: string) => page.locator(`#${id}`, { hasText }).waitFor()
    for (const [name, id, text] of [
      ['socket', 'socket-says', 'echo: hello'],
      ['events', 'events-say', 'event 5 of 5'],
      ['upload', 'upload-says', '10000000 bytes'],
      ['fields', 'fields-say', '200 with JSON'],
    ] as const) {
      await page.click(`[data-try=${name}]`)
      await says(id, text)
    }
    await page.goto(`https://${host}/form`)
    await page.fill('#subject', 'Grüße & more')
    await page.click('button')
    t.match(await page.textContent('#received-content'), 'subject=Gr%C3%BC%C3%9Fe+%26+more')
    t.strictSame(
      complaints.filter(text => !text.includes('favicon')),
      [],
    )
  })
})
