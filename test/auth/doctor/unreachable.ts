/** What the doctor says when nothing answers, and of answers that say little. */
import { randomBytes } from 'node:crypto'
import t from 'tap'
import * as backend from '../../../lib/auth/doctor/checks/backend.ts'
import * as edge from '../../../lib/auth/doctor/checks/edge.ts'
import * as idp from '../../../lib/auth/doctor/checks/idp.ts'
import * as keys from '../../../lib/auth/doctor/checks/keys.ts'
import * as publicHost from '../../../lib/auth/doctor/checks/public-host.ts'
import * as service from '../../../lib/auth/doctor/checks/service.ts'
import { addressOf, type Examination } from '../../../lib/auth/doctor/facts.ts'
import type { ProbeAnswer } from '../../../lib/auth/probe/probe.ts'
import { gatewayConfig } from '../../fixtures/gateway/gateway.ts'
import { freePort } from '../../fixtures/process/ports.ts'
import { ManualClock } from '../../fixtures/time/manual-clock.ts'

const [port, backendPort, adminPort] = [await freePort(), await freePort(), await freePort()]
const directory = t.testdir()

/** An examination of an instance that does not run, nor its edge, nor its backend. */
function examined(
  settings: Readonly<Record<string, unknown>> = {},
  more: Partial<Examination> = {},
): Examination {
  const config = gatewayConfig({
    domain: `127.0.0.1:${port}`,
    idpMetadataURL: 'https://idp.example.org/metadata',
    configPath: `${directory}/app.json`,
    proxy: { listenAddress: `127.0.0.1:${port}`, targetURL: `http://127.0.0.1:${backendPort}` },
    ...settings,
  })
  const clock = new ManualClock(Date.UTC(2030, 0, 1))
  return {
    config,
    from: 'app.yaml',
    warnings: [],
    groups: undefined,
    clock,
    random: randomBytes,
    ...more,
  }
}

t.test('an edge that does not answer is told with the reason, once for each check', async t => {
  const of = examined()
  t.match(await publicHost.name(of), { state: 'doubtful', found: '127.0.0.1 is an address' })
  t.match(await publicHost.instance(of), { state: 'doubtful', found: /does not answer: / })
  t.match(await edge.paths(of), {
    state: 'wrong',
    found: /GET \/saml\/acs fails: .*POST \/saml\/acs/,
  })
  t.match(await edge.oddPath(of), { state: 'doubtful', found: /a%2Fb.* fails: / })
  t.match(await edge.webSocket(of), { state: 'doubtful', found: /^the request fails: / })
  t.match(await edge.requestHead(of), {
    state: 'wrong',
    found: /^a request with \d+ bytes .* fails: /,
  })
  t.match(await edge.responseHead(of), { state: 'wrong', found: /^a response with .* fails: / })
  for (const check of [publicHost.certificate, publicHost.loop, publicHost.clock]) {
    t.equal(await check(of), undefined)
  }
})

t.test('no session fits: there is nothing to send through the edge', async t => {
  const of = examined({}, { groups: 5000 })
  t.same(await edge.requestHead(of), [])
  t.same(await edge.responseHead(of), [])
})

t.test('a host without an address is told once, and nothing behind it is asked', async t => {
  const lookup = () => Promise.reject(new Error('no such name'))
  const of = examined({ domain: 'app.example.org' }, { lookup })
  t.match(await publicHost.name(of), { state: 'doubtful', found: /no such name/ })
  const { certificate, instance, loop, clock } = publicHost
  for (const check of [certificate, instance, loop, clock]) t.equal(await check(of), undefined)
})

t.test('a service that does not run cannot say what it runs with', async t => {
  const of = examined()
  t.match(await service.instance(of), { state: 'wrong', mend: /systemctl start authproxy@/ })
  t.equal(await service.configuration(of), undefined)
  const admin = { admin: { listenAddress: `127.0.0.1:${adminPort}` } }
  t.equal(await service.readiness(examined(admin)), undefined)
  t.same(await service.readiness(of), [])
})

