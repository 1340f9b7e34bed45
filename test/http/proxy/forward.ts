/** What becomes of the content of a request on its way to the origin. */

import t from 'tap'
import { systemClock } from '../../../lib/async/clock.ts'
import { Lifetime } from '../../../lib/async/lifetime.ts'
import type { Source } from '../../../lib/bytes/source.ts'
import type { OriginClient, OriginRequest } from '../../../lib/http/client/client.ts'
import { Fields } from '../../../lib/http/message/field.ts'
import type { Request } from '../../../lib/http/message/message.ts'
import { type ForwardingOptions, forward } from '../../../lib/http/proxy/forward.ts'
import { Allowance } from '../../../lib/http/server/gather.ts'
import { post } from '../../fixtures/http/raw-answers.ts'
import { RawClient } from '../../fixtures/http/raw-client.ts'
import { serveForTest } from '../../fixtures/http/server.ts'
import { eventually } from '../../fixtures/process/ports.ts'
import { Gate } from '../../fixtures/time/gate.ts'
import { ManualClock } from '../../fixtures/time/manual-clock.ts'

const to: Omit<ForwardingOptions, 'origin' | 'room'> = {
  uri: { scheme: 'http', host: 'a', port: 80, path: '/' },
  client: undefined,
  line: 'shared',
  host: undefined,
  owner: undefined,
  fields: Fields.empty,
  trailers: fields => fields,
  clock: systemClock,
  contentTime: 60_000,
}

t.test('small content counts as held until its exchange is over', async t => {
  const room = new Allowance(100)
  const gate = new Gate()
  let asked = false
  const origin = {
    async request() {
      asked = true
      await gate.pass()
      throw new Error('no connection')
    },
  }
  const { port } = await serveForTest(t, request =>
    forward(request, { ...to, origin: origin as unknown as OriginClient, room }),
  )
  const client = await RawClient.connect(t, port)
  await client.write(post('/', 'twelve bytes'))
  t.ok(await eventually(() => asked))
  t.equal(room.held, 12)
  gate.open()
  t.equal((await client.response()).status, 500)
  t.ok(await eventually(() => room.held === 0))
})

t.test('content of a client who has gone does not count as held', async t => {
  const room = new Allowance(100)
  const client = {
    method: 'POST',
    fields: Fields.of(['Content-Length', '12']),
    lifetime: Lifetime.until(AbortSignal.abort()),
    content: (async function* () {
      yield Buffer.from('twelve bytes')
    })(),
  } as unknown as Request
  const origin = { request: () => Promise.reject(new Error('gone')) } as unknown as OriginClient
  await t.rejects(forward(client, { ...to, origin, room }))
  t.equal(room.held, 0)
})

/** The content that goes to the origin when the client's is this one. */
async function outgoing(content: AsyncIterable<Buffer>, clock = systemClock): Promise<Source> {
  const fields = Fields.of(['Transfer-Encoding', 'chunked'])
  const lifetime = new Lifetime()
  const client = { method: 'POST', fields, lifetime, content } as unknown as Request
  let source: Source | undefined
  const request = (asked: OriginRequest) => {
    if (asked.content?.kind === 'stream') source = asked.content.open()
    return new Promise(() => undefined)
  }
  const origin = { request } as unknown as OriginClient
  void forward(client, { ...to, clock, origin, room: new Allowance(100) })
  await new Promise(resolve => setImmediate(resolve))
  if (source === undefined) throw new Error('no content')
  return source
}

/** Each of what the source tells: bytes, the end, or a failure. */
function take(source: Source, told: string[]): void {
  source.next((error, piece) => told.push(error?.message ?? piece?.bytes.toString() ?? 'the end'))
}

t.test('content goes on block by block, to its end or to where it breaks off', async t => {
  const told: string[] = []
  for (const breaks of [false, true]) {
    const source = await outgoing(
      (async function* () {
        yield Buffer.from('block')
        if (breaks) throw new Error('broken')
      })(),
    )
    for (const _ of [1, 2]) {
      take(source, told)
      await new Promise(resolve => setImmediate(resolve))
    }
    source.close()
  }
  t.strictSame(told, ['block', 'the end', 'block', 'broken'])
})

t.test('a client that is late with a block, and an origin that wants no more', async t => {
  for (const late of [true, false]) {
    const clock = new ManualClock(0)
    const gate = new Gate()
    let left = false
    const source = await outgoing(
      (async function* () {
        try {
          yield Buffer.from('block')
          await gate.pass()
          yield Buffer.from('too late')
        } finally {
          left = true
        }
      })(),
      clock,
    )
    const told: string[] = []
    take(source, told)
    await new Promise(resolve => setImmediate(resolve))
    clock.advance(60_000)
    take(source, told)
    await gate.reached
    clock.advance(59_999)
    t.strictSame(told, ['block'], 'the time between two blocks does not count')
    if (!late) source.close()
    clock.advance(1)
    gate.open()
    await new Promise(resolve => setImmediate(resolve))
    source.close()
    const slow = 'the client sent nothing of its content for 60000 ms'
    t.strictSame(told, late ? ['block', slow] : ['block'])
    t.ok(left, 'the iteration has ended')
  }
})
