import t, { type Test } from 'tap'
import { textResponse } from '../../../lib/http/message/reply.ts'
import { localIntroduction, readIntroduction } from '../../../lib/http/server/proxy-protocol.ts'
import { RawClient } from '../../fixtures/http/raw-client.ts'
import { serveForTest } from '../../fixtures/http/server.ts'
import { ManualClock } from '../../fixtures/time/manual-clock.ts'

const signature = '0d0a0d0a000d0a515549540a'
const bytes = (hex: string) => Buffer.from(hex.replaceAll(' ', ''), 'hex')
const four = bytes(`${signature} 21 11 000c cb007109 c0000201 d903 01bb`)
const six = bytes(
  `${signature} 21 21 0024 20010db8000000000000000000000001 20010db8000000000000000000000002 d903 01bb`,
)

t.test('what the first bytes say', t => {
  for (const [name, given, expected] of [
    ['TCP over IPv4', four, { client: { address: '203.0.113.9', port: 55555 }, end: 28 }],
    ['TCP over IPv6', six, { client: { address: '2001:db8::1', port: 55555 }, end: 52 }],
    [
      'an IPv4 address within IPv6',
      bytes(`${signature} 21 21 0024 00000000000000000000ffffcb007109 ${'0'.repeat(32)} d903 01bb`),
      { client: { address: '203.0.113.9', port: 55555 }, end: 52 },
    ],
    [
      'further facts',
      bytes(`${signature} 21 11 0013 cb007109 c0000201 d903 01bb 04 0004 deadbeef`),
      { client: { address: '203.0.113.9', port: 55555 }, end: 35 },
    ],
    ['a request behind it', Buffer.concat([four, Buffer.from('GET')]), { end: 28 }],
    ['LOCAL', localIntroduction, { client: undefined, end: 16 }],
    ['LOCAL with addresses', bytes(`${signature} 20 11 000c ${'00'.repeat(12)}`), { end: 28 }],
    ['version 1', Buffer.from('PROXY TCP4 203.0.113.9 '), { problem: /version 1 of the PROXY/ }],
    ['a request', Buffer.from('GET / HTTP/1.1\r\n'), { problem: /does not begin with/ }],
    ['TLS', bytes('16 0301'), { problem: /does not begin with/ }],
    ['an unknown version', bytes(`${signature} 31 11`), { problem: /unknown version or command/ }],
    ['an unknown command', bytes(`${signature} 22 11`), { problem: /unknown version or command/ }],
    ['no address', bytes(`${signature} 21 00 0000`), { problem: /no TCP address/ }],
    ['UDP', bytes(`${signature} 21 12 000c`), { problem: /no TCP address/ }],
    ['a Unix socket', bytes(`${signature} 21 31 00d8`), { problem: /no TCP address/ }],
    ['too short', bytes(`${signature} 21 11 000b`), { problem: /^11 bytes of addresses/ }],
    ['IPv6 as long as IPv4', bytes(`${signature} 21 21 000c`), { problem: /^12 bytes/ }],
    ['too long', bytes(`${signature} 21 11 1001`), { problem: /^4097 bytes of addresses/ }],
  ] as const) {
    t.match(readIntroduction(given), expected, name)
  }
  for (const whole of [four, six, localIntroduction]) {
    for (let end = 0; end < whole.length; end += 1) {
      t.equal(readIntroduction(whole.subarray(0, end)), 'incomplete')
    }
  }
  t.end()
})

async function lab(t: Test, more: { fastPath: boolean; introduces?: boolean }) {
  const { introduces = true, fastPath } = more
  const clock = new ManualClock(0)
  const { port, server, malformed } = await serveForTest(
    t,
    async ({ client, target }) =>
      textResponse(200, `${client.address} ${target.form === 'origin' ? target.path : ''}`),
    { clock, fastPath, introduces: () => introduces },
  )
  const problems = () => malformed.map(({ problem }) => problem)
  return { server, clock, problems, connect: () => RawClient.connect(t, port) }
}

const Host = 'app.example.org'
const request = Buffer.from(`GET /first HTTP/1.1\r\nHost: ${Host}\r\n\r\n`)

for (const fastPath of [true, false]) {
  const by = fastPath ? 'the fast path' : "Node's server"
  t.test(`the client is the one that is named, however the bytes come, by ${by}`, async t => {
    const { connect, problems } = await lab(t, { fastPath })
    const whole = await connect()
    await whole.write(Buffer.concat([four, request]))
    t.equal((await whole.response()).text, '203.0.113.9 /first\n')
    t.equal((await whole.get('/second', { Host })).text, '203.0.113.9 /second\n')
    const apart = await connect()
    for (const byte of Buffer.concat([six, request])) await apart.write(Buffer.from([byte]))
    t.equal((await apart.response()).text, '2001:db8::1 /first\n')
    const local = await connect()
    await local.write(localIntroduction)
    t.equal((await local.get('/', { Host })).text, '127.0.0.1 /\n')
    t.strictSame(problems(), [])
  })

  t.test(`other first bytes end the connection without an answer, by ${by}`, async t => {
    const { connect, problems } = await lab(t, { fastPath })
    for (const first of [request, Buffer.from('PROXY TCP4 1.2.3.4 1.2.3.4 1 1\r\n')]) {
      const client = await connect()
      await client.write(first)
      t.match(await client.ended, /fin|reset/)
    }
    t.match(problems(), [/^a trusted proxy does not begin/, /version 1/])
  })

  t.test(`a peer that may not begin so is refused, by ${by}`, async t => {
    const { connect } = await lab(t, { fastPath, introduces: false })
    const client = await connect()
    await client.write(Buffer.concat([four, request]))
    const answer = await client.response()
    t.ok(answer.status >= 400)
    t.notMatch(answer.text, /203\.0\.113\.9/)
    t.match(await client.ended, /fin|reset/)
  })
}

t.test('a peer that is silent or slow is cut after five seconds, and a stop cuts it', async t => {
  const { connect, clock, problems, server } = await lab(t, { fastPath: true })
  const silent = await connect()
  const slow = await connect()
  await slow.write(four.subarray(0, 20))
  // Both have been accepted when a third one is answered.
  const third = await connect()
  await third.write(Buffer.concat([four, request]))
  await third.response()
  clock.advance(4999)
  t.strictSame(problems(), [])
  clock.advance(1)
  t.match(await Promise.all([silent.ended, slow.ended]), [/fin|reset/, /fin|reset/])
  t.equal(problems().length, 2)
  const last = await connect()
  const fourth = await connect()
  await fourth.write(Buffer.concat([four, request]))
  await fourth.response()
  await server.close(AbortSignal.abort())
  t.match(await last.ended, /fin|reset/)
})
