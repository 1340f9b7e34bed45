/**
 * The listener clients speak TLS to, and its certificate.
 */
import { X509Certificate } from 'node:crypto'
import { connect as connectTcp } from 'node:net'
import type { TLSSocket } from 'node:tls'
import t, { type Test } from 'tap'
import {
  LeafCertificates,
  listenerCertificate,
} from '../../../../lib/cache/features/intercept/leaf.ts'
import type { KeyAndCertificate } from '../../../../lib/http/server/options.ts'
import { startForTest } from '../../../fixtures/cache/service.ts'
import { testCa } from '../../../fixtures/features/intercept/authority.ts'
import { RawClient } from '../../../fixtures/http/raw-client.ts'
import { createMemoryLog } from '../../../fixtures/log/memory-log.ts'
import { eventually, freePort } from '../../../fixtures/process/ports.ts'
import { ManualClock } from '../../../fixtures/time/manual-clock.ts'

const minute = 60_000

async function bench(t: Test, https: Readonly<Record<string, unknown>> = {}, more = {}) {
  const service = await startForTest(t, {
    index: { hostnames: ['proxy.example.org'] },
    https: { certificate_domain: 'certified.example.org', ...https },
    ...more,
  })
  const ca = await service.page('/_cachesvc/cachesvc.crt')
  const connect = (tls: { readonly servername?: string }) => {
    const host = tls.servername === undefined ? { host: '127.0.0.1' } : {}
    return RawClient.connect(t, service.securePort, { tls: { ca, ...host, ...tls } })
  }
  return { service, ca, connect }
}

/** 0 means no listener, so a free one has to be named. */
async function listening(t: Test, https = {}, more = {}) {
  return bench(t, https, {
    listen: undefined,
    listen_address: '127.0.0.1',
    listen_port: await freePort(),
    listen_port_secure: await freePort(),
    ...more,
  })
}

t.test('the pages answer over TLS, by address and by every name of ours', async t => {
  const { service, connect } = await listening(t)
  for (const servername of [undefined, 'proxy.example.org', 'certified.example.org', 'localhost']) {
    const client = await connect(servername === undefined ? {} : { servername })
    const answer = await client.get('/_cachesvc/healthz', {
      Host: `127.0.0.1:${service.securePort}`,
    })
    t.strictSame([answer.status, answer.text], [200, 'ok\n'], servername ?? 'no name')
    const socket = client.socket as TLSSocket
    t.equal(socket.getProtocol(), 'TLSv1.3')
    t.match(
      socket.getPeerCertificate().subjectaltname,
      /DNS:certified\.example\.org.*IP Address:127\.0\.0\.1/,
    )
  }
  t.match(await service.page('/_cachesvc/'), `https://127.0.0.1:${service.securePort}/`)
  t.match(
    await service.page('/_cachesvc/setup'),
    `Acquire::http::Proxy &#34;https://proxy.example.org:${service.securePort}`,
  )
  t.match(await service.page('/_cachesvc/'), '>Tunnel<', 'a listener alone opens no tunnel')
})

t.test('a name of an archive that is read has its certificate, any other ours', async t => {
  const domains = ['archive.example.org']
  const { connect } = await listening(t, { intercept: true }, { domains })
  const steered = await connect({ servername: 'archive.example.org' })
  const { subjectaltname } = (steered.socket as TLSSocket).getPeerCertificate()
  t.equal(subjectaltname, 'DNS:archive.example.org')
  await t.rejects(connect({ servername: 'elsewhere.example.org' }), {
    code: 'ERR_TLS_CERT_ALTNAME_INVALID',
  })
  await t.rejects(connect({ servername: 'a_b.example.org' }), {
    code: 'ERR_TLS_CERT_ALTNAME_INVALID',
  })
})

