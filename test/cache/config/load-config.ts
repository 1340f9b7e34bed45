import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import type { Overrides } from '../../../lib/cache/config/config.ts'
import type { Surroundings } from '../../../lib/cache/config/environment.ts'
import { configCheck, defaultConfig, loadConfig } from '../../../lib/cache/config/load-config.ts'
import { decodeConfig } from '../../../lib/config/config-file.ts'

const user: Surroundings = {
  environment: {},
  root: false,
  home: '/home/ann',
  systemCacheWritable: false,
}

const load = (text: string, overrides: Overrides = {}, surroundings = user) =>
  decodeConfig(text, 'f.yaml', configCheck(overrides, surroundings))

const problems = (text: string) => {
  const loaded = load(text)
  return loaded.ok ? [] : loaded.problems
}

const config = (...args: Parameters<typeof load>) => {
  const loaded = load(...args)
  if (!loaded.ok) throw new Error(loaded.problems.join('\n'))
  return loaded.value
}

t.test('without a file everything has its default', t => {
  t.strictSame(defaultConfig({}, user), {
    cacheDirectory: '/home/ann/.cache/cachesvc',
    listen: [{ address: undefined, port: 3142 }],
    domains: [],
    passthroughDomains: [],
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
    ports: [80, 443],
    connectPorts: [443],
    parentProxy: undefined,
    offline: false,
    remap: [],
    archives: [],
    overrides: { ubuntuServer: undefined, debianServer: undefined },
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
    index: { enable: true, hostnames: [], activity: true, contact: '' },
    expiration: { unusedDays: 90 },
    suites: {
      keyrings: ['/etc/apt/trusted.gpg.d', '/etc/apt/keyrings', '/usr/share/keyrings'],
      memory: 67_108_864,
      update: 8000,
      wait: 5000,
    },
    retention: { size: 0, free: undefined, objectSize: 0, versions: 0 },
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
      ...{ transfers: 134_217_728, originConnections: 16 },
    },
    log: { level: 'info', access: true },
  })
  t.strictSame(config(''), defaultConfig({}, user))
  t.end()
})

t.test('a file sets everything there is', t => {
  const all = config(`
cache_directory: /srv/cache/
listen: [127.0.0.1:8080, "[::1]:8081", 8082]
domains: [.example.org]
passthrough_domains: [vendor.example.com]
clients: [192.0.2.0/24]
ports: [80]
connect_ports: []
parent_proxy: http://bob:x@proxy.example.org:3128
https: {prevent: yes}
index: {enable: false, hostnames: [Proxy.example.org], activity: false, contact: "<b>Ann</b>"}
expiration: {unused_days: 0}
freshness: {index: 10s, other: 60, negative: 0, floor: 0s, serve_stale: permitted}
timeouts: {connect: 1s, fields: 2s, content: 3s, revalidation: 4s, tunnel: 5s, client_head: 6s, client_idle: 7s, client_stalled: 8s, drain: 9s}
limits: {head: 8K, connections: 10, memory: 0, transfers: 1M, origin_connections: 2}
log: {level: debug, access: off}
`)
  t.equal(all.cacheDirectory, '/srv/cache/')
  t.strictSame(all.listen, [
    { address: '127.0.0.1', port: 8080 },
    { address: '::1', port: 8081 },
    { address: undefined, port: 8082 },
  ])
  t.match(all.domains, [{ text: '.example.org', host: 'example.org', subdomains: true }])
  t.match(all.passthroughDomains, [{ host: 'vendor.example.com', subdomains: false }])
  t.strictSame(all.parentProxy, { host: 'proxy.example.org', port: 3128, credentials: 'bob:x' })
  t.strictSame(all.index, {
    enable: false,
    hostnames: ['proxy.example.org'],
    activity: false,
    contact: '<b>Ann</b>',
  })
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
    ...{ transfers: 1_048_576, originConnections: 2 },
  })
  t.strictSame(all.log, { level: 'debug', access: false })
  t.end()
})

