import { randomBytes } from 'node:crypto'
import t from 'tap'
import { StashRoom } from '../../lib/auth/saml/stash.ts'
import { tokensIn } from '../../lib/auth/session/cookie.ts'
import { ManualClock } from '../../lib/clock.ts'
import { Fields } from '../../lib/http/field.ts'
import { arranged } from '../fixtures/attacked.ts'
import { domain, startGateway } from '../fixtures/gateway.ts'
import { RawClient } from '../fixtures/raw-client.ts'

t.test('a head full of session cookies costs what its length costs, not the square of it', t => {
  const flood = (piece: (i: number) => string) =>
    Fields.of(['Cookie', Array.from({ length: 40_000 }, (_, i) => piece(i)).join('; ')])
  const floods: Readonly<Record<string, Fields>> = {
    'first parts whose others are missing': flood(() => '__authproxy_session=8:a:x'),
    'others of no first part': flood(i => `__authproxy_session.1=${i}:x`),
    'one first part, and others of another tag': flood(i =>
      i === 0 ? '__authproxy_session=8:a:x' : `__authproxy_session.1=b${i}:x`,
    ),
  }
  for (const [what, fields] of Object.entries(floods)) {
    const began = performance.now()
    t.same(tokensIn(fields), [], what)
    // It was half a minute; now it is some milliseconds, on whatever machine.
    t.ok(performance.now() - began < 2000, what)
  }
  t.end()
})

t.test(
  'a form that never arrives, of somebody without a session, is waited for ten seconds',
  async t => {
    const clock = new ManualClock(Date.UTC(2030, 0, 1))
    const gateway = await startGateway(t, { clock })
    const client = await RawClient.connect(t, gateway.port)
    const head = [
      'POST /form HTTP/1.1',
      `Host: ${domain}`,
      `Origin: https://${domain}`,
      'Accept: text/html',
      'Content-Type: application/x-www-form-urlencoded',
      'Content-Length: 30',
      '\r\na',
    ]
    await client.write(head.join('\r\n'))
    const answer = client.response()
    while (gateway.logins.length === 0) {
      clock.advance(1000)
      await new Promise(resolve => setImmediate(resolve))
    }
    t.equal((await answer).status, 302)
    t.same(gateway.logins, [{ returnTo: '/form' }], 'what has come of it is not kept')
  },
)

t.test('a content type is no place to keep a megabyte', async t => {
  const { gateway, send } = await arranged(t)
  for (const [more, kept] of [
    ['', true],
    [`; x=${'A'.repeat(100_000)}`, false],
  ] as const) {
    const type = `Content-Type: application/x-www-form-urlencoded${more}`
    const origin = `Origin: https://${domain}\nAccept: text/html`
    const lines = `POST / HTTP/1.1\nHost: ${domain}\n${origin}\n${type}\nContent-Length: 3`
    t.equal((await send(`${lines}\n\na=b`)).status, 302)
    t.equal(gateway.logins.at(-1)?.stash !== undefined, kept)
  }
})

t.test('many small stashes count for what they cost', t => {
  const room = new StashRoom(new ManualClock(0), randomBytes)
  const stash = { contentType: 'application/x-www-form-urlencoded', content: Buffer.from('a=b') }
  const first = room.put('first', stash, 600_000)
  for (let i = 0; i < 70_000; i += 1) room.put(`f${i}`, stash, 600_000)
  t.ok(room.bytes <= 32 * 1024 * 1024)
  t.ok(room.bytes > 16 * 1024 * 1024)
  t.equal(room.take('first', first), undefined, 'the oldest went')
  t.end()
})
