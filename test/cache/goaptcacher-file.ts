import t from 'tap'
import { configCheck } from '../../lib/cache/config/loading/load-config.ts'
import { decodeConfig } from '../../lib/config/config-file.ts'

const user = { environment: {}, root: false, home: '/home/ann', systemCacheWritable: false }
const load = (text: string) => decodeConfig(text, 'f.yaml', configCheck({}, user))

/** Every key GoAPTCacher has, set to something that is not our default. */
const theirs: Readonly<Record<string, unknown>> = {
  cache_directory: '/var/cache/goaptcacher',
  listen_port: 8090,
  listen_port_secure: 8091,
  alternative_ports: [3142],
  'index.enable': false,
  'index.hostnames': ['cache.example.org'],
  'index.contact': '<a href="mailto:ann@example.org">Ann</a>',
  domains: ['archive.ubuntu.com', 'mirror.example.org', '.debian.org'],
  passthrough_domains: ['esm.example.com'],
  'overrides.ubuntu_server': 'mirror.example.org/pub',
  'overrides.debian_server': 'mirror.example.org',
  remap: [{ from: '/legacy/dists/stable/InRelease', to: '/debian/dists/stable/InRelease' }],
  'https.prevent': true,
  'https.intercept': true,
  'https.cert': '/etc/goaptcacher/ca.crt',
  'https.key': '/etc/goaptcacher/ca.key',
  'https.password': 'hunter2',
  'https.certificate_domain': 'cache.example.org',
  'https.aia_address': 'http://cache.example.org:8090/_cachesvc/cachesvc.crt',
  'https.enable_crl': true,
  'debug.enable': true,
  'debug.allow_remote': true,
  'debug.log_interval_seconds': 30,
  'debug.pprof.enable': true,
  'debug.pprof.directory': '/var/cache/goaptcacher/pprof',
  'debug.pprof.interval_seconds': 30,
  'debug.pprof.retain': 48,
  mdns: true,
  'expiration.unused_days': 30,
}

/** Keys with dots as the groups they stand for. */
function nested(flat: Readonly<Record<string, unknown>>): object {
  const root = {}
  for (const [name, value] of Object.entries(flat)) {
    const path = name.split('.')
    const last = path.pop() ?? ''
    let here: object = root
    for (const step of path) {
      if (!Object.hasOwn(here, step)) Object.assign(here, { [step]: {} })
      here = Object.getOwnPropertyDescriptor(here, step)?.value
    }
    Object.assign(here, { [last]: value })
  }
  return root
}

t.test('a file with every key of GoAPTCacher is taken; what has no effect is named', t => {
  const text = JSON.stringify(nested(theirs), null, 1)
  const loaded = load(text)
  if (!loaded.ok) throw new Error(loaded.problems.join('\n'))
  t.match(loaded.warnings, [/https\.prevent: wins over https\.intercept/, /debug: is not read/])
  t.equal(loaded.warnings.length, 2)
  const { value } = loaded
  t.strictSame(
    value.listen.map(({ port }) => port),
    [8090, 3142],
  )
  t.match(value, {
    cacheDirectory: '/var/cache/goaptcacher',
    domains: { length: 3 },
    passthroughDomains: [{ host: 'esm.example.com' }],
    overrides: { ubuntuServer: { host: 'mirror.example.org', path: '/pub' } },
    remap: [{ from: { host: undefined, path: '/legacy/dists/stable/InRelease' } }],
    https: { prevent: true, intercept: true },
    index: { enable: false, hostnames: ['cache.example.org'], contact: /mailto:ann/ },
    expiration: { unusedDays: 30 },
  })
  t.strictSame(load('remap:\nhttps:\n').warnings, [], 'keys without a value are absent')
  t.end()
})
