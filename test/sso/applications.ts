/**
 * Applications with service workers, frames and forms of other sites behind the gateway, in Chromium.
 */
import t, { type Test } from 'tap'
import { reply } from '../fixtures/http/scripts.ts'
import { eventually } from '../fixtures/process/ports.ts'
import { noBrowser } from '../fixtures/sso/browser.ts'
import { look, picture } from '../fixtures/sso/look.ts'
import { type At, PageLab } from '../fixtures/sso/page-lab.ts'
import { signIn } from '../fixtures/sso/page-steps.ts'

t.setTimeout(600_000)

/** What service workers do with the requests of a page. */
const workers = {
  passThrough: 'event.respondWith(fetch(event.request))',
  networkFirst: `event.respondWith(fetch(event.request).then(async answer => {
    if (answer.ok) await (await caches.open('all')).put(event.request, answer.clone())
    return answer
  }, () => caches.match(event.request)))`,
  staleWhileRevalidate: `event.respondWith(caches.open('all').then(async cache => {
    const kept = await cache.match(event.request)
    const fresh = fetch(event.request).then(async answer => {
      if (answer.ok) await cache.put(event.request, answer.clone())
      return answer
    })
    return kept ?? fresh
  }))`,
} as const

/** A backend with a page of its own and a worker, and a browser that is signed in there. */
async function stageWith(t: Test, lab: PageLab, worker: string): Promise<At> {
  const at = await lab.stage(t, { gateway: { metadata: { logout: undefined } } })
  const { backend } = at.whole
  const script = `self.addEventListener('install', () => self.skipWaiting())
    self.addEventListener('activate', event => event.waitUntil(clients.claim()))
    self.addEventListener('fetch', event => {
      if (event.request.method === 'GET') ${worker}
      else event.respondWith(fetch(event.request))
    })`
  const type = { 'Content-Type': 'text/html' }
  backend.at('*', reply({ content: '<h1>the application</h1>', fields: type }))
  const fields = { 'Content-Type': 'text/javascript' }
  backend.at('/sw.js', reply({ content: script, fields }))
  await signIn(at)
  await at.page.evaluate(`navigator.serviceWorker.register('/sw.js').then(() =>
    navigator.serviceWorker.controller ?? new Promise(done =>
      navigator.serviceWorker.addEventListener('controllerchange', done)))`)
  return at
}

const loseSession = ({ context }: At) => context.clearCookies({ name: /^__authproxy_session/ })

/** What service workers keep: the texts, by their addresses. */
function keptTexts({ page }: At): Promise<ReadonlyArray<readonly [string, string]>> {
  return page.evaluate(`(async () => {
    const cache = await caches.open('all')
    const all = []
    for (const request of await cache.keys()) {
      all.push([request.url, await (await cache.match(request)).text()])
    }
    return all
  })()`)
}

