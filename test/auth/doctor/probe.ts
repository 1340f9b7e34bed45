import { randomBytes } from 'node:crypto'
import t from 'tap'
import { seal } from '../../../lib/auth/keys/seal.ts'
import {
  fingerprint,
  type ProbeAnswer,
  probeField,
  readAnswer,
  readQuestion,
  sealAnswer,
  sealQuestion,
} from '../../../lib/auth/probe/probe.ts'
import { domain, gatewayConfig, startGateway } from '../../fixtures/gateway/gateway.ts'
import { RawClient } from '../../fixtures/http/raw-client.ts'
import { reply, ScriptedOrigin } from '../../fixtures/http/scripted-origin.ts'
import { ManualClock } from '../../fixtures/time/manual-clock.ts'

const key = () => ({ kid: randomBytes(4).toString('hex'), key: randomBytes(32) })
const random = randomBytes

t.test('a question is good once sealed, for a minute, with one of our keys', async t => {
  const own = [key(), key()]
  const now = 1_000_000
  const asked = sealQuestion({ nonce: 'n', padding: 10 }, now, { keys: own, random })
  t.same(readQuestion(asked, now, own), { nonce: 'n', padding: 10 })
  t.same(readQuestion(asked, now + 59_000, own.slice(0, 1)), { nonce: 'n', padding: 10 })
  for (const [what, value, at, keys] of [
    ['too late', asked, now + 60_000, own],
    ['from the future', asked, now - 1, own],
    ['another key', asked, now, [key()]],
    ['no key', asked, now, []],
    ['changed', `${asked.slice(0, -2)}AA`, now, own],
    ['nothing', '', now, own],
    ['too long', 'x'.repeat(100_000), now, own],
  ] as const) {
    t.equal(readQuestion(value, at, keys), undefined, what)
  }
  const greedy = sealQuestion({ nonce: 'n', padding: 1e9 }, now, { keys: own, random })
  t.equal(readQuestion(greedy, now, own), undefined, 'more padding than is given')
})

const answer: ProbeAnswer = {
  nonce: 'n',
  instance: 'i',
  version: '1.2.3',
  config: 'c',
  waiting: ['domain'],
  idp: 'https://idp.example.org',
  idpKeys: ['ab'],
  unreadAttributes: ['Groups (like groups)'],
  method: 'GET',
  target: '/?a=1',
  host: domain,
  forwardedProto: 'https',
  forwardedFor: '192.0.2.1',
  peer: '127.0.0.1',
  trusted: true,
  cookies: 7,
  cookiePairs: 1,
  upgrade: false,
  looped: false,
  telling: [],
  check: undefined,
}

t.test('an answer of another version of the program is read as far as it goes', t => {
  const keys = [key()]
  const said = (text: string) => seal(Buffer.from(text), 'doctor-answer', keys, random)
  t.match(readAnswer(said('{"v": 1, "nonce": "n", "waiting": 7, "method": 8}'), 'n', keys), {
    ...{ nonce: 'n', waiting: [], method: '', trusted: false, cookies: 0 },
  })
  for (const text of ['{"v": 2, "nonce": "n"}', '"n"', 'null', '{"v": 1}']) {
    t.equal(readAnswer(said(text), 'n', keys), undefined, text)
  }
  t.equal(readAnswer(' '.repeat(70_000), 'n', keys), undefined)
  const unsaid = (text: string) => seal(Buffer.from(text), 'doctor-question', keys, random)
  for (const text of ['{"v": 1, "nonce": 7}', '{"v": 1, "nonce": "n"}', 'null']) {
    t.equal(readQuestion(unsaid(text), 0, keys), undefined, text)
  }
  t.end()
})

t.test('an answer is read by holders of the keys, and belongs to one question', async t => {
  const keys = [key()]
  const text = sealAnswer(answer, { keys, random })
  t.same(readAnswer(`${text}\n`, 'n', keys), answer)
  t.equal(readAnswer(text, 'm', keys), undefined, 'an old answer out of a cache')
  t.equal(readAnswer(text, 'n', [key()]), undefined)
  t.equal(readAnswer('<html>', 'n', keys), undefined)
  const asked = sealQuestion({ nonce: 'n', padding: 0 }, 0, { keys, random })
  t.equal(readAnswer(asked, 'n', keys), undefined, 'a question sent back is no answer')
  t.notMatch(text, /1\.2\.3|192\.0\.2\.1|example/, 'the edge cannot read it')
})

