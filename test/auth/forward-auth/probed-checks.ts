/** Checks that carry a question of the doctor: decided as any other, noted, and let through to the end of the way alone. */
import { randomBytes } from 'node:crypto'
import t from 'tap'
import {
  oddPath,
  probeField,
  probeMember,
  probePath,
  readAnswer,
  sealQuestion,
} from '../../../lib/auth/probe/probe.ts'
import { domain, startGateway } from '../../fixtures/gateway/gateway.ts'
import { RawClient } from '../../fixtures/http/raw-client.ts'
import { freePort } from '../../fixtures/process/ports.ts'
import { ManualClock } from '../../fixtures/time/manual-clock.ts'

const random = randomBytes

t.test('checks with a question', async t => {
  const clock = new ManualClock(1_700_000_000_000)
  const port = await freePort()
  const forwardAuth = {
    listenAddress: `127.0.0.1:${port}`,
    edge: 'nginx',
    trustedProxies: ['127.0.0.1'],
  }
  const gateway = await startGateway(t, { clock, settings: { forwardAuth } })
  const keys = gateway.saml.keys.sealingKeys()
  const seal = (nonce: string, more: { about?: string; fails?: boolean } = {}, own = keys) =>
    sealQuestion({ nonce, padding: 0, ...more }, clock.now(), { keys: own, random })
  const check = async (target: string, fields: Readonly<Record<string, string>> = {}) => {
    const client = await RawClient.connect(t, port)
    return client.get('/check', {
      Host: domain,
      'X-Original-Method': 'GET',
      'X-Original-URI': target,
      'X-Original-Host': domain,
      'X-Forwarded-For': '192.0.2.7',
      ...fields,
    })
  }
  /** What the gateway listener says the check was. */
  const noted = async (about: string) => {
    const client = await RawClient.connect(t, gateway.port)
    const question = seal('later', { about })
    const { text } = await client.get('/', { Host: domain, [probeField]: question })
    return readAnswer(text, 'later', keys)?.check
  }

  await t.test('a page of the application is denied as without one, and noted', async t => {
    const { status } = await check('/page?a=1', { [probeField]: seal('a'), Cookie: 'x=1; y=2' })
    t.equal(status, 401)
    t.same(await noted('a'), {
      ...{ problem: '', method: 'GET', target: '/page?a=1', host: domain, client: '192.0.2.7' },
      ...{ claim: '', cookiePairs: 2, upgrade: false, status: 401 },
    })
    t.equal(await noted('b'), undefined)
  })

  await t.test('what cannot be read is noted with its reason', async t => {
    const { status } = await check('/page', { 'X-Original-Host': '', [probeField]: seal('c') })
    t.equal(status, 400)
    const seen = await noted('c')
    t.match(seen?.problem, /X-Original-Host/)
    t.match(seen, { target: '', status: 400 })
  })

  await t.test('the end of the way is let through, with one word in each field', async t => {
    for (const path of [probePath, probePath + oddPath]) {
      const { status, fields } = await check(`${path}?${probeMember}=${seal('d')}`)
      t.equal(status, 200)
      t.equal(fields.get('X-Authproxy-User'), 'authproxy-doctor')
      t.equal(fields.get('X-Authproxy-Groups'), 'authproxy-doctor')
      t.match(await noted('d'), { status: 200 })
    }
    const failing = await check(probePath, { [probeField]: seal('e', { fails: true }) })
    t.equal(failing.status, 503)
  })

  await t.test('nothing else is', async t => {
    const stranger = [{ kid: 'x', key: randomBytes(32) }]
    for (const [what, target, question] of [
      ['no question', probePath, ''],
      ['one of another', probePath, seal('f', {}, stranger)],
      ['dots', `${probePath}/../../admin`, seal('f')],
      ['dots that are encoded', `${probePath}/%2e%2e/%2e%2e/admin`, seal('f')],
      ['below', `${probePath}/x`, seal('f')],
      ['beside', `${probePath}x`, seal('f')],
      ['a page', '/', seal('f')],
    ] as const) {
      const { status, fields } = await check(target, { [probeField]: question })
      t.ok(status >= 400, `${what}: ${status}`)
      t.equal(fields.get('X-Authproxy-User'), undefined, what)
    }
    const old = seal('g')
    await clock.advance(60_000)
    t.not((await check(probePath, { [probeField]: old })).status, 200, 'an old one')
  })

  await t.test('the gateway listener names the fields that tell who asks', async t => {
    const client = await RawClient.connect(t, gateway.port)
    const { text } = await client.get(`${probePath}?${probeMember}=${seal('h')}`, {
      Host: domain,
      X_Authproxy_User: 'm',
      'Remote-User': 'n',
      'X-Forwarded-Prefix': '/o',
      Accept: '*/*',
    })
    t.same(readAnswer(text, 'h', keys)?.telling, [
      'X_Authproxy_User: m',
      'Remote-User: n',
      'X-Forwarded-Prefix: /o',
    ])
  })
})
