import t from 'tap'
import type { OwnIdentity } from '../../../lib/cache/policy/routing.ts'
import { isOperationsPath } from '../../../lib/cache/request/own-paths.ts'
import { effectiveTarget } from '../../../lib/cache/request/request-target.ts'
import { Fields } from '../../../lib/http/message/field.ts'
import { formatAuthority, formatUri, parseTarget } from '../../../lib/http/message/target.ts'

const own: OwnIdentity = {
  names: new Set(['cache.example.org', 'mirror.example.org', 'cache']),
  addresses: new Set(['192.0.2.1', '2001:db8::1']),
  ports: new Set([3142, 9999]),
}

interface Ask {
  readonly hosts?: readonly string[]
  readonly secure?: boolean
  /** Where the CONNECT led that the request came through. */
  readonly within?: string
  readonly local?: { readonly address: string; readonly port: number }
}

/** One line for an answer: `mode uri`, `operations path`, `connect authority` or `refuse status`. */
function ask(line: string, { hosts = [], secure = false, within, local }: Ask = {}): string {
  const [method = '', text = ''] = line.split(' ')
  const target = parseTarget(method, text)
  if ('problem' in target) throw new Error(target.problem)
  const fields = Fields.of(...hosts.map(host => ['Host', host] as const))
  const came = local ?? { address: '192.0.2.1', port: 3142 }
  const [host = '', port] = within?.split(':') ?? []
  const end = within === undefined ? {} : { tunnelEnd: { host, port: Number(port) } }
  const answer = effectiveTarget({ method, target, fields, secure, local: came, ...end }, own)
  switch (answer.kind) {
    case 'operations':
      return `operations ${answer.path}${answer.query === undefined ? '' : `?${answer.query}`}`
    case 'fetch': {
      const { mode, uri, asOf, build } = answer
      const day = asOf === undefined ? '' : ` as of ${new Date(asOf).toISOString()}`
      const within = build === undefined ? '' : ` in ${build}`
      return `${mode} ${formatUri(uri)}${uri.userinfo === undefined ? '' : ` as ${uri.userinfo}`}${day}${within}`
    }
    case 'connect':
      return `connect ${formatAuthority(answer.authority)}`
    case 'refuse':
      return `refuse ${answer.status}`
  }
}

const OWN = 'cache.example.org:3142'

