import t from 'tap'
import type { Config } from '../../../lib/cache/config/config.ts'
import type { HostPattern, Ports } from '../../../lib/cache/config/setting-kinds.ts'
import {
  type Admission,
  admitClient,
  admitTarget,
  type ClientApproach,
  compilePolicy,
} from '../../../lib/cache/policy/policy.ts'
import type { OwnIdentity } from '../../../lib/cache/policy/routing.ts'
import { parseAuthority } from '../../../lib/http/message/target.ts'
import { config } from '../../fixtures/cache/cache-config.ts'

const own: OwnIdentity = {
  names: new Set(['cache.example.org']),
  addresses: new Set(['192.0.2.1', '2001:db8::1']),
  ports: new Set([3142]),
}

/** A pattern as the configuration reads it, for hosts without colons or IPv6 in brackets. */
function pattern(text: string): HostPattern {
  const [, dot, host = '', port] = /^(\.?)(?:\[?)(.*?)(?:\]?)(?::(\d+))?$/.exec(text) ?? []
  return {
    text,
    host,
    subdomains: dot === '.',
    port: port === undefined ? undefined : Number(port),
  }
}

interface Lists {
  readonly domains?: readonly string[]
  readonly passthrough?: readonly string[]
  readonly private?: readonly string[]
  readonly prevent?: boolean
  readonly ports?: Ports
  readonly connectPorts?: readonly number[]
}

const defaults = config('{}')
function settings(lists: Lists = {}): Config {
  return {
    ...defaults,
    domains: (lists.domains ?? []).map(pattern),
    passthroughDomains: (lists.passthrough ?? []).map(pattern),
    privateDomains: (lists.private ?? []).map(pattern),
    clients: ['10.0.0.0/8', '2001:db8:1::/48'],
    ports: lists.ports ?? [80, 443],
    connectPorts: lists.connectPorts ?? [443],
    https: { ...defaults.https, prevent: lists.prevent ?? false },
  }
}

function ask(target: string, lists: Lists = {}, rest: Partial<ClientApproach> = {}): Admission {
  const connect = target.startsWith('CONNECT ')
  const authority = parseAuthority(target.replace('CONNECT ', ''), connect ? 443 : 80)
  if ('problem' in authority) throw new Error(authority.problem)
  const policy = compilePolicy(settings(lists), own)
  const client = { authority, client: '10.1.2.3', inCircle: false, ...rest }
  const kind = connect ? 'connect' : 'fetch'
  return admitClient(client, policy) ?? admitTarget({ kind, authority }, policy)
}

/** `cache by <rule>`, or the name of the refusal. */
function brief(admission: Admission): string {
  return 'deny' in admission ? admission.deny : `${admission.allow} by ${admission.rule}`
}

t.test('hosts of `private_domains` may be anywhere, and close no other host out', async t => {
  const lists = { private: ['repo.corp.example.org', '10.9.9.9', '.lab.example.org:8080'] }
  for (const [target, outcome] of [
    ['repo.corp.example.org', 'cache by repo.corp.example.org'],
    ['CONNECT repo.corp.example.org:443', 'tunnel by repo.corp.example.org'],
    ['repo.corp.example.org:8080', 'ports'],
    ['a.lab.example.org:8080', 'cache by .lab.example.org:8080'],
    ['a.lab.example.org', 'cache by *'],
    ['10.9.9.9', 'cache by 10.9.9.9'],
    ['10.9.9.8', 'public-address'],
    ['archive.example.org', 'cache by *'],
  ] as const) {
    const admission = ask(target, lists)
    t.equal(brief(admission), outcome, target)
    if ('allow' in admission) t.equal(admission.trusted, admission.rule !== '*', target)
  }
  const restricted = { ...lists, domains: ['archive.example.org'] }
  t.equal(brief(ask('10.9.9.9', restricted)), 'cache by 10.9.9.9')
  t.equal(brief(ask('other.example.org', restricted)), 'domains')
})

t.test('without lists every host is welcome and none is trusted', async t => {
  for (const [target, outcome] of [
    ['archive.example.org', 'cache by *'],
    ['archive.example.org:443', 'cache by *'],
    ['archive.example.org:8080', 'ports'],
    ['CONNECT archive.example.org:443', 'tunnel by *'],
    ['CONNECT archive.example.org:22', 'connect_ports'],
    ['CONNECT archive.example.org:80', 'connect_ports'],
    ['203.0.113.9', 'cache by *'],
    ['10.0.0.9', 'public-address'],
    ['127.0.0.1', 'public-address'],
    ['169.254.169.254', 'public-address'],
    ['[::1]', 'public-address'],
    ['[::ffff:10.0.0.9]', 'public-address'],
    ['[64:ff9b::a00:9]', 'public-address'],
    ['CONNECT 10.0.0.9:443', 'public-address'],
    ['CONNECT [fd00::1]:443', 'public-address'],
    ['[2001:db8:5::1]', 'cache by *'],
  ] as const) {
    const admission = ask(target)
    t.equal(brief(admission), outcome, target)
    if ('allow' in admission) t.equal(admission.trusted, false, `${target} is not trusted`)
  }
})

