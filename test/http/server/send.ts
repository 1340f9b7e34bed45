/** What becomes of content that cannot be sent. */
import t from 'tap'
import { Fields } from '../../../lib/http/message/field.ts'
import type { Request, Response } from '../../../lib/http/message/message.ts'
import { RawClient } from '../../fixtures/http/raw-client.ts'
import { serveForTest } from '../../fixtures/http/server.ts'

t.test(
  'content that comes after its client has gone, or cannot be announced, is closed',
  async t => {
    for (const fastPath of [true, false]) {
      let closed = 0
      const source = {
        next: () => t.fail('nobody reads it'),
        close() {
          closed += 1
        },
      }
      const answer = (length: number): Response => ({
        status: 200,
        fields: Fields.empty,
        content: { kind: 'stream', length, open: () => source },
      })
      const handler = async (request: Request): Promise<Response> => {
        if (request.target.form === 'origin' && request.target.path === '/odd')
          return { ...answer(3), reason: 'not\r\nwritable' }
        const { signal } = request
        if (!signal.aborted) await new Promise(resolve => signal.addEventListener('abort', resolve))
        return answer(5)
      }
      const { port, exchanges } = await serveForTest(t, handler, { fastPath })
      const client = await RawClient.connect(t, port)
      await client.request('GET', '/late')
      await new Promise(resolve => setImmediate(resolve))
      await client.reset()
      while (exchanges.length < 1) await new Promise(resolve => setImmediate(resolve))
      t.equal(closed, 1)
      const odd = await RawClient.connect(t, port)
      await odd.request('GET', '/odd')
      await odd.rest()
      t.equal(closed, 2)
    }
  },
)
