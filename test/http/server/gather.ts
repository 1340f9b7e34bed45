import t from 'tap'
import { Lifetime } from '../../../lib/async/lifetime.ts'
import { Fields } from '../../../lib/http/message/field.ts'
import type { Request } from '../../../lib/http/message/message.ts'
import { Allowance, gather } from '../../../lib/http/server/gather.ts'
import { ManualClock } from '../../fixtures/time/manual-clock.ts'

/** A request whose content comes when the test says so. */
function request(content: AsyncIterable<Buffer>, lifetime = new Lifetime()): Request {
  return {
    id: 'r-1',
    method: 'POST',
    target: { form: 'origin', path: '/' },
    version: '1.1',
    fields: Fields.empty,
    content,
    client: { address: '127.0.0.1', port: 1 },
    local: { address: '127.0.0.1', port: 2 },
    secure: false,
    received: 0,
    lifetime,
  }
}

async function* blocks(...sizes: readonly number[]): AsyncGenerator<Buffer> {
  for (const size of sizes) yield Buffer.alloc(size, 'x')
}

/** Some blocks and then nothing, for ever. */
async function* stalled(...sizes: readonly number[]): AsyncGenerator<Buffer> {
  yield* blocks(...sizes)
  await new Promise(() => {})
}

const limits = (clock = new ManualClock(0), most = 100) => {
  return { clock, room: new Allowance(most), size: 60, time: 10_000 }
}

t.test('content within its bounds is gathered, and the room is free again', async t => {
  const given = limits()
  t.same(await gather(request(blocks(10, 20, 30)), given), Buffer.alloc(60, 'x'))
  t.equal(given.room.held, 0)
})

t.test('what is too large is not gathered to its end', async t => {
  const given = limits()
  t.equal(await gather(request(blocks(30, 31, 1_000_000)), given), 'too-large')
  t.equal(given.room.held, 0)
})

t.test('a client that stalls is waited for no longer than its time', async t => {
  const clock = new ManualClock(0)
  const given = limits(clock)
  const gathered = gather(request(stalled(10)), given)
  await new Promise(resolve => setImmediate(resolve))
  t.equal(given.room.held, 10)
  clock.advance(10_000)
  t.equal(await gathered, 'late')
  t.equal(given.room.held, 0)
})

t.test('many that stall hold no more than the room there is, and give it back', async t => {
  const clock = new ManualClock(0)
  const given = limits(clock)
  const first = gather(request(stalled(50)), given)
  const second = gather(request(stalled(50)), given)
  await new Promise(resolve => setImmediate(resolve))
  t.equal(await gather(request(blocks(1)), given), 'no-room')
  clock.advance(10_000)
  t.same(await Promise.all([first, second]), ['late', 'late'])
  t.same(await gather(request(blocks(1)), given), Buffer.from('x'))
})

t.test('a client that goes away throws, and leaves its room', async t => {
  const lifetime = new Lifetime()
  const given = limits()
  const gathered = gather(request(stalled(10), lifetime), given)
  lifetime.end(new Error('gone'))
  await t.rejects(gathered, { message: /has gone/ })
  t.equal(given.room.held, 0)
})
