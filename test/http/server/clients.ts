/** What each client may have: connections, of which idle ones give way and those too many are bounded, and bytes a second. */
import { setImmediate as turn } from 'node:timers/promises'
import t from 'tap'
import { BlockPool } from '../../../lib/bytes/block-pool.ts'
import { Pace } from '../../../lib/bytes/pace.ts'
import { Piece } from '../../../lib/bytes/piece.ts'
import type { Source } from '../../../lib/bytes/source.ts'
import { Fields } from '../../../lib/http/message/field.ts'
import type { Handler, Response } from '../../../lib/http/message/message.ts'
import { textResponse } from '../../../lib/http/message/reply.ts'
import { type ClientLimits, Clients, ConnectionPlace } from '../../../lib/http/server/clients.ts'
import { pacedResponse } from '../../../lib/http/server/exchanges.ts'
import { makeAuthority } from '../../fixtures/certificates/certificate.ts'
import { until } from '../../fixtures/http/origin-client.ts'
import { RawClient, type Teardown } from '../../fixtures/http/raw-client.ts'
import { serveForTest } from '../../fixtures/http/server.ts'
import { Gate } from '../../fixtures/time/gate.ts'
import { ManualClock } from '../../fixtures/time/manual-clock.ts'

const authority = makeAuthority()

/** The table of clients, all with these limits. */
function clientsWith(limits: ClientLimits | undefined, clock = new ManualClock(0)) {
  const tooMany: string[] = []
  const clients = new Clients({
    clock,
    limitsOf: () => limits,
    onTooMany: address => tooMany.push(address),
  })
  return { clients, clock, tooMany }
}

function placeOf(place: ConnectionPlace | 'none' | undefined): ConnectionPlace {
  if (place instanceof ConnectionPlace) return place
  throw new Error(`no place: ${place}`)
}

t.test('a client is an IPv4 address in any spelling, or the /64 of an IPv6 address', async t => {
  const { clients } = clientsWith({ connections: 1 })
  const admits = (address: string) => placeOf(clients.enter(address)).admits() === true
  t.ok(admits('192.0.2.1'))
  t.notOk(admits('::ffff:192.0.2.1'), 'the same, IPv4-mapped')
  t.ok(admits('192.0.2.2'))
  t.ok(admits('2001:db8:0:1::1'))
  t.notOk(admits('2001:db8:0:1:ffff::2'), 'the same /64')
  t.ok(admits('2001:db8:0:2::1'))
})

t.test('without a limit there is nothing to keep', async t => {
  t.equal(clientsWith(undefined).clients.enter('192.0.2.1'), undefined)
  t.equal(clientsWith({ connections: undefined }).clients.enter('192.0.2.1'), undefined)
})

t.test('connections beyond the limit are bounded, also those that end', async t => {
  const { clients, tooMany } = clientsWith({ connections: 2 })
  const enter = () => clients.enter('192.0.2.1')
  const first = placeOf(enter())
  const second = placeOf(enter())
  let ended = 0
  second.endIfIdle = () => {
    ended += 1
    return true
  }
  const beyond = Array.from({ length: 15 }, () => placeOf(enter()))
  t.equal(beyond[0]?.admits(), true, 'an idle connection gives way')
  t.equal(ended, 1)
  const last = [placeOf(enter())]
  t.equal(enter(), 'none', 'the idle one has not closed yet, and counts among those beyond')
  t.strictSame(tooMany, ['192.0.2.1'])
  second.leave()
  second.leave()
  last.push(placeOf(enter()))
  t.equal(enter(), 'none')
  for (const place of [first, ...beyond, ...last]) place.leave()
  t.equal(placeOf(enter()).admits(), true)
})

t.test(
  'a request too many waits for a connection that ends, and is refused after a time',
  async t => {
    const { clients, clock, tooMany } = clientsWith({ connections: 1 })
    const first = placeOf(clients.enter('192.0.2.1'))
    const [patient, late] = [
      placeOf(clients.enter('192.0.2.1')),
      placeOf(clients.enter('192.0.2.1')),
    ]
    const waits = patient.admits()
    clock.advance(4000)
    first.leave()
    clock.advance(1000)
    t.equal(await waits, true)
    const waitsToo = late.admits()
    clock.advance(6000)
    t.equal(await waitsToo, false)
    t.ok(late.refused)
    t.notOk(patient.refused)
    t.strictSame(tooMany, ['192.0.2.1'])
    late.leave()
    const gone = placeOf(clients.enter('192.0.2.1'))
    const left = gone.admits()
    gone.leave()
    clock.advance(250)
    t.equal(await left, false, 'its client has gone')
  },
)

