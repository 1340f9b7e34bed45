/**
 * Three instances behind a balancer, with a real identity provider, edge, store and browser: people notice nothing of it, nor of the store being
 * away.
 */
import type { Page } from 'playwright-core'
import t from 'tap'
import { lacking } from '../fixtures/process/command.ts'
import { setSeveral } from '../fixtures/sso/several.ts'
import { noStage, type Stage, told } from '../fixtures/sso/stage.ts'
import { users } from '../fixtures/sso/users.ts'
import { startStore, storeProgram } from '../fixtures/state/real-store.ts'
import { until } from '../fixtures/time/until.ts'

t.setTimeout(600_000)

const skip =
  noStage ||
  lacking('haproxy') ||
  (storeProgram === undefined && 'SKIPPED: needs redis-server or valkey-server')

/** Requests while all instances know that the store is away. */
const requestsWithout = 100

/** Opens a WebSocket of the page, which has `socketClosed` for its end then. */
function openSocket(page: Page): Promise<unknown> {
  return page.evaluate(`new Promise((resolve, reject) => {
    const socket = new WebSocket('wss://' + location.host + '/socket')
    globalThis.socketClosed = new Promise(close => socket.addEventListener('close', () => close(true)))
    socket.onmessage = ({ data }) => resolve(data)
    socket.onerror = () => reject(new Error('the WebSocket failed'))
  })`)
}

async function reloaded(stage: Stage, page: Page): Promise<void> {
  await page.reload()
  await stage.arrived(page)
}

t.test('three instances', { skip, timeout: 600_000 }, async t => {
  const store = await startStore(t)
  const { stage, instances } = await setSeveral(t, store.port)

  await t.test('logins, pages and tabs', async t => {
    for (const user of [users.ada, users.bert, users.ada]) {
      const page = await stage.signedIn(user, '/reports?page=2#summary')
      t.equal(page.url(), `${stage.base}/reports?page=2#summary`)
      for (let i = 0; i < 4; i += 1) await reloaded(stage, page)
      await page.context().close()
    }
    const context = await stage.newContext()
    const [one, two] = [await stage.open('/one', context), await stage.open('/two', context)]
    await stage.logIn(one, users.ada)
    t.equal(one.url(), `${stage.base}/one`)
    await two.goto(`${stage.base}/two`)
    await stage.arrived(two)
    t.equal(two.url(), `${stage.base}/two`)
    await context.close()
  })

  await t.test('a form whose session has gone arrives after the login', async t => {
    for (let person = 0; person < 3; person += 1) {
      const page = await stage.signedIn(users.ada)
      await page.goto(`${stage.base}/form`)
      await page.fill('#subject', `kept ${person}`)
      await page.context().clearCookies({
        domain: stage.host,
        name: /^(?!__Host-authproxy_last)/,
      })
      await page.click('button')
      await page.locator('#received-content').waitFor()
      t.match(await page.textContent('#received-content'), `subject=kept+${person}`)
      await page.context().close()
    }
  })

  await t.test('a logout ends the WebSockets of all tabs', async t => {
    const page = await stage.signedIn(users.ada)
    const others: Page[] = []
    for (let tab = 0; tab < 3; tab += 1) {
      const other = await page.context().newPage()
      await other.goto(stage.base)
      await stage.arrived(other)
      await openSocket(other)
      others.push(other)
    }
    await page.goto(`${stage.base}/saml/slo`)
    for (const other of others) t.equal(await other.evaluate('globalThis.socketClosed'), true)
    await page.context().close()
  })

  /** Whether each instance has said this once more. */
  const saidBy = (beginning: string) => {
    const counts = () =>
      instances.map(
        ({ log }) => log.filter(({ message }) => `${message}`.startsWith(beginning)).length,
      )
    const before = counts()
    return () => counts().every((count, index) => count > (before[index] ?? 0))
  }

  for (const [what, stop, start] of [
    ['hangs', async () => store.signal('SIGSTOP'), async () => store.signal('SIGCONT')],
    ['is dead', () => store.kill(), () => store.restart()],
  ] as const) {
    await t.test(`while the store ${what} people go on, and new ones come`, async t => {
      const page = await stage.signedIn(users.ada)
      const isKnown = saidBy('the shared store is away')
      const isOver = saidBy('the shared store is here again')
      await stop()
      const times: number[] = []
      let after = 0
      while (after < requestsWithout) {
        if (isKnown()) after += 1
        const begun = performance.now()
        const { status } = await stage.ask('/', { as: page.context() })
        times.push(performance.now() - begun)
        if (status !== 200) t.equal(status, 200)
      }
      const sorted = [...times].sort((a, b) => a - b)
      const [median, most] = [sorted[sorted.length >> 1] ?? 0, sorted.at(-1) ?? 0]
      t.comment(
        `${times.length} requests, median ${Math.round(median)} ms, at most ${Math.round(most)} ms`,
      )
      const fresh = await stage.signedIn(users.bert)
      t.equal(await told(fresh, 'User'), 'bert01')
      for (let i = 0; i < 4; i += 1) await reloaded(stage, page)
      await start()
      await until(isOver)
      for (let i = 0; i < 4; i += 1) await reloaded(stage, fresh)
      await page.context().close()
      await fresh.context().close()
    })
  }
  for (const instance of instances) {
    t.same(
      instance.log.filter(({ level }) => level === 'error'),
      [],
    )
  }
})
