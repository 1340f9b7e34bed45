/**
 * Which request a check asks about, by the contract of each edge, and which checks are none.
 */
import t from 'tap'
import { tokenDigest } from '../../../lib/auth/access/passthrough.ts'
import { type Edge, edges } from '../../../lib/auth/config/setting-forward-auth.ts'
import { contracts } from '../../../lib/auth/forward-auth/contract.ts'
import { type CheckSettings, readCheck } from '../../../lib/auth/forward-auth/read-check.ts'
import { Fields } from '../../../lib/http/message/field.ts'
import { parseTarget } from '../../../lib/http/message/target.ts'
import { AddressSet } from '../../../lib/ip.ts'
import { checkOf, type EdgeRequest } from '../../fixtures/gateway/checks.ts'
import { domain, requestWith } from '../../fixtures/gateway/gateway.ts'

const settings = (edge: Edge, more: Partial<CheckSettings> = {}): CheckSettings => ({
  edge,
  trusted: AddressSet.fromCidrs(['127.0.0.1', '10.0.0.0/24']),
  secret: undefined,
  hosts: [domain],
  ...more,
})

type Lines = ReadonlyArray<readonly [string, string]>

/** Reads a check of the edge, its lines changed. */
function read(
  edge: Edge,
  asked: EdgeRequest,
  change: (lines: Lines) => Lines = lines => lines,
  more: Partial<CheckSettings> & { readonly peer?: string } = {},
) {
  const { line, lines } = checkOf(edge, asked)
  const [method = '', text = ''] = line.split(' ')
  const target = parseTarget(method, text)
  if ('problem' in target) throw new Error(target.problem)
  const check = requestWith(Fields.of(...change(lines)), {
    method,
    target,
    version: '1.0',
    client: { address: more.peer ?? '127.0.0.1', port: 1 },
  })
  return readCheck(check, settings(edge, more))
}

/** What came of it, in one line. */
function told(outcome: ReturnType<typeof readCheck>): string {
  if ('code' in outcome) return `${outcome.status} ${outcome.code}`
  const { request, place, host, client } = outcome
  return `${request.method} ${host} ${place.path} ${place.query ?? '-'} ${client}`
}

const withField = (name: string, value: string) => (lines: Lines) =>
  [...lines, [name, value]] as const
const without = (name: string) => (lines: Lines) =>
  lines.filter(([each]) => each.toLowerCase() !== name.toLowerCase())
const changed = (name: string, value: string) => (lines: Lines) =>
  lines.map(([each, old]) => [each, each === name ? value : old] as const)

/** Fields that name method, target or host at any edge. */
const NAMES = [
  ...['X-Original-Method', 'X-Original-URI', 'X-Original-Host', 'X-Original-URL', 'X-Rewrite-URL'],
  ...['X-Forwarded-Method', 'X-Forwarded-Uri', 'X-Forwarded-Host', 'X-Forwarded-Prefix'],
]

t.test('every edge names a request in its way', async t => {
  for (const edge of edges) {
    const asked = { method: 'DELETE', target: '/deep/page?a=1&b=/x', client: '192.0.2.9' }
    t.equal(told(read(edge, asked)), `DELETE ${domain} /deep/page a=1&b=/x 192.0.2.9`, edge)
    t.equal(told(read(edge, { target: '/' })), `GET ${domain} / - 192.0.2.9`, edge)
    const port = { target: '/', host: `${domain}:443` }
    t.equal(told(read(edge, port)), `GET ${domain}:443 / - 192.0.2.9`, edge)
  }
})

t.test('paths are kept byte for byte, for the gate to judge', async t => {
  for (const edge of edges) {
    for (const path of [
      ...['//admin', '/public/../admin', '/public/%2e%2e/admin', '/a\\b', '/%00', '/a;b', '/%2f'],
      ...['/public//admin', '/%zz', '/./', '/\'"<>|{}'],
    ]) {
      t.equal(told(read(edge, { target: path })), `GET ${domain} ${path} - 192.0.2.9`, edge)
    }
  }
})