t.test('absolute-form is the proxy', async t => {
  for (const [target, answer] of [
    ['http://archive.example.org/d/InRelease', 'proxy http://archive.example.org/d/InRelease'],
    ['http://archive.example.org:8080/d?x=1', 'proxy http://archive.example.org:8080/d?x=1'],
    ['https://archive.example.org/d', 'proxy https://archive.example.org/d'],
    ['http://bob:s%40@archive.example.org/d', 'proxy http://archive.example.org/d as bob:s%40'],
    // Our paths belong to the archive there.
    ['http://archive.example.org/', 'proxy http://archive.example.org/'],
    ['http://archive.example.org/robots.txt', 'proxy http://archive.example.org/robots.txt'],
    ['http://archive.example.org/_cachesvc/', 'proxy http://archive.example.org/_cachesvc/'],
    // Another server on our machine.
    ['http://cache.example.org/d', 'proxy http://cache.example.org/d'],
    ['http://localhost/d', 'proxy http://localhost/d'],
    ['http://archive.example.org:3142/d', 'proxy http://archive.example.org:3142/d'],
    // Ourselves.
    [`http://${OWN}/`, 'operations /'],
    [`http://${OWN}`, 'operations /'],
    [`http://${OWN}/_cachesvc/stats?x`, 'operations /_cachesvc/stats?x'],
    ['http://192.0.2.1:9999/robots.txt', 'operations /robots.txt'],
    ['http://[2001:db8::1]:3142/_cachesvc', 'operations /_cachesvc'],
    ['http://localhost:3142/favicon.ico', 'operations /favicon.ico'],
    [`http://${OWN}/archive.example.org/d/x`, 'prefix http://archive.example.org/d/x'],
    [
      `http://bob:pw@${OWN}/archive.example.org/d/x`,
      'prefix http://archive.example.org/d/x as bob:pw',
    ],
    [`http://${OWN}/HTTPS///archive.example.org/d`, 'https-prefix https://archive.example.org/d'],
    [`http://${OWN}/nothing`, 'refuse 404'],
    [
      `http://${OWN}/_cachesvc/snapshot/2026-11-20/archive.example.org/d/x?y`,
      'prefix http://archive.example.org/d/x?y as of 2026-11-20T23:59:59.999Z',
    ],
    [
      `http://${OWN}/_cachesvc/snapshot/2024-02-29/HTTPS///archive.example.org/d`,
      'https-prefix https://archive.example.org/d as of 2024-02-29T23:59:59.999Z',
    ],
    [
      `http://${OWN}/_cachesvc/snapshot/20261120T235959Z/archive.example.org/d/x`,
      'prefix http://archive.example.org/d/x as of 2026-11-20T23:59:59.999Z',
    ],
    [
      `http://${OWN}/_cachesvc/snapshot/20240229T000000Z/archive.example.org/d/x`,
      'prefix http://archive.example.org/d/x as of 2024-02-29T00:00:00.999Z',
    ],
    [
      `http://${OWN}/_cachesvc//snapshot//20261120T235959Z//archive.example.org//d//x`,
      'prefix http://archive.example.org//d//x as of 2026-11-20T23:59:59.999Z',
    ],
    [
      `http://${OWN}/_cachesvc/snapshot/20261120T235959Z//HTTPS//archive.example.org/d//x`,
      'https-prefix https://archive.example.org/d//x as of 2026-11-20T23:59:59.999Z',
    ],
    ...['20261120T240000Z', '20261131T000000Z', '20261120T235960Z', '20261120', '20261120t000000z']
      .concat(['20261120T000000', '20261120T000000Z0', '20261120T000000+', '0261120T000000Z'])
      .map(
        id =>
          [`http://${OWN}/_cachesvc/snapshot/${id}/archive.example.org/d`, 'refuse 400'] as const,
      ),
    [`http://${OWN}/_cachesvc/snapshot/20261120T000000Z`, 'refuse 404'],
    [`http://${OWN}/_cachesvc/snapshot/2026-11-20`, 'refuse 404'],
    [`http://${OWN}/_cachesvc/snapshot/2026-11-31/archive.example.org/d`, 'refuse 400'],
    [`http://${OWN}/_cachesvc/snapshot/+002026-11-20/archive.example.org/d`, 'refuse 400'],
    [`http://${OWN}/_cachesvc/snapshot/2026-11-20/_cachesvc/stats`, 'refuse 404'],
    [
      `http://${OWN}/_cachesvc/build/base/archive.example.org/d/x?y`,
      'prefix http://archive.example.org/d/x?y in base',
    ],
    [
      `http://${OWN}/_cachesvc//build//base//HTTPS///archive.example.org/d`,
      'https-prefix https://archive.example.org/d in base',
    ],
    [
      `http://${OWN}/_cachesvc/build/..%2f/archive.example.org/d`,
      'prefix http://archive.example.org/d in ..%2f',
    ],
    [`http://${OWN}/_cachesvc/build/base`, 'refuse 404'],
    [`http://${OWN}/_cachesvc/build/base/_cachesvc/stats`, 'refuse 404'],
    [
      `http://${OWN}/_cachesvc/builds/base/archive.example.org/d`,
      'operations /_cachesvc/builds/base/archive.example.org/d',
    ],
  ] as const) {
    // RFC 9112 section 3.2.2: the target counts, whatever Host says.
    for (const hosts of [[], ['archive.example.org'], [OWN]]) {
      t.equal(ask(`GET ${target}`, { hosts }), answer, `${target} Host: ${hosts.join()}`)
    }
  }
})

