/**
 * Logouts begun at the application and at the identity provider, through real pages of both.
 */
import t from 'tap'
import { findings } from '../fixtures/sso/accessibility.ts'
import { noStage, setStage, told } from '../fixtures/sso/stage.ts'
import { users } from '../fixtures/sso/users.ts'

t.setTimeout(120_000)

t.test('logging out', { skip: noStage, timeout: 120_000 }, async t => {
  const stage = await setStage(t)
  const sessionOf = async (page: Awaited<ReturnType<typeof stage.open>>) => {
    const cookies = await page.context().cookies(stage.base)
    return cookies.filter(({ name }) => name.startsWith('__authproxy_session'))
  }

  await t.test('begun at the application, it ends both sessions and stays signed out', async t => {
    const page = await stage.signedIn(users.ada)
    await page.click('text=Sign out')
    await page.waitForURL(`${stage.base}/**`)
    t.match(await page.textContent('body'), /signed out/i)
    t.strictSame(await findings(page), [], 'accessible')
    t.strictSame(await sessionOf(page), [])
    // It is a page that stays: nothing logs in again by itself.
    t.equal(await page.locator('script, meta[http-equiv], form').count(), 0)
    await page.reload()
    t.match(await page.textContent('body'), /signed out/i)
    // The identity provider asks for the password again.
    await page.goto(`${stage.base}/after`)
    await page.waitForURL(`${stage.idp.base}/**`)
    t.equal(await page.locator('input[name=username]').count(), 1)
    await stage.logIn(page, users.bert)
    t.equal(await told(page, 'User'), 'bert01')
    await page.context().close()
  })

  await t.test(
    'begun at the identity provider, it ends the session at the application',
    async t => {
      const page = await stage.signedIn(users.ada)
      t.ok((await sessionOf(page)).length > 0)
      await page.goto(stage.idp.logoutUrl)
      await page.waitForURL(/logout/)
      t.strictSame(await sessionOf(page), [], (await page.textContent('body')) ?? '')
      await page.goto(`${stage.base}/`)
      await page.waitForURL(`${stage.idp.base}/**`)
      await page.context().close()
    },
  )

  await t.test('a copied cookie dies with its session', async t => {
    const page = await stage.signedIn(users.ada)
    const context = await stage.newContext()
    await context.addCookies(await page.context().cookies(stage.base))
    const copy = await stage.open('/', context)
    t.equal(await told(copy, 'User'), 'ada@example.test')
    await page.click('text=Sign out')
    await page.waitForURL(`${stage.base}/**`)
    await copy.goto(`${stage.base}/again`)
    t.match(copy.url(), stage.idp.base, 'the copy has to log in')
    await context.close()
    await page.context().close()
  })

  /** A user with a session clicks `#go` on a page of another site. */
  const clicked = async (body: string) => {
    const page = await stage.signedIn(users.ada)
    await page
      .context()
      .route('https://evil.test/**', route => route.fulfill({ contentType: 'text/html', body }))
    await page.goto('https://evil.test/')
    await page.click('#go')
    return page
  }

  await t.test('a form on another site asks before it signs a user out', async t => {
    const button = '<input name="a" value="b"><button id="go">go</button>'
    const page = await clicked(
      `<form method="post" action="${stage.base}/saml/slo">${button}</form>`,
    )
    await page.locator('h1', { hasText: 'Sign out?' }).waitFor()
    t.strictSame(await findings(page), [], 'accessible')
    t.ok((await sessionOf(page)).length > 0)
    await page.click('text=Stay signed in')
    await stage.arrived(page)
    t.equal(await told(page, 'User'), 'ada@example.test')
    await page.context().close()
  })

  await t.test('a link on another site that a person follows signs out at once', async t => {
    const page = await clicked(`<a id="go" href="${stage.base}/saml/slo">sign out</a>`)
    await page.waitForURL(url => url.hostname !== 'evil.test')
    await page.waitForLoadState()
    t.strictSame(await sessionOf(page), [])
    await page.context().close()
  })

  await t.test('another site cannot log somebody out', async t => {
    const page = await stage.signedIn(users.ada)
    const answer = await stage.ask('/saml/slo', {
      as: page.context(),
      fields: {
        'Sec-Fetch-Site': 'cross-site',
        'Sec-Fetch-Mode': 'no-cors',
        'Sec-Fetch-Dest': 'image',
      },
    })
    t.notMatch(String(answer.fields['set-cookie'] ?? ''), '__authproxy_session=;')
    await page.goto(`${stage.base}/still`)
    t.equal(await told(page, 'User'), 'ada@example.test')
    await page.context().close()
  })
})
