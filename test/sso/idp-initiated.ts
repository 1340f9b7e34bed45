/**
 * Logins begun at the identity provider: refused unless they are allowed, and where they lead when they are.
 */
import type { Page } from 'playwright-core'
import t from 'tap'
import { noStage, setStage, told } from '../fixtures/sso/stage.ts'
import { users } from '../fixtures/sso/users.ts'

t.setTimeout(300_000)

t.test('a login begun at the IdP', { skip: noStage, timeout: 300_000 }, async t => {
  const stage = await setStage(t)
  const entityId = `${stage.base}/saml/metadata`
  const begin = async (relayState?: string) => {
    const page = await (await stage.newContext()).newPage()
    await page.goto(stage.idp.unsolicitedUrl(entityId, relayState))
    return page
  }

  await t.test('begins here instead unless allowed, and arrives where it was going', async t => {
    const page = await begin('/reports?x=1')
    const posts = postsOf(page)
    await stage.logIn(page, users.ada)
    t.equal(await told(page, 'User'), 'ada@example.test')
    t.equal(page.url(), `${stage.base}/reports?x=1`)
    const own = ['/saml/acs', '/saml/acs?again', '/saml/acs']
    t.strictSame(posts, own, 'once more from our own site, then the answer to our own request')
    t.ok(stage.gateway.log.some(line => line['setting'] === 'saml.idpInitiated'))
    await page.context().close()
  })

  await t.test('is harmless to somebody signed in: the session stays', async t => {
    const page = await stage.signedIn(users.bert)
    await page.context().clearCookies({ domain: stage.idp.host })
    await page.goto(stage.idp.unsolicitedUrl(entityId))
    await stage.logIn(page, users.ada)
    t.equal(await told(page, 'User'), 'bert01')
    await page.context().close()
  })

  await t.test('is taken when allowed, once', async t => {
    await stage.restart({ saml: { idpInitiated: true } })
    const page = await begin()
    let form = ''
    page.on('request', request => {
      if (request.url().endsWith('/saml/acs')) form = request.postData() ?? form
    })
    await stage.logIn(page, users.ada)
    t.equal(await told(page, 'User'), 'ada@example.test')
    t.equal(page.url(), `${stage.base}/`)
    const again = await stage.ask('/saml/acs', {
      method: 'POST',
      content: form,
      fields: { 'Content-Type': 'application/x-www-form-urlencoded', Accept: 'text/html' },
    })
    t.equal(again.status, 403)
    t.equal(again.fields['set-cookie'], undefined)
    await page.context().close()
  })

  for (const [relayState, arrives] of [
    ['/reports?x=1&y=%20', '/reports?x=1&y=%20'],
    [`${stage.base}/reports?x=1#there`, '/reports?x=1#there'],
    ['https://evil.test/', '/'],
    [`${stage.base}.evil.test/`, '/'],
    ['//evil.test/', '/'],
    ['/\\evil.test/', '/'],
    ['/saml/slo', '/'],
    ['token-of-somebody', '/'],
  ] as const) {
    await t.test(`RelayState ${relayState} leads to ${arrives}`, async t => {
      const page = await begin(relayState)
      await stage.logIn(page, users.ada)
      t.equal(page.url(), stage.base + arrives)
      await page.context().close()
    })
  }
})

/** Targets of the posts a page makes to the gateway, as they come. */
function postsOf(page: Page): readonly string[] {
  const posts: string[] = []
  page.on('request', request => {
    const { pathname, search } = new URL(request.url())
    if (request.method() === 'POST' && pathname.startsWith('/saml/')) posts.push(pathname + search)
  })
  return posts
}
