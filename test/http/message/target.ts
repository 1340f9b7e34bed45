import t from 'tap'
import {
  type Authority,
  defaultPort,
  formatAuthority,
  formatUri,
  isIpLiteral,
  type Problem,
  parseAuthority,
  parseHost,
  parseTarget,
  parseUri,
  pathAndQuery,
  type Target,
  type TargetUri,
} from '../../../lib/http/message/target.ts'
import { hostilePieces, seeded } from '../../fixtures/chance/seeded-random.ts'

function absolute(uri: TargetUri): Target {
  return { form: 'absolute', uri }
}

function isProblem(result: object): result is Problem {
  return 'problem' in result
}

function tunnel(host: string): Target {
  return { form: 'authority', authority: { host, port: 443 } }
}

const host = 'deb.example.org'
const name63 = 'a'.repeat(63)
const name253 = [name63, name63, name63, 'a'.repeat(61)].join('.')

t.test('the four forms of RFC 9112 section 3.2', t => {
  const uri = { scheme: 'http', host, port: 80 } as const
  const table: ReadonlyArray<readonly [method: string, text: string, expected: Target]> = [
    // origin-form
    ['GET', '/', { form: 'origin', path: '/' }],
    ['GET', '/where?q=now', { form: 'origin', path: '/where', query: 'q=now' }],
    ['GET', '/where?', { form: 'origin', path: '/where', query: '' }],
    ['GET', '/a?b?c', { form: 'origin', path: '/a', query: 'b?c' }],
    ['GET', '//two/slashes', { form: 'origin', path: '//two/slashes' }],
    ['OPTIONS', '/a', { form: 'origin', path: '/a' }],
    ['GET', '/a|b^c\\d%zz', { form: 'origin', path: '/a|b^c\\d%zz' }],
    // absolute-form
    ['GET', 'http://deb.example.org/r/./InRelease', absolute({ ...uri, path: '/r/./InRelease' })],
    ['GET', 'http://deb.example.org', absolute({ ...uri, path: '/' })],
    ['GET', 'http://deb.example.org?a', absolute({ ...uri, path: '/', query: 'a' })],
    ['GET', 'HTTP://Deb.Example.ORG./P', absolute({ ...uri, path: '/P' })],
    ['GET', 'http://deb.example.org:/', absolute({ ...uri, path: '/' })],
    ['GET', 'http://deb.example.org:80/', absolute({ ...uri, path: '/' })],
    ['GET', 'http://deb.example.org:08080/', absolute({ ...uri, port: 8080, path: '/' })],
    ['GET', 'http://deb.example.org:65535/', absolute({ ...uri, port: 65535, path: '/' })],
    ['GET', 'http://deb.example.org/a@b:c', absolute({ ...uri, path: '/a@b:c' })],
    [
      'GET',
      'http://deb.example.org?u=http://x@y/',
      absolute({ ...uri, path: '/', query: 'u=http://x@y/' }),
    ],
    [
      'GET',
      'https://deb.example.org/p%2bq%7e',
      absolute({ scheme: 'https', host, port: 443, path: '/p%2bq%7e' }),
    ],
    [
      'GET',
      'http://bob:s%40crt@deb.example.org:8080/',
      absolute({ ...uri, port: 8080, userinfo: 'bob:s%40crt', path: '/' }),
    ],
    ['GET', 'http://@deb.example.org/', absolute({ ...uri, path: '/' })],
    // the convention of apt-cacher-ng for https
    [
      'GET',
      'http://HTTPS///deb.example.org/a',
      absolute({ ...uri, host: 'https', path: '///deb.example.org/a' }),
    ],
    ['GET', 'http://192.0.2.7/', absolute({ ...uri, host: '192.0.2.7', path: '/' })],
    [
      'GET',
      'http://[2001:DB8:0:0::1]:3142/',
      absolute({ ...uri, host: '2001:db8::1', port: 3142, path: '/' }),
    ],
    ['GET', 'http://[::1]/', absolute({ ...uri, host: '::1', path: '/' })],
    [
      'GET',
      'http://[::ffff:192.0.2.7]/',
      absolute({ ...uri, host: '::ffff:192.0.2.7', path: '/' }),
    ],
    // authority-form
    ['CONNECT', 'Deb.Example.org:443', tunnel(host)],
    ['CONNECT', '192.0.2.7:443', tunnel('192.0.2.7')],
    ['CONNECT', '[2001:db8::1]:443', tunnel('2001:db8::1')],
    // what apt sends for an IPv6 address
    ['CONNECT', '2001:db8::1:443', tunnel('2001:db8::1')],
    ['CONNECT', '::1:443', tunnel('::1')],
    ['CONNECT', '1:2:3:4:5:6:7:8:443', tunnel('1:2:3:4:5:6:7:8')],
    // asterisk-form
    ['OPTIONS', '*', { form: 'asterisk' }],
  ]
  for (const [method, text, expected] of table) {
    t.strictSame(parseTarget(method, text), expected, JSON.stringify([method, text]))
  }
  t.end()
})

