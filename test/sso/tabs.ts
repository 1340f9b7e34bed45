/**
 * Many tabs of a real browser that log in at the same time: every one ends on its own page.
 */
import type { BrowserContext, Page } from 'playwright-core'
import t from 'tap'
import { noStage, type Stage, setStage } from '../fixtures/sso/stage.ts'
import { users } from '../fixtures/sso/users.ts'

/** Rounds of each case; AUTHPROXY_TAB_ROUNDS asks for more. */
const ROUNDS = Number(process.env['AUTHPROXY_TAB_ROUNDS'] ?? 1)
const TIME = 480_000 + 120_000 * ROUNDS

t.setTimeout(TIME)

/** The session here ends; that at the identity provider stays, so a login needs no password. */
async function endSession(context: BrowserContext, { host }: Stage): Promise<void> {
  await context.clearCookies({ domain: host })
}

function addressesOf(stage: Stage, count: number, query = 'x=1'): readonly string[] {
  return Array.from({ length: count }, (_, i) => `${stage.base}/tab/${i}?${query}#part-${i}`)
}

/** Where every tab has come to within a minute, or within the time given. */
function ends(stage: Stage, pages: readonly Page[], timeout = 60_000): Promise<readonly string[]> {
  return Promise.all(
    pages.map(async page => {
      await page
        .waitForURL(url => url.href.startsWith(`${stage.base}/tab/`), { timeout })
        .catch(() => undefined)
      return page.url()
    }),
  )
}

t.test('tabs that log in at the same time', { skip: noStage, timeout: TIME }, async t => {
  const stage = await setStage(t)

  for (const [count, query] of [
    [2, 'x=1'],
    [8, 'x=1'],
    [8, 'q'.repeat(600)],
    [30, 'x=1'],
  ] as const) {
    await t.test(
      `${count} tabs at once, a query of ${query.length}, no password asked`,
      async t => {
        const context = (await stage.signedIn(users.ada)).context()
        const pages = await Promise.all(Array.from({ length: count }, () => context.newPage()))
        for (let round = 0; round < ROUNDS; round += 1) {
          await endSession(context, stage)
          const addresses = addressesOf(stage, count, query)
          await Promise.all(
            pages.map((page, i) => page.goto(addresses[i] ?? '').catch(() => undefined)),
          )
          t.same(await ends(stage, pages), addresses)
          await Promise.all(pages.map(page => page.goto('about:blank')))
        }
        await context.close()
      },
    )
  }

  await t.test('8 tabs at once, the password typed in each', async t => {
    for (let round = 0; round < ROUNDS; round += 1) {
      const context = await stage.newContext()
      const pages = await Promise.all(Array.from({ length: 8 }, () => context.newPage()))
      const addresses = addressesOf(stage, 8)
      await Promise.all(pages.map((page, i) => page.goto(addresses[i] ?? '')))
      for (const page of pages) {
        await page.waitForURL(`${stage.idp.base}/**`)
        await stage.submit(page, users.ada)
      }
      // The identity provider keeps the first form of one session only, and asks again in tabs that lost theirs.
      await ends(stage, pages.slice(-1))
      for (let again = 0; again < 3; again += 1) {
        const asked = pages.filter(page => page.url().startsWith(stage.idp.base))
        for (const page of asked) await stage.submit(page, users.ada).catch(() => undefined)
        await ends(stage, asked, 20_000)
      }
      t.same(await ends(stage, pages), addresses)
      await context.close()
    }
  })
})
