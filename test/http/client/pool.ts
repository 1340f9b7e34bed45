import t from 'tap'
import type { OriginLimits } from '../../../lib/http/client/client.ts'
import { asking, makeClient, textOf, until } from '../../fixtures/http/origin-client.ts'
import type { Teardown } from '../../fixtures/http/raw-client.ts'
import { inTurn, reply, ScriptedOrigin } from '../../fixtures/http/scripted-origin.ts'
import { Gate } from '../../fixtures/time/gate.ts'

/** An origin whose `/held` answers wait, and a client that has `count` free connections to it. */
async function withFree(t: Teardown, count: number, limits: Partial<OriginLimits> = {}) {
  const origin = await ScriptedOrigin.listen(t)
  const gate = new Gate()
  origin.at('/held', reply({ before: gate }))
  const { client, clock } = makeClient(t, { limits })
  const get = async (path: string) => {
    const answer = await client.request(asking(origin.url(path)))
    await textOf(answer.content)
    return answer
  }
  const all = Array.from({ length: count }, () => get('/held'))
  await origin.arrived('/held', count)
  gate.open()
  await Promise.all(all)
  await until(() => client.counts().busy === 0)
  return { origin, client, clock, get }
}

t.test('the connection that was free last is taken first', async t => {
  const { origin, client, clock, get } = await withFree(t, 3)
  t.match(client.counts(), { free: 3, busy: 0, opened: 3 })
  await get('/a')
  const warm = origin.seen('/a')[0]?.connection
  clock.advance(2000)
  await get('/b')
  t.equal(origin.seen('/b')[0]?.connection, warm)
  clock.advance(2000)
  await until(() => client.counts().free === 1)
  await get('/c')
  t.equal(origin.seen('/c')[0]?.connection, warm, 'the others have reached their idle end')
})

t.test('free connections are bounded, for one origin and for all', async t => {
  const { client } = await withFree(t, 4, { freePerOrigin: 3 })
  await until(() => client.counts().free === 3)
  const second = await withFree(t, 4, { free: 2 })
  await until(() => second.client.counts().free === 2)
  t.equal(second.client.counts().opened, 4)
})

t.test('an origin that hints how long it keeps connections is believed', async t => {
  const origin = await ScriptedOrigin.listen(t)
  const hint = (timeout: number) => reply({ fields: { 'Keep-Alive': `timeout=${timeout}, max=9` } })
  origin.at('/', inTurn(hint(2), hint(100), hint(0)))
  const { client, clock } = makeClient(t)
  for (const lasts of [1500, 30_000]) {
    await client.request(asking(origin.url('/')))
    await until(() => client.counts().free === 1)
    clock.advance(lasts - 1)
    t.equal(client.counts().free, 1)
    clock.advance(1)
    await until(() => client.counts().free === 0)
  }
  await client.request(asking(origin.url('/')))
  await until(() => client.counts().busy === 0)
  t.equal(client.counts().free, 0, 'not kept at all')
})

t.test('58: a free connection that ends, or says something unasked, is dropped', async t => {
  const origin = await ScriptedOrigin.listen(t)
  const gate = new Gate()
  origin.at('/chatty', async answer => {
    await answer.write('HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n')
    await gate.pass()
    await answer.write('HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil')
  })
  const { client } = makeClient(t)
  await client.request(asking(origin.url('/chatty')))
  await until(() => client.counts().free === 1)
  gate.open()
  await until(() => client.counts().free === 0)
  t.match(await client.request(asking(origin.url('/'))), { status: 404, reused: false })
  await until(() => client.counts().free === 1)
  await origin.drop('fin')
  await until(() => client.counts().free + client.counts().busy === 0)
  t.equal(client.counts().opened, 2)
})

t.test('trusted and untrusted requests never share a connection', async t => {
  const origin = await ScriptedOrigin.listen(t)
  const { client } = makeClient(t, { isPublic: () => true })
  for (const trusted of [true, false]) {
    const answer = await client.request(asking(origin.url('/'), { trusted }))
    t.equal(answer.reused, false)
    await textOf(answer.content)
  }
  t.equal(origin.connections, 2)
})

