/**
 * Origins that need long for the head of an answer, as archives do that make their indexes on demand. What no other origin can give comes
 * in the end; what one can give does not wait.
 */
import t, { type Test } from 'tap'
import { pause } from '../../lib/async/deadline.ts'
import { changingArchive } from '../fixtures/archive/changing-archive.ts'
import { type Settings, TestCache } from '../fixtures/cache/cache.ts'
import { ScriptedDns } from '../fixtures/http/dns.ts'
import type { RawClient } from '../fixtures/http/raw-client.ts'
import {
  file,
  inTurn,
  reply,
  type Script,
  ScriptedOrigin,
} from '../fixtures/http/scripted-origin.ts'
import { Gate } from '../fixtures/time/gate.ts'
import { ManualClock } from '../fixtures/time/manual-clock.ts'

const deb = '/debian/pool/main/h/hello_1_all.deb'
const second = 1000
const never = new Gate()
const silent = reply({ before: never })
const credentials = { Authorization: 'Basic YTpi' }

async function started(t: Test, settings: Settings = {}) {
  const origin = await ScriptedOrigin.listen(t)
  const clock = new ManualClock(Date.now())
  const cache = await TestCache.start(t, { origins: [origin], clock, settings })
  const ask = async (path = deb, fields: Readonly<Record<string, string>> = {}) => {
    const client = await cache.client()
    await client.request('GET', origin.url(path), fields)
    return client
  }
  /** Lets time pass, and what it causes happen. */
  const pass = async (time: number): Promise<void> => {
    for (let left = time; left > 0; left -= second) {
      await cache.get('/_cachesvc/healthz')
      clock.advance(Math.min(second, left))
    }
    await cache.get('/_cachesvc/healthz')
  }
  return { origin, clock, cache, ask, pass }
}

async function statusOf(client: RawClient): Promise<number> {
  return (await client.response()).status
}

t.test('a head that apt would wait for comes to the first client', async t => {
  const { origin, ask, pass } = await started(t)
  const gate = new Gate()
  origin.at(deb, reply({ content: 'hello', before: gate }))
  const client = await ask()
  await origin.arrived(deb)
  await pass(20 * second)
  gate.open()
  t.equal((await client.response()).text, 'hello')
})

t.test('a head that takes minutes comes to a later client, and the origin begins once', async t => {
  const { origin, cache, ask, pass } = await started(t)
  const gate = new Gate()
  origin.at(deb, reply({ content: 'hello', before: gate }))
  const first = await ask()
  await origin.arrived(deb)
  await pass(24 * second)
  const answer = await first.response()
  t.equal(answer.status, 503)
  t.match(answer.reason, /the fetch goes on.*raise `timeouts\.fields`/)
  for (let n = 0; n < 4; n += 1) {
    const next = await ask()
    await pass(24 * second)
    t.equal(await statusOf(next), 503)
  }
  gate.open()
  await cache.quiet()
  t.equal((await cache.get(origin.url(deb))).fields.get('X-Cache'), 'HIT')
  t.equal(origin.seen(deb).length, 2, 'once more, in case the connection was dead')
})

t.test('a client waits as long as `timeouts.fields` says', async t => {
  const { origin, ask, pass } = await started(t, { timeouts: { fields: '2m', drain: '0s' } })
  const gate = new Gate()
  origin.at(deb, reply({ content: 'hello', before: gate }))
  const client = await ask()
  await origin.arrived(deb)
  await pass(110 * second)
  gate.open()
  t.equal(await statusOf(client), 200)
})

t.test('a kept connection that is dead costs the first client nothing but time', async t => {
  const { origin, cache, ask, pass } = await started(t)
  origin.at('/first', file({ content: 'first' }))
  await cache.warm(origin.url('/first'))
  origin.at(deb, inTurn(silent, file({ content: 'hello' })))
  const client = await ask()
  await origin.arrived(deb)
  await pass(15 * second)
  t.equal((await client.response()).text, 'hello')
  const [one, other] = origin.seen(deb)
  t.equal(one?.connection, 1)
  t.not(other?.connection, 1)
  await cache.quiet()
  t.equal(cache.working.fetches, 0)
})

t.test('a kept connection that is dead does not hide that a file is missing', async t => {
  const { origin, cache, ask, pass } = await started(t)
  origin.at('/first', file({ content: 'first' }))
  await cache.warm(origin.url('/first'))
  origin.at(deb, inTurn(silent, reply({ status: 404 })))
  const client = await ask()
  await origin.arrived(deb)
  await pass(16 * second)
  t.equal(await statusOf(client), 404)
  await cache.quiet()
  t.equal(cache.working.fetches, 0)
})

t.test('what one server refuses while another works on it does not count', async t => {
  for (const status of [404, 429, 503]) {
    const { origin, ask, pass } = await started(t)
    const gate = new Gate()
    origin.at(deb, inTurn(reply({ content: 'hello', before: gate }), reply({ status })))
    const client = await ask()
    await origin.arrived(deb)
    await pass(16 * second)
    t.equal(origin.seen(deb).length, 2)
    gate.open()
    t.equal(await statusOf(client), 200, String(status))
  }
})