t.test('host patterns cover whole labels', async t => {
  for (const [entry, target, outcome] of [
    ['archive.example.org', 'archive.example.org', 'cache'],
    ['archive.example.org', 'ARCHIVE.Example.Org.', 'cache'],
    ['archive.example.org', 'evilarchive.example.org', 'domains'],
    ['archive.example.org', 'a.archive.example.org', 'domains'],
    ['archive.example.org', 'example.org', 'domains'],
    ['archive.example.org', 'archive.example.org.evil.example', 'domains'],
    ['.example.org', 'example.org', 'cache'],
    ['.example.org', 'a.b.example.org', 'cache'],
    ['.example.org', 'evilexample.org', 'domains'],
    ['.example.org', 'org', 'domains'],
    ['.org', 'a.example.org', 'cache'],
    ['archive.example.org:8080', 'archive.example.org:8080', 'cache'],
    ['archive.example.org:8080', 'archive.example.org', 'domains'],
    ['archive.example.org:8080', 'archive.example.org:8081', 'domains'],
    ['.example.org:8080', 'a.example.org:8080', 'cache'],
    ['.example.org:8080', 'a.example.org', 'domains'],
    ['archive.example.org', 'archive.example.org:8080', 'ports'],
    ['.example.org', 'a.example.org:8080', 'ports'],
    ['10.0.0.9', '10.0.0.9', 'cache'],
    ['10.0.0.9', '[::ffff:10.0.0.9]', 'cache'],
    ['.9', '10.0.0.9', 'domains'],
    ['[fd00::9]', '[FD00:0::9]', 'cache'],
    ['[fd00::9]:8080', '[fd00::9]:8080', 'cache'],
    ['[fd00::9]', '[fd00::8]', 'domains'],
  ] as const) {
    const admission = ask(target, { domains: [entry] })
    t.equal('deny' in admission ? admission.deny : admission.allow, outcome, `${entry}: ${target}`)
    if ('allow' in admission) t.equal(admission.trusted, true, 'a listed host is trusted')
  }
})

t.test('which of several patterns admits', async t => {
  const lists: Lists = {
    domains: ['archive.example.org', '.example.org:8080', '.example.org', 'both.example.org'],
    passthrough: ['both.example.org', '.esm.example.org', 'only8080.example.net:8080'],
  }
  for (const [target, outcome] of [
    ['archive.example.org', 'cache by archive.example.org'],
    ['archive.example.org:8080', 'cache by .example.org:8080'],
    ['x.example.org', 'cache by .example.org'],
    ['both.example.org', 'passthrough by both.example.org'],
    ['a.esm.example.org', 'passthrough by .esm.example.org'],
    ['CONNECT both.example.org:443', 'tunnel by both.example.org'],
    ['CONNECT archive.example.org:443', 'tunnel by archive.example.org'],
    ['CONNECT archive.example.org:8080', 'tunnel by .example.org:8080'],
    ['CONNECT archive.example.org:80', 'connect_ports'],
    ['only8080.example.net:8080', 'passthrough by only8080.example.net:8080'],
    ['only8080.example.net', 'domains'],
    ['other.example', 'domains'],
    ['CONNECT other.example:443', 'domains'],
    ['10.0.0.9', 'domains'],
  ] as const) {
    t.equal(brief(ask(target, lists)), outcome, target)
  }
})

t.test('one list is enough to close the door to all others', async t => {
  t.equal(brief(ask('other.example', { passthrough: ['esm.example.org'] })), 'domains')
  t.equal(brief(ask('other.example', { domains: ['esm.example.org'] })), 'domains')
})

t.test('clients, circles and https.prevent come before hosts', async t => {
  const lists: Lists = { domains: ['archive.example.org'], prevent: true }
  for (const [target, rest, outcome] of [
    ['archive.example.org', { client: '192.0.2.77' }, 'clients'],
    ['archive.example.org', { client: '::ffff:192.0.2.77' }, 'clients'],
    ['archive.example.org', { client: '' }, 'clients'],
    ['CONNECT other.example:443', { client: '2001:db8:2::1' }, 'clients'],
    ['archive.example.org', { client: '2001:db8:1::1' }, 'cache by archive.example.org'],
    ['archive.example.org', { client: '::ffff:10.9.9.9' }, 'cache by archive.example.org'],
    ['archive.example.org', { inCircle: true }, 'loop'],
    ['CONNECT archive.example.org:443', {}, 'https.prevent'],
    ['CONNECT other.example:443', {}, 'https.prevent'],
    ['archive.example.org:443', {}, 'cache by archive.example.org'],
  ] as const) {
    t.equal(brief(ask(target, lists, rest)), outcome, `${target} ${JSON.stringify(rest)}`)
  }
})

