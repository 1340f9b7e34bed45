/**
 * Rules of access with a real identity provider and browser: who is refused, who signs in anew, and what a reload ends.
 */
import type { Page } from 'playwright-core'
import t from 'tap'
import { failureShown } from '../fixtures/sso/look.ts'
import { noStage, type Stage, setStage, told } from '../fixtures/sso/stage.ts'
import { users } from '../fixtures/sso/users.ts'

t.setTimeout(300_000)

const library = {
  path: '/library/',
  allow: [{ groups: 'library' }],
  message: 'Ask the library for the group "library".',
}
const strong = { path: '/strong/', allow: 'signed-in', login: { context: 'mfa' } }
const rest = { path: '/', allow: 'signed-in' }
/** Rules by which a form needs a login of a kind. */
const rulesWith = (login: object) => [
  { path: '/form', methods: ['POST'], allow: 'signed-in', login },
  ...[library, strong, rest],
]

t.test('rules of access', { skip: noStage, timeout: 300_000 }, async t => {
  const stage = await setStage(t, { settings: { access: rulesWith({ maxAge: '15m' }) } })

  await t.test('a person who is refused reads why, and signs in as someone else', async t => {
    const page = await stage.signedIn(users.ada)
    const answer = await page.goto(`${stage.base}/library/shelf?x=1`)
    t.equal(answer?.status(), 403)
    t.equal(page.url(), `${stage.base}/library/shelf?x=1`, 'and is sent nowhere')
    const { text } = await failureShown(t, page, 'access-refused')
    t.match(text, /signed in as ada@example\.test.*group "library"/s)
    await page.click('a.button')
    await stage.logIn(page, users.gwen)
    t.equal(page.url(), `${stage.base}/library/shelf?x=1`)
    t.equal(await told(page, 'User'), 'gwen@example.test')
    await page.context().close()
  })

  await t.test(
    'without a session, one login leads to the page that refuses, and stays',
    async t => {
      const page = await stage.open('/library/')
      await stage.submit(page, users.ada)
      await page.locator('.reference').waitFor()
      t.equal(page.url(), `${stage.base}/library/`)
      await page.context().close()
    },
  )

  await t.test('a group that is taken away refuses from the next login on', async t => {
    const page = await stage.signedIn(users.gwen, '/library/')
    await stage.idp.behave({
      users: [...Object.values(users), { ...users.gwen, attributes: users.cleo.attributes }],
    })
    await page.goto(`${stage.base}/library/2`)
    t.equal(await told(page, 'User'), 'gwen@example.test', 'the session goes on')
    const later = await stage.open('/library/3')
    await stage.submit(later, users.gwen)
    await later.locator('h1', { hasText: 'You may not open this page' }).waitFor()
    await stage.idp.behave({ users: Object.values(users) })
    await page.context().close()
    await later.context().close()
  })

  await t.test('maxAge: an old login is asked for anew, and the form arrives', async t => {
    await stage.idp.behave({ loginAge: 1200 })
    const page = await stage.signedIn(users.ada)
    await fillForm(stage, page, 'young')
    await stage.idp.behave({ loginAge: 0 })
    await page.click('button')
    // Signed in there as well, the person has to show the password again.
    await stage.submit(page, users.ada)
    await formArrived(t, page, 'young')
    t.equal(page.url(), `${stage.base}/form`)
    await fillForm(stage, page, 'again')
    await page.click('button')
    await formArrived(t, page, 'again')
    await page.context().close()
  })

  await t.test('maxAge: an identity provider that answers with an older login', async t => {
    await stage.idp.behave({ loginAge: 1200 })
    const page = await stage.signedIn(users.ada)
    await fillForm(stage, page, 'older')
    await page.click('button')
    await stage.submit(page, users.ada)
    const { text } = await failureShown(t, page, 'authn-stale')
    t.match(text, 'answered with an earlier login')
    await stage.idp.behave({ loginAge: 0 })
    await page.click('a.button')
    await stage.submit(page, users.ada)
    await formArrived(t, page, 'older')
    await page.context().close()
  })

  await t.test('context: a lesser one gets a page; the right one opens the page', async t => {
    const page = await stage.signedIn(users.ada)
    await page.goto(`${stage.base}/strong/box?x=1#there`)
    const { text } = await failureShown(t, page, 'authn-context')
    t.match(text, 'another way of signing in')
    await stage.idp.behave({ contextAsAsked: true })
    await page.click('a.button')
    await stage.arrived(page)
    t.equal(page.url(), `${stage.base}/strong/box?x=1#there`)
    t.equal(await told(page, 'User'), 'ada@example.test')
    await page.context().close()
  })

  await t.test('context: the form arrives', async t => {
    await stage.idp.behave({ contextAsAsked: false })
    const page = await stage.signedIn(users.ada)
    await stage.gateway.reload({ access: rulesWith({ context: 'mfa' }) })
    await fillForm(stage, page, 'strong')
    await stage.idp.behave({ contextAsAsked: true })
    await page.click('button')
    await formArrived(t, page, 'strong')
    await page.context().close()
  })

  await t.test('a reload ends the WebSocket of a person who is no longer allowed', async t => {
    const ada = await stage.signedIn(users.ada)
    const gwen = await stage.signedIn(users.gwen)
    for (const page of [ada, gwen]) t.match(await openSocket(page), 'example.test')
    await stage.gateway.reload({ access: [{ ...library, path: '/socket' }, rest] })
    const reloaded = performance.now()
    await ada.evaluate('closed')
    t.comment(`ended ${Math.round(performance.now() - reloaded)} ms after the reload`)
    t.equal(await gwen.evaluate('echoOf("still here")'), 'still here')
    t.equal((await stage.ask('/socket', { as: ada.context() })).status, 403)
    await ada.context().close()
    await gwen.context().close()
  })
})

async function fillForm(stage: Stage, page: Page, subject: string): Promise<void> {
  await page.goto(`${stage.base}/form`)
  await page.fill('#subject', subject)
}

async function formArrived(
  t: { equal(found: unknown, wanted: unknown): unknown },
  page: Page,
  subject: string,
): Promise<void> {
  await page.locator('#received').waitFor()
  const content = await page.textContent('#received-content')
  t.equal(content, `subject=${subject}&message=&send=yes`)
}

/** Opens a WebSocket of the page, and answers its greeting. The page then has `echoOf` for the next echo, and `closed` for its end. */
function openSocket(page: Page): Promise<unknown> {
  return page.evaluate(`(async () => {
    const socket = new WebSocket('wss://' + location.host + '/socket')
    const next = () =>
      new Promise((resolve, reject) => {
        socket.onmessage = ({ data }) => resolve(data)
        socket.onerror = () => reject(new Error('the WebSocket failed'))
      })
    globalThis.closed = new Promise(resolve => socket.addEventListener('close', () => resolve()))
    globalThis.echoOf = text => {
      const answer = next()
      socket.send(text)
      return answer
    }
    return next()
  })()`)
}
