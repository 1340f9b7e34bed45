/** `limits.per_client` and `limits.minimum_rate`: what a client beyond them is told, which clients have none, and what a reload changes. */
import { createServer } from 'node:net'
import t, { type Test } from 'tap'
import { limitsOfClient, rulesOf } from '../../lib/cache/policy/policy.ts'
import { configOf, type Settings, TestCache } from '../fixtures/cache/cache.ts'
import { balancer, introduction } from '../fixtures/http/introduction.ts'
import { RawClient } from '../fixtures/http/raw-client.ts'
import { file, ScriptedOrigin } from '../fixtures/http/scripted-origin.ts'
import { Gate } from '../fixtures/time/gate.ts'
import { ManualClock } from '../fixtures/time/manual-clock.ts'

const deb = '/debian/pool/main/h/hello_1_all.deb'
const slow = '/debian/pool/main/s/slow_1_all.deb'
const behindBalancer = { clients: ['127.0.0.1', '192.0.2.0/24'], proxy_protocol: ['127.0.0.2'] }

/** A cache behind a balancer, a file of so many bytes, and a file whose origin waits for the gate. */
async function start(t: Test, settings: Settings, { size = 1000, timed = true } = {}) {
  const gate = new Gate()
  const content = Buffer.alloc(size, 'x')
  const origin = await ScriptedOrigin.listen(t)
  origin.at(deb, file({ content }))
  origin.at(slow, file({ content, before: gate }))
  const clock = new ManualClock(Date.parse('2025-03-14T12:00:00Z'))
  const all = { ...behindBalancer, ...settings }
  const more = timed ? { clock } : {}
  const cache = await TestCache.start(t, { origins: [origin], settings: all, ...more })
  const client = async (address: string) => {
    const connected = await RawClient.connect(t, cache.port, balancer)
    await connected.write(introduction(address))
    return connected
  }
  const fields = { Host: `127.0.0.1:${origin.port}` }
  return { cache, clock, client, content, fields, gate, origin, settings: all }
}

t.test('which clients have limits', async t => {
  const limited = (address: string, settings: Settings) =>
    limitsOfClient(address, rulesOf(configOf(settings, '/tmp'))) !== undefined
  const settings = {
    proxy_protocol: ['192.0.2.250'],
    limits: { per_client: { connections: 3, except: ['192.0.2.0/28', '2001:db8:1::/48'] } },
  }
  for (const address of ['192.0.2.16', '2001:db8:2::1']) t.ok(limited(address, settings), address)
  for (const address of ['127.0.0.1', '::1', '', '192.0.2.1', '2001:db8:1::1', '192.0.2.250']) {
    t.notOk(limited(address, settings), address)
  }
  t.notOk(limited('192.0.2.16', {}), 'no limits are the default')
})

t.test('a client with too many connections is answered 429, and its pages stay', async t => {
  const { cache, clock, client, fields, gate, origin, settings } = await start(t, {
    limits: { per_client: { connections: 2 } },
    timeouts: { drain: '300ms', fields: '10m' },
  })
  const busy = [await client('192.0.2.7'), await client('192.0.2.7')]
  for (const one of busy) await one.request('GET', origin.url(slow), fields)
  await cache.until(
    () => origin.requests.length > 0,
    () => false,
  )
  const third = await client('192.0.2.7')
  t.equal((await third.get('/_cachesvc/healthz')).status, 200)
  await third.request('GET', origin.url(deb), fields)
  await cache.until(() => refusals(cache) === 1)
  const refused = await third.response()
  t.equal(refused.status, 429)
  t.match(
    refused.reason,
    /^192\.0\.2\.7 has more connections .* `limits\.per_client\.connections` allows \(2\)/,
  )
  t.match(refused.text, /`limits\.per_client\.except`/)
  t.equal(refused.fields.get('Retry-After'), '2')
  t.match(await third.ended, /fin|reset/)
  const connect = await client('192.0.2.7')
  await connect.request('CONNECT', `127.0.0.1:${origin.port}`)
  await cache.until(() => refusals(cache) === 2)
  t.equal(await cache.metric('cachesvc_connections_beyond_client_limit_total'), 2)
  t.equal((await connect.response()).status, 429)

  t.equal((await (await client('192.0.2.8')).get(origin.url(deb), fields)).status, 200)
  t.equal((await cache.get(origin.url(deb))).status, 200, 'this machine has no limits')
  const warnings = cache.log.lines.filter(({ message }) => message === tooMany)
  t.match(warnings, [{ facts: { client: '192.0.2.7', most: 2 } }], 'a line a minute')
  t.match((await cache.get('/_cachesvc/')).text, because, 'the overview has it among the problems')

  await cache.reload({ ...settings, limits: { per_client: { connections: 3 } } })
  t.equal((await (await client('192.0.2.7')).get(origin.url(deb), fields)).status, 200, 'a reload')
  await cache.reload({
    ...settings,
    limits: { per_client: { connections: 1, except: ['192.0.2.7'] } },
  })
  t.equal((await (await client('192.0.2.7')).get(origin.url(deb), fields)).status, 200)
  gate.open()
  for (const one of busy) t.equal((await one.response()).status, 200)
  t.ok(clock.elapsed() > 5000)
})