t.test('applications', { skip: noBrowser, timeout: 600_000 }, async t => {
  const lab = await PageLab.open(t)

  for (const [name, worker] of Object.entries(workers)) {
    await t.test(`a page with a service worker signs in again: ${name}`, async t => {
      const at = await stageWith(t, lab, worker)
      await loseSession(at)
      await at.page.goto(`${at.base}/other?x=1#part`)
      await at.page.locator('text=the application').waitFor()
      t.equal(at.page.url(), `${at.base}/other?x=1#part`)
      t.ok((await at.cookies()).includes('__authproxy_session='))
      for (const [url, text] of name === 'passThrough' ? [] : await keptTexts(at)) {
        t.notMatch(text, 'data-login', `${url}: no page of a login is kept`)
      }
      // The login address works, whatever the worker has kept.
      await loseSession(at)
      await at.page.goto(`${at.base}/__authproxy-redirect?login=%2Fother`)
      await at.page.locator('text=the application').waitFor()
      t.ok((await at.cookies()).includes('__authproxy_session='))
    })
  }

  await t.test(
    'through a worker: a form is kept, a failure has a page, a download 401',
    async t => {
      const at = await stageWith(t, lab, workers.passThrough)
      await loseSession(at)
      const form =
        '<form method="post" action="/save"><input name="a" value="1"><button>go</button></form>'
      const link = '<a href="/file" download>file</a>'
      await at.page.evaluate(`document.body.innerHTML = ${JSON.stringify(form + link)}`)
      await at.page.click('a')
      const file = () =>
        at.whole.log.lines.find(({ facts }) => `${facts['target']}`.endsWith('/file'))
      t.ok(await eventually(() => file() !== undefined))
      t.match(file()?.facts, { status: 401, outcome: 'unauthenticated' })
      await at.page.click('button')
      await at.page.locator('text=the application').waitFor()
      const saved = at.whole.backend.requests.find(({ target }) => target === '/save')
      t.equal(saved?.content.toString(), 'a=1')
      t.equal(saved?.method, 'POST')
      at.whole.backend.at('/broken', reply({ content: 'x', fields: { 'X-A': '1' }, claims: -1 }))
      await at.page.goto(`${at.base}/broken`)
      await at.page.locator('.reference').waitFor()
    },
  )

  await t.test('a worker that answers from its cache first does not keep a sign-out', async t => {
    const cacheFirst = `event.respondWith(caches.match(event.request).then(kept => kept ??
      fetch(event.request).then(async answer => {
        if (answer.ok) await (await caches.open('all')).put(event.request, answer.clone())
        return answer
      })))`
    const at = await stageWith(t, lab, cacheFirst)
    for (let turn = 0; turn < 2; turn += 1) {
      await at.page.goto(`${at.base}/__authproxy-redirect?login=%2F${turn}`)
      await at.page.locator('text=the application').waitFor()
      t.ok((await at.cookies()).includes('__authproxy_session='))
      await at.page.goto(`${at.base}/saml/slo`)
      await at.page.locator('h1', { hasText: 'You are signed out' }).waitFor()
      t.notOk((await at.cookies()).includes('__authproxy_session='), `sign-out ${turn + 1}`)
    }
  })

  await t.test('a frame shows where to sign in, and the page around it comes back', async t => {
    const at = await lab.stage(t)
    const frame = '<h1>the application</h1><iframe src="/widget" title="widget"></iframe>'
    at.whole.backend.at(
      '/around',
      reply({ content: frame, fields: { 'Content-Type': 'text/html' } }),
    )
    await signIn(at)
    await at.page.goto(`${at.base}/around`)
    await loseSession(at)
    await at.page.evaluate("document.querySelector('iframe').src = '/widget?again'")
    const inside = at.page.frameLocator('iframe')
    await inside.locator('h1', { hasText: 'You are not signed in' }).waitFor()
    t.notOk((await at.cookies()).includes('_login.'), 'no login has begun')
    await picture(at.page, 'framed')
    const alone = await at.context.newPage()
    await alone.setContent((await at.page.frames()[1]?.content()) ?? '')
    await look(t, alone, 'sign-in-on-top')
    await alone.close()
    await inside.locator('a').click()
    await at.page.locator('iframe').waitFor()
    t.equal(at.page.url(), `${at.base}/around`)
    t.ok((await at.cookies()).includes('__authproxy_session='))
  })

  await t.test('a form of another site is sent after a question, as the user', async t => {
    const at = await lab.stage(t)
    await signIn(at)
    at.whole.backend.requests.length = 0
    const form = '><input name="state" value="paid"><button>go</button>'
    await at.post(`${at.base}/paid?id=1`, form)
    await at.page.locator('h1', { hasText: 'Send this form?' }).waitFor()
    t.match(await at.page.textContent('main'), 'https://other.example.net sends you here')
    t.equal(at.whole.backend.requests.length, 0)
    await look(t, at.page, 'foreign-form')
    await at.page.dblclick('.button')
    t.equal(at.whole.backend.requests.length, 0, 'a double click alone sends nothing')
    t.ok(await at.page.locator('h1', { hasText: 'Send this form?' }).isVisible())
    await at.page.getByLabel('I expect this form.').check()
    await at.page.click('.button')
    await at.page.locator('text=the application').waitFor()
    const [request] = at.whole.backend.requests
    t.equal(request?.content.toString(), 'state=paid')
    t.equal(request?.fields.get('Origin'), 'https://other.example.net')
    t.equal(request?.fields.get('X-Authproxy-User'), 'alice@example.org')

    await at.post(`${at.base}/paid?id=2`, form)
    await at.page.locator('text=Do not send it').click()
    await at.page.locator('text=the application').waitFor()
    t.notOk(at.whole.backend.requests.some(({ target }) => target === '/paid?id=2'))
  })

  await t.test('nor does a service worker hide whose form it is', async t => {
    const at = await stageWith(t, lab, workers.passThrough)
    at.whole.backend.requests.length = 0
    await at.post(`${at.base}/paid`, '><input name="state" value="paid"><button>go</button>')
    await at.page.locator('h1', { hasText: 'Send this form?' }).waitFor()
    const [request] = at.whole.backend.requests
    t.equal(request, undefined, 'asked first')
  })

  await t.test(
    '71: a session that a neighbour has planted is none, also for a WebSocket',
    async t => {
      const at = await lab.stage(t)
      await signIn(at)
      const lines = (message: string) =>
        at.whole.log.lines.filter(line => line.message === message).map(({ facts }) => facts)
      const socket = async (target: string) => {
        await at.page.evaluate(`new Promise(done => {
        const socket = new WebSocket('wss://' + location.host + '${target}')
        socket.onclose = socket.onerror = socket.onopen = done
      })`)
        const line = () => lines('request').find(facts => `${facts['target']}`.endsWith(target))
        t.ok(await eventually(() => line() !== undefined))
        return line()?.['outcome']
      }
      t.not(await socket('/socket-1'), 'unauthenticated')
      // What is left when the neighbour pushes the cookie of the browser out and sets a session of its own.
      await at.context.clearCookies({ name: '__Host-authproxy_browser' })
      t.ok((await at.cookies()).includes('__authproxy_session='))
      t.equal(await socket('/socket-2'), 'unauthenticated')
      await at.page.goto(`${at.base}/next`)
      await at.page.locator('text=the application').waitFor()
      t.equal(lines('signed in').length, 2, 'the person signs in')
    },
  )

  await t.test('a browser without Fetch metadata is asked once whether to sign out', async t => {
    const at = await lab.stage(t, { gateway: { metadata: { logout: undefined } } })
    await signIn(at)
    at.edge.drops = name => name.startsWith('sec-fetch-')
    await at.post(`${at.base}/saml/slo`, '><button>go</button>')
    await at.page.locator('h1', { hasText: 'Sign out?' }).waitFor()
    await at.page.click('.button')
    await at.page.locator('h1', { hasText: 'You are signed out' }).waitFor()
    t.notOk((await at.cookies()).includes('__authproxy_session='))
  })
})
