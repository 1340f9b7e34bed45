/**
 * An origin that allows an address few connections: what it refuses is sent again over fewer, and the number rises slowly.
 */
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import t, { type Test } from 'tap'
import type { LoweredLimit } from '../../../lib/http/client/connection-limits.ts'
import { ConnectionLimits } from '../../../lib/http/client/connection-limits.ts'
import { asking, makeClient, textOf, until } from '../../fixtures/http/origin-client.ts'
import { reply, type Script, ScriptedOrigin } from '../../fixtures/http/scripted-origin.ts'
import { Gate } from '../../fixtures/time/gate.ts'
import { ManualClock } from '../../fixtures/time/manual-clock.ts'

setFlagsFromString('--expose-gc')
const collectGarbage: () => void = runInNewContext('gc')

const pass = () => new Promise(resolve => setImmediate(resolve))

/** An origin that answers so many requests at a time, and refuses the others. */
async function limiting(t: Test, allowed: number, refuse: Script) {
  const origin = await ScriptedOrigin.listen(t)
  const counts = { now: 0, most: 0, refused: 0 }
  origin.at('*', async answer => {
    counts.now += 1
    try {
      if (counts.now > allowed) {
        counts.refused += 1
        // The refusal comes while the others are still under way.
        return await refuse(answer)
      }
      counts.most = Math.max(counts.most, counts.now)
      for (let n = 0; n < 20; n += 1) await pass()
      await reply({ content: 'hello' })(answer)
    } finally {
      counts.now -= 1
    }
  })
  const lowered: LoweredLimit[] = []
  const onFewerConnections = (limit: LoweredLimit) => void lowered.push(limit)
  return { origin, counts, lowered, ...makeClient(t, { onFewerConnections }) }
}

const refusals: ReadonlyArray<readonly [string, Script]> = [
  ['503', reply({ status: 503, content: 'too many' })],
  ['429', reply({ status: 429 })],
  ['a reset', async answer => answer.reset()],
  ['an end', async answer => answer.end()],
]
for (const [name, refuse] of refusals) {
  t.test(`${name} for all but two of sixty: all are answered`, async t => {
    const { origin, counts, lowered, client } = await limiting(t, 2, refuse)
    const texts = await Promise.all(
      Array.from({ length: 60 }, async (_, n) => {
        const { status, content } = await client.request(asking(origin.url(`/${n}`)))
        return `${status} ${await textOf(content)}`
      }),
    )
    t.strictSame([...new Set(texts)], ['200 hello'])
    t.ok(counts.refused < 40, `${counts.refused} refused`)
    t.match(lowered.at(-1), {
      connections: 2,
      because: /^(503|429|ORIGIN_CLOSED|ORIGIN_SEND_FAILED)$/,
    })
    t.match(client.connectionLimits.states(), [{ connections: 2 }])
  })
}

t.test('one request alone is not sent again, and lowers nothing', async t => {
  const { origin, lowered, client } = await limiting(t, 0, reply({ status: 503 }))
  const { status, content } = await client.request(asking(origin.url('/')))
  content.close()
  t.equal(status, 503)
  t.equal(origin.requests.length, 1)
  t.strictSame(lowered, [])
})

t.test('an origin that refuses everything gets a bounded number of requests', async t => {
  const { origin, lowered, client } = await limiting(t, 0, reply({ status: 503 }))
  const all = Array.from({ length: 16 }, async (_, n) => {
    const { status, content } = await client.request(asking(origin.url(`/${n}`)))
    content.close()
    return status
  })
  t.strictSame([...new Set(await Promise.all(all))], [503])
  t.ok(origin.requests.length <= 16 * 6, String(origin.requests.length))
  t.strictSame(lowered, [], 'the number of connections was not the reason')
  t.strictSame(client.connectionLimits.states(), [])
})