t.test('83: fields that are the source of another edge never decide', async t => {
  for (const edge of edges) {
    const { method, target, host } = contracts[edge]
    const own = [method?.field, target?.field, host.field]
    for (const name of NAMES.filter(name => !own.includes(name))) {
      const outcome = read(edge, { target: '/private' }, withField(name, '/public/'))
      t.equal(told(outcome), `GET ${domain} /private - 192.0.2.9`, `${name} at ${edge}`)
    }
  }
})

t.test('83: a source that is missing, empty, doubled or in two spellings is none', async t => {
  for (const edge of edges) {
    const { method, target, host, address } = contracts[edge]
    for (const [source, code] of [
      [method, 'edge_method'],
      [target, 'edge_target'],
      [host, 'edge_host'],
    ] as const) {
      if (source === undefined) continue
      const { field } = source
      const name = edge === 'envoy' ? 'host' : field
      const about = `${field} at ${edge}`
      const asked = { target: '/private' }
      t.equal(told(read(edge, asked, without(field))), `400 ${code}`, `${about} missing`)
      t.equal(told(read(edge, asked, changed(name, ''))), `400 ${code}`, `${about} empty`)
      for (const second of [field, field.toLowerCase(), field.toUpperCase()]) {
        const outcome = read(edge, asked, withField(second, '/public/'))
        t.equal(told(outcome), `400 ${code}`, `${about} and ${second}`)
      }
      if (edge === 'envoy') continue
      for (const separator of ['_', '.', '~', '!', "'", '*']) {
        const odd = field.replaceAll('-', separator)
        const outcome = read(edge, asked, withField(odd, '/public/'))
        t.equal(told(outcome), `400 ${code}`, `${about} and ${odd}`)
        const first = read(edge, asked, lines => [[odd, '/public/'], ...lines])
        t.equal(told(first), `400 ${code}`, `${odd} before ${about}`)
        const alone = read(edge, asked, lines => withField(odd, '/')(without(field)(lines)))
        t.equal(told(alone), `400 ${code}`, `${odd} in the place of ${about}`)
      }
      const half = field.replace('-', '_')
      t.equal(told(read(edge, asked, withField(half, '/'))), `400 ${code}`, `${about} and ${half}`)
    }
    t.equal(told(read(edge, { target: '/' }, without(address.field))), '400 edge_client', edge)
    const odd = read(edge, { target: '/' }, withField('X_Forwarded_For', '192.0.2.1'))
    t.equal(told(odd), '400 edge_client', edge)
  }
})

t.test('a problem names the field and what sets it at the edge, and quotes nothing', async t => {
  for (const edge of edges) {
    const { host } = contracts[edge]
    const outcome = read(edge, { target: '/', host: 'evil.example.net' })
    if (!('code' in outcome)) throw new Error('the check was taken')
    t.equal(told(outcome), '400 edge_host')
    t.ok(outcome.sentence.startsWith(`${host.field} of this check is not among forwardAuth.hosts.`))
    t.ok(outcome.sentence.endsWith(host.setBy), outcome.sentence)
    t.notMatch(outcome.sentence, /evil/)
  }
})

