/**
 * A load balancer in front of cachesvc that names its clients by the PROXY protocol: whose address counts, and who may say so.
 */
import t from 'tap'
import { TestCache } from '../fixtures/cache/cache.ts'
import { balancer, introduction } from '../fixtures/http/introduction.ts'
import { RawClient } from '../fixtures/http/raw-client.ts'
import { reply, ScriptedOrigin } from '../fixtures/http/scripted-origin.ts'

const deb = '/debian/pool/main/h/hello_1_all.deb'

t.test('`clients` is about the client that the balancer names', async t => {
  const origin = await ScriptedOrigin.listen(t)
  origin.at(deb, reply({ content: 'hello' }))
  const settings = { clients: ['127.0.0.1', '192.0.2.0/24'], proxy_protocol: ['127.0.0.2'] }
  const cache = await TestCache.start(t, { origins: [origin], settings })
  const by = async (named: string, target: string) => {
    const client = await RawClient.connect(t, cache.port, balancer)
    await client.write(introduction(named))
    return client.get(target, { Host: `127.0.0.1:${origin.port}` })
  }
  const admitted = await by('192.0.2.7', origin.url(deb))
  t.strictSame([admitted.status, admitted.text], [200, 'hello'])
  const refused = await by('198.51.100.7', origin.url(deb))
  t.equal(refused.status, 403)
  t.match(refused.text, '198.51.100.7 is in no network under `clients`')
  t.equal((await by('198.51.100.7', '/_cachesvc/allowed')).status, 403)
  t.equal((await cache.get(origin.url(deb))).status, 200, 'others speak plain HTTP')
  const clients = cache.log.lines.filter(({ message }) => message === 'request')
  t.ok(clients.some(({ facts }) => facts['client'] === '192.0.2.7'))

  t.strictSame(
    await cache.reload({ ...settings, domains: [`127.0.0.1:${origin.port}`], proxy_protocol: [] }),
    [],
  )
  const client = await RawClient.connect(t, cache.port, balancer)
  await client.write(introduction('192.0.2.7'))
  await client.write('GET /_cachesvc/allowed HTTP/1.1\r\nHost: a\r\n\r\n')
  t.ok((await client.response()).status >= 400, 'taken back by a reload')
})

t.test('a balancer that names none is refused, and so is a stranger who names one', async t => {
  const cache = await TestCache.start(t, { settings: { proxy_protocol: ['127.0.0.2'] } })
  const silent = await RawClient.connect(t, cache.port, balancer)
  await silent.request('GET', '/_cachesvc/healthz')
  t.match(await silent.ended, /fin|reset/)
  const stranger = await RawClient.connect(t, cache.port)
  await stranger.write(introduction('192.0.2.7'))
  await stranger.write('GET /_cachesvc/allowed HTTP/1.1\r\nHost: a\r\n\r\n')
  t.ok((await stranger.response()).status >= 400)
})