t.test('a backend whose authorities cannot be read is not asked', async t => {
  const proxy = {
    listenAddress: `127.0.0.1:${port}`,
    targetURL: 'https://127.0.0.1:1',
    targetCertificates: `${directory}/none.pem`,
  }
  const of = examined({ proxy })
  t.match(backend.authorities(of), { state: 'wrong', found: /none\.pem/ })
  t.equal(await backend.application(of), undefined)
  t.equal(await backend.loop(of), undefined)
  t.equal(await backend.certificate(of), undefined)
  t.same(await backend.certificate(examined()), [])
  t.match(await backend.application(examined()), {
    state: 'wrong',
    mend: /is the application running/,
  })
})

t.test('listeners are asked at an address of this machine', t => {
  for (const [address, host] of [
    [undefined, '127.0.0.1'],
    ['0.0.0.0', '127.0.0.1'],
    ['::', '::1'],
    ['192.0.2.1', '192.0.2.1'],
  ] as const) {
    t.same(addressOf({ address, port: 1 }, '/'), { scheme: 'http', host, port: 1, path: '/' })
  }
  t.end()
})

const arrived = {
  host: 'app.example.org',
  forwardedProto: 'https',
  forwardedFor: '192.0.2.1',
  peer: '10.0.0.1',
  trusted: true,
} as ProbeAnswer

t.test('what the edge says of a request is judged', t => {
  const of = examined({ domain: 'app.example.org' })
  for (const [check, more, state, found] of [
    [edge.host, {}, 'right', /preserved/],
    [edge.host, { host: 'app.example.org:443' }, 'right', /preserved/],
    [edge.host, { host: '' }, 'wrong', /^none arrives/],
    [edge.host, { host: 'localhost:8080' }, 'wrong', /^localhost:8080 arrives/],
    [edge.proto, {}, 'right', /^https$/],
    [edge.proto, { forwardedProto: '' }, 'doubtful', /does not arrive/],
    [edge.proto, { forwardedProto: 'https, http' }, 'wrong', /forwards what a client claims/],
    [edge.proto, { forwardedProto: 'wss' }, 'wrong', /^wss instead of https/],
    [edge.client, {}, 'right', /^192\.0\.2\.1 through 10\.0\.0\.1/],
    [edge.client, { forwardedFor: '192.0.2.99, 192.0.2.1' }, 'wrong', /claim any address/],
    [edge.client, { forwardedFor: '' }, 'doubtful', /every client appears as 10.0.0.1/],
    [edge.client, { trusted: false }, 'doubtful', /10.0.0.1 is not trusted/],
    [edge.client, { forwardedFor: 'unknown, 192.0.2.1' }, 'doubtful', /does not begin with/],
  ] as const) {
    t.match(check(of, { ...arrived, ...more }), { state, found })
  }
  t.end()
})

t.test('an identity provider that names no sign-on address has no clock to compare', async t => {
  const metadata = {
    ...{ entityId: 'urn:idp', singleSignOn: [], singleLogout: [] },
    ...{ wantAuthnRequestsSigned: false, forDevelopment: false },
    ...{ validUntil: undefined, cacheDuration: undefined, warnings: ['odd'] },
    keys: [1, 2].map(years => ({
      certificate: '',
      fingerprint: 'ab',
      ends: Date.UTC(2030 + years, 0, 1),
    })),
  }
  t.equal(await idp.clock(examined(), metadata), undefined)
  t.match(idp.details(examined(), metadata), [{ state: 'doubtful', found: 'odd' }])
  t.match(idp.certificates(examined(), metadata), { found: /^2, the last until 2032-01-01/ })
})

t.test('keys that were never made, and a place that is none', async t => {
  t.match(await keys.file(examined()), { state: 'right', found: /does not exist yet/ })
  t.same(await keys.owners(examined()), [])
  const nowhere = examined({ configPath: '/dev/null/app.json' })
  t.match(await keys.owners(nowhere), { state: 'wrong', found: /ENOTDIR|not a directory/i })
  t.match(await keys.file(nowhere), { state: 'wrong' })
  t.equal(await keys.certificate(nowhere), undefined)
})
