import t from 'tap'
import { type HttpsConfig, inForce, needRestart } from '../../../lib/cache/config/config.ts'
import { pattern, plainConfig } from '../../fixtures/cache/operations.ts'

const https = (change: Partial<HttpsConfig>) => ({
  ...plainConfig,
  https: { ...plainConfig.https, ...change },
})

t.test('what waits for a restart is told by the names in the file', async t => {
  t.strictSame(needRestart(plainConfig, plainConfig), [])
  t.strictSame(needRestart(plainConfig, { ...plainConfig, cacheDirectory: '/elsewhere' }), [
    'cache_directory',
  ])
  const secure = { ...plainConfig, listenSecure: { address: undefined, port: 3143 } }
  t.strictSame(needRestart(plainConfig, secure), ['listen_port_secure', 'https.intercept'])
  t.strictSame(needRestart(plainConfig, https({ cert: '/ca.pem' })), ['https.cert'])
})

t.test('a CA that was never opened waits, too; without need of one nothing does', async t => {
  t.strictSame(needRestart(plainConfig, https({ intercept: true })), ['https.intercept'])
  t.strictSame(needRestart(https({ intercept: true }), plainConfig), [])
  const lists = { tunnelDomains: [pattern('a.example')], interceptDomains: [pattern('b.example')] }
  t.strictSame(
    needRestart(https({ intercept: true }), https({ ...lists, rememberDistrust: 0 })),
    [],
  )
})

t.test('a CA that was opened for a socket of the service manager counts', async t => {
  t.strictSame(needRestart(plainConfig, https({ intercept: true }), true), [])
  t.equal(inForce(plainConfig, https({ intercept: true }), true).https.intercept, true)
})

t.test('what waits for a restart is not in force', async t => {
  const wanted = {
    ...https({ cert: '/ca.pem', enableCrl: true, intercept: true }),
    cacheDirectory: '/elsewhere',
    listen: [{ address: undefined, port: 1 }],
    listenSecure: { address: undefined, port: 2 },
    parentProxy: { host: 'parent.example.org', port: 3128 } as never,
    mdns: true,
    limits: { ...plainConfig.limits, connections: 1 },
    suites: { ...plainConfig.suites, memory: 1 },
    timeouts: { ...plainConfig.timeouts, connect: 1, drain: 1, clientHead: 1 },
  }
  t.strictSame(inForce(plainConfig, wanted), plainConfig)
  t.strictSame(needRestart(plainConfig, wanted), [
    'cache_directory',
    'listen, listen_address, listen_port or alternative_ports',
    'listen_port_secure',
    'parent_proxy',
    'https.cert',
    'https.enable_crl',
    'suites.memory',
    'timeouts.connect',
    'timeouts.client_head',
    'timeouts.drain',
    'limits.connections',
    'mdns',
    'https.intercept',
  ])
})

t.test('what does not wait is in force', async t => {
  const wanted = {
    ...https({
      prevent: true,
      originCa: ['/ca.pem'],
      tunnelDomains: [pattern('a.example')],
      rememberDistrust: 1,
    }),
    offline: true,
    limits: { ...plainConfig.limits, perClient: { connections: 3, rate: 4096, except: [] } },
    suites: { ...plainConfig.suites, wait: 1 },
    timeouts: { ...plainConfig.timeouts, revalidation: 1, tunnel: 1 },
  }
  t.strictSame(needRestart(plainConfig, wanted), [])
  t.strictSame(inForce(plainConfig, wanted), wanted)
})