t.test('83, 85: values of the wrong form are none', async t => {
  const edge = 'nginx'
  for (const [name, value, code] of [
    ['X-Original-URI', 'https://app.example.org/public/', 'edge_target'],
    ['X-Original-URI', 'http://evil.example.net/', 'edge_target'],
    ['X-Original-URI', 'public/', 'edge_target'],
    ['X-Original-URI', '*', 'edge_target'],
    ['X-Original-URI', 'app.example.org:443', 'edge_target'],
    ['X-Original-URI', '/a b', 'edge_target'],
    ['X-Original-URI', '/a\tb', 'edge_target'],
    ['X-Original-URI', '/a\0b', 'edge_target'],
    ['X-Original-URI', '/a#b', 'edge_target'],
    ['X-Original-URI', '/\u00e4', 'edge_target'],
    ['X-Original-URI', '\\admin', 'edge_target'],
    ['X-Original-URI', `/${'a'.repeat(65_536)}`, 'edge_target'],
    ['X-Original-Method', 'GET POST', 'edge_method'],
    ['X-Original-Method', 'GET, POST', 'edge_method'],
    ['X-Original-Method', 'GET\0', 'edge_method'],
    ['X-Original-Method', 'A'.repeat(41), 'edge_method'],
    ['X-Original-Host', `${domain}, evil.example.net`, 'edge_host'],
    ['X-Original-Host', `${domain}:8443`, 'edge_host'],
    ['X-Original-Host', `${domain}:80`, 'edge_host'],
    ['X-Original-Host', `user@${domain}`, 'edge_host'],
    ['X-Original-Host', `${domain}/`, 'edge_host'],
    ['X-Original-Host', `x.${domain}`, 'edge_host'],
    ['X-Original-Host', `${domain}.evil.example.net`, 'edge_host'],
    ['X-Original-Host', '127.0.0.1', 'edge_host'],
    ['X-Original-Host', `${'a.'.repeat(200)}org`, 'edge_host'],
    ['X-Forwarded-For', 'unknown', 'edge_client'],
    ['X-Forwarded-For', '192.0.2.1, unknown', 'edge_client'],
    ['X-Forwarded-For', '192.0.2.1, ', 'edge_client'],
    ['X-Forwarded-For', '1,'.repeat(3000), 'edge_client'],
  ] as const) {
    const shown = value.length > 50 ? `${value.length} characters` : JSON.stringify(value)
    const outcome = read(edge, { target: '/' }, changed(name, value))
    t.equal(told(outcome), `400 ${code}`, `${name}: ${shown}`)
  }
})

t.test('86: the client is the last address that is not of a proxy of ours', async t => {
  for (const [list, client] of [
    ['192.0.2.9', '192.0.2.9'],
    ['203.0.113.1, 192.0.2.9', '192.0.2.9'],
    ['203.0.113.1, 192.0.2.9, 10.0.0.7', '192.0.2.9'],
    ['203.0.113.1,192.0.2.9:5000,10.0.0.7', '192.0.2.9'],
    ['10.0.0.3, 10.0.0.7', '10.0.0.3'],
    ['unknown, 10.0.0.7', '10.0.0.7'],
    ['[2001:db8::1]:443', '2001:db8::1'],
  ] as const) {
    for (const edge of edges) {
      t.equal(told(read(edge, { target: '/', client: list })), `GET ${domain} / - ${client}`, list)
    }
  }
  const lines = read(
    'traefik',
    { target: '/', client: '203.0.113.1' },
    withField('X-Forwarded-For', '192.0.2.9'),
  )
  t.equal(told(lines), `GET ${domain} / - 192.0.2.9`, 'a line of its own behind that of the client')
})

t.test('85: a stranger may not ask, and a socket in the file system has no address', async t => {
  const asked = { target: '/' }
  const same = (lines: Lines) => lines
  t.equal(told(read('nginx', asked, same, { peer: '192.0.2.66' })), '403 edge_peer')
  t.equal(told(read('nginx', asked, same, { peer: '' })), `GET ${domain} / - 192.0.2.9`)
})

t.test('a check is at its one path', async t => {
  for (const edge of edges) {
    for (const path of ['/', '/checks', '/check?x', '/check/', '/CHECK', '/x/check', '//check']) {
      if (edge === 'envoy' && path === '/check/') continue
      const { lines } = checkOf(edge, { target: '/' })
      const target = parseTarget('GET', path)
      if ('problem' in target) throw new Error(target.problem)
      const check = requestWith(Fields.of(...lines), { target })
      t.equal(told(readCheck(check, settings(edge))), '404 edge_path', `${path} at ${edge}`)
    }
  }
})