const because = 'limits.per_client.connections'

/** Requests that were refused for it. */
function refusals({ log }: TestCache): number {
  return log.lines.filter(({ facts }) => facts['because'] === because).length
}

const tooMany = 'a client has more connections than allowed'

/** The seconds that pass until it is settled. */
async function secondsOf(
  work: Promise<unknown>,
  { cache, clock }: Pick<Awaited<ReturnType<typeof start>>, 'cache' | 'clock'>,
): Promise<number> {
  const begun = clock.elapsed()
  let settled = false
  const all = work.then(() => {
    settled = true
  })
  await cache.until(() => settled)
  await all
  return (clock.elapsed() - begun) / 1000
}

t.test('a client gets its rate, and another one that wants the same file all at once', async t => {
  const size = 500_000
  const started = await start(
    t,
    { limits: { per_client: { rate: '64K' } }, timeouts: { client_stalled: '1s' } },
    { size },
  )
  const { cache, client, fields, origin, content } = started
  const limited = await client('192.0.2.7')
  await limited.request('GET', origin.url(deb), fields)
  await limited.head()
  t.ok(
    (await cache.get(origin.url(deb))).content.equals(content),
    'the file is on its way to the other',
  )
  t.equal(await cache.metric('cachesvc_clients_waiting_for_rate'), 1)
  const seconds = await secondsOf(limited.bytes(size), started)
  t.ok(seconds > 5 && seconds < 9, `${seconds} s for a miss`)
  const again = await client('192.0.2.7')
  const hit = await secondsOf(again.get(origin.url(deb), fields), started)
  t.ok(hit > 5 && hit < 9, `${hit} s for a hit`)
  t.equal(await cache.metric('cachesvc_slow_clients_total'), 0)
})

t.test('a tunnel has the rate of its client, in one direction', async t => {
  const size = 500_000
  let received = 0
  const far = createServer(socket => {
    socket.on('error', () => undefined)
    socket.on('data', bytes => {
      received += bytes.length
      if (received === size) socket.write(Buffer.alloc(size))
    })
  })
  const port = await new Promise<number>(resolve => {
    far.listen(0, '127.0.0.1', () => {
      const address = far.address()
      resolve(typeof address === 'object' ? (address?.port ?? 0) : 0)
    })
  })
  t.teardown(() => far.close())
  const settings = {
    ...{ domains: [`127.0.0.1:${port}`], timeouts: { drain: '300ms', tunnel: '1s' } },
    limits: { per_client: { rate: '64K' } },
  }
  const started = await start(t, settings)
  const client = await started.client('192.0.2.7')
  await client.request('CONNECT', `127.0.0.1:${port}`)
  t.equal((await client.response({ to: 'CONNECT' })).status, 200)
  await client.write(Buffer.alloc(size))
  await started.cache.until(
    () => received === size,
    () => false,
  )
  const seconds = await secondsOf(client.bytes(size), started)
  t.ok(seconds > 5 && seconds < 9, `${seconds} s`)
})

t.test('a client that waits for the origin is not a slow one', async t => {
  const { cache, client, clock, fields, gate, origin } = await start(t, {
    timeouts: { drain: '300ms', client_stalled: '1s', fields: '10m' },
  })
  const waiting = await client('192.0.2.7')
  await waiting.request('GET', origin.url(slow), fields)
  await cache.until(
    () => origin.requests.length > 0,
    () => false,
  )
  for (let seconds = 0; seconds < 8; seconds += 1) clock.advance(1000)
  gate.open()
  t.equal((await waiting.response()).status, 200)
})

t.test('a client that reads less than `limits.minimum_rate` is cut, and told apart', async t => {
  const { cache, clock, fields, origin, client } = await start(
    t,
    {
      limits: { minimum_rate: '16M' },
      timeouts: { drain: '300ms', client_stalled: '1m', client_idle: '1h' },
    },
    { size: 12 * 1024 * 1024 },
  )
  await cache.warm(origin.url(deb))
  const reader = await client('192.0.2.7')
  await reader.request('GET', origin.url(deb), fields)
  await reader.head()
  const slowOnes = () => cache.log.lines.filter(({ facts }) => facts['slow'] === true)
  for (let pauses = 0; pauses < 15 && slowOnes().length === 0; pauses += 1) {
    await reader.bytes(300_000)
    for (let looks = 0; looks < 3; looks += 1) {
      clock.advance(5000)
      await new Promise(setImmediate)
    }
  }
  t.match(slowOnes(), [{ facts: { client: '192.0.2.7', complete: false } }])
  t.equal(await cache.metric('cachesvc_slow_clients_total'), 1)
  t.match((await cache.get('/_cachesvc/')).text, /client read too slowly/)
})