t.test('of two silent connections one stays, and not for ever', async t => {
  const { origin, cache, ask, pass } = await started(t)
  origin.at('/first', file({ content: 'first' }))
  await cache.warm(origin.url('/first'))
  origin.at(deb, silent)
  await ask()
  await origin.arrived(deb)
  await pass(31 * second)
  t.equal(origin.seen(deb).length, 2)
  await origin.seen(deb)[0]?.gone
  t.equal(await cache.metric('cachesvc_origin_connections'), 1)
  await pass(270 * second)
  t.equal(cache.working.fetches, 0)
  t.equal(await cache.metric('cachesvc_origin_connections'), 0)
})

t.test('late heads leave connections for other files', async t => {
  const { origin, cache, ask, pass } = await started(t, { limits: { origin_connections: 4 } })
  origin.at('/good', file({ content: 'good' }))
  for (let n = 0; n < 6; n += 1) {
    origin.at(`${deb}${n}`, silent)
    await ask(`${deb}${n}`)
  }
  await pass(50 * second)
  t.ok(cache.working.fetches <= 2, `${cache.working.fetches} wait`)
  t.equal((await cache.get(origin.url('/good'))).text, 'good')
})

t.test('late heads leave a connection of an archive that allows two', async t => {
  const origin = await ScriptedOrigin.listen(t)
  const clock = new ManualClock(Date.now())
  const archives = [{ origins: [origin.url('/debian')], connections: 2 }]
  const cache = await TestCache.start(t, { origins: [origin], clock, settings: { archives } })
  origin.at('/debian/good', file({ content: 'good' }))
  for (let n = 0; n < 2; n += 1) {
    origin.at(`${deb}${n}`, silent)
    const client = await cache.client()
    await client.request('GET', origin.url(`${deb}${n}`))
    await origin.arrived(`${deb}${n}`)
  }
  for (let n = 0; n < 50; n += 1) {
    await cache.get('/_cachesvc/healthz')
    clock.advance(second)
  }
  t.equal(cache.working.fetches, 1)
  t.equal((await cache.get(origin.url('/debian/good'))).text, 'good')
})

/** A cache of an archive that allows one connection. */
async function oneConnection(t: Test) {
  const origin = await ScriptedOrigin.listen(t)
  const archives = [{ origins: [origin.url('/debian')], connections: 1 }]
  const clock = new ManualClock(Date.now())
  const cache = await TestCache.start(t, { origins: [origin], clock, settings: { archives } })
  const ask = async (path: string) => {
    const client = await cache.client()
    await client.request('GET', origin.url(path))
    return client
  }
  const pass = async (seconds: number): Promise<void> => {
    for (let n = 0; n < seconds; n += 1) {
      await cache.get('/_cachesvc/healthz')
      clock.advance(second)
    }
    await cache.get('/_cachesvc/healthz')
  }
  return { origin, cache, ask, pass }
}

t.test('a late head at the only connection of an archive yields to other files', async t => {
  const { origin, ask, pass } = await oneConnection(t)
  origin.at(deb, silent)
  origin.at('/debian/other', file({ content: 'other' }))
  await ask(deb)
  await origin.arrived(deb)
  await pass(16)
  const next = await ask('/debian/other')
  await pass(20)
  t.equal((await next.response()).text, 'other')
})

t.test('a late head at the only connection comes while no other file is wanted', async t => {
  const { origin, cache, ask, pass } = await oneConnection(t)
  const gate = new Gate()
  origin.at(deb, reply({ content: 'hello', before: gate }))
  await ask(deb)
  await origin.arrived(deb)
  await pass(120)
  gate.open()
  await cache.quiet()
  t.equal((await cache.get(origin.url(deb))).fields.get('X-Cache'), 'HIT')
  t.equal(origin.seen(deb).length, 1)
})

t.test('a dead kept connection that is the only one is replaced', async t => {
  const { origin, cache, ask, pass } = await oneConnection(t)
  origin.at('/debian/first', file({ content: 'first' }))
  await cache.warm(origin.url('/debian/first'))
  origin.at(deb, inTurn(silent, file({ content: 'hello' })))
  const client = await ask(deb)
  await origin.arrived(deb)
  await pass(16)
  t.equal((await client.response()).text, 'hello')
})

t.test('a request that is passed through waits as long as its client', async t => {
  const { origin, ask, pass } = await started(t)
  const gate = new Gate()
  origin.at(deb, reply({ content: 'hello', before: gate }))
  const client = await ask(deb, credentials)
  await origin.arrived(deb)
  await pass(90 * second)
  gate.open()
  t.equal((await client.response()).text, 'hello')

  origin.at('/other', silent)
  const leaves = await ask('/other', credentials)
  await origin.arrived('/other')
  await leaves.reset()
  const [left] = origin.seen('/other')
  if (left !== undefined) await left.gone

  origin.at('/silent', silent)
  const stays = await ask('/silent', credentials)
  await origin.arrived('/silent')
  await pass(301 * second)
  const answer = await stays.response()
  t.equal(answer.status, 503)
  t.ok(answer.text.length > 20)
})

