/**
 * The settings in force as a file, with their sources and without secrets.
 */
import t from 'tap'
import { parse } from 'yaml'
import { settings as gateway } from '../../lib/auth/config/settings.ts'
import { configCheck } from '../../lib/cache/config/loading/load-config.ts'
import { settings } from '../../lib/cache/config/settings.ts'
import { dumpSettings } from '../../lib/config/dump.ts'
import { user } from '../fixtures/cache/cache-config.ts'

const none = { source: () => 'a.yaml', overrides: new Map() }

t.test('every setting is there with its source, and the text is a file of the same meaning', t => {
  const document = {
    suites: { snapshot_days: 7 },
    domains: ['archive.example.org'],
    archives: [{ origins: ['archive.example.org/debian'], clients: ['192.0.2.0/24'] }],
  }
  const overrides = new Map([['cache_directory', { value: '/srv/c', source: '--cache-dir' }]])
  const text = dumpSettings(settings, { ...none, document, overrides })
  t.match(text, '\n  snapshot_days: 7  # a.yaml\n')
  t.match(text, '\ndomains: ["archive.example.org"]  # a.yaml\n')
  t.match(text, 'cache_directory: "/srv/c"  # --cache-dir\n')
  t.match(text, /\nports: \[80,443\] {2}# default\n/)
  t.match(text, '\n    clients: ["192.0.2.0/24"]  # a.yaml\n')
  t.match(text, '\n    # redirects: not set; that of `redirects`\n')
  const check = configCheck({ cacheDirectory: undefined, listen: undefined }, user)
  const [given, dumped] = [check({ ...document, cache_directory: '/srv/c' }), check(parse(text))]
  t.ok(given.ok && dumped.ok, JSON.stringify(dumped))
  t.strictSame(dumped, given)
  t.end()
})

t.test('secrets are hidden', t => {
  const document = {
    parent_proxy: 'http://ann:s3cret@parent.example.org:3128',
    https: { password: 's3cret', key: '/etc/k.pem' },
    remap: [{ from: 'http://x:s3cret@a.example.org', to: 'b.example.org' }],
    user_agent: 'bob:s3cret@host',
  }
  const text = dumpSettings(settings, { ...none, document })
  t.notMatch(text, 's3cret')
  t.match(text, 'password: "[hidden]"')
  t.match(text, '@parent.example.org:3128')
  t.match(text, 'key: "/etc/k.pem"')
  t.end()
})

t.test('what is no secret is shown, and each value has its own source', t => {
  const document = {
    domain: 'app.example.org',
    idpMetadataURL: 'https://bob:s3cret@idp.example.org/metadata?token=s3cret',
    passthroughTokens: [
      { name: 'robot', token: 's3cret-s3cret-s3cret-s3cret' },
      { name: 'backup', sha256: 's3cret'.repeat(8) },
      { name: 'file', tokenFile: '/etc/authproxy/token' },
    ],
    access: [{ path: '/admin', allow: [{ users: ['ann@example.org'], groups: ['CN=a:b'] }] }],
    identity: { token: true, tokenAudience: 'https://app.example.org' },
    state: { passwordFile: 'credential:store' },
    pages: { contact: 'mailto:help@example.org' },
  }
  const source = (path: readonly string[]): string => `from ${path.join('.')}`
  const text = dumpSettings(gateway, { document, source, overrides: new Map() })
  t.notMatch(text, 's3cret')
  for (const shown of [
    'domain: "app.example.org"  # from domain\n',
    'idpMetadataURL: "https://[redacted]@idp.example.org/metadata?token=[redacted]"  # from idpM',
    '\npassthroughTokens:  # from passthroughTokens\n  -\n    name: "robot"',
    '    token: "[hidden]"  # from passthroughTokens.token\n',
    '    sha256: "[hidden]"  #',
    '    tokenFile: "/etc/authproxy/token"  #',
    'ann@example.org',
    '"CN=a:b"',
    '  token: true  # from identity.token\n',
    '  tokenAudience: "https://app.example.org"  #',
    '  passwordFile: "credential:store"  #',
    'mailto:help@example.org',
  ]) {
    t.ok(text.includes(shown), shown)
  }
  t.end()
})
