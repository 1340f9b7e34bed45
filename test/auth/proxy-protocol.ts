/**
 * The PROXY protocol in front of the gateway: whose address counts, and who may say so.
 */
import { randomBytes } from 'node:crypto'
import t from 'tap'
import { systemClock } from '../../lib/async/clock.ts'
import { closeClients } from '../../lib/auth/doctor/ask.ts'
import { directProbe } from '../../lib/auth/doctor/facts.ts'
import { domain, startGateway } from '../fixtures/gateway/gateway.ts'
import { RawClient } from '../fixtures/http/raw-client.ts'
import { reply, ScriptedOrigin } from '../fixtures/http/scripted-origin.ts'

/** The first bytes of a connection of a client with this address. */
function introduction(address: string): Buffer {
  const head = Buffer.from('0d0a0d0a000d0a515549540a2111000c', 'hex')
  const bytes = address.split('.').map(Number)
  return Buffer.concat([head, Buffer.from([...bytes, 192, 0, 2, 1, 0xd9, 3, 1, 0xbb])])
}

t.test(
  'the client that a balancer names is the client; X-Forwarded-For keeps its rules',
  async t => {
    const backend = await ScriptedOrigin.listen(t)
    backend.at('*', reply({ content: 'page' }))
    const gateway = await startGateway(t, {
      target: backend.url(''),
      settings: { passthroughPaths: ['/open/'] },
      proxy: { trustedProxies: ['127.0.0.1', '203.0.113.7'], proxyProtocol: true },
    })
    for (const [named, forwarded, counts] of [
      ['203.0.113.9', undefined, '203.0.113.9'],
      ['203.0.113.9', '198.51.100.1', '203.0.113.9'],
      ['203.0.113.7', '198.51.100.1', '198.51.100.1'],
      ['203.0.113.7', undefined, '203.0.113.7'],
    ] as const) {
      const client = await RawClient.connect(t, gateway.port)
      await client.write(introduction(named))
      const fields = forwarded === undefined ? {} : { 'X-Forwarded-For': forwarded }
      t.equal((await client.get('/open/', { Host: domain, ...fields })).status, 200)
      t.equal(backend.requests.at(-1)?.fields.get('X-Forwarded-For'), counts)
      client.end()
    }
    const without = await RawClient.connect(t, gateway.port)
    await without.request('GET', '/open/', { Host: domain })
    t.match(await without.ended, /fin|reset/)
    t.equal(backend.requests.length, 4)
    t.match(
      gateway.log.lines.find(({ message }) => message === 'malformed request'),
      { facts: { client: '127.0.0.1', problem: /does not begin with the PROXY protocol/ } },
    )
  },
)

t.test(
  '52: a stranger who names another client is refused, and so is anyone while it is off',
  async t => {
    const backend = await ScriptedOrigin.listen(t)
    backend.at('*', reply({ content: 'page' }))
    for (const proxy of [
      { trustedProxies: ['203.0.113.7'], proxyProtocol: true },
      { trustedProxies: ['127.0.0.1'] },
    ]) {
      const gateway = await startGateway(t, {
        target: backend.url(''),
        settings: { passthroughPaths: ['/open/'] },
        proxy,
      })
      const client = await RawClient.connect(t, gateway.port)
      await client.write(introduction('203.0.113.9'))
      await client.write(`GET /open/ HTTP/1.1\r\nHost: ${domain}\r\n\r\n`)
      t.ok((await client.response()).status >= 400)
      t.match(await client.ended, /fin|reset/)
      t.equal(backend.requests.length, 0)
      const plain = await RawClient.connect(t, gateway.port)
      t.equal(
        (await plain.get('/open/', { Host: domain })).status,
        200,
        'without it all is as ever',
      )
      backend.requests.length = 0
    }
  },
)

t.test('the doctor reaches the service where its own machine is a trusted proxy', async t => {
  for (const trusted of ['127.0.0.1', '203.0.113.7']) {
    const gateway = await startGateway(t, {
      proxy: { trustedProxies: [trusted], proxyProtocol: true },
    })
    const listen = { address: '127.0.0.1', port: gateway.port }
    const of = {
      ...{ config: { ...gateway.config, listen }, from: '', warnings: [], groups: undefined },
      ...{ clock: systemClock, random: randomBytes },
    }
    const { outcome, answer } = await directProbe(of)
    await closeClients(of)
    t.ok(outcome.ok && answer !== undefined, trusted)
  }
})
