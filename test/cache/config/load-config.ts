import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { loadConfig } from '../../../lib/cache/config/loading/load-config.ts'
import { config, load, problems, user } from '../../fixtures/cache/cache-config.ts'

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
      'f.yaml:8:12: timeouts.connect: found "8 parsecs", expected a duration from 100ms to 5m; "parsecs" is not a unit of time: use ms, s, m, h, d or w',
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
    'f.yaml:2:14: listen_port: not together with listen; leave one',
    'f.yaml:3:20: alternative_ports: not together with listen; leave one',
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
    t.strictSame(config(off), config(''))
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

t.test('a file with index.password is refused, since the pages would stand open', t => {
  const said = problems('index: {password: "$scrypt$hunter2", clients: [192.0.2.0/28]}')
  t.equal(said.length, 1)
  t.match(said, [
    /^f\.yaml:1:9: index\.password: no longer there: .*; remove the line, .*index\.clients/,
  ])
  t.notMatch(said.join(), 'hunter2')
  t.match(problems('index: {password: [x]}'), [/remove the line/], 'also one of a wrong kind')
  const empty = load('index: {password: "", contact: Ann}')
  t.match(empty, { ok: true, value: { index: { contact: 'Ann' } } })
  t.match(empty.warnings, [/index\.password: no longer there/])
  t.end()
})

t.test('what is right but worth a word is a warning', t => {
  t.match(load('debug: {pprof: {enable: yes}}').warnings, [
    /^f.yaml:1:1: debug: is not read: there is no debugging listener/,
  ])
  t.match(load('timeouts: {connect: 15s}').warnings, [/apt hangs up/])
  t.match(load('clients: []').warnings, [/no client may use the proxy/])
  t.match(load('clients: [192.0.2.0/24]').warnings, [/leaves this machine itself out/])
  t.strictSame(load('clients: [127.0.0.1, 192.0.2.0/24]').warnings, [])
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
  t.strictSame(config(example), config(''))
  const uncommented = example.replace(/^#(?=[a-z ] ?\S| {2}- )/gm, (sign, at: number) =>
    /^#(?:[a-z_]+:| {2})/.test(example.slice(at)) ? '' : sign,
  )
  const all = config(uncommented)
  const { clients, expiration, log, passthroughDomains } = config('')
  t.match({ ...all }, { clients, expiration, log, passthroughDomains, https: { prevent: false } })
  t.equal(all.listen.length, 2, 'the comment signs were really taken away')
  t.equal(all.domains.length, 2)
  t.end()
})