t.test('a failed attempt gives its place to the next in line', async t => {
  const origin = await ScriptedOrigin.listen(t)
  let lookups = 0
  const gate = new Gate()
  const lookup = async () => {
    lookups += 1
    await gate.pass()
    if (lookups === 1) throw new Error('not this time')
    return ['127.0.0.1']
  }
  const { client, clock } = makeClient(t, { lookup, limits: { perOrigin: 1 } })
  const uri = `http://name.example.org:${origin.port}/`
  const first = client.request(asking(uri))
  const second = client.request(asking(uri))
  await gate.reached
  t.match(client.counts(), { busy: 1, waiting: 1 })
  clock.advance(1)
  gate.open()
  await t.rejects(first, { code: 'ORIGIN_DNS_FAILED' })
  await t.rejects(second, { code: 'ORIGIN_DNS_FAILED' }, 'the failure is remembered for a second')
  clock.advance(1000)
  t.match(await client.request(asking(uri)), { status: 404 })
  await until(() => client.counts().free === 1)
})

t.test('what is passed to one client has connections of its own', async t => {
  const origin = await ScriptedOrigin.listen(t)
  const gate = new Gate()
  t.teardown(() => gate.open())
  origin.at('/slow', reply({ content: 'hello', pauses: [{ at: 2, gate }] }))
  const { client } = makeClient(t, { limits: { perOrigin: 1 } })
  await client.request(asking(origin.url('/slow'), { line: 'passed' }))
  t.equal((await client.request(asking(origin.url('/')))).status, 404)
})

t.test('who holds most yields places before its requests are old enough to last', async t => {
  const origin = await ScriptedOrigin.listen(t)
  const gate = new Gate()
  t.teardown(() => gate.open())
  origin.at('/slow', reply({ content: 'hello', pauses: [{ at: 2, gate }] }))
  const { client, clock } = makeClient(t, { limits: { perOrigin: 4, lasting: 4 } })
  const slow = (from: string) => client.request(asking(origin.url('/slow'), { client: from }))
  const first = await Promise.all([1, 2, 3, 4].map(() => slow('192.0.2.1')))
  const more = slow('192.0.2.1')
  t.match(client.counts(), { busy: 4, waiting: 1 }, 'nobody has fewer than it')
  const others = [1, 2].map(() =>
    client.request(asking(origin.url('/slow'), { client: '192.0.2.2' })),
  )
  t.match(client.counts(), { busy: 4, waiting: 3, lasting: 0 })
  clock.advance(20)
  for (const other of others) t.equal((await other).status, 200, 'as many as its equal share')
  t.match(client.counts(), { waiting: 0, lasting: 3 }, 'and the one that waited first has one')
  gate.open()
  for (const response of [...first, await more, ...(await Promise.all(others))])
    t.equal(await textOf(response.content), 'hello')
})

t.test('no more is ended for a client than does not come free by itself', async t => {
  const origin = await ScriptedOrigin.listen(t)
  const gate = new Gate()
  t.teardown(() => gate.open())
  origin.at('/slow', reply({ content: 'hello', pauses: [{ at: 2, gate }] }))
  const { client, clock } = makeClient(t, { limits: { perOrigin: 6, lasting: 4 } })
  const slow = (from: string, count: number) => {
    const request = () => client.request(asking(origin.url('/slow'), { client: from }))
    return Array.from({ length: count }, request)
  }
  const streams = await Promise.all(slow('192.0.2.1', 6))
  clock.advance(1000)
  const short = slow('192.0.2.2', 4)
  clock.advance(20)
  await Promise.all(short)
  t.match(client.counts(), { busy: 10, lasting: 4, waiting: 0 })
  const ended = Promise.all(streams.map(({ content }) => textOf(content).catch(() => 'ended')))
  const others = slow('192.0.2.3', 3)
  clock.advance(20)
  gate.open()
  for (const answer of await Promise.all([...short, ...others])) await textOf(answer.content)
  t.equal((await ended).filter(text => text === 'ended').length, 1, 'though its share is two')
})

t.test('clients that hold the same number give way to each other one by one', async t => {
  const origin = await ScriptedOrigin.listen(t)
  const gate = new Gate()
  t.teardown(() => gate.open())
  origin.at('/slow', reply({ content: 'hello', pauses: [{ at: 2, gate }] }))
  const { client, clock } = makeClient(t, { limits: { perOrigin: 4, lasting: 4 } })
  const slow = (from: string) => client.request(asking(origin.url('/slow'), { client: from }))
  const both = ['192.0.2.1', '192.0.2.2']
  const first = await Promise.all([...both, ...both].map(slow))
  clock.advance(1000)
  const second = [...both, ...both].map(slow)
  for (const _ of second) clock.advance(20)
  const streams = [...first, ...(await Promise.all(second))]
  let ended = 0
  for (const { content } of streams) {
    void textOf(content).catch(() => {
      ended += 1
    })
  }
  clock.advance(1000)
  const more = [...both, ...both].map(from => slow(from).catch(() => undefined))
  for (const count of [1, 2]) {
    await until(() => ended === count)
    await until(() => client.counts().waiting === more.length - count)
    clock.advance(20)
  }
})

