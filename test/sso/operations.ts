/**
 * What users see while operators restart, rotate and roll over, and while the identity provider is away.
 */
import { readFile, rm } from 'node:fs/promises'
import t from 'tap'
import { eventually } from '../fixtures/process/ports.ts'
import { Gateway } from '../fixtures/sso/gateway.ts'
import { noStage, setStage, told } from '../fixtures/sso/stage.ts'
import { users } from '../fixtures/sso/users.ts'

t.setTimeout(240_000)

t.test('operating the gateway', { skip: noStage, timeout: 240_000 }, async t => {
  const stage = await setStage(t)

  await t.test('a restart keeps sessions', async t => {
    const page = await stage.signedIn(users.ada)
    await stage.restart()
    await page.goto(`${stage.base}/after`)
    t.equal(await told(page, 'User'), 'ada@example.test')
    t.equal(page.url(), `${stage.base}/after`)
    await page.context().close()
  })

  await t.test('a login that was under way at the restart goes on', async t => {
    const page = await stage.open('/deep?x=1#there')
    await page.waitForURL(`${stage.idp.base}/**`)
    await stage.restart()
    await stage.logIn(page, users.ada)
    t.equal(page.url(), `${stage.base}/deep?x=1#there`)
    await page.context().close()
  })

  await t.test(
    'a session that ends while a form is filled in: the form arrives after the login',
    async t => {
      const page = await stage.signedIn(users.ada)
      await page.goto(`${stage.base}/form`)
      await page.fill('#subject', 'Grüße')
      await page.fill('#message', 'a long text\nin two lines & more')
      // At the identity provider too: the password is asked for. Who was signed in last is still known.
      await page.context().clearCookies({ name: /^(?!__Host-authproxy_last)/ })
      await page.click('button')
      await stage.submit(page, users.ada)
      await page.locator('#received').waitFor()
      t.equal(page.url(), `${stage.base}/form`)
      t.equal(await page.textContent('#received-type'), 'application/x-www-form-urlencoded')
      t.equal(
        await page.textContent('#received-content'),
        'subject=Gr%C3%BC%C3%9Fe&message=a+long+text%0D%0Ain+two+lines+%26+more&send=yes',
      )
      await page.context().close()
    },
  )

  await t.test(
    'a session that has run out by time: the form arrives without a question',
    async t => {
      await stage.restart({ session: { lifetime: '1m', idle: '1m' }, saml: { clockSkew: '10m' } })
      const page = await stage.signedIn(users.ada)
      await page.goto(`${stage.base}/form`)
      await page.fill('#subject', 'late')
      await stage.gateway.ahead(90)
      await page.click('button')
      await page.locator('#received').waitFor()
      t.equal(await page.textContent('#received-content'), 'subject=late&message=&send=yes')
      await page.context().close()
      await stage.restart({ session: {}, saml: {} })
    },
  )

  await t.test('a form with a file arrives as it was', async t => {
    const page = await stage.signedIn(users.ada)
    await page.context().clearCookies({ name: /^__authproxy_session/ })
    // The application has no such form; a page of its origin is enough.
    await page.route(`${stage.base}/upload`, (route, request) =>
      request.method() === 'GET'
        ? route.fulfill({
            contentType: 'text/html',
            body: '<form method="post" enctype="multipart/form-data" action="/form"><input name="text" value="Grüße"><input type="file" name="file"><button>go</button></form>',
          })
        : route.continue(),
    )
    await page.goto(`${stage.base}/upload`)
    const buffer = Buffer.from([0, 255, 13, 10, 45, 45])
    await page.setInputFiles('input[type=file]', {
      ...{ name: 'a.bin', mimeType: 'application/octet-stream' },
      buffer,
    })
    await page.click('button')
    await page.locator('#received').waitFor()
    t.equal(page.url(), `${stage.base}/form`)
    t.match(await page.textContent('#received-type'), /^multipart\/form-data; boundary=/)
    t.match(await page.textContent('#received-content'), 'filename="a.bin"')
    await page.context().close()
  })

  await t.test('a form from another site is sent when the person agrees', async t => {
    const context = await stage.newContext()
    const page = await context.newPage()
    await context.route('https://evil.test/**', route =>
      route.fulfill({
        contentType: 'text/html',
        body: `<form method="post" action="${stage.base}/form"><input name="a" value="b"><button>go</button></form>`,
      }),
    )
    await page.goto('https://evil.test/')
    await page.click('button')
    await page.getByText('Send this form?').waitFor()
    await page.getByLabel('I expect this form.').check()
    await page.click('.button')
    await stage.submit(page, users.ada)
    await page.locator('#received').waitFor()
    t.equal(page.url(), `${stage.base}/form`)
    await context.close()
  })

  await t.test('the dynamic file deleted: everybody logs in again, once', async t => {
    const page = await stage.signedIn(users.ada)
    const before = await readFile(stage.gateway.dynamicFile, 'utf8')
    await stage.restart({}, () => rm(stage.gateway.dynamicFile))
    t.not(await readFile(stage.gateway.dynamicFile, 'utf8'), before)
    await stage.introduce()
    // The identity provider still knows the user: one turn without a password, and no more.
    await page.goto(`${stage.base}/after?x=1`)
    await stage.arrived(page)
    t.equal(await told(page, 'User'), 'ada@example.test')
    t.equal(page.url(), `${stage.base}/after?x=1`)
    await page.context().close()
  })

  await t.test('deleted while it runs: a login works afterwards, too', async t => {
    const page = await stage.signedIn(users.ada)
    await rm(stage.gateway.dynamicFile)
    stage.gateway.signal('SIGHUP')
    const made = await eventually(async () =>
      readFile(stage.gateway.dynamicFile, 'utf8').then(
        () => true,
        () => false,
      ),
    )
    t.ok(made, 'there is a file again')
    await stage.introduce()
    await page.goto(`${stage.base}/after`)
    await stage.arrived(page)
    t.equal(await told(page, 'User'), 'ada@example.test')
    await page.context().close()
  })

  await t.test('the identity provider rolls its key over, announced', async t => {
    await stage.idp.behave({ nextKey: 'second' })
    await stage.restart()
    await stage.idp.behave({ key: 'second', nextKey: 'none' })
    const page = await stage.signedIn(users.ada)
    t.equal(await told(page, 'User'), 'ada@example.test')
    await page.context().close()
    await stage.idp.behave({ key: 'first' })
    await stage.restart()
  })

  await t.test(
    'the identity provider changes its key without a word: metadata is fetched and the login works',
    async t => {
      await stage.idp.behave({ key: 'second' })
      const page = await stage.signedIn(users.ada)
      t.equal(await told(page, 'User'), 'ada@example.test')
      await page.context().close()
      await stage.idp.behave({ key: 'first' })
      await stage.restart()
    },
  )

  await t.test('metadata away while it runs: nobody notices', async t => {
    await stage.idp.outage(true)
    const page = await stage.signedIn(users.ada)
    t.equal(await told(page, 'User'), 'ada@example.test')
    await page.context().close()
  })

  await t.test('metadata away at start: the cache serves, with a warning', async t => {
    await stage.restart()
    const warned = await eventually(() =>
      stage.gateway.log.some(
        line => line['level'] === 'warn' && JSON.stringify(line).includes('503'),
      ),
    )
    t.ok(warned, stage.gateway.output)
    const page = await stage.signedIn(users.ada)
    t.equal(await told(page, 'User'), 'ada@example.test')
    await page.context().close()
  })

  await t.test('metadata away at the first start: it does not start, and says why', async t => {
    const { code, output } = await Gateway.refusal({
      directory: `${stage.directory}/fresh`,
      domain: stage.host,
      to: 9,
      settings: { idpMetadataURL: stage.idp.metadataUrl },
      env: { NODE_EXTRA_CA_CERTS: `${stage.directory}/ca.pem` },
    })
    t.not(code, 0)
    t.match(output, /503/)
    t.match(output, /metadata/i)
    await stage.idp.outage(false)
  })
})
