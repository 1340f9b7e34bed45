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
    listening: { main: { address: '127.0.0.1', port: 8080 } },
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
    sharedFailures: async () => [],
    log: createMemoryLog(),
  })
  for (const act of ['status', 'reload']) {
    const answer: unknown = await handle({ do: act })
    const said = JSON.stringify(isRecord(answer) ? answer : {})
    t.match(said, 'in force after a restart: domain', act)
    t.match(said, 'groups.txt: line 2', act)
  }
})

t.test('explain asks the other instances where this one knows nothing', async t => {
  const record = (id: string) => ({
    ...{ id, at: 0, category: 'SAML-ERROR', code: 'replay', title: 'x', status: 403 },
    ...{ client: '192.0.2.1', method: 'POST', path: '/saml/acs', facts: {}, findings: [] },
    sender: 'other' as const,
  })
  let asked = 0
  const handle = control({
    config: () => config,
    started: 0,
    listening: { main: { address: '127.0.0.1', port: 8080 } },
    problems: () => [],
    waiting: () => [],
    remarks: () => [],
    readings: () => ({
      metadataFetched: undefined,
      metadataValidUntil: undefined,
      idpCertificateEnds: undefined,
      ownCertificateEnds: undefined,
    }),
    counts: () => ({ clients: 0, websockets: 0 }),
    reload: async () => [],
    endUser: async () => undefined,
    failures: () => [record('own')],
    sharedFailures: async () => {
      asked += 1
      return [record('other')]
    },
    log: createMemoryLog(),
  })
  t.match(await handle({ do: 'explain', reference: 'own' }), { out: /SAML-ERROR replay/, code: 0 })
  t.equal(asked, 0)
  t.match(await handle({ do: 'explain', reference: 'other' }), {
    out: /SAML-ERROR replay/,
    code: 0,
  })
  t.match(await handle({ do: 'explain', reference: 'none' }), { out: '', code: 1 })
})
