import t from 'tap'
import { type Config, inForce, needRestart } from '../../../lib/auth/config/config.ts'
import { gatewayConfig } from '../../fixtures/gateway/gateway.ts'

const least = {
  domain: 'app.example.org',
  idpMetadataURL: 'https://idp.example.org/metadata',
  configPath: '/var/lib/authproxy/app.json',
}
const proxy = { listenAddress: '127.0.0.1:8080', targetURL: 'http://127.0.0.1:3000' }
const configOf = (more: Readonly<Record<string, unknown>> = {}): Config =>
  gatewayConfig({ ...least, proxy, ...more })
const started = configOf()

t.test('what only a restart can change is named, and stays as it was', t => {
  for (const [name, more] of [
    ['domain', { domain: 'new.example.org' }],
    ['idpMetadataURL or idpMetadataFile', { idpMetadataURL: 'https://idp.example.org/new' }],
    [
      'idpMetadataProxy or idpMetadataProxyFile',
      { idpMetadataProxy: 'http://proxy.example.org:3128' },
    ],
    ['idpEntityID', { idpEntityID: 'https://idp.example.org' }],
    ['idpMetadataCertificate', { idpMetadataCertificate: '/etc/authproxy/idp.pem' }],
    ['proxy.listenAddress', { proxy: { ...proxy, listenAddress: '127.0.0.1:8081' } }],
    ['configPath', { configPath: '/var/lib/authproxy/new.json' }],
    ['session.revocation', { session: { revocation: false } }],
    ['admin.listenAddress', { admin: { listenAddress: '127.0.0.1:9080' } }],
    [
      'forwardAuth.listenAddress',
      { forwardAuth: { listenAddress: 'unix:/run/authproxy/app.sock', edge: 'nginx' } },
    ],
    ['limits.fields', { limits: { fields: 100 } }],
    ['timeouts.drain', { timeouts: { drain: '1s' } }],
  ] as const) {
    const wanted = configOf(more)
    t.same(needRestart(started, wanted), [name])
    t.same(inForce(started, wanted), started, `${name} is not half in force`)
    t.same(needRestart(started, inForce(started, wanted)), [])
  }
  t.end()
})

t.test('a backend that was checked with a new address waits with it for the restart', t => {
  const moved = { listenAddress: '127.0.0.1:8081', targetURL: 'http://127.0.0.1:8080' }
  for (const [name, more] of [
    ['proxy.listenAddress', { proxy: { ...moved, targetCertificates: '/etc/new.pem' } }],
    [
      'domain',
      { domain: 'new.example.org', proxy: { ...proxy, targetURL: 'https://app.example.org' } },
    ],
  ] as const) {
    const wanted = configOf(more)
    t.same(needRestart(started, wanted), [name, 'proxy.targetURL'])
    t.same(inForce(started, wanted), started)
    const now = { ...started, target: wanted.target }
    t.same(needRestart(started, wanted, now), [name], 'unless it is in force already')
    t.same(inForce(started, wanted, now).target, wanted.target)
  }
  const other = configOf({ proxy: { ...moved, targetURL: proxy.targetURL, useBasicAuth: true } })
  t.same(needRestart(started, other), ['proxy.listenAddress'])
  t.ok(inForce(started, other).identityFields.basicAuth)
  t.end()
})

t.test('what checks are read by is in force at once, unless they are answered elsewhere', t => {
  const listenAddress = 'unix:/run/authproxy/app.sock'
  const first = configOf({ forwardAuth: { listenAddress, edge: 'nginx' } })
  const other = configOf({ forwardAuth: { listenAddress, edge: 'caddy', trustedProxies: ['::1'] } })
  t.same(needRestart(first, other), [])
  t.same(inForce(first, other).forwardAuth, other.forwardAuth)
  const moved = { listenAddress: '127.0.0.1:9090', edge: 'caddy', trustedProxies: ['::1'] }
  for (const forwardAuth of [moved, undefined]) {
    const wanted = configOf(forwardAuth === undefined ? {} : { forwardAuth })
    t.same(needRestart(first, wanted), ['forwardAuth.listenAddress'])
    t.same(inForce(first, wanted).forwardAuth, first.forwardAuth)
    t.same(inForce(first, wanted, inForce(first, other)).forwardAuth, other.forwardAuth)
  }
  t.end()
})

t.test('the name that checks are for waits for the restart with the domain', t => {
  const forwardAuth = { listenAddress: 'unix:/run/authproxy/app.sock', edge: 'nginx' }
  const first = configOf({ forwardAuth })
  const wanted = configOf({ forwardAuth, domain: 'new.example.org' })
  t.same(needRestart(first, wanted), ['domain'])
  t.same(inForce(first, wanted), first)
  const hosts = ['new.example.org']
  const named = configOf({ forwardAuth: { ...forwardAuth, hosts }, domain: 'new.example.org' })
  t.same(inForce(first, named), first)
  t.end()
})

t.test('everything else is in force at once', t => {
  const wanted = configOf({
    passthroughPaths: ['/new/'],
    proxy: { ...proxy, targetURL: 'http://127.0.0.1:3001', trustedProxies: ['192.0.2.7'] },
    session: { lifetime: '1h', idle: '30m', cookieSize: '4K' },
    saml: { clockSkew: '1s', forceAuthn: true },
    identity: { groups: ['app-*'] },
    timeouts: { response: '9s' },
    limits: { responseHead: '8K' },
    log: { level: 'debug' },
  })
  t.same(needRestart(started, wanted), [])
  t.same(inForce(started, wanted), wanted)
  t.end()
})
