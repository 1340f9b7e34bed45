/**
 * What is remembered of a field block never outlives its truth: on one kept connection the same bytes are answered by what
 * holds now.
 */
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import type { Config } from '../../lib/auth/config/config.ts'
import { Fields } from '../../lib/http/message/field.ts'
import { gatewayConfig, requestWith, startGateway } from '../fixtures/gateway/gateway.ts'
import { nodeBackend } from '../fixtures/gateway/node-backend.ts'
import { RawClient } from '../fixtures/http/raw-client.ts'
import { ManualClock } from '../fixtures/time/manual-clock.ts'

const minute = 60_000
const ada = 'ada@example.org staff,ops'

/** A browser with a session on one connection. `asks` sends the same bytes and tells whom the backend was told of. */
async function begun(t: Test, settings: Readonly<Record<string, unknown>> = {}) {
  const target = await nodeBackend(t, ({ headers }, response) => {
    response.end(`${headers['x-authproxy-user']} ${headers['x-authproxy-groups']}`)
  })
  const clock = new ManualClock(Date.parse('2025-03-14T12:00:00Z'))
  let next: Config | undefined
  const gateway = await startGateway(t, {
    ...{ target, clock, settings },
    reload: () => next ?? gateway.config,
  })
  const cookie = await gateway.logIn({ email: ['ada@example.org'], groups: ['staff', 'ops'] })
  const client = await RawClient.connect(t, gateway.port)
  const asks = async (): Promise<string> => {
    const { status, text } = await client.get('/page', { Host: gateway.domain, Cookie: cookie })
    return status === 200 ? text : String(status)
  }
  t.equal(await asks(), ada)
  t.equal(await asks(), ada, 'the same bytes once more')
  const reload = (more: Readonly<Record<string, unknown>>) => {
    next = gatewayConfig({
      domain: gateway.domain,
      idpMetadataURL: 'https://idp.example.org/metadata',
      configPath: join(gateway.directory, 'app.json'),
      proxy: { listenAddress: '127.0.0.1:0', targetURL: target },
      ...more,
    })
    return gateway.service.reload()
  }
  return { gateway, clock, cookie, asks, reload }
}

t.test('a session that is revoked', async t => {
  const { gateway, asks, cookie } = await begun(t)
  await gateway.sessions.revoke({ sessionId: 'another' })
  t.equal(await asks(), ada, 'not this one')
  const session = await gateway.sessions.read(requestWith(Fields.of(['Cookie', cookie])))
  await gateway.sessions.revoke({ sessionId: session?.id ?? '' })
  t.equal(await asks(), '401')
})

t.test('a session that lapses', async t => {
  const { clock, asks } = await begun(t, { session: { idle: '1m', lifetime: '12h' } })
  clock.advance(minute - 1000)
  t.equal(await asks(), ada)
  clock.advance(2000)
  t.equal(await asks(), '401')
})

t.test('a session that is older than sessions may be after a reload', async t => {
  const { clock, asks, reload } = await begun(t)
  clock.advance(minute + 1000)
  t.equal(await asks(), ada)
  await reload({ session: { lifetime: '1m', idle: '1m' } })
  t.equal(await asks(), '401')
})

t.test('keys that are replaced', async t => {
  const { gateway, asks, reload } = await begun(t)
  const other = await startGateway(t)
  const keys = await readFile(join(other.directory, 'app.json'))
  await writeFile(join(gateway.directory, 'app.json'), keys)
  await reload({})
  t.equal(await asks(), '401')
})

t.test('other rules after a reload', async t => {
  const { asks, reload } = await begun(t)
  await reload({ passthroughPaths: ['/page'] })
  t.equal(await asks(), 'undefined undefined', 'the path passes without an identity now')
  await reload({ identity: { groups: ['staff'] } })
  t.equal(await asks(), '401', 'the session was made by other rules')
  await reload({})
  t.equal(await asks(), ada)
})