t.test('we do not go to ourselves, listed or not', async t => {
  const lists: Lists = { domains: ['cache.example.org', 'localhost:3142', '.example.org:3142'] }
  for (const target of [
    'cache.example.org:3142',
    'CONNECT cache.example.org:3142',
    'localhost:3142',
    'a.localhost:3142',
    '127.0.0.1:3142',
    '127.9.9.9:3142',
    '[::1]:3142',
    '[::]:3142',
    '0.0.0.0:3142',
    '192.0.2.1:3142',
    '[::ffff:192.0.2.1]:3142',
    '[2001:db8::1]:3142',
  ]) {
    t.equal(brief(ask(target, lists)), 'loop', target)
  }
  t.equal(
    brief(ask('cache.example.org', lists)),
    'cache by cache.example.org',
    'another port is another server',
  )
  t.equal(brief(ask('a.example.org:3142', lists)), 'cache by .example.org:3142')
})

t.test('every refusal names the setting, the value met and what to change', async t => {
  const listed: Lists = {
    domains: ['archive.example.org', 'p.example.org:8080', 'p.example.org:8081'],
  }
  const cases: ReadonlyArray<
    readonly [target: string, lists: Lists, sentence: string, rest?: Partial<ClientApproach>]
  > = [
    [
      'archive.example.org:8080',
      listed,
      'archive.example.org:8080 is refused by `ports`: only 80 and 443 are open; list the host as archive.example.org:8080 under `domains` to allow it.',
    ],
    [
      'CONNECT archive.example.org:22',
      listed,
      'archive.example.org:22 is refused by `connect_ports`: only 443 is open; list the host as archive.example.org:22 under `domains` to allow it.',
    ],
    [
      'esm.example.org:8080',
      { passthrough: ['esm.example.org'], ports: [] },
      'esm.example.org:8080 is refused by `ports`: no port is open; list the host as esm.example.org:8080 under `passthrough_domains` to allow it.',
    ],
    [
      'archive.example.org:8080',
      { ports: [80, 443, 81] },
      'archive.example.org:8080 is refused by `ports`: only 80, 443 and 81 are open; set `ports: [80, 443, 81, 8080]` to allow it.',
    ],
    [
      '127.0.0.1:8080',
      {},
      '127.0.0.1:8080 is refused by `ports`: only 80 and 443 are open; list 127.0.0.1:8080 under `private_domains` to allow it.',
    ],
    [
      'p.example.org',
      listed,
      'p.example.org:80 is refused by `domains`: only p.example.org:8080 and p.example.org:8081 are listed; add p.example.org:80 to allow it.',
    ],
    [
      'other.example',
      listed,
      'other.example:80 is refused by `domains`: other.example is listed neither there nor under `passthrough_domains`; add other.example to one of them to allow it.',
    ],
    [
      '[fd00::1]',
      listed,
      '[fd00::1]:80 is refused by `domains`: [fd00::1] is listed neither there nor under `passthrough_domains`; add [fd00::1] to one of them to allow it.',
    ],
    [
      '[fd00::1]',
      {},
      '[fd00::1]:80 is refused because it is not a public address and in no list; list [fd00::1]:80 under `private_domains` to allow it.',
    ],
    [
      'archive.example.org',
      {},
      '192.0.2.77 is in no network under `clients`; add its network there to let it use this proxy.',
      { client: '192.0.2.77' },
    ],
    [
      'CONNECT archive.example.org:443',
      { prevent: true },
      'A tunnel to archive.example.org:443 is refused by `https.prevent`; set it to false to allow CONNECT, or write the source as http://HTTPS///host/path.',
    ],
    [
      'localhost:3142',
      {},
      'localhost:3142 leads back to this proxy; ask for the archive by its own name.',
    ],
  ]
  for (const [target, lists, sentence, rest] of cases) {
    const admission = ask(target, lists, rest)
    t.equal('deny' in admission ? admission.sentence : 'admitted', sentence)
  }
})

t.test('a client network that is none is a failure of the configuration', async t => {
  t.throws(() => compilePolicy({ ...settings(), clients: ['10.0.0.0/33'] }, own), { code: 'cidr' })
})