t.test('one is ended for a client that waits, not one at each look', async t => {
  const origin = await ScriptedOrigin.listen(t)
  const gate = new Gate()
  t.teardown(() => gate.open())
  origin.at('/slow', reply({ content: 'hello', pauses: [{ at: 2, gate }] }))
  const { client, clock } = makeClient(t, { limits: { perOrigin: 4, lasting: 4 } })
  let ended = 0
  const slow = async (from: number) => {
    const who = `198.51.100.${from}`
    const { content } = await client.request(asking(origin.url('/slow'), { client: who }))
    void textOf(content).catch(() => {
      ended += 1
    })
  }
  await Promise.all([1, 2, 3, 4].map(slow))
  clock.advance(1000)
  const young = Promise.all([5, 6, 7, 8].map(slow))
  clock.advance(20)
  await young
  t.match(client.counts(), { busy: 8, lasting: 4, waiting: 0 })
  const newcomer = slow(9)
  for (let i = 0; i < 5; i += 1) {
    clock.advance(20)
    await until(() => ended > 0 && client.counts().lasting < 4)
  }
  t.match(client.counts(), { waiting: 1 }, 'all places are held by requests too young to last')
  while (client.counts().waiting > 0) {
    clock.advance(100)
    await new Promise(resolve => setImmediate(resolve))
  }
  await newcomer
  t.equal(ended, 1)
})

t.test('a newcomer gets a place soon among many clients that hold one each', async t => {
  const origin = await ScriptedOrigin.listen(t)
  const gate = new Gate()
  t.teardown(() => gate.open())
  origin.at('/slow', reply({ content: 'hello', pauses: [{ at: 2, gate }] }))
  const places = 200
  const { client, clock } = makeClient(t, { limits: { perOrigin: places, lasting: places } })
  let ended = 0
  const slow = async (from: string) => {
    const { content } = await client.request(asking(origin.url('/slow'), { client: from }))
    void textOf(content).catch(() => {
      ended += 1
    })
  }
  const network = (i: number) => `198.18.${i >> 8}.${i & 255}`
  const first = Array.from({ length: 2 * places }, (_, i) => slow(network(i)))
  await Promise.all(first.slice(0, places))
  clock.advance(2000)
  await Promise.all(first)
  clock.advance(1000)
  const others = Array.from({ length: places }, (_, i) => slow(network(1000 + i)).catch(() => {}))
  const newcomer = slow('192.0.2.1')
  let looks = 0
  for (; client.counts().waiting > 0; looks += 1) {
    clock.advance(20)
    await new Promise(resolve => setImmediate(resolve))
    await until(() => client.counts().opened - client.counts().busy === ended)
  }
  t.ok(looks < places / 2, `after ${looks} looks`)
  gate.open()
  await Promise.all([newcomer, ...others])
})

t.test('all origins together have so many connections, free ones make room', async t => {
  const gate = new Gate()
  t.teardown(() => gate.open())
  const origins = await Promise.all([1, 2, 3].map(() => ScriptedOrigin.listen(t)))
  for (const one of origins) one.at('/slow', reply({ content: 'hello', pauses: [{ at: 2, gate }] }))
  const { client } = makeClient(t, { limits: { all: 2 } })
  const [a, b, c] = origins
  if (a === undefined || b === undefined || c === undefined) throw new Error('three origins')
  const slow = await client.request(asking(a.url('/slow')))
  await textOf((await client.request(asking(b.url('/')))).content)
  await until(() => client.counts().free === 1)
  await client.request(asking(c.url('/slow')))
  await until(() => client.counts().busy === 2)
  await t.rejects(client.request(asking(b.url('/'))), { code: 'ORIGIN_QUEUE_FULL' })
  gate.open()
  await textOf(slow.content)
  await until(() => client.counts().free === 2)
  t.equal((await client.request(asking(b.url('/')))).status, 404)
})