t.test('policy holds there, too', async t => {
  const { connect } = await listening(t, {}, { domains: ['archive.example.org'] })
  const client = await connect({})
  const answer = await client.get('http://elsewhere.example.org/d', {
    Host: 'elsewhere.example.org',
  })
  t.match([answer.status, answer.text], [403, /refused by `domains`/])
  await client.write(
    'CONNECT elsewhere.example.org:443 HTTP/1.1\r\nHost: elsewhere.example.org:443\r\n\r\n',
  )
  t.equal((await client.response()).status, 403)
})

t.test(
  'what is no handshake ends, and what never becomes one does not hold up the end',
  async t => {
    const { service, connect } = await listening(t, {}, { timeouts: { drain: '1s' } })
    const plain = await RawClient.connect(t, service.securePort)
    await plain.write('GET / HTTP/1.1\r\nHost: a\r\n\r\n')
    await plain.ended
    t.equal((await (await connect({})).get('/_cachesvc/healthz')).status, 200)
    const silent = connectTcp(service.securePort, '127.0.0.1')
    silent.on('error', () => {})
    t.teardown(() => silent.destroy())
    await new Promise(resolve => silent.once('connect', resolve))
    const begun = Date.now()
    await service.stop()
    t.ok(Date.now() - begun < 20_000)
  },
)

t.test('without the setting there is neither listener nor CA', async t => {
  const { service } = await bench(t, {}, { listen_port_secure: undefined })
  t.equal(service.securePort, 0)
  t.match(await service.page('/_cachesvc/cachesvc.crt'), /There is no certificate/)
  t.match(await service.page('/_cachesvc/revocation.crl'), /There is no revocation list/)
  t.notMatch(await service.page('/_cachesvc/'), 'fingerprint')
})

t.test('its certificate is made anew when names change and before it ends', async t => {
  const clock = new ManualClock(Date.now())
  const addresses = () => ({ caIssuers: undefined, distributionPoint: undefined })
  const leaves = new LeafCertificates({ authority: await testCa(), clock, addresses })
  let names = ['proxy.example.org', '192.0.2.1', 'not_certifiable']
  const log = createMemoryLog()
  const shown: KeyAndCertificate[] = []
  const onNext = (next: KeyAndCertificate) => void shown.push(next)
  const parts = { leaves, names: () => names, clock, log, onNext }
  const { identity, stop } = await listenerCertificate(parts)
  shown.push(identity)
  const latest = () => new X509Certificate(shown.at(-1)?.cert ?? '').subjectAltName
  t.equal(latest(), 'DNS:proxy.example.org, IP Address:192.0.2.1')
  const pass = async (time: number) => {
    clock.advance(time)
    // The timer is set again once the look is over.
    for (let i = 0; i < 20; i += 1) await new Promise(resolve => setImmediate(resolve))
  }
  await pass(minute)
  t.equal(shown.length, 1)
  names = ['proxy.example.org', '192.0.2.2']
  await pass(minute)
  t.ok(await eventually(() => shown.length === 2))
  t.equal(latest(), 'DNS:proxy.example.org, IP Address:192.0.2.2')
  await pass(18 * 60 * minute)
  await pass(minute)
  t.ok(await eventually(() => shown.length === 3))
  names = []
  await pass(minute)
  t.equal(shown.length, 3, 'a machine without a name keeps what it has')
  stop()
  names = ['proxy.example.org']
  await pass(minute)
  t.equal(shown.length, 3)
})

t.test('a CA that may name nothing of ours is told', async t => {
  const clock = new ManualClock(Date.now())
  const authority = await testCa({ permittedNames: { names: ['example.org'], networks: [] } })
  const addresses = () => ({ caIssuers: undefined, distributionPoint: undefined })
  const leaves = new LeafCertificates({ authority, clock, addresses })
  const names = () => ['proxy.example.com']
  const parts = { leaves, names, clock, log: createMemoryLog(), onNext: () => {} }
  await t.rejects(listenerCertificate(parts), /may not issue certificates for any name/)
})