t.test('what is no target, or one that could be read in two ways, is refused', t => {
  const table: ReadonlyArray<readonly [method: string, text: string, sentence: RegExp]> = [
    ['GET', '', /absolute/],
    ['GET', '*', /OPTIONS/],
    ['GET', 'deb.example.org:443', /absolute/],
    ['GET', 'a/b', /absolute/],
    ['GET', 'ftp://deb.example.org/', /http/],
    ['GET', 'http:/deb.example.org/', /absolute/],
    ['GET', 'http:deb.example.org', /absolute/],
    ['GET', 'httpx://deb.example.org/', /absolute/],
    ['GET', 'file:///etc/passwd', /absolute/],
    ['GET', '/a#b', /fragment/],
    ['GET', 'http://deb.example.org/#', /fragment/],
    ['GET', 'http://deb.example.org#@evil.example.org/', /fragment/],
    ['GET', '/a b', /visible ASCII/],
    ['GET', ' /', /visible ASCII/],
    ['GET', '/a\r\nHost: x', /visible ASCII/],
    ['GET', '/\0', /visible ASCII/],
    ['GET', '/\x7f', /visible ASCII/],
    ['GET', '/\xe4', /visible ASCII/],
    ['GET', 'http://', /empty/],
    ['GET', 'http:///path', /empty/],
    ['GET', 'http://:80/', /empty/],
    ['GET', 'http://u@/', /empty/],
    ['GET', 'http://./', /labels/],
    ['GET', 'http://.example.org/', /labels/],
    ['GET', 'http://a..b/', /labels/],
    ['GET', 'http://a.b../', /labels/],
    ['GET', 'http://a%2eb/', /labels/],
    ['GET', 'http://a,b/', /labels/],
    ['GET', 'http://good.example.org\\@evil.example.org/', /user information/],
    ['GET', 'http://evil.example.org\\good.example.org/', /labels/],
    ['GET', 'http://a@b@c/', /labels/],
    ['GET', 'http://a%4@b/', /user information/],
    ['GET', 'http://[a]@b/', /user information/],
    ['GET', `http://${name63}a/`, /labels/],
    ['GET', `http://${name253}a/`, /253/],
    ['GET', 'http://a:0/', /1 to 65535/],
    ['GET', 'http://a:65536/', /1 to 65535/],
    ['GET', 'http://a:100000/', /1 to 65535/],
    ['GET', 'http://a:-1/', /1 to 65535/],
    ['GET', 'http://a:+80/', /1 to 65535/],
    ['GET', 'http://a:8e1/', /1 to 65535/],
    ['GET', 'http://a:80:80/', /more than one colon/],
    ['GET', 'http://2001:db8::1/', /brackets/],
    ['GET', 'http://[2001:db8::1/', /never closed/],
    ['GET', 'http://[2001:db8::1]x/', /Only a colon/],
    ['GET', 'http://[2001:db8::1]80/', /Only a colon/],
    ['GET', 'http://[fe80::1%25eth0]/', /zone/],
    ['GET', 'http://[fe80::1%eth0]/', /zone/],
    ['GET', 'http://[v1.a:b]/', /IPv6/],
    ['GET', 'http://[]/', /IPv6/],
    ['GET', 'http://[192.0.2.7]/', /IPv6/],
    ['GET', 'http://[::1]]/', /Only a colon/],
    // what inet_aton would turn into a loopback address
    ['GET', 'http://127.1/', /IPv4/],
    ['GET', 'http://2130706433/', /IPv4/],
    ['GET', 'http://0x7f.0.0.1/', /labels|IPv4/],
    ['GET', 'http://0x7f000001/', /IPv4/],
    ['GET', 'http://0177.0.0.1/', /IPv4/],
    ['GET', 'http://127.0.0.256/', /IPv4/],
    ['GET', 'http://1.2.3.4.5/', /IPv4/],
    ['GET', 'http://a.0X1/', /IPv4/],
    ['CONNECT', '/', /port/],
    ['CONNECT', '*', /port/],
    ['CONNECT', 'a', /port is required/],
    ['CONNECT', 'a:', /port is required/],
    ['CONNECT', '[::1]', /port is required/],
    ['CONNECT', '2001:db8::1:', /port is required/],
    ['CONNECT', '2001:db8::1:99999', /1 to 65535/],
    ['CONNECT', 'u@a:443', /labels/],
    ['CONNECT', 'a:443/x', /1 to 65535/],
    ['CONNECT', 'http://a:443', /more than one colon/],
    ['CONNECT', 'fe80::1%eth0:443', /more than one colon/],
    ['CONNECT', 'a:443 ', /1 to 65535/],
    ['CONNECT', '', /port is required/],
  ]
  for (const [method, text, sentence] of table) {
    const result = parseTarget(method, text)
    t.match(
      isProblem(result) ? result.problem : JSON.stringify(result),
      sentence,
      JSON.stringify([method, text]),
    )
  }
  t.end()
})

