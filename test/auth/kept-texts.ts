/**
 * What is remembered of requests does not keep their heads: a part of a text is a view of all of it, so a memory of short texts would
 * hold as many heads, as long as strangers make them.
 */

import { randomBytes } from 'node:crypto'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import t from 'tap'
import { judgeAccess } from '../../lib/auth/access/rules.ts'
import { Clients } from '../../lib/auth/forward-auth/clients.ts'
import { tokensIn } from '../../lib/auth/session/cookie.ts'
import { SessionTokens } from '../../lib/auth/session/token.ts'
import { Fields } from '../../lib/http/message/field.ts'
import { gatewayConfig } from '../fixtures/gateway/gateway.ts'
import { ManualClock } from '../fixtures/time/manual-clock.ts'

setFlagsFromString('--expose-gc')
const collect: () => void = runInNewContext('gc')
const HEADS = 200
const JUNK = 50_000

const config = gatewayConfig({
  ...{ domain: 'app.example.org', idpMetadataURL: 'https://idp.example.org/metadata' },
  ...{ configPath: '/nonexistent/app.json', access: [{ path: '/', allow: [{ groups: ['a'] }] }] },
  proxy: { listenAddress: '127.0.0.1:0', targetURL: 'http://127.0.0.1:9' },
})

/** Part of a text of its own that has much more behind it. */
const partOf = (text: string) =>
  Buffer.from(text + 'j'.repeat(JUNK), 'latin1')
    .toString('latin1')
    .slice(0, text.length)

/** Bytes that stay in memory for one head. */
async function growth(remember: (i: number) => unknown): Promise<number> {
  // What is made once does not count.
  await remember(0)
  collect()
  const before = process.memoryUsage().heapUsed
  for (let i = 1; i <= HEADS; i += 1) await remember(i)
  collect()
  return (process.memoryUsage().heapUsed - before) / HEADS
}

t.test('cookies of checks', async t => {
  const clients = new Clients()
  const rules = { config, identity: { none: Fields.empty } }
  const remember = (i: number) =>
    clients.of(Fields.of(['Cookie', partOf(`own=${String(i).padStart(100, '0')}`)]), rules)
  t.ok((await growth(remember)) < JUNK / 5)
  t.equal(remember(7).sessionFields.fields, remember(7).sessionFields.fields, 'they are remembered')
})

t.test('tokens of sessions', async t => {
  const now = Date.parse('2026-01-01T00:00:00Z')
  const key = { kid: 'k', key: randomBytes(32), created: now, retires: undefined }
  const tokens = new SessionTokens({
    keys: { generation: 0, session: () => [key] },
    clock: new ManualClock(now),
    entityId: 'https://app.example.org/saml/metadata',
  })
  const remember = async (i: number) => {
    const session = {
      ...{ browser: '', id: `s${i}`, subject: 'ada@example.org', attributes: new Map() },
      ...{ issuer: 'https://idp.example.org/metadata', nameId: undefined, sessionIndex: undefined },
      ...{ authenticated: now, identitySettings: '', created: now, expires: now + 3_600_000 },
    }
    const token = await tokens.issue(session, now + 60_000)
    const cookie = partOf(`__authproxy_session=${token}; other=1`)
    for (const found of tokensIn(Fields.of(['Cookie', cookie]))) await tokens.verify(found)
  }
  t.ok((await growth(remember)) < JUNK / 5)
  t.equal([...tokens.rememberedSessions()].length, HEADS + 1, 'they are remembered')
})

t.test('paths that rules were found for', async t => {
  const { access } = config
  if (access === undefined) throw new Error('no rules')
  const remember = (i: number) => {
    const path = partOf(`/path/of/a/page/${i}`)
    judgeAccess(access, { method: 'GET', path, alsoMethods: [] }, { person: undefined, now: 0 })
  }
  t.ok((await growth(remember)) < JUNK / 5)
  t.equal(access.rulesByPath.size, HEADS + 1, 'they are remembered')
})