t.test('every problem is told at once, each at its value', t => {
  t.strictSame(
    problems(`listen_prot: 3142
listen_port: "3143"
alternative_ports: [80, 70000]
unused_days: 4
domains:
  - http://archive.example.org/debian
timeouts:
  connect: 8 parsecs
  content: 99h
  conect: 5s
https:
  prevent: maybe
log: loud
ports: 80
freshness: {other: [1]}
limits: {connections: 0}
`),
    [
      'f.yaml:1:1: listen_prot: no such setting; did you mean listen_port?',
      'f.yaml:2:14: listen_port: found "3143", expected a port from 1 to 65535; remove the quotes',
      'f.yaml:3:25: alternative_ports[1]: found 70000, expected a port from 1 to 65535',
      'f.yaml:4:1: unused_days: no such setting here; did you mean expiration.unused_days?',
      'f.yaml:6:5: domains[0]: found a URL, expected a host; write archive.example.org',
      'f.yaml:8:12: timeouts.connect: found "8 parsecs", expected a duration from 100ms to 5m; "parsecs" is no unit of time: use ms, s, m, h, d or w',
      'f.yaml:9:12: timeouts.content: found "99h", expected a duration from 100ms to 10m; that is 4d3h',
      'f.yaml:10:3: timeouts.conect: no such setting; did you mean connect?',
      'f.yaml:12:12: https.prevent: found "maybe", expected true or false',
      'f.yaml:13:6: log: found "loud", expected settings of the form "name: value", indented below this key',
      'f.yaml:14:8: ports: found 80, expected a list; write [a, b] or a line "- a" each',
      'f.yaml:15:20: freshness.other: found a list, expected a duration from 0s to 365d; such as 30s or 5m',
      'f.yaml:16:23: limits.connections: found 0, expected a whole number from 1 to 1000000',
    ],
  )
  t.strictSame(problems('just text'), [
    'f.yaml:1:1: found "just text", expected settings of the form "name: value", indented below this key',
  ])
  t.match(problems('__proto__: 1\nconstructor: 2'), [
    /__proto__: no such setting/,
    /constructor: no such/,
  ])
  t.match(problems('frobnicate: 1'), [/no such setting; remove it/])
  t.match(problems('log: {level: wran}'), [/one of debug, info, warn, error; did you mean warn\?/])
  t.match(problems('cache_directory: cache'), [
    /an absolute path; write it in full, such as \/.*cache/,
  ])
  t.match(problems('cache_directory: ~/cache'), [/no shell here/])
  t.match(problems('index: {contact: 5}'), [/between quotes: "5"/])
  t.match(problems('listen_address: localhost'), [/write 127\.0\.0\.1/])
  t.match(problems('index: {hostnames: [a.example.org:80]}'), [/write a\.example\.org/])
  t.end()
})

t.test('where to listen is said in one way only', t => {
  t.strictSame(
    config('listen_address: 127.0.0.1\nlisten_port: 8090\nalternative_ports: [3142, 8090]').listen,
    [
      { address: '127.0.0.1', port: 8090 },
      { address: '127.0.0.1', port: 3142 },
    ],
  )
  t.match(problems('listen: [3142]\nlisten_port: 80\nalternative_ports: [81]'), [
    'f.yaml:2:1: listen_port: not together with listen; move it there',
    'f.yaml:3:1: alternative_ports: not together with listen; move it there',
  ])
  t.match(problems('listen: [3142, ":3142", "127.0.0.1:0", "127.0.0.1:0"]'), [
    'f.yaml:1:16: listen[1]: the same as listen[0]; remove one',
  ])
  t.strictSame(config('listen: []').listen, [{ address: undefined, port: 3142 }])
  const listen = [{ address: '::1', port: 0 }]
  t.strictSame(config('listen: [80]', { listen }).listen, listen, 'the command line wins')
  t.end()
})

