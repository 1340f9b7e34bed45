/**
 * What `authproxy doctor` says of the shared store.
 */
import { randomBytes } from 'node:crypto'
import t from 'tap'
import { systemClock } from '../../../lib/async/clock.ts'
import {
  judgeInfo,
  judgeLatency,
  judgeStoreClock,
  store,
} from '../../../lib/auth/doctor/checks/shared-state.ts'
import { domain, gatewayConfig } from '../../fixtures/gateway/gateway.ts'
import { startStore, storeProgram } from '../../fixtures/state/real-store.ts'

const skip = storeProgram === undefined ? 'needs redis-server or valkey-server' : false

function examination(state: object) {
  const config = gatewayConfig({
    domain,
    idpMetadataURL: 'https://idp.example.org/metadata',
    proxy: { listenAddress: '127.0.0.1:8080', targetURL: 'http://127.0.0.1:9' },
    state,
  })
  const rest = { from: 'app.yaml', warnings: [], groups: undefined }
  return { config, ...rest, clock: systemClock, random: randomBytes }
}

t.test('what is judged', async t => {
  t.match(judgeLatency([1, 3, 2]), { state: 'right', found: /2\.0 ms/ })
  t.match(judgeLatency([30, 30, 1]), { state: 'doubtful' })
  t.match(judgeLatency([60, 60, 60]), { state: 'wrong' })
  t.match(judgeStoreClock(1000, 1900), { state: 'right' })
  t.match(judgeStoreClock(1000, 9000), { state: 'doubtful', mend: /NTP/ })
  t.match(judgeStoreClock(Number.NaN, 1), { state: 'doubtful', mend: /\+time/ })
  const info = 'redis_version:7.0.15\r\nrole:master\r\nmaxmemory:1000\r\n'
  t.match(judgeInfo(`${info}maxmemory_policy:allkeys-lru\r\naof_enabled:1\r\n`), [
    { state: 'wrong', found: /allkeys-lru/ },
    { state: 'right' },
  ])
  t.match(judgeInfo(`${info}maxmemory_policy:noeviction\r\naof_enabled:0\r\n`), [
    { state: 'right' },
    { state: 'doubtful', mend: /appendonly yes/ },
  ])
  const replica = 'redis_version:7\r\nrole:slave\r\nmaxmemory:0\r\naof_enabled:1\r\n'
  t.match(judgeInfo(replica), [{}, {}, { state: 'wrong', found: /replica/ }])
  t.match(judgeInfo('NOPERM'), [{ state: 'doubtful', mend: /\+info/ }])
})

t.test('of a real store', { skip }, async t => {
  t.same(await store(examination({})), [], 'nothing where there is none')
  const real = await startStore(t)
  const found = await store(examination({ url: `redis://127.0.0.1:${real.port}` }))
  t.match(found, [
    { state: 'right', found: /answers and takes writes/ },
    {},
    { state: 'right', found: /clock/ },
    { state: 'right', found: /noeviction/ },
    { state: 'doubtful', found: /appendonly no/ },
    { state: 'doubtful', found: /every key/ },
  ])
  await real.kill()
  t.match(await store(examination({ url: `redis://127.0.0.1:${real.port}` })), {
    state: 'wrong',
    found: /ECONNREFUSED/,
  })
})