t.test('http://HTTPS/// in absolute-form', async t => {
  for (const [target, answer] of [
    ['http://HTTPS///archive.example.org/d/x', 'https-prefix https://archive.example.org/d/x'],
    ['http://HTTPS//archive.example.org/d/x', 'https-prefix https://archive.example.org/d/x'],
    ['http://HTTPS/archive.example.org/d/x', 'https-prefix https://archive.example.org/d/x'],
    [
      'http://https///archive.example.org/d//x?q',
      'https-prefix https://archive.example.org/d//x?q',
    ],
    [
      'http://HTTPS///archive.example.org:8443/d',
      'https-prefix https://archive.example.org:8443/d',
    ],
    ['http://HTTPS///[2001:db8::9]/d', 'https-prefix https://[2001:db8::9]/d'],
    ['http://HTTPS///archive.example.org', 'https-prefix https://archive.example.org/'],
    [
      'http://b:p@HTTPS///archive.example.org/d',
      'https-prefix https://archive.example.org/d as b:p',
    ],
    ['http://HTTPS/', 'refuse 400'],
    ['http://HTTPS///', 'refuse 400'],
    ['http://HTTPS///debian/dists', 'refuse 400'],
    ['http://HTTPS///a.example.org:99999/', 'refuse 400'],
    [
      'http://HTTPS:8080///archive.example.org/d',
      'proxy http://https:8080///archive.example.org/d',
    ],
  ] as const) {
    t.equal(ask(`GET ${target}`), answer, target)
  }
})

t.test('origin-form with a foreign Host is steering', async t => {
  for (const [host, answer] of [
    ['archive.example.org', 'steered http://archive.example.org/d/x?q'],
    ['archive.example.org:80', 'steered http://archive.example.org/d/x?q'],
    ['ARCHIVE.example.org.', 'steered http://archive.example.org/d/x?q'],
    ['archive.example.org:8080', 'steered http://archive.example.org:8080/d/x?q'],
    // An archive on this machine that steers its clients to the cache beside it.
    ['mirror.example.org', 'steered http://mirror.example.org/d/x?q'],
    ['192.0.2.1', 'steered http://192.0.2.1/d/x?q'],
    ['bad host', 'refuse 400'],
    ['a:b:c', 'refuse 400'],
  ] as const) {
    t.equal(ask('GET /d/x?q', { hosts: [host] }), answer, host)
  }
  t.equal(
    ask('GET /d', { hosts: ['archive.example.org'], secure: true }),
    'steered https://archive.example.org/d',
  )
  t.equal(ask('GET /d', { hosts: ['a.example.org', 'b.example.org'] }), 'refuse 400')
})

t.test('a listener at the default port is steered to, not asked by prefix', async t => {
  const local = { address: '192.0.2.1', port: 80 }
  t.equal(
    ask('GET /a.example.org/x', { hosts: ['archive.example.org'], local }),
    'steered http://archive.example.org/a.example.org/x',
  )
  const tls = { address: '192.0.2.1', port: 443 }
  t.equal(
    ask('GET /x', { hosts: ['archive.example.org'], local: tls, secure: true }),
    'steered https://archive.example.org/x',
  )
  t.equal(
    ask('GET /a.example.org/x', { hosts: ['192.0.2.1'], local }),
    'prefix http://a.example.org/x',
    'the very address and port the client came in on',
  )
})

t.test('origin-form with our own Host is a prefix', async t => {
  const hosts = [
    OWN,
    'cache:3142',
    'localhost:3142',
    '127.0.0.1:9999',
    '192.0.2.1:3142',
    '[2001:db8::1]:3142',
    // A name we do not know, with the port the client came in on.
    'alias.example.net:3142',
    // Our name, with the port a container maps to ours.
    'cache.example.org:8080',
  ]
  for (const host of hosts) {
    t.equal(
      ask('GET /archive.example.org/d/x', { hosts: [host] }),
      'prefix http://archive.example.org/d/x',
      host,
    )
  }
  t.equal(ask('GET /archive.example.org/d'), 'prefix http://archive.example.org/d', 'no Host')
})

