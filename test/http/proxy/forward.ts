/** What becomes of the content of a request on its way to the origin. */
import t from 'tap'
import { systemClock } from '../../../lib/async/clock.ts'
import type { OriginClient } from '../../../lib/http/client/client.ts'
import { Fields } from '../../../lib/http/message/field.ts'
import type { Request } from '../../../lib/http/message/message.ts'
import { type Forwarding, forward } from '../../../lib/http/proxy/forward.ts'
import { Allowance } from '../../../lib/http/server/gather.ts'
import { post } from '../../fixtures/http/raw-answers.ts'
import { RawClient } from '../../fixtures/http/raw-client.ts'
import { serveForTest } from '../../fixtures/http/server.ts'
import { eventually } from '../../fixtures/process/ports.ts'
import { Gate } from '../../fixtures/time/gate.ts'

const to: Omit<Forwarding, 'origin' | 'room'> = {
  uri: { scheme: 'http', host: 'a', port: 80, path: '/' },
  client: undefined,
  host: undefined,
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
    signal: AbortSignal.abort(),
    content: (async function* () {
      yield Buffer.from('twelve bytes')
    })(),
  } as unknown as Request
  const origin = { request: () => Promise.reject(new Error('gone')) } as unknown as OriginClient
  await t.rejects(forward(client, { ...to, origin, room }))
  t.equal(room.held, 0)
})