t.test('the instance answers a probe on any path, before everything else', async t => {
  const clock = new ManualClock(1_700_000_000_000)
  const gateway = await startGateway(t, { clock, proxy: { trustedProxies: ['127.0.0.1'] } })
  const keys = gateway.saml.keys.sealingKeys()
  const ask = async (target: string, fields: Record<string, string> = {}, padding = 0) => {
    const question = sealQuestion({ nonce: 'n', padding }, clock.now(), { keys, random })
    const client = await RawClient.connect(t, gateway.port)
    const response = await client.get(target, { Host: domain, [probeField]: question, ...fields })
    return { response, answer: readAnswer(response.text, 'n', keys) }
  }
  for (const path of ['/', '/saml/acs', '/__authproxy-redirect?x=1', '/a%2Fb;c']) {
    const { response, answer } = await ask(path)
    t.equal(response.status, 200)
    t.equal(response.fields.get('Cache-Control'), 'no-store')
    t.match(answer, { target: path, host: domain, method: 'GET', peer: '127.0.0.1', cookies: 0 })
  }
  t.match(
    (await ask('/', { 'X-Forwarded-For': '192.0.2.1', 'X-Forwarded-Proto': 'http' })).answer,
    {
      forwardedFor: '192.0.2.1',
      forwardedProto: 'http',
      trusted: true,
      looped: false,
      config: fingerprint(gateway.config),
      waiting: [],
    },
  )
  const { answer } = await ask('/', { Cookie: 'a=b' })
  t.match(answer, { cookies: 3, cookiePairs: 1 })
  const again = await ask('/', { 'X-Authproxy-Instance-ID': answer?.instance ?? '' })
  t.equal(again.answer?.looped, true)
  t.equal(
    (await ask('/', {}, 9000)).response.fields
      .all('X-Authproxy-Padding')
      .reduce((sum, value) => sum + value.length, 0),
    9000,
  )
})

t.test('to strangers there is no such thing as a probe', async t => {
  const clock = new ManualClock(1_700_000_000_000)
  const backend = await ScriptedOrigin.listen(t)
  backend.at('*', reply({ content: 'the application' }))
  const gateway = await startGateway(t, {
    clock,
    target: backend.url(''),
    settings: { passthroughPaths: ['/open/'] },
  })
  const client = await RawClient.connect(t, gateway.port)
  const now = clock.now()
  const keys = gateway.saml.keys.sealingKeys()
  const late = sealQuestion({ nonce: 'n', padding: 0 }, now - 60_000, { keys, random })
  const foreign = sealQuestion({ nonce: 'n', padding: 0 }, now, { keys: [key()], random })
  const plain = await client.get('/', { Host: domain })
  for (const value of ['', 'x', late, foreign, 'x'.repeat(5000)]) {
    const answer = await client.get('/', { Host: domain, [probeField]: value })
    t.equal(answer.status, plain.status)
    t.equal(answer.text.replace(/"requestId":.*/, ''), plain.text.replace(/"requestId":.*/, ''))
    const open = await client.get('/open/', { Host: domain, [probeField]: value })
    t.equal(open.text, 'the application')
  }
  for (const { fields } of backend.requests) t.notOk(fields.has(probeField), 'it is not forwarded')
  const good = sealQuestion({ nonce: 'n', padding: 0 }, now, { keys, random })
  const count = backend.requests.length
  await client.get('/open/', { Host: domain, [probeField]: good })
  t.equal(backend.requests.length, count, 'nor is a good one')
  t.notMatch(JSON.stringify(gateway.log.lines), good, 'and none is logged')
})

t.test('a fingerprint tells configurations apart', async t => {
  const gateway = await startGateway(t)
  const { config } = gateway
  t.equal(fingerprint({ ...config }), fingerprint(config))
  t.not(fingerprint({ ...config, passthroughPaths: ['/new/'] }), fingerprint(config))
})

t.test('a fingerprint tells rules, tokens and names apart', t => {
  const of = (more: Readonly<Record<string, unknown>>) =>
    fingerprint(
      gatewayConfig({
        domain,
        idpMetadataURL: 'https://idp.example.org/metadata',
        proxy: { listenAddress: '127.0.0.1:0', targetURL: 'http://127.0.0.1:9' },
        ...more,
      }),
    )
  const rule = (more: object) => ({ access: [{ path: '/', allow: 'signed-in', ...more }] })
  const token = (clients: string) => ({
    passthroughTokens: [{ name: 'a', token: '0123456789abcdef', clients: [clients] }],
  })
  const all = [
    ...[{}, rule({}), rule({ allow: [{ groups: 'ops' }] }), rule({ allow: [{ groups: 'dev' }] })],
    ...[rule({ methods: ['GET'] }), rule({ methods: ['PUT'] })],
    ...[token('192.0.2.0/24'), token('192.0.3.0/24'), token('2001:db8::/32')],
    ...[{ identity: { names: 'remote' } }, { identity: { names: 'webauth' } }, { cors: 'pass' }],
  ]
  t.equal(new Set(all.map(of)).size, all.length)
  t.equal(of(token('192.0.2.0/24')), of(token('192.0.2.0/24')))
  t.end()
})