t.test('a short Retry-After is waited for, a long one is the answer', async t => {
  const both = new Gate()
  let first = true
  const origin = await ScriptedOrigin.listen(t)
  origin.at('/other', async answer => {
    await both.pass()
    await reply({ content: 'hello' })(answer)
  })
  origin.at('/short', async answer => {
    const again = first
    first = false
    await reply(again ? { status: 429, fields: { 'Retry-After': '3' } } : { content: 'x' })(answer)
  })
  origin.at('/long', reply({ status: 429, fields: { 'Retry-After': '60' } }))
  const { client, clock } = makeClient(t, { onFewerConnections: () => {} })
  const other = client.request(asking(origin.url('/other')))
  await origin.arrived('/other')
  const short = client.request(asking(origin.url('/short')))
  await origin.arrived('/short')
  await until(() => client.connectionLimits.changes === 1)
  t.equal(origin.seen('/short').length, 1)
  both.open()
  await textOf((await other).content)
  await pass()
  t.equal(origin.seen('/short').length, 1, 'not before its time')
  clock.advance(3000)
  t.equal((await short).status, 200)
  await textOf((await short).content)
  t.match(client.connectionLimits.states(), [{ connections: 1, because: '429' }])
  const long = await client.request(asking(origin.url('/long')))
  t.equal(long.status, 429)
  long.content.close()
})

t.test('one broken file among many: the number of connections comes back', async t => {
  const { origin, lowered, client } = await limiting(t, 16, reply({ status: 503 }))
  origin.at('/broken', reply({ status: 503 }))
  const ask = async (path: string) => {
    const { status, content } = await client.request(asking(origin.url(path)))
    await textOf(content)
    return status
  }
  const all = Array.from({ length: 40 }, (_, n) => ask(n === 5 ? '/broken' : `/${n}`))
  const statuses = await Promise.all(all)
  t.equal(statuses.filter(status => status === 200).length, 39)
  t.equal(statuses[5], 503)
  t.strictSame(client.connectionLimits.states(), [])
  t.ok(lowered.length <= 4)
})

t.test('a gateway sends nothing again', async t => {
  const origin = await ScriptedOrigin.listen(t)
  origin.at('*', reply({ status: 503 }))
  const { client } = makeClient(t)
  const all = Array.from({ length: 10 }, () => client.request(asking(origin.url('/'))))
  for (const one of await Promise.all(all)) one.content.close()
  t.equal(origin.requests.length, 10)
  t.strictSame(client.connectionLimits.states(), [])
})

t.test('an origin with a limit of its own', async t => {
  const { origin, counts } = await limiting(t, 16, reply({ status: 503 }))
  const { client } = makeClient(t, {
    connectionsTo: ({ port }) => (port === origin.port ? 1 : undefined),
  })
  const all = Array.from({ length: 10 }, async (_, n) =>
    textOf((await client.request(asking(origin.url(`/${n}`)))).content),
  )
  await Promise.all(all)
  t.equal(counts.most, 1)
  t.equal(origin.connections, 1)
})

t.test('a limit is halved once for each burst, and rises by one a minute', t => {
  const clock = new ManualClock(0)
  const limits = new ConnectionLimits(clock, () => {})
  const refused = (busy: number, seen: number) =>
    limits.refused('a', { busy, most: 16, seen, origin: 'a', target: 'x', because: '503' })
  t.equal(limits.now('a', 16), 16)
  t.equal(refused(1, 0), undefined, 'alone')
  t.equal(refused(10, 0), 0)
  t.equal(limits.now('a', 16), 5)
  t.equal(refused(9, 0), 0, 'of the same burst')
  t.equal(limits.now('a', 16), 5)
  t.equal(refused(5, limits.changes), 0)
  t.equal(limits.now('a', 16), 2)
  t.equal(limits.now('b', 16), 16)
  t.strictSame(limits.states(), [], 'nothing has come of it yet')
  limits.answered('a', limits.changes - 1)
  t.strictSame(limits.states(), [])
  limits.answered('a', limits.changes)
  t.strictSame(limits.states(), [{ origin: 'a', connections: 2, because: '503' }])
  clock.advance(60_000)
  t.equal(limits.now('a', 16), 3)
  clock.advance(13 * 60_000)
  t.equal(limits.now('a', 16), 16)
  t.strictSame(limits.states(), [])
  t.end()
})

