/**
 * A browser that logs in at one instance as another person: what its session before had under way at another instance ends.
 */
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import t from 'tap'
import { Fields } from '../../../lib/http/message/field.ts'
import { domain, requestWith, startGateway, subject } from '../../fixtures/gateway/gateway.ts'
import { RawClient } from '../../fixtures/http/raw-client.ts'
import { startStore, storeProgram } from '../../fixtures/state/real-store.ts'
import { until } from '../../fixtures/time/until.ts'

const skip = storeProgram === undefined ? 'needs redis-server or valkey-server' : false

t.test('76: a later login at another instance', { skip }, async t => {
  const store = await startStore(t)
  const backend = createServer((_, response) => {
    response.writeHead(200, { 'Content-Type': 'text/event-stream' })
    response.write('begun')
    response.on('close', () => backend.emit('left'))
  })
  await new Promise<void>(resolve => backend.listen(0, '127.0.0.1', resolve))
  t.teardown(() => backend.close())
  const target = `http://127.0.0.1:${(backend.address() as AddressInfo).port}`
  const shared = {
    state: { url: `redis://127.0.0.1:${store.port}` },
    access: [{ path: '/', allow: 'signed-in' }],
  }
  const first = await startGateway(t, { target, settings: shared })
  const keys = { shared: true, file: join(first.directory, 'app.json') }
  const second = await startGateway(t, { target, settings: { ...shared, keys } })
  const connected = () =>
    [first, second].every(({ log }) =>
      log.lines.some(({ message }) => message === 'connected to the shared store'),
    )
  await until(connected)

  const cookie = await first.logIn({ email: ['ada@example.org'] })
  const client = await RawClient.connect(t, first.port)
  await client.request('GET', '/events', { Host: domain, Cookie: cookie })
  t.equal((await client.head()).status, 200)
  const left = once(backend, 'left')
  const again = requestWith(Fields.of(['Cookie', cookie]))
  const same = await second.sessions.establish(subject({ email: ['ada@example.org'] }), again)
  t.ok('session' in same)
  const other = await second.sessions.establish(subject({ email: ['bob@example.org'] }), again)
  t.ok('session' in other)
  await left
  const ended = first.log.lines.find(({ message }) => message === 'ended with its session')
  t.match(ended?.facts, { because: 'other-user' })
})