t.test(
  'settings of interception at their defaults change nothing, and a password never shows',
  t => {
    const off = `
listen_port_secure: 0
https: {intercept: no, cert: "", key: "", password: "", certificate_domain: "", aia_address: "", enable_crl: false}
`
    t.strictSame(config(off), defaultConfig({}, user))
    t.notMatch(problems('https: {password: [hunter2]}').join('\n'), 'hunter2')
    t.end()
  },
)

t.test('the settings of HTTPS', t => {
  const all = config(`
listen_address: 192.0.2.1
listen_port_secure: 8091
https:
  intercept: true
  intercept_domains: [a.example.org]
  tunnel_domains: [.b.example.org]
  refuse_domains: ["c.example.org:444"]
  cert: /c/ca.pem
  key: /c/ca.key
  password: hunter2
  certificate_domain: Proxy.example.org
  aia_address: http://proxy.example.org/ca.crt
  enable_crl: true
  origin_ca: [/c/private.pem]
  remember_distrust: 0
`)
  t.strictSame(all.listenSecure, { address: '192.0.2.1', port: 8091 })
  t.match(all.https, {
    intercept: true,
    interceptDomains: [{ text: 'a.example.org' }],
    tunnelDomains: [{ text: '.b.example.org' }],
    refuseDomains: [{ text: 'c.example.org:444', port: 444 }],
    cert: '/c/ca.pem',
    key: '/c/ca.key',
    password: 'hunter2',
    certificateDomain: 'proxy.example.org',
    aiaAddress: 'http://proxy.example.org/ca.crt',
    enableCrl: true,
    originCa: ['/c/private.pem'],
    rememberDistrust: 0,
  })
  t.match(config('https: {cert: "", key: "", certificate_domain: ""}').https, {
    cert: undefined,
    key: undefined,
    certificateDomain: undefined,
  })
  t.match(problems('https: {cert: ca.pem}'), [
    /https.cert: found "ca.pem", expected an absolute path/,
  ])
  t.match(problems('https: {aia_address: proxy.example.org}'), [
    /https.aia_address: .*expected a URL/,
  ])
  t.match(problems('https: {certificate_domain: "a b"}'), [/https.certificate_domain: /])
  t.match(load('https: {prevent: true, intercept: true}').warnings, [/no tunnel is opened/])
  t.end()
})

t.test('what is right but worth a word is a warning', t => {
  t.strictSame(load('debug: {enable: false}').warnings, [])
  t.match(load('debug: {enable: true}').warnings, [
    /^f.yaml:1:9: debug.enable: is not supported: there is no/,
  ])
  t.match(load('debug: {pprof: {enable: yes}}').warnings, [/debug.pprof.enable: is not supported/])
  t.match(load('timeouts: {connect: 15s}').warnings, [/apt hangs up/])
  t.match(load('clients: []').warnings, [/no client may use the proxy/])
  const named = { ...user, environment: { CACHESVC_CACHE_DIR: '/data' } }
  t.match(load('cache_directory: /srv', {}, named).warnings, [/CACHESVC_CACHE_DIR wins/])
  t.end()
})

t.test('the cache directory: command line over environment over file over default', t => {
  const named = { ...user, environment: { CACHESVC_CACHE_DIR: '/env' } }
  const file = 'cache_directory: /file'
  t.equal(config(file, { cacheDirectory: '/flag' }, named).cacheDirectory, '/flag')
  t.equal(config(file, {}, named).cacheDirectory, '/env')
  t.equal(config(file).cacheDirectory, '/file')
  t.equal(config('', {}, named).cacheDirectory, '/env')
  t.end()
})