t.test('a limit that helped no request ends, and the one before counts again', t => {
  const clock = new ManualClock(0)
  const limits = new ConnectionLimits(clock, () => {})
  const refused = (target: string) =>
    limits.refused('a', {
      ...{ busy: limits.now('a', 16), most: 16, seen: limits.changes },
      ...{ origin: 'a', target, because: '503' },
    })
  t.equal(refused('limited'), 0)
  limits.answered('a', limits.changes)
  t.equal(limits.now('a', 16), 8)
  t.equal(refused('broken'), 0)
  t.equal(refused('broken'), 0)
  t.equal(limits.now('a', 16), 2)
  clock.advance(6000)
  t.equal(limits.now('a', 16), 8)
  t.equal(refused('broken'), 6000, 'it is sent again later, and lowers nothing')
  t.equal(limits.now('a', 16), 8)
  clock.advance(600_000)
  t.equal(limits.now('a', 16), 16, 'it has risen meanwhile')
  t.equal(refused('broken'), 0)
  t.equal(limits.now('a', 16), 8)
  t.end()
})

t.test(
  'a client that asks for a broken file takes the connections from others for a moment only',
  async t => {
    const rest = new Gate()
    const origin = await ScriptedOrigin.listen(t)
    origin.at('/large', reply({ content: 'x'.repeat(300_000), pauses: [{ at: 1000, gate: rest }] }))
    origin.at('/broken', reply({ status: 503, content: 'broken' }))
    origin.at('/good', reply({ content: 'good' }))
    const { client, clock } = makeClient(t, { onFewerConnections: () => {} })
    const large = await client.request(asking(origin.url('/large')))
    const broken = client.request(asking(origin.url('/broken'))).then(
      async ({ status, content }) => `${status} ${await textOf(content)}`,
      (error: unknown) => error,
    )
    await until(() => origin.seen('/broken').length === 1)
    for (let n = 0; n < 20; n += 1) await pass()
    const good = client.request(asking(origin.url('/good')))
    await pass()
    t.equal(origin.seen('/good').length, 0, 'it waits')
    clock.advance(6000)
    t.equal(await textOf((await good).content), 'good')
    rest.open()
    await textOf(large.content)
    await until(() => origin.seen('/broken').length === 2)
    await until(() => client.counts().busy === 0)
    clock.advance(6000)
    t.equal(await broken, '503 broken', 'once no other request is under way')
  },
)

t.test('a broken file lowers no limit because other files are answered meanwhile', async t => {
  const origin = await ScriptedOrigin.listen(t)
  const gates = [0, 1, 2, 3].map(n => {
    const gate = new Gate()
    origin.at(`/held/${n}`, reply({ content: 'held', before: gate }))
    return gate
  })
  origin.at('/broken', reply({ status: 503, fields: { 'Retry-After': '3' } }))
  origin.at('/good', reply({ content: 'good' }))
  const { client, clock } = makeClient(t, { onFewerConnections: () => {} })
  const ask = async (path: string) =>
    textOf((await client.request(asking(origin.url(path)))).content)
  const held = gates.map((_, n) => ask(`/held/${n}`))
  for (const n of gates.keys()) await origin.arrived(`/held/${n}`)
  const broken = ask('/broken')
  await until(() => client.connectionLimits.changes === 1)
  for (const gate of gates.slice(1)) gate.open()
  await Promise.all(held.slice(1))
  t.equal(await ask('/good'), 'good')
  t.strictSame(client.connectionLimits.states(), [], 'that shows nothing about the number')
  clock.advance(3000)
  await until(() => origin.seen('/broken').length === 2)
  gates[0]?.open()
  await Promise.all(held)
  clock.advance(10_000)
  await broken
  t.strictSame(client.connectionLimits.states(), [])
})

t.test('an origin that refuses again and again takes no more memory', async t => {
  const clock = new ManualClock(0)
  const limits = new ConnectionLimits(clock, () => {})
  const about = { busy: 8, most: 8, origin: 'o', target: 'http://o/f', because: '503' }
  const lowerOften = () => {
    for (let n = 0; n < 10_000; n += 1) {
      limits.refused('o', { ...about, seen: limits.changes })
      limits.answered('o', limits.changes)
      clock.advance(11_000)
    }
    collectGarbage()
    return process.memoryUsage().heapUsed
  }
  const before = lowerOften()
  const grown = lowerOften() - before
  t.ok(grown < 500_000, `${grown} bytes more`)
})
