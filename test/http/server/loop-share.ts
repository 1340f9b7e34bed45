/**
 * The event loop is shared: content in bounded portions, newcomers first, and neither for ever.
 */

import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import t from 'tap'
import { Fields } from '../../../lib/http/message/field.ts'
import type { Response } from '../../../lib/http/message/message.ts'
import { LoopShare } from '../../../lib/http/server/exchanges.ts'
import { serveForTest } from '../../fixtures/http/server.ts'
import { sourceOf } from '../../fixtures/http/source-of.ts'
import { ManualClock } from '../../fixtures/time/manual-clock.ts'

/** Of what a turn has room for, less what a call costs. */
const WHOLE = (8 << 20) - (256 << 10)
const HALF = (4 << 20) - (256 << 10)

/** Whether so many bytes may go now. */
function atOnce(share: LoopShare, bytes: number): boolean {
  let went = false
  share.take(bytes, () => {
    went = true
  })
  return went
}

/** One turn of the event loop. */
const turn = () => new Promise<void>(resolve => setImmediate(resolve))

t.test('a turn has room for so much content, the rest goes in the next ones, in order', async t => {
  const share = new LoopShare(new ManualClock(0))
  t.ok(atOnce(share, HALF))
  t.ok(atOnce(share, HALF))
  const went: number[] = []
  for (const n of [1, 2, 3]) share.take(HALF, () => went.push(n))
  t.strictSame(went, [])
  await turn()
  t.strictSame(went, [1, 2])
  await turn()
  t.strictSame(went, [1, 2, 3])
})

t.test('nothing overtakes what waits, however small', async t => {
  const share = new LoopShare(new ManualClock(0))
  share.take(WHOLE, () => {})
  const went: string[] = []
  share.take(WHOLE, () => went.push('large'))
  share.take(1, () => went.push('small'))
  await turn()
  t.strictSame(went, ['large'])
  await turn()
  t.strictSame(went, ['large', 'small'])
})

t.test('a block larger than the share goes, alone', async t => {
  const share = new LoopShare(new ManualClock(0))
  t.ok(atOnce(share, 3 * WHOLE))
  const next = new Promise<void>(resolve => share.take(1, resolve))
  await next
})

t.test('a turn in which somebody arrived has no room for content', async t => {
  const share = new LoopShare(new ManualClock(0))
  share.arrive()
  let went = false
  share.take(1, () => {
    went = true
  })
  for (let n = 0; n < 10; n += 1) {
    await turn()
    share.arrive()
    t.notOk(went)
  }
  await turn()
  await turn()
  t.ok(went)
})

t.test(
  'those who keep arriving hold content for 50 ms at a time, and then one share goes',
  async t => {
    const clock = new ManualClock(0)
    const share = new LoopShare(clock)
    const went: number[] = []
    share.arrive()
    for (const n of [1, 2, 3]) share.take(WHOLE, () => went.push(n))
    for (let n = 0; n < 5; n += 1) {
      await turn()
      share.arrive()
    }
    t.strictSame(went, [])
    clock.advance(50)
    await turn()
    t.strictSame(went, [1])
    share.arrive()
    await turn()
    t.strictSame(went, [1], 'held again')
    share.arrive()
    clock.advance(50)
    await turn()
    t.strictSame(went, [1, 2])
  },
)

t.test('forty clients that come at once are let in before a download goes on', async t => {
  let blocks = 0
  async function* endless(): AsyncGenerator<Buffer> {
    const block = Buffer.alloc(64 * 1024)
    for (;;) {
      blocks += 1
      yield block
    }
  }
  const content = { kind: 'stream', length: undefined, open: () => sourceOf(endless) } as const
  const answer: Response = { status: 200, fields: Fields.empty, content, facts: {} }
  // The time stands still: newcomers are never too many.
  const clock = new ManualClock(0)
  const { server, port } = await serveForTest(t, async () => answer, { clock })
  const sockets: Socket[] = []
  const open = () => {
    const socket = connect(port, '127.0.0.1').on('error', () => {})
    sockets.push(socket)
    return socket
  }
  t.teardown(() => {
    for (const socket of sockets) socket.destroy()
  })
  const download = open()
  download.write('GET / HTTP/1.1\r\nHost: a.example.org\r\n\r\n')
  download.resume()
  await once(download, 'data')
  // All forty are in the listener's queue before the loop turns: the system answers for it.
  for (let n = 0; n < 40; n += 1) open()
  const before = blocks
  while (server.connections < 41) await turn()
  t.ok(
    blocks - before <= 2 * 16,
    `${blocks - before} blocks went meanwhile, two turns' share at most`,
  )
  const after = blocks
  while (blocks < after + 10) await turn()
})

t.test('a client that takes nothing is given plenty, many are given little each', t => {
  const share = new LoopShare(new ManualClock(0))
  const [little, plenty] = [64 << 10, 512 << 10]
  /** How much one of them is given that takes nothing. */
  const given = () => {
    let bytes = 0
    for (; share.mayAsk(bytes); bytes += little) share.wait(little)
    return bytes
  }
  const first = Array.from({ length: 64 }, given)
  t.ok(first.every(bytes => bytes === plenty))
  t.equal(given(), little)
  share.wait(-first.length * plenty)
  t.equal(given(), plenty, 'until they have taken theirs')
  t.end()
})