t.test('the file is the one named, or the one in the environment', async t => {
  const directory = t.testdir({ 'a.yaml': 'listen_port: 1\n', 'b.yaml': 'listen_port: 2\n' })
  const environment = { CACHESVC_CONFIG: join(directory, 'b.yaml') }
  const portOf = async (...args: Parameters<typeof loadConfig>) => {
    const loaded = await loadConfig(...args)
    return loaded.ok ? `${loaded.value.listen[0]?.port} from ${loaded.file}` : loaded.problems
  }
  const a = join(directory, 'a.yaml')
  t.equal(await portOf(a, {}, { ...user, environment }), `1 from ${a}`)
  t.equal(
    await portOf(undefined, {}, { ...user, environment }),
    `2 from ${environment.CACHESVC_CONFIG}`,
  )
  t.match(await portOf(join(directory, 'c.yaml'), {}, user), [/c.yaml: there is no such file/])
})

t.test('the example file says the defaults, with and without its comment signs', t => {
  const example = readFileSync('packaging/cachesvc.yaml', 'utf8')
  t.strictSame(config(example), defaultConfig({}, user))
  const uncommented = example.replace(/^#(?=[a-z ] ?\S| {2}- )/gm, (sign, at: number) =>
    /^#(?:[a-z_]+:| {2})/.test(example.slice(at)) ? '' : sign,
  )
  const all = config(uncommented)
  const { clients, expiration, log, passthroughDomains } = defaultConfig({}, user)
  t.match({ ...all }, { clients, expiration, log, passthroughDomains, https: { prevent: false } })
  t.equal(all.listen.length, 2, 'the comment signs were really taken away')
  t.equal(all.domains.length, 2)
  t.end()
})

t.test('ports are numbers and ranges', t => {
  const file = 'ports: [80, 8000-8100, "9000 - 9001", 443-443]\nconnect_ports: [443]'
  t.strictSame(config(file).ports, [
    80,
    { first: 8000, last: 8100 },
    { first: 9000, last: 9001 },
    443,
  ])
  for (const [ports, problem] of [
    ['[8100-8000]', /ports\[0\]: found "8100-8000", .*; the smaller number comes first/],
    ['[0-80]', /expected a port from 1 to 65535, or a range such as 8000-8100/],
    ['[80-65536]', /expected a port/],
    ['[http]', /expected a port/],
  ] as const) {
    t.match(problems(`ports: ${ports}`), [problem], ports)
  }
  t.end()
})

t.test(
  'relative paths count from the directory of the file, as GoAPTCacher’s users write them',
  async t => {
    const directory = t.testdir({
      'c.yaml': 'cache_directory: ./cache\nhttps: { cert: ca.crt, key: /etc/ca.key }\n',
    })
    const loaded = await loadConfig(join(directory, 'c.yaml'), {}, user)
    if (!loaded.ok) throw new Error(loaded.problems.join('\n'))
    t.equal(loaded.value.cacheDirectory, join(directory, 'cache'))
    t.equal(loaded.value.https.cert, join(directory, 'ca.crt'))
    t.equal(loaded.value.https.key, '/etc/ca.key')
  },
)

t.test('the variable CONFIG is not read, and named when it looks like a configuration', async t => {
  const warningsFor = async (environment: Record<string, string>) => {
    const directory = t.testdir({ 'c.yaml': '' })
    const file = 'CACHESVC_CONFIG' in environment ? undefined : join(directory, 'c.yaml')
    return (await loadConfig(file, {}, { ...user, environment })).warnings
  }
  t.strictSame(await warningsFor({ CONFIG: '/x/goaptcacher.yaml' }), [], '--config is used')
  const { warnings } = await loadConfig(
    undefined,
    {},
    { ...user, environment: { CONFIG: 'g.yml' } },
  )
  t.match(warnings, [/^the variable CONFIG is not read; write CACHESVC_CONFIG=g\.yml or --config/])
  const other = await loadConfig(undefined, {}, { ...user, environment: { CONFIG: 'release' } })
  t.strictSame(other.warnings, [])
})