t.test('an origin that is slow is passed over while another one can answer', async t => {
  const one = await ScriptedOrigin.listen(t)
  const other = await ScriptedOrigin.listen(t, { host: '127.0.0.2' })
  const clock = new ManualClock(Date.now())
  const archives = [{ origins: [one.url('/debian'), other.url('/debian')] }]
  const cache = await TestCache.start(t, { origins: [one, other], clock, settings: { archives } })
  one.at(deb, silent)
  other.at(deb, file({ content: 'hello' }))
  const client = await cache.client()
  await client.request('GET', one.url(deb))
  await one.arrived(deb)
  clock.advance(10 * second)
  t.equal((await client.response()).text, 'hello')
  t.equal(one.seen(deb).length, 1)
})

t.test('the last of several origins has more time while none has answered', async t => {
  const one = await ScriptedOrigin.listen(t)
  const other = await ScriptedOrigin.listen(t, { host: '127.0.0.2' })
  const clock = new ManualClock(Date.now())
  const archives = [{ origins: [one.url('/debian'), other.url('/debian')] }]
  const cache = await TestCache.start(t, { origins: [one, other], clock, settings: { archives } })
  const gate = new Gate()
  one.at(deb, reply({ status: 503 }))
  other.at(deb, reply({ content: 'hello', before: gate }))
  const client = await cache.client()
  await client.request('GET', one.url(deb))
  await other.arrived(deb)
  clock.advance(15 * second)
  await other.arrived(deb, 2)
  clock.advance(4 * second)
  gate.open()
  t.equal((await client.response()).text, 'hello')
})

t.test('a name look-up that hangs is 503 in time', async t => {
  const dns = new ScriptedDns()
  const clock = new ManualClock(Date.now())
  const cache = await TestCache.start(t, {
    clock,
    lookup: dns.lookup,
    settings: { domains: ['.example.org'], timeouts: { connect: '20s', fields: '5s' } },
  })
  dns.set('slow.example.org', () => never.pass().then(() => []))
  const client = await cache.client()
  await client.request('GET', `http://slow.example.org${deb}`)
  await cache.until(
    () => dns.asked('slow.example.org') > 0,
    () => false,
  )
  clock.advance(20 * second)
  t.equal(await statusOf(client), 503)
})

/** A file whose head takes some time, after which `gate` of the moment opens. */
function slow(script: Script, gate: () => Gate): Script {
  return async answer => {
    await gate().pass()
    return script(answer)
  }
}

t.test('a file that changes arrives although each head takes 20 seconds', async t => {
  const { origin, cache, clock, ask, pass } = await started(t, { freshness: { floor: '5s' } })
  const path = '/debian/dists/stable/main/installer.txt'
  origin.at(path, file({ content: 'one', etag: '"1"' }))
  await cache.warm(origin.url(path))
  clock.advance(10 * second)
  const update = { 'Cache-Control': 'max-age=0' }
  let gate = new Gate()
  origin.at(
    path,
    slow(file({ content: 'two', etag: '"2"' }), () => gate),
  )
  const first = await ask(path, update)
  await origin.arrived(path, 2)
  await pass(5 * second)
  t.equal((await first.response()).text, 'one', 'no client waits longer for it than before')
  await pass(15 * second)
  gate.open()
  await cache.quiet()
  gate = new Gate()
  const next = await ask(path, update)
  await pass(5 * second)
  t.equal((await next.response()).text, 'two')
  gate.open()
})

t.test('a new Release arrives although each head takes 20 seconds', async t => {
  const archive = await changingArchive(t, { settings: { freshness: { floor: '5s' } } })
  const { origin, cache, clock } = archive
  archive.serve(await archive.ofDay(1))
  await archive.update()
  for (const [path, content] of await archive.ofDay(2)) {
    const script = file({ content, etag: `"2-${path}"` })
    origin.at(`/${path}`, async answer => {
      await pause(clock, 20 * second)
      return script(answer)
    })
  }
  const update = async (): Promise<string> => {
    let done = false
    const answer = archive.get(archive.release).finally(() => {
      done = true
    })
    await cache.until(() => done)
    return /^Version: \d/.exec((await answer).text)?.[0] ?? ''
  }
  const begun = clock.elapsed()
  t.equal(await update(), 'Version: 1', 'no client waits for it')
  while ((await update()) === 'Version: 1') {
    if (clock.elapsed() - begun > 120 * second) break
    clock.advance(5 * second)
  }
  t.equal(await update(), 'Version: 2')
})
