/**
 * Three instances behind HAProxy, which gives each request to the next one: logins, kept forms, tabs, logouts, and a store that hangs, dies and comes
 * back.
 */
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Duplex } from 'node:stream'
import t, { type Test } from 'tap'
import type { WholeBrowser } from '../../fixtures/gateway/whole-browser.ts'
import { RawClient } from '../../fixtures/http/raw-client.ts'
import { reply } from '../../fixtures/http/scripted-origin.ts'
import { whereIs } from '../../fixtures/process/command.ts'
import { formOf, hrefOf, htmlOf, inputsOf, pathOf, readAsked } from '../../fixtures/saml/browser.ts'
import { alice, type ScriptedIdp, sp } from '../../fixtures/saml/idp.ts'
import { startStore, storeProgram } from '../../fixtures/state/real-store.ts'
import { browserAt, startBalancer, startThree } from '../../fixtures/state/three-instances.ts'
import { until } from '../../fixtures/time/until.ts'

t.setTimeout(600_000)
const missing = storeProgram === undefined ? 'redis-server' : whereIs('haproxy') ? '' : 'haproxy'
const skip = missing === '' ? false : `needs ${missing}`
const own = { 'Sec-Fetch-Site': 'same-origin', Origin: sp.baseUrl }

async function arranged(t: Test, target?: string) {
  const store = await startStore(t)
  const three = await startThree(t, store, target)
  const ports = three.instances.map(({ port }) => port)
  const balancer = await startBalancer(t, three.directory, ports)
  const newBrowser = () => browserAt(t, balancer)
  return { store, ...three, ports, balancer, newBrowser }
}

/** The cookies of a session, copied to a browser at one instance. */
function copyAt(t: Test, browser: WholeBrowser, port: number): WholeBrowser {
  const copy = browserAt(t, port)
  for (const [name, value] of browser.cookies) copy.cookies.set(name, value)
  return copy
}

async function admin(t: Test, port: number, path: string): Promise<string> {
  const client = await RawClient.connect(t, port)
  const answer = await client.get(path, { Host: 'localhost' })
  client.end()
  return `${answer.status} ${answer.content.toString()}`
}

/**
 * Acts until the store has answered each question in time. On a busy machine it may not, and the instances then decide alone: they hold a
 * form for themselves, and take an assertion at each of them.
 */
async function withStore<T>(
  t: Test,
  adminPorts: readonly number[],
  act: () => Promise<T>,
): Promise<T> {
  const unanswered = async () => {
    const texts = await Promise.all(adminPorts.map(port => admin(t, port, '/metrics')))
    return texts.map(text => {
      const [, count] = /^authproxy_shared_store_unanswered_total (\d+)$/m.exec(text) ?? []
      if (count === undefined) throw new Error('the metric is missing')
      return count
    })
  }
  for (let tries = 0; tries < 30; tries += 1) {
    const before = await unanswered()
    const result = await act()
    if ((await unanswered()).join() === before.join()) return result
  }
  throw new Error('the store never answered all questions in time')
}

t.test('logins, tabs and forms, whatever instance each request comes to', { skip }, async t => {
  const { newBrowser, idp, backend, ports, instances } = await arranged(t)
  const adminPorts = instances.map(({ adminPort }) => adminPort)
  for (let person = 0; person < 6; person += 1) {
    const browser = newBrowser()
    const { back } = await browser.signIn(idp, { to: '/deep' })
    t.equal(back?.status, 200)
    for (let i = 0; i < 3; i += 1) {
      t.equal(htmlOf(await browser.navigate('/')), 'the application')
    }
  }
  const tabs = newBrowser()
  const asked = [readAsked(await tabs.navigate('/1')), readAsked(await tabs.navigate('/2'))]
  for (const { id } of asked.reverse()) {
    t.equal((await tabs.deliver(idp, { inResponseTo: id, user: alice })).status, 303)
  }
  t.equal((await tabs.navigate('/')).status, 200)

  backend.at('/save', reply({ content: 'saved' }))
  for (let person = 0; person < 6; person += 1) {
    const content = `a=${person}&b=${'x'.repeat(200_000)}`
    const { sent, saved, twice } = await withStore(t, adminPorts, async () => {
      const browser = newBrowser()
      const login = readAsked(await browser.post('/save', content, own))
      const taken = await browser.deliver(idp, { inResponseTo: login.id, user: alice })
      const page = await browser.navigate(pathOf(hrefOf(taken)))
      const send = async () =>
        htmlOf(await browser.post('/save', formOf(inputsOf(htmlOf(page))), own))
      const sent = await send()
      const saved = backend.requests.at(-1)?.content.toString()
      return { sent, saved, twice: await send() }
    })
    t.equal(sent, 'saved')
    t.equal(saved, content)
    t.not(twice, 'saved', 'once')
  }

  for (let round = 0; round < 5; round += 1) {
    const taken = await withStore(t, adminPorts, async () => {
      const browser = newBrowser()
      const login = readAsked(await browser.navigate('/'))
      const answer = Buffer.from(idp.respond({ inResponseTo: login.id, user: alice }))
      const form = formOf({ SAMLResponse: answer.toString('base64') })
      const copies = [...ports, ...ports].map(port => copyAt(t, browser, port))
      return Promise.all(copies.map(copy => copy.post('/saml/acs', form)))
    })
    const statuses = taken.map(({ status }) => status).sort()
    t.same(statuses, [303, 403, 403, 403, 403, 403], 'one assertion at three instances at once')
  }
  for (const { process } of instances) {
    t.same(
      process.lines.filter(({ level }) => level === 'error'),
      [],
    )
  }
})

