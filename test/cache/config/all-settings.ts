import t from 'tap'
import { builtInArchives } from '../../../lib/cache/config/known-archives.ts'
import { config } from '../../fixtures/cache/cache-config.ts'

t.test('without a file everything has its default', t => {
  t.strictSame(config(''), {
    cacheDirectory: '/home/ann/.cache/cachesvc',
    listen: [{ address: undefined, port: 3142 }],
    domains: [],
    passthroughDomains: [],
    privateDomains: [],
    privateNetworks: [],
    addressFamily: 'any',
    clients: [
      '127.0.0.0/8',
      '::1/128',
      '10.0.0.0/8',
      '172.16.0.0/12',
      '192.168.0.0/16',
      '100.64.0.0/10',
      '169.254.0.0/16',
      'fe80::/10',
      'fc00::/7',
    ],
    proxyProtocol: [],
    ports: [80, 443],
    connectPorts: [443],
    parentProxy: undefined,
    ...{ userAgent: undefined, via: true },
    offline: false,
    remap: [],
    ...{ archives: [], redirects: 'follow', mdns: false },
    overrides: { ubuntuServer: undefined, debianServer: undefined, mirrors: undefined },
    knownArchives: builtInArchives(),
    listenSecure: undefined,
    https: {
      prevent: false,
      intercept: false,
      interceptDomains: [],
      tunnelDomains: [],
      refuseDomains: [],
      cert: undefined,
      key: undefined,
      password: '',
      certificateDomain: undefined,
      aiaAddress: undefined,
      enableCrl: false,
      originCa: [],
      rememberDistrust: 3_600_000,
    },
    index: {
      enable: true,
      hostnames: [],
      proxies: [],
      activity: true,
      clients: [],
      contact: '',
    },
    expiration: { unusedDays: 90 },
    deny: [],
    statistics: { recall: true },
    builds: { clients: [], most: 100, size: 10_737_418_240 },
    sharedStore: {
      ...{ url: undefined, style: 'path', region: 'us-east-1', credentials: undefined },
      expire: 2_592_000_000,
    },
    suites: {
      keyrings: ['/etc/apt/trusted.gpg.d', '/etc/apt/keyrings', '/usr/share/keyrings'],
      memory: 67_108_864,
      warm: { days: 0, files: 500, size: 2_147_483_648 },
      goneAfter: 3_600_000,
      refresh: 0,
      refreshFor: 1_209_600_000,
      refreshBetween: undefined,
      snapshotDays: 0,
      update: 8000,
      wait: 5000,
    },
    retention: { size: 0, free: undefined, objectSize: 0, versions: 0, unreferenced: 0 },
    verification: { interval: 86_400_000, maxAge: 86_400_000, rate: 67_108_864 },
    freshness: {
      ...{ index: 60_000, other: 3_600_000, negative: 5000, floor: 5000 },
      serveStale: 'always',
    },
    timeouts: {
      connect: 8000,
      fields: 15_000,
      content: 25_000,
      revalidation: 4000,
      tunnel: 600_000,
      clientHead: 15_000,
      clientIdle: 120_000,
      clientStalled: 60_000,
      drain: 30_000,
    },
    limits: {
      ...{ head: 65_536, connections: 4096, memory: 67_108_864 },
      ...{ transfers: 134_217_728, originConnections: 16, minimumRate: 1024 },
      perClient: { connections: undefined, rate: undefined, except: [] },
    },
    log: { level: 'info', access: true },
  })
  t.end()
})

t.test('a file sets everything there is', t => {
  const all = config(`
cache_directory: /srv/cache/
listen: [127.0.0.1:8080, "[::1]:8081", 8082]
domains: [.example.org]
passthrough_domains: [vendor.example.com]
private_domains: [repo.corp.example.org, 198.18.0.0/15]
address_family: ipv4
clients: [192.0.2.0/24]
ports: [80]
connect_ports: []
proxy_protocol: [192.0.2.10]
parent_proxy: http://bob:x@proxy.example.org:3128
https: {prevent: yes}
index: {enable: false, hostnames: [Proxy.example.org], proxies: ['http://Cache2.example.org:3142'], activity: false, clients: [192.0.2.0/28], contact: "<b>Ann</b>"}
expiration: {unused_days: 0}
freshness: {index: 10s, other: 60, negative: 0, floor: 0s, serve_stale: permitted}
timeouts: {connect: 1s, fields: 2s, content: 3s, revalidation: 4s, tunnel: 5s, client_head: 6s, client_idle: 7s, client_stalled: 8s, drain: 9s}
limits: {head: 8K, connections: 10, per_client: {connections: 3, rate: 10M, except: [192.0.2.0/28]}, minimum_rate: 0, memory: 0, transfers: 1M, origin_connections: 2}
log: {level: debug, access: off}
`)
  t.equal(all.cacheDirectory, '/srv/cache/')
  t.strictSame(all.listen, [
    { address: '127.0.0.1', port: 8080 },
    { address: '::1', port: 8081 },
    { address: undefined, port: 8082 },
  ])
  t.match(all.domains, [{ text: '.example.org', host: 'example.org', subdomains: true }])
  t.match(all.privateDomains, [{ host: 'repo.corp.example.org' }])
  t.strictSame(all.privateNetworks, ['198.18.0.0/15'])
  t.equal(all.addressFamily, 'ipv4')
  t.match(all.passthroughDomains, [{ host: 'vendor.example.com', subdomains: false }])
  const parent = { host: 'proxy.example.org', port: 3128, credentials: 'bob:x' }
  t.strictSame(all.parentProxy, {
    parents: [{ ...parent, only: [], except: [] }],
    direct: false,
  })
  t.strictSame(all.index, {
    enable: false,
    hostnames: ['proxy.example.org'],
    proxies: [{ host: 'cache2.example.org', port: 3142 }],
    activity: false,
    clients: ['192.0.2.0/28'],
    contact: '<b>Ann</b>',
  })
  t.strictSame(all.proxyProtocol, ['192.0.2.10/32'])
  t.strictSame(all.connectPorts, [])
  t.equal(all.https.prevent, true)
  t.strictSame(all.freshness, {
    ...{ index: 10_000, other: 60_000, negative: 0, floor: 0 },
    serveStale: 'permitted',
  })
  t.strictSame(
    Object.values(all.timeouts),
    [1, 2, 3, 4, 5, 6, 7, 8, 9].map(n => n * 1000),
  )
  t.strictSame(all.limits, {
    ...{ head: 8192, connections: 10, memory: 0 },
    ...{ transfers: 1_048_576, originConnections: 2, minimumRate: 0 },
    perClient: { connections: 3, rate: 10_485_760, except: ['192.0.2.0/28'] },
  })
  t.strictSame(all.log, { level: 'debug', access: false })
  t.end()
})
