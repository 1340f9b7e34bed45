/**
 * Edges that are wrong, in real configurations of nginx: what somebody with a browser sees, which has to name the cause.
 */
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { launchBrowser } from '../fixtures/sso/browser.ts'
import { type Mistake, startEdge } from '../fixtures/sso/edge.ts'
import { failureShown, recordOf } from '../fixtures/sso/look.ts'
import { noStage, type Stage, setStage, told } from '../fixtures/sso/stage.ts'
import { users } from '../fixtures/sso/users.ts'

t.setTimeout(300_000)

t.test('wrong edges', { skip: noStage, timeout: 300_000 }, async t => {
  const stage = await setStage(t)

  await t.test('plain HTTP, and the edge says so: named before any login begins', async t => {
    const { page, plain } = await behind(t, stage)
    await page.goto(`${plain}/reports?page=2`)
    const { text, requestId } = await failureShown(t, page, 'edge-plain-http')
    t.match(text, /by http/)
    t.match(text, /X-Forwarded-Proto: https/, 'and what to mend')
    t.match(await recordIn(stage, requestId), { code: 'without_tls' })
    t.strictSame(await page.context().cookies(), [], 'no login was begun')
    // The way out leads to where it was going, by https.
    await page.click('.button')
    await stage.logIn(page, users.ada)
    t.equal(page.url(), `${stage.base}/reports?page=2`)
  })

  await t.test(
    'plain HTTP, and the edge says nothing: the login begins again with TLS',
    async t => {
      const { page, plain } = await behind(t, stage, 'no-scheme')
      await page.goto(`${plain}/reports`)
      await stage.submit(page, users.ada)
      await stage.arrived(page)
      t.equal(page.url(), `${stage.base}/`)
      t.equal(await told(page, 'User'), 'ada@example.test')
    },
  )

  await t.test('TLS, but the edge says http: the browser knows better, logins work', async t => {
    const { page } = await behind(t, stage, 'scheme')
    await page.goto(`${stage.base}/reports?page=2#there`)
    await stage.logIn(page, users.ada)
    t.equal(await told(page, 'User'), 'ada@example.test')
    t.equal(page.url(), `${stage.base}/reports?page=2#there`)
  })

  await t.test('Host rewritten: named before any login begins, with both names', async t => {
    const { page } = await behind(t, stage, 'host')
    const answer = await page.goto(`${stage.base}/reports`)
    t.equal(answer?.status(), 421)
    const { text, requestId } = await failureShown(t, page, 'edge-wrong-host')
    t.match(text, /does not preserve the Host/)
    t.match(text, stage.host)
    t.match(text, `127.0.0.1:${stage.gateway.port}`, 'what it was rewritten to')
    t.match(await recordIn(stage, requestId), { code: 'wrong_host' })
    t.strictSame(await page.context().cookies(), [], 'no login was begun')
  })

  await t.test('another name of the same edge: named, with a way to the right one', async t => {
    const { page } = await behind(t, stage)
    await page.goto('https://alias.example.test/reports')
    const { text } = await failureShown(t, page, 'edge-alias')
    t.match(text, 'alias.example.test')
    await page.click('.button')
    await stage.logIn(page, users.ada)
    t.equal(page.url(), `${stage.base}/`)
  })
})

/** A browser that reaches the gateway through an edge of its own, which makes this mistake. */
async function behind(t: Test, stage: Stage, mistake?: Mistake) {
  const { authority, host, gateway, idp } = stage
  const edge = await startEdge({
    directory: join(stage.directory, `edge-${mistake ?? 'right'}-${Date.now()}`),
    authority,
    host,
    to: gateway.port,
    plain: true,
    ...(mistake === undefined ? {} : { mistake }),
  })
  t.teardown(() => edge.process.stop())
  const browser = await launchBrowser({
    [idp.host]: idp.port,
    [`${host}:80`]: edge.plainPort,
    [`${host}:443`]: edge.port,
    'alias.example.test': edge.port,
  })
  t.teardown(() => browser.close())
  return { page: await browser.newPage(), plain: `http://${host}` }
}

function recordIn(stage: Stage, requestId: string) {
  return recordOf(() => stage.gateway.log, requestId)
}