t.test('what may follow our own Host', async t => {
  for (const [path, answer] of [
    ['/archive.example.org', 'prefix http://archive.example.org/'],
    ['/archive.example.org/', 'prefix http://archive.example.org/'],
    ['/archive.example.org/./x//y?q=/', 'prefix http://archive.example.org/./x//y?q=/'],
    ['//archive.example.org/x', 'prefix http://archive.example.org/x'],
    ['/archive.example.org:8080/x', 'prefix http://archive.example.org:8080/x'],
    ['/intranet:8080/x', 'prefix http://intranet:8080/x'],
    ['/[2001:db8::9]/x', 'prefix http://[2001:db8::9]/x'],
    ['/192.0.2.9/x', 'prefix http://192.0.2.9/x'],
    ['/HTTPS///archive.example.org/x', 'https-prefix https://archive.example.org/x'],
    ['/HTTPS//archive.example.org/x', 'https-prefix https://archive.example.org/x'],
    ['/HTTPS/archive.example.org/x', 'https-prefix https://archive.example.org/x'],
    ['/https///archive.example.org:444/x', 'https-prefix https://archive.example.org:444/x'],
    ['/HTTPS', 'refuse 404'],
    ['/HTTPS/', 'refuse 400'],
    ['/HTTPS///debian', 'refuse 400'],
    ['/HTTPSX/archive.example.org', 'refuse 404'],
    // The prefixes that apt-cacher-ng comes with, for the archives that are known here.
    [
      '/debian/dists/stable/InRelease',
      'prefix http://deb.debian.org/debian/dists/stable/InRelease',
    ],
    ['//debian/dists/x?y=z', 'prefix http://deb.debian.org/debian/dists/x?y=z'],
    ['/debian', 'prefix http://deb.debian.org/debian'],
    ['/debian/', 'prefix http://deb.debian.org/debian/'],
    ['/debian-security/x', 'prefix http://security.debian.org/debian-security/x'],
    ['/ubuntu/dists/noble/x', 'prefix http://archive.ubuntu.com/ubuntu/dists/noble/x'],
    ['/debian.example.org/x', 'prefix http://debian.example.org/x'],
    ['/debian:8080/x', 'prefix http://debian:8080/x'],
    ['/_cachesvc/build/base/debian/x', 'prefix http://deb.debian.org/debian/x in base'],
    ['/Debian/x', 'refuse 404'],
    ['/debian-archive/x', 'refuse 404'],
    ['/kali/dists/x', 'refuse 404'],
    ['/HTTPS///ubuntu/x', 'refuse 400'],
    ['/.hidden/x', 'refuse 404'],
    ['/../x', 'refuse 404'],
    ['/bob@archive.example.org/x', 'refuse 404'],
    ['/archive.example.org:0/x', 'refuse 400'],
    ['/archive..example.org/x', 'refuse 400'],
    ['/a%2eexample.org/x', 'refuse 400'],
    ['/_cachesvcx', 'refuse 404'],
    ['/robots.txt/x', 'refuse 404'],
    ['/acng-report.html', 'refuse 404'],
    ['/acng-report.html?doExpire=x', 'refuse 404'],
    ['/proxy.pac', 'refuse 404'],
    ['/index.php/x', 'refuse 404'],
    ['/INDEX.HTML', 'refuse 404'],
    ['/v1.0/x', 'refuse 404'],
    ['/HTTPS///acng-report.html', 'refuse 400'],
    ['/index.php:8080/x', 'prefix http://index.php:8080/x'],
    ['/packages.app/x', 'prefix http://packages.app/x'],
  ] as const) {
    t.equal(ask(`GET ${path}`, { hosts: [OWN] }), answer, path)
  }
})

t.test('prefixes of known archives are those of this proxy alone', async t => {
  const archive = { hosts: ['archive.example.org'] }
  t.equal(ask('GET /debian/x', archive), 'steered http://archive.example.org/debian/x')
  t.equal(
    ask('GET http://archive.example.org/debian/x'),
    'proxy http://archive.example.org/debian/x',
  )
  t.equal(ask(`GET http://bob:s@${OWN}/debian/x`), 'prefix http://deb.debian.org/debian/x as bob:s')
  const within = { within: 'archive.example.org:443' }
  t.equal(ask('GET /debian/x', within), 'intercepted https://archive.example.org/debian/x')
})