t.test('a connection that has closed takes no place any more', async t => {
  const { clients } = clientsWith({ connections: 1 })
  const first = placeOf(clients.enter('192.0.2.1'))
  const late = placeOf(clients.enter('192.0.2.1'))
  first.leave()
  late.leave()
  // A request that had been read before.
  t.equal(await late.admits(), false)
  t.equal(clients.size, 0)
  t.equal(placeOf(clients.enter('192.0.2.1')).admits(), true)
  t.equal(clients.size, 1)
})

t.test('requests too many are let in in their order, and cost one look for all', async t => {
  const { clients, clock } = clientsWith({ connections: 200 })
  let looks = 0
  const busy = Array.from({ length: 200 }, () => placeOf(clients.enter('192.0.2.1')))
  for (const place of busy) {
    place.endIfIdle = () => {
      looks += 1
      return false
    }
  }
  const admitted: number[] = []
  const waiting = Array.from({ length: 200 }, () => placeOf(clients.enter('192.0.2.1')))
  const answers = waiting.map(async (place, n) => {
    const admits = await place.admits()
    if (admits) admitted.push(n)
    return admits
  })
  looks = 0
  clock.advance(250)
  t.equal(looks, 200)
  for (const place of busy.slice(0, 2)) place.leave()
  clock.advance(250)
  await turn()
  t.strictSame(admitted, [0, 1])
  clock.advance(6000)
  t.equal((await Promise.all(answers)).filter(Boolean).length, 2)
  for (const place of [...busy, ...waiting]) place.leave()
  t.equal(clients.size, 0)
})

t.test('limits may change while clients are connected', async t => {
  let limits: ClientLimits | undefined = { connections: 1, rate: 8192 }
  const clock = new ManualClock(0)
  const clients = new Clients({ clock, limitsOf: () => limits, onTooMany: () => undefined })
  const first = placeOf(clients.enter('192.0.2.1'))
  const second = placeOf(clients.enter('192.0.2.1'))
  t.not(second.admits(), true)
  limits = { connections: 2, rate: undefined }
  t.equal(second.admits(), true)
  t.equal(first.pace, undefined)
  limits = undefined
  t.equal(clients.enter('192.0.2.1'), undefined)
  const gone = () => [first, second].map(place => place.leave())
  t.doesNotThrow(gone)
})

const path = ({ target }: Parameters<Handler>[0]) => (target.form === 'origin' ? target.path : '')

/** Answers when the gate is open; /page at once. Refuses what is too many as a service does. */
function serve(
  t: Teardown,
  limits: ClientLimits,
  more: { tls?: boolean; fastPath?: boolean } = {},
) {
  const gate = new Gate()
  const clock = new ManualClock(0)
  const { clients, tooMany } = clientsWith(limits, clock)
  const handler: Handler = async request => {
    if (path(request) === '/page') return textResponse(200, 'page')
    if ((await request.clientPlace?.admits()) === false) return textResponse(429, 'too many')
    if (path(request) === '/slow') await gate.pass()
    return textResponse(200, 'fine')
  }
  const identity = authority.issue({ names: ['localhost'] })
  const tls = more.tls ? { tls: { identity, contextFor: async () => undefined } } : {}
  const options = { clients, clock, fastPath: more.fastPath ?? true, ...tls }
  const connected = (port: number) =>
    RawClient.connect(
      t,
      port,
      more.tls ? { tls: { ca: [authority.cert], servername: 'localhost' } } : {},
    )
  return serveForTest(t, handler, options).then(served => ({
    ...{ ...served, gate, clock, clients, tooMany },
    client: () => connected(served.port),
  }))
}

