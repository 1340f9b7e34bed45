import t from 'tap'
import { createApplication } from '../../demo/application.ts'
import { startListening } from '../../demo/idp/command.ts'
import { RawClient } from '../fixtures/http/raw-client.ts'

t.test('any target is answered, and a name beyond ASCII shown as it is', async t => {
  const application = createApplication()
  const port = await startListening(application, { address: '127.0.0.1', port: 0 }, '--port')
  t.teardown(() => {
    application.closeAllConnections()
    application.close()
  })
  const client = await RawClient.connect(t, port)
  for (const target of ['//', '//?a=b', '/fields']) {
    t.equal((await client.get(target)).status, 200, target)
  }
  const page = await client.get('/', {
    'X-Authproxy-User': Buffer.from('Åsa Öhman').toString('latin1'),
  })
  t.match(page.text, '<h1 id="user">Åsa Öhman</h1>', 'a name beyond ASCII')
  const upgrade = { Connection: 'Upgrade', Upgrade: 'websocket' }
  for (const [target, status] of [
    ['//', 404],
    ['//?refuse=403', 403],
  ] as const) {
    const asking = await RawClient.connect(t, port)
    await asking.request('GET', target, upgrade)
    t.equal((await asking.response()).status, status, `${target}, asking for an upgrade`)
  }
})