t.test('a logout at one instance ends a WebSocket at another', { skip }, async t => {
  const sockets: Duplex[] = []
  const server = createServer((_, response) => response.end('the application'))
  server.on('upgrade', (_, socket) => {
    sockets.push(socket)
    socket.on('error', () => undefined)
    socket.write(
      'HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n',
    )
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    for (const socket of sockets) socket.destroy()
    server.closeAllConnections()
    server.close()
  })
  const target = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const { newBrowser, idp, ports, instances } = await arranged(t, target)
  const browser = newBrowser()
  await browser.signIn(idp)
  const cookie = [...browser.cookies].map(([name, value]) => `${name}=${value}`).join('; ')
  const open = await Promise.all(
    ports.map(async port => {
      const client = await RawClient.connect(t, port)
      await client.request('GET', '/ws', {
        Host: sp.domain,
        'X-Forwarded-Proto': 'https',
        Upgrade: 'websocket',
        Connection: 'Upgrade',
        'Sec-WebSocket-Key': 'dGhlIHNhbXBsZSBub25jZQ==',
        'Sec-WebSocket-Version': '13',
        Origin: sp.baseUrl,
        Cookie: cookie,
      })
      t.equal((await client.response({ to: 'GET' })).status, 101)
      return client
    }),
  )
  await until(() => sockets.length === 3)
  await copyAt(t, browser, ports[0] ?? 0).navigate('/saml/slo', { 'Sec-Fetch-Site': 'none' })
  await Promise.all(open.map(client => client.ended))
  for (const { process } of instances) {
    t.equal((await process.until('ended with its session'))['because'], 'revoked')
  }
})

t.test(
  'while the store hangs or is dead no session ends and no request waits for it',
  { skip },
  async t => {
    const { newBrowser, idp, store, ports, instances } = await arranged(t)
    const [first = 0, second = 0, third = 0] = ports
    const people = await Promise.all(
      [1, 2, 3, 4].map(async () => {
        const browser = newBrowser()
        await browser.signIn(idp)
        return browser
      }),
    )
    const before = await timesOf(newBrowser, people, idp)
    for (const [what, stop, start] of [
      ['hangs', async () => store.signal('SIGSTOP'), async () => store.signal('SIGCONT')],
      ['is dead', () => store.kill(), () => store.restart()],
    ] as const) {
      await stop()
      const during = await timesOf(newBrowser, people, idp)
      t.comment(
        `${what}: requests ${text(before.requests)} ms before, ${text(during.requests)} during; logins ${text(before.logins)} before, ${text(during.logins)} during`,
      )
      // Two seconds are what it would be if a request waited for the store.
      t.ok(Math.max(...during.requests) < 1000)
      t.ok(Math.max(...during.logins) < 1500)
      await until(async () =>
        (await Promise.all(instances.map(({ adminPort }) => admin(t, adminPort, '/readyz')))).every(
          each => each.includes('the shared store is away'),
        ),
      )
      t.match(
        await admin(t, instances[0]?.adminPort ?? 0, '/readyz'),
        /^200 ready\nthe shared store is away/,
      )
      t.match(
        await admin(t, instances[0]?.adminPort ?? 0, '/metrics'),
        /\nauthproxy_shared_store_here 0\n/,
      )

      const unasked = await newBrowser().deliver(idp, { inResponseTo: undefined, user: alice })
      t.equal(unasked.status, 503)
      t.match(htmlOf(unasked), 'cannot reach the store')
      const ending = newBrowser()
      await ending.signIn(idp)
      const [here, there, elsewhere] = [first, second, third].map(port => copyAt(t, ending, port))
      await copyAt(t, ending, first).navigate('/saml/slo', { 'Sec-Fetch-Site': 'none' })
      t.not((await here?.navigate('/'))?.status, 200, 'ended where the person signed out')
      t.equal((await there?.navigate('/'))?.status, 200, 'the others do not know of it yet')
      for (const browser of people) {
        for (let i = 0; i < 3; i += 1) {
          const answer = await browser.navigate('/')
          t.equal(answer.status, 200)
          t.same(
            answer.fields.all('Set-Cookie').filter(line => /max-age=0/i.test(line)),
            [],
          )
        }
      }
      await start()
      const [a, b] = [there, elsewhere]
      await until(async () => (await copyAt(t, ending, second).navigate('/')).status !== 200)
      await until(async () => (await copyAt(t, ending, third).navigate('/')).status !== 200)
      t.ok(a && b, 'the logout has come to the others')
      await until(async () =>
        (await Promise.all(instances.map(({ adminPort }) => admin(t, adminPort, '/readyz')))).every(
          each => each === '200 ready\n',
        ),
      )
    }
  },
)

async function timesOf(
  newBrowser: () => WholeBrowser,
  people: readonly WholeBrowser[],
  from: ScriptedIdp,
) {
  const timed = async (act: () => Promise<{ status: number }>, status: number) => {
    const begun = performance.now()
    const answer = await act()
    if (answer.status !== status) throw new Error(`status ${answer.status}, not ${status}`)
    return performance.now() - begun
  }
  const requests: number[] = []
  const logins: number[] = []
  for (let i = 0; i < 6; i += 1) {
    for (const browser of people) requests.push(await timed(() => browser.navigate('/'), 200))
    const browser = newBrowser()
    const asked = readAsked(await browser.navigate('/'))
    logins.push(
      await timed(() => browser.deliver(from, { inResponseTo: asked.id, user: alice }), 303),
    )
  }
  return { requests, logins }
}

/** Median and largest. */
function text(times: readonly number[]): string {
  const sorted = [...times].sort((a, b) => a - b)
  return `${Math.round(sorted[sorted.length >> 1] ?? 0)} (at most ${Math.round(sorted.at(-1) ?? 0)})`
}
