import t from 'tap'
import { type HttpsConfig, needRestart } from '../../../lib/cache/config/config.ts'
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
  t.strictSame(needRestart(plainConfig, https({ cert: '/ca.pem' })), ['https'])
  t.strictSame(needRestart(plainConfig, https({ originCa: ['/ca.pem'] })), ['https.origin_ca'])
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