t.test('a refusal never quotes what it refuses', t => {
  const result = parseTarget('GET', 'http://bob:secret@bad host/')
  t.ok(isProblem(result))
  t.notMatch(JSON.stringify(result), /secret|bob/)
  t.end()
})

t.test('names may be as long as DNS allows', t => {
  t.strictSame(parseAuthority(`${name253}.`, 80), { host: name253, port: 80 })
  t.end()
})

t.test('authorities in settings and the Host field', t => {
  t.strictSame(parseAuthority('A_b-c.example.org', 3142), { host: 'a_b-c.example.org', port: 3142 })
  t.strictSame(parseAuthority('a:1', undefined), { host: 'a', port: 1 })
  t.strictSame(parseHost('a:8080', 80), { host: 'a', port: 8080 })
  t.strictSame(parseHost('[::1]', 443), { host: '::1', port: 443 })
  t.equal(parseHost(undefined, 80), undefined)
  t.equal(parseHost('', 80), undefined)
  // The Kelvin sign becomes "k" in lower case; nobody may spell a host with it.
  for (const bad of ['a, a', 'u@a', ' a', 'a/', 'http://a', '2001:db8::1', '\u212a', 'a\n']) {
    t.match(parseHost(bad, 80), { problem: String }, JSON.stringify(bad))
  }
  t.end()
})

t.test('what is written has brackets where needed, no default port and no user information', t => {
  const table: ReadonlyArray<
    readonly [authority: Authority, http: string, https: string, full: string]
  > = [
    [{ host: 'a', port: 80 }, 'a', 'a:80', 'a:80'],
    [{ host: 'a', port: 443 }, 'a:443', 'a', 'a:443'],
    [{ host: '::1', port: 80 }, '[::1]', '[::1]:80', '[::1]:80'],
    [{ host: '::1', port: 3142 }, '[::1]:3142', '[::1]:3142', '[::1]:3142'],
  ]
  for (const [authority, http, https, full] of table) {
    t.equal(formatAuthority(authority, 'http'), http)
    t.equal(formatAuthority(authority, 'https'), https)
    t.equal(formatAuthority(authority), full)
  }
  const uri = parseUri('http://bob:secret@[::1]:80/a?')
  if (isProblem(uri)) throw new Error(uri.problem)
  t.equal(formatUri(uri), 'http://[::1]/a?')
  t.equal(pathAndQuery(uri), '/a?')
  t.equal(pathAndQuery({ path: '/a' }), '/a')
  t.match(parseUri('/a'), { problem: String })
  t.match(parseUri('http://a/#b'), { problem: String })
  t.equal(defaultPort('http'), 80)
  t.equal(defaultPort('https'), 443)
  for (const literal of ['192.0.2.7', '::1']) t.ok(isIpLiteral(literal), literal)
  for (const literal of ['[::1]', 'a', '127.1']) t.notOk(isIpLiteral(literal), literal)
  t.end()
})

t.test(
  'hostile targets never throw, and what is accepted means the same when written and read again',
  t => {
    const chance = seeded(2)
    const samples = [
      'http://bob:s%40crt@deb.example.org:8080/r/./InRelease?q',
      'https://[2001:db8::1]:443/a',
      'http://192.0.2.7:80',
      '2001:db8::1:443',
      'deb.example.org:443',
      '/debian/pool/main/a_1%2b1.deb',
    ]
    let accepted = 0
    for (let i = 0; i < 8000; i += 1) {
      const text = chance.mutate(chance.pick(samples), hostilePieces)
      const target = parseTarget(chance.pick(['GET', 'CONNECT', 'OPTIONS']), text)
      if (isProblem(target)) continue
      accepted += 1
      if (target.form === 'absolute') {
        const { userinfo, ...rest } = target.uri
        const again = parseUri(formatUri(target.uri))
        if (JSON.stringify(sorted(again)) !== JSON.stringify(sorted(rest)))
          t.fail(JSON.stringify(text))
        // Another reader of URIs must see the same host, else policy could be talked round.
        const other = new URL(text)
        const mine = formatAuthority(target.uri, target.uri.scheme)
        if (other.host.replace(/\.(?=:|$)/, '') !== mine && !mine.includes('ffff')) {
          t.equal(other.host, mine, JSON.stringify(text))
        }
      }
      if (target.form === 'authority') {
        const again = parseTarget('CONNECT', formatAuthority(target.authority))
        if (JSON.stringify(again) !== JSON.stringify(target)) t.fail(JSON.stringify(text))
      }
    }
    t.ok(accepted > 1000, `${accepted} of the cases were targets`)
    t.end()
  },
)

function sorted(value: object): unknown {
  return Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1))
}
