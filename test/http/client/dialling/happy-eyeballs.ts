import { once } from 'node:events'
import { createServer } from 'node:net'
import t from 'tap'
import { BlockPool } from '../../../../lib/bytes/block-pool.ts'
import { Transport } from '../../../../lib/http/client/connection.ts'
import { connectFirst } from '../../../../lib/http/client/dialling/dialler.ts'
import { standstill } from '../../../fixtures/http/origin-client.ts'
import { ScriptedOrigin } from '../../../fixtures/http/scripted-origin.ts'
import { ManualClock } from '../../../fixtures/time/manual-clock.ts'

const never = new AbortController().signal
const blocks = new BlockPool({ limit: 0 })

/** Connects to this port of whatever address. */
function to(port: number) {
  return { connect: (host: string) => Transport.connect({ host, port }, blocks) }
}

t.test('an address that refuses gives way to the next at once', async t => {
  const origin = await ScriptedOrigin.listen(t, { host: '127.0.0.2' })
  const clock = new ManualClock(0)
  const order = ['127.0.0.3', '::1', '127.0.0.2']
  const { transport, address } = await connectFirst(order, {
    ...to(origin.port),
    clock,
    stop: never,
  })
  t.equal(address, '127.0.0.2')
  t.equal(transport.socket.remoteAddress, '127.0.0.2')
  transport.destroy()
})

t.test(
  'a slow address is raced by the next after 250 ms, and the first to connect wins',
  async t => {
    const clock = new ManualClock(0)
    const origin = await ScriptedOrigin.listen(t, { host: '0.0.0.0' })
    const racing = connectFirst(['127.0.0.2', '127.0.0.3'], {
      ...to(origin.port),
      clock,
      stop: never,
    })
    await standstill()
    clock.advance(250)
    await standstill()
    const { socket } = (await racing).transport
    // Both connect in the same turn of the loop; the loser is closed.
    while (origin.connections < 2) await new Promise(resolve => setImmediate(resolve))
    while (origin.open > 1) await new Promise(resolve => setImmediate(resolve))
    t.equal(socket.destroyed, false)
    socket.destroy()
  },
)

t.test('every address refusing is one error with all of them', async t => {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('not listening')
  await new Promise(resolve => server.close(resolve))
  const clock = new ManualClock(0)
  const one = connectFirst(['127.0.0.1'], { ...to(address.port), clock, stop: never })
  await t.rejects(one, { code: 'ECONNREFUSED' })
  const two = connectFirst(['127.0.0.1', '127.0.0.2'], { ...to(address.port), clock, stop: never })
  await t.rejects(two, { errors: [{ code: 'ECONNREFUSED' }, { code: 'ECONNREFUSED' }] })
})

t.test('stop ends every attempt', async t => {
  const origin = await ScriptedOrigin.listen(t, { host: '0.0.0.0' })
  const clock = new ManualClock(0)
  const control = new AbortController()
  const stop = control.signal
  const racing = connectFirst(['127.0.0.2', '127.0.0.3'], { ...to(origin.port), clock, stop })
  await standstill()
  clock.advance(250)
  control.abort(new Error('enough'))
  await t.rejects(racing, { message: 'enough' })
  const gone = connectFirst(['127.0.0.2'], { ...to(origin.port), clock, stop })
  await t.rejects(gone, { message: 'enough' })
})
