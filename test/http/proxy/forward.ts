/** What becomes of the content of a request on its way to the origin. */
import t from 'tap'
import { systemClock } from '../../../lib/async/clock.ts'
import type { OriginClient } from '../../../lib/http/client/client.ts'
import { Fields } from '../../../lib/http/message/field.ts'
import { forward } from '../../../lib/http/proxy/forward.ts'
import { Allowance } from '../../../lib/http/server/gather.ts'
import { post } from '../../fixtures/http/raw-answers.ts'
import { RawClient } from '../../fixtures/http/raw-client.ts'
import { serveForTest } from '../../fixtures/http/server.ts'
import { eventually } from '../../fixtures/process/ports.ts'
import { Gate } from '../../fixtures/time/gate.ts'

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
    forward(request, {
      origin: origin as unknown as OriginClient,
      uri: { scheme: 'http', host: 'a', port: 80, path: '/' },
      client: undefined,
      host: undefined,
      fields: Fields.empty,
      trailers: fields => fields,
      clock: systemClock,
      room,
      contentTime: 60_000,
    }),
  )
  const client = await RawClient.connect(t, port)
  await client.write(post('/', 'twelve bytes'))
  t.ok(await eventually(() => asked))
  t.equal(room.held, 12)
  gate.open()
  t.equal((await client.response()).status, 500)
  t.ok(await eventually(() => room.held === 0))
})