for (const way of [{}, { fastPath: false }, { tls: true }]) {
  t.test(`connections of a client: ${JSON.stringify(way)}`, async t => {
    const { client, gate, clock, server, tooMany } = await serve(t, { connections: 2 }, way)
    const idle = await client()
    t.equal((await idle.get('/fast')).status, 200)
    const busy = await client()
    await busy.request('GET', '/slow')
    await until(() => server.connections === 2)
    const third = await client()
    t.equal((await third.get('/fast')).status, 200, 'the idle one gives way')
    t.match(await idle.ended, /fin|reset/)
    await third.request('GET', '/slow')
    const fourth = await client()
    t.equal((await fourth.get('/page')).status, 200, 'what does not ask is answered')
    await fourth.request('GET', '/fast')
    let answered = false
    const answer = fourth.response().finally(() => {
      answered = true
    })
    while (!answered) {
      clock.advance(100)
      await turn()
    }
    const refused = await answer
    t.equal(refused.status, 429)
    t.equal(refused.fields.get('Connection'), 'close')
    t.match(await fourth.ended, /fin|reset/)
    t.strictSame(tooMany, ['127.0.0.1'])
    gate.open()
    t.equal((await busy.response()).status, 200)
    t.equal((await third.response()).status, 200)
  })

  t.test(`connections that say nothing: ${JSON.stringify(way)}`, async t => {
    const { client, clients, port, tooMany, server } = await serve(t, { connections: 1 }, way)
    // Without a handshake, where there is one.
    const silent = await Promise.all(Array.from({ length: 17 }, () => RawClient.connect(t, port)))
    const closed = await RawClient.connect(t, port)
    t.match(await closed.ended, /fin|reset/)
    t.equal(tooMany.length, 1)
    for (const one of silent.slice(1)) one.end()
    silent[0]?.end()
    await until(() => server.connections === 0 && clients.size === 0)
    t.equal((await (await client()).get('/fast')).status, 200)
  })
}

t.test('a client gets its rate, and at the start what it did not get in a second', async t => {
  const clock = new ManualClock(0)
  const pace = new Pace({ clock, rate: () => 8000 })
  let got = 0
  const ask = (): void => {
    got += pace.part
    loop()
  }
  const loop = (): void => {
    while (pace.take(pace.part, ask)) got += pace.part
  }
  loop()
  t.ok(got <= 8000 + pace.part, `${got} at once`)
  const first = got
  clock.advance(60_000)
  t.ok(Math.abs(got - first - 480_000) <= 2 * pace.part, `${got - first} in a minute`)
  t.ok(pace.waits)
  pace.forget(ask)
  t.notOk(pace.waits)
  clock.advance(60_000)
  got = 0
  loop()
  t.ok(got <= 8000 + pace.part, 'no more is saved up')
})

t.test('a new connection is no way around the rate', async t => {
  const { clients, clock } = clientsWith({ rate: 8000 })
  const drain = () => {
    const place = placeOf(clients.enter('192.0.2.1'))
    const { pace } = place
    let got = 0
    while (pace?.take(1024, () => undefined)) got += 1024
    place.leave()
    return got
  }
  t.ok(drain() >= 8000)
  t.equal(drain(), 0)
  clock.advance(500)
  t.ok(drain() <= 6000)
  clock.advance(2000)
  t.ok(drain() >= 8000)
})

t.test('connections of a client take turns', async t => {
  const clock = new ManualClock(0)
  const pace = new Pace({ clock, rate: () => 8192 })
  const got = [0, 0, 0]
  for (const [at] of got.entries()) {
    const ask = (): void => {
      got[at] = (got[at] ?? 0) + 1
      while (pace.take(1024, ask)) got[at] = (got[at] ?? 0) + 1
    }
    if (pace.take(1024, ask)) ask()
  }
  const before = [...got]
  clock.advance(30_000)
  const since = got.map((count, at) => count - (before[at] ?? 0))
  t.ok(Math.max(...since) - Math.min(...since) <= 1, `${since}`)
})

