/**
 * What `authproxy status` and `reload` say besides the state of the instance.
 */
import t from 'tap'
import { control } from '../../lib/auth/control.ts'
import { isRecord } from '../../lib/json.ts'
import { domain, gatewayConfig } from '../fixtures/gateway/gateway.ts'
import { createMemoryLog } from '../fixtures/log/memory-log.ts'

const config = gatewayConfig({
  domain,
  idpMetadataURL: 'https://idp.example.org/metadata',
  proxy: { listenAddress: '127.0.0.1:8080', targetURL: 'http://127.0.0.1:9' },
})

t.test('what waits, and which file could not be taken, stand in both', async t => {
  const handle = control({
    config: () => config,
    started: 0,
    listening: () => ({ main: { address: '127.0.0.1', port: 8080 } }),
    problems: () => [],
    waiting: () => ['domain'],
    remarks: () => [
      'cannot use identity.rename /etc/authproxy/groups.txt: line 2: a part is empty',
    ],
    readings: () => ({
      metadataFetched: undefined,
      metadataValidUntil: undefined,
      idpCertificateEnds: undefined,
      ownCertificateEnds: undefined,
    }),
    counts: () => ({ clients: 0, websockets: 0 }),
    reload: async () => [],
    endUser: async () => undefined,
    failures: () => [],
    log: createMemoryLog(),
  })
  for (const act of ['status', 'reload']) {
    const answer: unknown = await handle({ do: act })
    const said = JSON.stringify(isRecord(answer) ? answer : {})
    t.match(said, 'in force after a restart: domain', act)
    t.match(said, 'groups.txt: line 2', act)
  }
})
