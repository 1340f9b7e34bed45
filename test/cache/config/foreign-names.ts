import t from 'tap'
import { foreignNames } from '../../../lib/cache/config/loading/load-config.ts'
import { settings } from '../../../lib/cache/config/settings.ts'
import { manualPages } from '../../../lib/config/settings.ts'
import { problems } from '../../fixtures/cache/cache-config.ts'

t.test('names of other caches lead to the settings they mean', t => {
  for (const [line, meant] of [
    ['directory: /srv', 'cache_directory'],
    ['cache_dir: /srv', 'cache_directory'],
    ['CacheDir: /srv', 'cache_directory'],
    ['port: 3142', 'listen_port'],
    ['Port: 3142', 'listen_port'],
    ['http_port: 3128', 'listen_port'],
    ['BindAddress: 0.0.0.0', 'listen_address'],
    ['quota: 10G', 'retention.size'],
    ['max_size: 10G', 'retention.size'],
    ['limits: {max_size: 10G}', 'retention.size'],
    ['retention: {total_size: 10G}', 'retention.size'],
    ['maximum_object_size: 1G', 'retention.object_size'],
    ['cache_mem: 1G', 'limits.memory'],
    ['ExThreshold: 4', 'retention.unreferenced'],
    ['max_age: 4', 'expiration.unused_days'],
    ['Proxy: http://a', 'parent_proxy'],
    ['cache_peer: http://a', 'parent_proxy'],
    ['acl: x', 'clients'],
    ['allowed_hosts: x', 'domains'],
    ['AllowUserPorts: 80', 'ports'],
    ['PassThroughPattern: .*', 'passthrough_domains'],
    ['Offlinemode: 1', 'offline'],
    ['log_level: debug', 'log.level'],
  ] as const) {
    t.match(problems(line).join(), new RegExp(`: no such setting; did you mean ${meant}\\?`), line)
  }
  t.match(problems('LogDir: /var/log').join(), /no such setting; the log goes to standard output/)
  t.end()
})

t.test('every name leads to a setting that there is, and none is a setting', t => {
  const paths = new Set([...manualPages(settings)].map(({ path }) => path.join('.')))
  for (const [name, meant] of Object.entries(foreignNames)) {
    if (typeof meant === 'string') t.ok(paths.has(meant), `${name}: ${meant}`)
    t.match(name, /^[a-z0-9]+$/)
  }
  t.end()
})