t.test('paced content is whole, and what is not sent is let go', async t => {
  const clock = new ManualClock(0)
  const pace = new Pace({ clock, rate: () => 64 * 1024 })
  const bytes = Buffer.from(Array.from({ length: 100_000 }, (_, i) => i % 251))
  const pool = new BlockPool({ limit: 4 * 1024 * 1024 })
  let closed = 0
  const source = (): Source => {
    let left = true
    return {
      next(take) {
        const block = left ? pool.take(256 * 1024) : undefined
        left = false
        if (block === undefined) return take(undefined, undefined)
        bytes.copy(block.memory)
        take(undefined, new Piece(block.memory.subarray(0, bytes.length), block))
      },
      close: () => (closed += 1),
    }
  }
  const response = (kind: 'bytes' | 'stream'): Response => ({
    status: 200,
    fields: Fields.empty,
    content: kind === 'bytes' ? { kind, bytes } : { kind, length: bytes.length, open: source },
  })
  for (const kind of ['bytes', 'stream'] as const) {
    const { content } = pacedResponse(response(kind), pace)
    if (content.kind !== 'stream') throw new Error('no stream')
    t.equal(content.length, bytes.length)
    const all: Buffer[] = []
    const opened = content.open()
    let over = false
    const read = (): void =>
      opened.next((error, piece) => {
        t.equal(error, undefined)
        over = piece === undefined
        if (piece === undefined) return
        all.push(Buffer.from(piece.bytes))
        piece.release()
        read()
      })
    read()
    t.notOk(over)
    clock.advance(5000)
    t.ok(over)
    t.ok(Buffer.concat(all).equals(bytes))
    opened.close()
  }
  const { content } = pacedResponse(response('stream'), pace)
  if (content.kind !== 'stream') throw new Error('no stream')
  const opened = content.open()
  const read = (): void =>
    opened.next((_error, piece) => {
      piece?.release()
      read()
    })
  read()
  t.ok(pace.waits)
  opened.close()
  t.notOk(pace.waits)
  t.equal(closed, 2)
  t.ok(pool.take(256 * 1024) !== undefined)
  t.equal(
    pacedResponse({ ...response('bytes'), content: { kind: 'none' } }, pace).content.kind,
    'none',
  )
})

for (const fastPath of [true, false]) {
  t.test(
    `a limited client is not cut for waiting, and another one is as fast as before: ${fastPath}`,
    async t => {
      const clock = new ManualClock(0)
      const size = 300_000
      const limits = { rate: 8192 }
      const clients = new Clients({
        clock,
        limitsOf: address => (address === '127.0.0.2' ? limits : undefined),
        onTooMany: () => undefined,
      })
      const answer = {
        status: 200,
        fields: Fields.empty,
        content: { kind: 'bytes', bytes: Buffer.alloc(size) },
      } as const
      const { port, exchanges } = await serveForTest(t, async () => answer, {
        ...{ clock, clients, fastPath },
        limits: { taking: 1000, idle: 1000, stalled: 0, headTime: 0 },
      })
      const limited = await RawClient.connect(t, port, { localAddress: '127.0.0.2' })
      await limited.request('GET', '/')
      await limited.head()
      let got = 0
      void (async () => {
        while (got < size) got += (await limited.bytes(Math.min(1000, size - got))).length
      })()
      const other = await RawClient.connect(t, port)
      t.equal((await other.get('/')).content.length, size)
      t.equal(clients.waiting, 1)
      let seconds = 0
      for (; exchanges.length < 2 && seconds < 100; seconds += 0.25) {
        clock.advance(250)
        await turn()
        await turn()
      }
      await until(() => got === size)
      t.ok(seconds >= 30, `${seconds} s`)
      t.match(
        exchanges.map(({ complete }) => complete),
        [true, true],
      )
      t.equal(clients.waiting, 0)
    },
  )
}

t.test('a client that goes while its content waits leaves nothing behind', async t => {
  const clock = new ManualClock(0)
  const { clients } = clientsWith({ rate: 4096, connections: 1 }, clock)
  const bytes = Buffer.alloc(1_000_000)
  const answer = { status: 200, fields: Fields.empty, content: { kind: 'bytes', bytes } } as const
  const { port, exchanges } = await serveForTest(t, async () => answer, { clock, clients })
  const client = await RawClient.connect(t, port)
  await client.request('GET', '/')
  await client.head()
  t.equal(clients.waiting, 1)
  await client.reset()
  await until(() => exchanges.length === 1)
  t.match(exchanges, [{ complete: false }])
  await until(() => clients.waiting === 0)
})