t.test('the operations interface answers whatever Host says', async t => {
  for (const path of [
    '/',
    '/robots.txt',
    '/.well-known/security.txt',
    '/favicon.ico',
    '/_cachesvc',
    '/_cachesvc/',
    '/_cachesvc/api/stats?x=1',
    '/?x',
  ]) {
    for (const hosts of [[], [OWN], ['archive.example.org'], ['bad host'], ['a', 'b']]) {
      t.equal(ask(`GET ${path}`, { hosts }), `operations ${path}`, `${path} ${hosts.join()}`)
    }
  }
  t.equal(ask('POST /_cachesvc/x'), 'operations /_cachesvc/x', 'the method is not ours to judge')
  for (const path of ['/_cachesvcx', '/_CACHESVC/', '/robots.txt/', '//', '/_cachesvc%2f']) {
    t.equal(isOperationsPath(path), false, path)
  }
})

t.test('CONNECT asks for a tunnel, and nothing else does', async t => {
  t.equal(ask('CONNECT archive.example.org:443'), 'connect archive.example.org:443')
  t.equal(ask('CONNECT 2001:db8::9:443'), 'connect [2001:db8::9]:443')
  t.equal(ask('OPTIONS *'), 'operations *')
  const local = { address: '', port: 3142 }
  const target = { form: 'authority', authority: { host: 'a', port: 1 } } as const
  const rest = { fields: Fields.empty, secure: false, local }
  t.equal(effectiveTarget({ method: 'GET', target, ...rest }, own).kind, 'refuse')
  const origin = { form: 'origin', path: '/' } as const
  t.equal(effectiveTarget({ method: 'CONNECT', target: origin, ...rest }, own).kind, 'refuse')
})

t.test('a connection whose address is no longer known makes no name our own', async t => {
  const local = { address: '', port: 80 }
  t.equal(
    ask('GET /a.example.org/x', { hosts: ['archive.example.org'], local }),
    'steered http://archive.example.org/a.example.org/x',
  )
})

t.test('within an opened tunnel everything is the origin’s, and Host has to agree', async t => {
  const within = 'archive.example.org:443'
  for (const [line, hosts, answer] of [
    [
      'GET /d/InRelease',
      ['archive.example.org'],
      'intercepted https://archive.example.org/d/InRelease',
    ],
    ['GET /d?x', ['ARCHIVE.example.org:443'], 'intercepted https://archive.example.org/d?x'],
    ['GET /', ['archive.example.org'], 'intercepted https://archive.example.org/'],
    [
      'GET /_cachesvc/',
      ['archive.example.org'],
      'intercepted https://archive.example.org/_cachesvc/',
    ],
    [
      'GET /HTTPS///a.example/',
      ['archive.example.org'],
      'intercepted https://archive.example.org/HTTPS///a.example/',
    ],
    ['GET /d', [], 'intercepted https://archive.example.org/d'],
    [
      'GET https://archive.example.org/d',
      ['archive.example.org'],
      'intercepted https://archive.example.org/d',
    ],
    ['GET /d', ['other.example.org'], 'refuse 421'],
    ['GET /d', ['archive.example.org:8443'], 'refuse 421'],
    ['GET /d', ['a b'], 'refuse 400'],
    ['GET http://archive.example.org/d', ['archive.example.org'], 'refuse 421'],
    ['GET https://other.example.org/d', ['archive.example.org'], 'refuse 421'],
    ['CONNECT archive.example.org:443', ['archive.example.org'], 'refuse 400'],
    ['OPTIONS *', ['archive.example.org'], 'refuse 501'],
  ] as const) {
    t.equal(ask(line, { hosts, secure: true, within }), answer, `${line} ${hosts}`)
  }
})
