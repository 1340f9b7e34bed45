/**
 * A store behind TLS, and one of two nodes with a sentinel, of which the first dies: real programs.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { systemClock } from '../../../lib/async/clock.ts'
import type { StateConfig } from '../../../lib/auth/config/config.ts'
import { RevocationList } from '../../../lib/auth/session/revocation.ts'
import { openSharedState } from '../../../lib/auth/shared-state/shared-state.ts'
import { makeAuthority } from '../../fixtures/certificates/certificate.ts'
import { ownDirectory } from '../../fixtures/gateway/whole-gateway.ts'
import { createMemoryLog } from '../../fixtures/log/memory-log.ts'
import { accepts, freePort } from '../../fixtures/process/ports.ts'
import { startStore, storeProgram } from '../../fixtures/state/real-store.ts'
import { until } from '../../fixtures/time/until.ts'

t.setTimeout(300_000)
const skip = storeProgram === undefined ? 'needs redis-server or valkey-server' : false

async function instance(t: Test, state: Partial<StateConfig>) {
  const log = createMemoryLog()
  const path = join(await ownDirectory(t), 'app.json.revoked')
  const list = await RevocationList.open({ path, clock: systemClock, log, lifetime: () => 60_000 })
  const shared = await openSharedState({
    config: {
      ...{ tls: false, host: '127.0.0.1', port: 6379, database: 0, user: undefined },
      ...{ password: undefined, sentinelPassword: undefined, certificates: undefined },
      ...{ sentinels: [], onOutage: 'continue', instance: 'app', ...state },
    },
    ...{ revocations: list, clock: systemClock, log },
  })
  t.teardown(async () => {
    await shared.close()
    await list.close()
  })
  return { log, list, shared }
}

t.test(
  'with TLS the certificate has to be of the authorities that are named',
  { skip },
  async t => {
    const directory = await ownDirectory(t)
    const authority = makeAuthority()
    const { cert, key } = authority.issue({ names: ['localhost'] })
    const port = await freePort()
    const file = (name: string) => join(directory, name)
    await Promise.all([
      writeFile(file('ca.pem'), authority.cert),
      writeFile(file('other.pem'), makeAuthority().cert),
      writeFile(file('cert.pem'), cert),
      writeFile(file('key.pem'), key),
    ])
    await startStore(t, [
      ...['--tls-port', String(port), '--tls-auth-clients', 'no'],
      ...['--tls-cert-file', file('cert.pem'), '--tls-key-file', file('key.pem')],
      ...['--tls-ca-cert-file', file('ca.pem')],
    ])
    const at = { tls: true, host: 'localhost', port }
    const { shared } = await instance(t, { ...at, certificates: file('ca.pem') })
    t.equal(shared.link, 'here')
    t.equal(await shared.useIds(['a'], Date.now() + 1000), 'first')
    for (const wrong of [{ certificates: file('other.pem') }, { certificates: undefined }]) {
      const { shared } = await instance(t, { ...at, ...wrong })
      t.equal(shared.link, 'away')
      t.match(shared.remark(), /self.signed|unable to verify|certificate/i)
    }
    const plain = await instance(t, { ...at, tls: false })
    t.equal(plain.shared.link, 'away')
    await t.rejects(instance(t, { ...at, certificates: file('none.pem') }), /state\.certificates/)
  },
)

t.test('a node that dies: the sentinel names the other, and nothing is lost', { skip }, async t => {
  const directory = await ownDirectory(t)
  const first = await startStore(t)
  const second = await startStore(t, ['--replicaof', `127.0.0.1 ${first.port}`])
  const port = await freePort()
  const file = join(directory, 'sentinel.conf')
  const lines = [
    `port ${port}`,
    'bind 127.0.0.1',
    `sentinel monitor mymaster 127.0.0.1 ${first.port} 1`,
    'sentinel down-after-milliseconds mymaster 1000',
    'sentinel failover-timeout mymaster 5000',
    '',
  ]
  await writeFile(file, lines.join('\n'))
  const program = storeProgram ?? ''
  const sentinel = spawn(program, [file, '--sentinel'], { stdio: 'ignore' })
  t.teardown(async () => {
    const gone = once(sentinel, 'exit')
    sentinel.kill('SIGKILL')
    await gone
  })
  await until(() => accepts(port))
  const state = {
    host: 'mymaster',
    sentinels: [
      { host: '127.0.0.1', port: 9 },
      { host: '127.0.0.1', port },
    ],
  }
  const [a, b] = [await instance(t, state), await instance(t, state)]
  await until(() => a.shared.link === 'here' && b.shared.link === 'here')
  const ids = ['1', '2', '3'].map(digit => digit.repeat(32))
  const [before = '', during = '', after = ''] = ids
  await a.shared.revocations?.add({ sessionId: before })
  await until(() => b.list.entries.has(before))
  await until(() => second.cli('info', 'replication').includes('master_link_status:up'))
  await first.kill()
  await until(() => a.shared.link === 'away' && b.shared.link === 'away')
  await a.shared.revocations?.add({ sessionId: during })
  await until(() => b.list.entries.has(during))
  t.equal(a.shared.link, 'here')
  await b.shared.revocations?.add({ sessionId: after })
  await until(() => a.list.entries.has(after))
  t.match(second.cli('info', 'replication'), 'role:master')
  for (const id of ids) {
    t.equal(second.cli('exists', `{authproxy:app}:revoked:${id}`).trim(), '1')
  }
})
