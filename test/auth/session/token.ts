import { createHmac, randomBytes } from 'node:crypto'
import t from 'tap'
import { signJwt } from '../../../lib/auth/keys/jwt.ts'
import { type Session, SessionTokens } from '../../../lib/auth/session/token.ts'
import { ManualClock } from '../../fixtures/time/manual-clock.ts'

const now = Date.parse('2025-03-14T12:00:00Z')
const key = { kid: 'k', key: randomBytes(32), created: now, retires: undefined }
const entityId = 'https://app.example.org/saml/metadata'
const tokens = new SessionTokens({
  keys: { generation: 0, session: () => [key] },
  clock: new ManualClock(now),
  entityId,
})

/** A session with so many characters of attributes, which a token holds in a few bytes. */
function sessionWith(characters: number, id: number): Session {
  return {
    browser: '',
    id: `s${id}`,
    subject: 'ada@example.org',
    attributes: new Map([['groups', ['g'.repeat(characters)]]]),
    issuer: 'https://idp.example.org/metadata',
    nameId: undefined,
    sessionIndex: undefined,
    authenticated: now,
    identitySettings: '',
    created: now,
    expires: now + 3_600_000,
  }
}

t.test('a token is verified once, as long as its session is remembered', async t => {
  const token = await tokens.issue(sessionWith(10, 0), now + 60_000)
  const session = await tokens.verify(token)
  t.type(session, 'object')
  t.equal(await tokens.verify(token), session)
})

t.test(
  'a key that is taken away while its token is verified verifies nothing any more',
  async t => {
    const ring = { generation: 0, keys: [key] }
    const changing = new SessionTokens({
      keys: {
        get generation() {
          return ring.generation
        },
        session: () => ring.keys,
      },
      clock: new ManualClock(now),
      entityId,
    })
    const token = await changing.issue(sessionWith(10, 0), now + 60_000)
    const verifying = changing.verify(token)
    ring.generation = 1
    ring.keys = [{ ...key, kid: 'other', key: randomBytes(32) }]
    await changing.verify('another token')
    t.equal(await verifying, 'unknown-key')
    t.equal(await changing.verify(token), 'unknown-key', 'nor is it remembered')
  },
)

t.test('claims that do not say what a session says are none, whoever has signed them', async t => {
  const seconds = now / 1000
  const claims = {
    ...{ v: 1, iss: entityId, aud: entityId, iat: seconds, exp: seconds + 60, end: seconds + 60 },
    ...{ bro: '', sid: 's', sub: 'ada', idp: 'urn:idp', cre: now, auth_time: seconds, attrs: {} },
    ids: 'digest',
  }
  const verify = async (more: Readonly<Record<string, unknown>>) =>
    tokens.verify(
      await signJwt(
        { ...claims, ...more },
        { algorithm: 'HS256', type: 'authproxy-session', kid: key.kid, key: key.key },
      ),
    )
  t.match(await verify({}), { subject: 'ada', kid: 'k' })
  for (const more of [
    { v: 2 },
    { sub: '' },
    { sub: 7 },
    { sid: 7 },
    { bro: null },
    { cre: 'now' },
    { ids: 7 },
    { ids: undefined },
    { attrs: 'groups' },
    { attrs: { groups: 'staff' } },
    { attrs: { groups: [7] } },
    { z: 7 },
    { z: 'AAAA' },
    { nid: 'ada' },
    { nid: [7] },
    { six: 7 },
  ]) {
    t.equal(await verify(more), 'malformed', JSON.stringify(more))
  }
  t.match(await verify({ ain: seconds }), { authnInstant: now })
  t.match(await verify({ nid: ['ada', null, 7] }), {
    nameId: { value: 'ada', format: undefined, nameQualifier: undefined },
  })
})

t.test('64: one algorithm is accepted, though another would fit the key', async t => {
  const token = await tokens.issue(sessionWith(10, 0), now + 60_000)
  const [, claims] = token.split('.')
  const head = { alg: 'HS512', typ: 'authproxy-session', kid: key.kid }
  const signed = `${Buffer.from(JSON.stringify(head)).toString('base64url')}.${claims}`
  const signature = createHmac('sha512', key.key).update(signed).digest('base64url')
  t.equal(await tokens.verify(`${signed}.${signature}`), 'algorithm')
})

t.test(
  'what is remembered of sessions is bounded by what they hold, not by their tokens',
  async t => {
    const issued: string[] = []
    for (let id = 0; id < 120; id += 1) {
      issued.push(await tokens.issue(sessionWith(300_000, id), now + 60_000))
    }
    const [first = ''] = issued
    t.ok(first.length < 10_000, `${first.length} characters hold 300,000`)
    const session = await tokens.verify(first)
    t.type(session, 'object')
    for (const token of issued) await tokens.verify(token)
    const again = await tokens.verify(first)
    t.type(again, 'object')
    t.not(again, session, 'the oldest is forgotten')
  },
)