t.test('85: the edge shows its secret, where one is set', async t => {
  const secret = tokenDigest('a secret of the edge')
  const field = 'X-Authproxy-Edge-Secret'
  for (const edge of edges) {
    const shown = (change: (lines: Lines) => Lines) =>
      told(read(edge, { target: '/' }, change, { secret }))
    t.equal(shown(withField(field, 'a secret of the edge')), `GET ${domain} / - 192.0.2.9`)
    t.equal(
      shown(lines => lines),
      '400 edge_secret',
    )
    t.equal(shown(withField(field, 'a secret of the edgf')), '400 edge_secret')
    t.equal(shown(withField(field, 'x'.repeat(2000))), '400 edge_secret')
    const twice = (lines: Lines) => [
      ...lines,
      ...[[field, 'a secret of the edge'] as const, [field, 'wrong'] as const],
    ]
    t.equal(shown(twice), '400 edge_secret')
    t.equal(shown(withField('X_Authproxy_Edge_Secret', 'a secret of the edge')), '400 edge_secret')
  }
})

t.test('88: what is left of the handshake of a WebSocket makes one', async t => {
  for (const edge of edges) {
    for (const name of ['Sec-WebSocket-Key', 'Sec-WebSocket-Version']) {
      const outcome = read(edge, { target: '/' }, withField(name, '13'))
      if ('code' in outcome) throw new Error(outcome.sentence)
      t.equal(outcome.request.fields.get('Upgrade'), 'websocket')
    }
  }
})

t.test('what is remembered of a client says the same as reading its check anew', async t => {
  for (const edge of edges) {
    const name = contracts[edge].target?.field
    if (name === undefined) continue
    const { lines } = checkOf(edge, { target: '/' })
    const begin = Fields.of(...lines.filter(([each]) => each !== name), ['Cookie', 'a=b'])
    const fixed = settings(edge)
    const ask = (
      fields: Fields,
      { peer = '127.0.0.1', by = fixed, target = line } = {},
    ): ReturnType<typeof readCheck> =>
      readCheck(requestWith(fields, { target, client: { address: peer, port: 1 } }), by)
    const anew = (value: string) =>
      told(ask(Fields.of(...[...begin], [name, value]), { by: settings(edge) }))
    const first = ask(begin.followedBy([name, '/first']))
    t.equal(told(first), `GET ${domain} /first - 192.0.2.9`, edge)
    for (const value of [
      ...['/', '/a?b=c', '//a', '/../a', '/%00', '/a b', '/a#b', '*', 'a', '', 'https://a/'],
      ...['/\u00e4', '/\0', `/${'a'.repeat(65_535)}`, `/${'a'.repeat(65_536)}`],
    ]) {
      const fields = begin.followedBy([name, value])
      t.equal(told(ask(fields)), anew(value), `${edge} ${value.slice(0, 20)}`)
    }
    const known = ask(begin.followedBy([name, '/next']))
    if ('code' in first || 'code' in known) throw new Error('a check of the table')
    t.equal(known.request.fields, first.request.fields, 'it was remembered')
    const next = begin.followedBy([name, '/next'])
    t.equal(told(ask(next, { peer: '192.0.2.1' })), '403 edge_peer')
    t.equal(told(ask(next, { peer: '' })), `GET ${domain} /next - 192.0.2.9`)
    for (const [changed, code] of [
      [settings(edge, { trusted: AddressSet.fromCidrs(['192.0.2.1']) }), '403 edge_peer'],
      [settings(edge, { hosts: ['other.example.org'] }), '400 edge_host'],
      [settings(edge, { secret: tokenDigest('a secret of the edge') }), '400 edge_secret'],
    ] as const) {
      t.equal(told(ask(next, { by: changed })), code)
      t.equal(told(ask(next)), `GET ${domain} /next - 192.0.2.9`)
    }
    const other = parseTarget('GET', '/check/next')
    if ('problem' in other) throw new Error(other.problem)
    t.equal(told(ask(next, { target: other })), '404 edge_path')
    t.equal(told(ask(begin.followedBy([name, '/1', name, '/2']))), '400 edge_target')
    t.equal(told(ask(begin.followedBy([name.toLowerCase(), '/1', 'X', 'y']))), anew('/1'))
    t.equal(told(ask(begin.followedBy(['X', 'y']))), '400 edge_target')
  }
})

/** The line of a check, which is the same one each time. */
const line = (() => {
  const target = parseTarget('GET', '/check')
  if ('problem' in target) throw new Error(target.problem)
  return target
})()
