import t, { type Test } from 'tap'
import { configCheck } from '../../../lib/cache/config/loading/load-config.ts'
import {
  carriesCredentials,
  placesOf,
  type RouteRule,
  route,
  routeRules,
} from '../../../lib/cache/policy/routing.ts'
import { canonicalUri } from '../../../lib/cache/store/key.ts'
import { decodeConfig } from '../../../lib/config/config-file.ts'
import { formatUri, parseUri } from '../../../lib/http/message/target.ts'

const nowhere = { environment: {}, root: false, home: '/home/ann', systemCacheWritable: false }
const load = (text: string) => decodeConfig(text, 'f.yaml', configCheck({}, nowhere))

/** The rules of a configuration. */
function rulesOf(text: string) {
  const loaded = load(text)
  if (!loaded.ok) throw new Error(loaded.problems.join('\n'))
  return routeRules(loaded.value)
}

function uri(text: string) {
  const parsed = parseUri(text)
  if ('problem' in parsed) throw new Error(parsed.problem)
  const spelt = canonicalUri(parsed)
  if (spelt === undefined) throw new Error(`${text} has no key`)
  return spelt
}

/** Where a URL goes under the rules of a configuration, and by which. */
function routed(config: string, text: string): string {
  const found = route(uri(text), rulesOf(config))
  return `${formatUri(found.target)} ${found.rule?.name ?? '-'}`
}

type Row = readonly [asked: string, routed: string, rule: string]

function check(t: Test, config: string, rows: readonly Row[]) {
  for (const [asked, target, rule] of rows) {
    t.equal(routed(config, `http://${asked}`), `http://${target} ${rule}`, asked)
  }
}

t.test('remap: a host, a host with a path, a path', async t => {
  check(
    t,
    `
remap:
  - { from: old.example.org/debian, to: mirror.example.org:8080/pub/debian/ }
  - { from: old.example.org, to: new.example.org }
  - { from: .example.com, to: one.example.com }
  - { from: port.example.org:8080, to: port.example.org }
  - { from: /legacy/dists/stable/InRelease, to: /debian/dists/stable/InRelease }
  - { from: /moved.deb, to: other.example.org/pool/moved.deb }`,
    [
      ['old.example.org/debian/x?y', 'mirror.example.org:8080/pub/debian/x?y', 'remap[0]'],
      ['old.example.org/debian', 'mirror.example.org:8080/pub/debian', 'remap[0]'],
      ['old.example.org/debian/', 'mirror.example.org:8080/pub/debian/', 'remap[0]'],
      ['old.example.org/debian-security/x', 'new.example.org/debian-security/x', 'remap[1]'],
      ['old.example.org/debian/../x', 'new.example.org/x', 'remap[1]'],
      ['old.example.org/%64ebian/x', 'mirror.example.org:8080/pub/debian/x', 'remap[0]'],
      ['OLD.example.org//x', 'new.example.org/x', 'remap[1]'],
      ['old.example.org:8080/x', 'old.example.org:8080/x', '-'],
      ['cold.example.org/x', 'cold.example.org/x', '-'],
      ['a.b.example.com/x', 'one.example.com/x', 'remap[2]'],
      ['example.com/x', 'one.example.com/x', 'remap[2]'],
      ['badexample.com/x', 'badexample.com/x', '-'],
      ['port.example.org:8080/x', 'port.example.org/x', 'remap[3]'],
      ['port.example.org/x', 'port.example.org/x', '-'],
      [
        'any.example.net:81/legacy/dists/stable/InRelease',
        'any.example.net:81/debian/dists/stable/InRelease',
        'remap[4]',
      ],
      [
        'any.example.net/legacy/dists/stable/InRelease/x',
        'any.example.net/legacy/dists/stable/InRelease/x',
        '-',
      ],
      ['any.example.net/moved.deb', 'other.example.org/pool/moved.deb', 'remap[5]'],
    ],
  )
})

t.test('remap: schemes', async t => {
  const config = `
remap:
  - { from: http://up.example.org, to: https://up.example.org }
  - { from: keeps.example.org, to: kept.example.org }
  - { from: down.example.org:443, to: 'http://plain.example.org' }`
  t.equal(routed(config, 'http://up.example.org/x'), 'https://up.example.org/x remap[0]')
  t.equal(routed(config, 'https://up.example.org/x'), 'https://up.example.org/x -')
  t.equal(routed(config, 'https://keeps.example.org/x'), 'https://kept.example.org/x remap[1]')
  t.equal(routed(config, 'http://keeps.example.org/x'), 'http://kept.example.org/x remap[1]')
  t.equal(routed(config, 'https://down.example.org/x'), 'http://plain.example.org/x remap[2]')
})

t.test('overrides.ubuntu_server: the archive and the mirrors of countries', async t => {
  check(t, 'overrides: { ubuntu_server: mirror.example.org/pub/ }', [
    ['archive.ubuntu.com/ubuntu/x', 'mirror.example.org/pub/ubuntu/x', 'overrides.ubuntu_server'],
    ['at.archive.ubuntu.com/u/x', 'mirror.example.org/pub/u/x', 'overrides.ubuntu_server'],
    ['evilarchive.ubuntu.com/x', 'evilarchive.ubuntu.com/x', '-'],
    ['archive.ubuntu.com.example.org/x', 'archive.ubuntu.com.example.org/x', '-'],
    ['security.ubuntu.com/ubuntu/x', 'security.ubuntu.com/ubuntu/x', '-'],
    ['ports.ubuntu.com/x', 'ports.ubuntu.com/x', '-'],
    ['archive.ubuntu.com:8080/x', 'archive.ubuntu.com:8080/x', '-'],
  ])
  check(t, 'overrides: { ubuntu_server: at.archive.ubuntu.com }', [
    ['at.archive.ubuntu.com/x', 'at.archive.ubuntu.com/x', 'overrides.ubuntu_server'],
    ['archive.ubuntu.com/x', 'at.archive.ubuntu.com/x', 'overrides.ubuntu_server'],
  ])
})

const debian = 'overrides.debian_server'

t.test('overrides.debian_server: the archive, with security apart', async t => {
  check(t, 'overrides: { debian_server: mirror.example.org }', [
    ['ftp.de.debian.org/debian/x', 'mirror.example.org/debian/x', debian],
    ['ftp.debian.org/debian/x', 'mirror.example.org/debian/x', debian],
    ['cdn.debian.org/debian/dists/x', 'mirror.example.org/debian/dists/x', debian],
    ['cdn.debian.org/debian-security/x', 'security.debian.org/debian-security/x', debian],
    ['ftp.at.debian.org/debian-security/x', 'security.debian.org/debian-security/x', debian],
    ['security.debian.org/debian-security/x', 'security.debian.org/debian-security/x', '-'],
    ['security.debian.org/debian/x', 'security.debian.org/debian/x', '-'],
    ['archive.debian.org/debian/x', 'archive.debian.org/debian/x', '-'],
    ['snapshot.cdn.debian.org/debian/x', 'snapshot.cdn.debian.org/debian/x', '-'],
    ['cdn.debian.org/debian-debug/x', 'cdn.debian.org/debian-debug/x', '-'],
    ['notdebian.org/debian/x', 'notdebian.org/debian/x', '-'],
  ])
  const listed = (hosts: string) => `
domains: [mirror.example.org, ${hosts}]
overrides: { debian_server: mirror.example.org }`
  const asked = 'cdn.debian.org/debian-security/x'
  const updates = 'security.debian.org/debian-security/x'
  check(t, listed('cdn.debian.org'), [[asked, asked, '-']])
  check(t, listed('.debian.org'), [[asked, updates, debian]])
  check(t, listed('security.debian.org'), [[asked, updates, debian]])
})

t.test('the first rule that fits wins, and remap comes before overrides', async t => {
  const config = `
remap: [{ from: archive.ubuntu.com/ubuntu, to: near.example.org }]
overrides: { ubuntu_server: far.example.org, debian_server: deb.example.org }`
  check(t, config, [
    ['archive.ubuntu.com/ubuntu/x', 'near.example.org/x', 'remap[0]'],
    ['archive.ubuntu.com/other', 'far.example.org/other', 'overrides.ubuntu_server'],
  ])
  const shown = rulesOf(config).map(({ from, to }) => ({ from, to }))
  t.strictSame(shown, [
    { from: 'archive.ubuntu.com/ubuntu', to: 'near.example.org' },
    { from: '.archive.ubuntu.com', to: 'far.example.org' },
    { from: '.debian.org/debian/', to: 'deb.example.org' },
    { from: '.debian.org/debian-security/', to: 'security.debian.org' },
  ])
  t.strictSame(rulesOf(''), [])
})

t.test('credentials stay with the host they were sent for', async t => {
  const config = `
remap:
  - { from: http://a.example.org, to: https://a.example.org }
  - { from: b.example.org, to: c.example.org }
  - { from: https://d.example.org, to: http://d.example.org }`
  const rules = rulesOf(config)
  const table: ReadonlyArray<readonly [string, string | undefined]> = [
    ['http://bob:s3cret@a.example.org/x', 'bob:s3cret'],
    ['http://bob:s3cret@b.example.org/x', undefined],
    ['https://bob:s3cret@d.example.org/x', undefined],
    ['https://bob:s3cret@e.example.org/x', 'bob:s3cret'],
  ]
  for (const [asked, userinfo] of table) {
    const { target } = route(uri(asked), rules)
    t.equal(target.userinfo, userinfo, asked)
    t.equal(carriesCredentials(uri(asked), target), userinfo !== undefined, asked)
  }
})

t.test('what is wrong with a rule is said where it stands', async t => {
  const problems = (text: string) => {
    const loaded = load(text)
    return loaded.ok ? [] : loaded.problems
  }
  const table: ReadonlyArray<readonly [string, RegExp]> = [
    ['remap: [{ to: a.example.org }]', /remap\[0\]\.from not set/],
    ['remap: [{ from: a.example.org, to: "" }]', /remap\[0\]\.to: found "", expected a host/],
    ['remap: [{ from: "ftp://a", to: b }]', /remap\[0\]\.from: .*scheme ftp is not supported/],
    ['remap: [{ from: "a b", to: b }]', /remap\[0\]\.from: found "a b"/],
    ['remap: [{ from: a, to: .b }]', /remap\[0\]\.to: .*one host only; write b/],
    ['remap: [{ from: a, to: b/../.. }]', /climbs above its root/],
    ['remap: [{ from: a, to: "b?x" }]', /a query cannot be routed/],
    ['remap: [{ from: "http:///x", to: b }]', /the host is missing/],
    ['remap: [{ from: a, to: a }]', /remap\[0\]\.to: leads to where a is already/],
    ['remap: [{ from: a, to: a/b }]', /remap\[0\]\.to: lies within a, so the rule leads into/],
    ['remap: [{ from: a, to: b }, { from: b, to: a }]', /is sent back to a by remap\[1\]/],
    ['overrides: { ubuntu_server: /pub }', /overrides\.ubuntu_server: .*the host is missing/],
    ['archives: [{ origins: [] }]', /archives\[0\]\.origins: has no origin/],
    ['archives: [{ origins: [a/x, b, a/x] }]', /archives\[0\]\.origins\[2\]: is listed already/],
    ['archives: [{ origins: [/x] }]', /archives\[0\]\.origins\[0\]: .*the host is missing/],
    ['overrides: { debian_server: 5 }', /overrides\.debian_server: found 5/],
  ]
  for (const [text, expected] of table) t.match(problems(text).join('\n'), expected, text)
  t.strictSame(problems('overrides: { ubuntu_server: "", debian_server: "" }'), [])
})

t.test('what is doubtful about a rule is a warning that names the setting', async t => {
  const table: ReadonlyArray<readonly [string, RegExp | undefined]> = [
    ['remap: [{ from: a, to: b }, { from: b, to: c }]', /remap\[0\]\.to: is itself routed by rem/],
    [
      'remap: [{ from: a, to: b }, { from: a, to: c }]',
      /remap\[1\]\.to: never applies: remap\[0\]/,
    ],
    ['remap: [{ from: a, to: 10.0.0.1 }]', /remap\[0\]\.to: requests routed there are refused: 10/],
    ['remap: [{ from: a, to: "b:8080" }]', /remap\[0\]\.to: .*`ports`/],
    [
      'domains: [a]\nremap: [{ from: a, to: b }]',
      /remap\[0\]\.to: requests routed there are refused: b.* `domains`/,
    ],
    ['domains: [b]\nremap: [{ from: a, to: b }]', /remap\[0\]\.from: never applies.* `domains`/],
    [
      'domains: [.ubuntu.com]\noverrides: { ubuntu_server: m.example.org }',
      /overrides\.ubuntu_server: requests routed there/,
    ],
    ['domains: [a]\narchives: [{ origins: [a, b] }]', /archives\[0\]\.origins\[1\]: .*`domains`/],
    ['domains: [a, b]\nremap: [{ from: a, to: b }]', undefined],
    ['remap: [{ from: .example.org, to: one.example.org }]', undefined],
    ['overrides: { ubuntu_server: at.archive.ubuntu.com }', undefined],
  ]
  for (const [text, expected] of table) {
    const { ok, warnings } = load(text)
    t.ok(ok, text)
    if (expected === undefined) t.strictSame(warnings, [], text)
    else t.match(warnings.join('\n'), expected, text)
  }
})

t.test('the first rule that applies decides', async t => {
  const asked = uri('http://archive.example.org/d/x')
  const mirror = { ...asked, host: 'mirror.example.org' }
  const rule = (name: string, apply: RouteRule['apply']) => ({ name, from: '', to: '', apply })
  const moves = rule('moves', () => mirror)
  const rules = [rule('silent', () => undefined), moves, rule('late', () => asked)]
  t.strictSame(route(asked, rules), { target: mirror, rule: moves })
  t.strictSame(route(asked, rules.slice(0, 1)), { target: asked }, 'none: it stays where it is')
})

t.test('archives: all origins share the name of the first', async t => {
  const config = `
remap:
  - { from: old.example.org, to: two.example.org }
archives:
  - origins: [one.example.org/debian, two.example.org/pub/debian, "three.example.org:8080"]`
  check(t, config, [
    ['one.example.org/debian/x', 'one.example.org/debian/x', '-'],
    ['two.example.org/pub/debian/x', 'one.example.org/debian/x', 'archives[0]'],
    ['two.example.org/pub/debian-security/x', 'two.example.org/pub/debian-security/x', '-'],
    ['three.example.org:8080/x', 'one.example.org/debian/x', 'archives[0]'],
    ['old.example.org/pub/debian/x', 'two.example.org/pub/debian/x', 'remap[0]'],
  ])
})

t.test('the places a target may be fetched from, its own first', async t => {
  const loaded = load(`
archives:
  - origins: [one.example.org/debian, "https://two.example.org/pub", three.example.org]`)
  if (!loaded.ok) throw new Error(loaded.problems.join('\n'))
  const places = (text: string) => placesOf(uri(text), loaded.value.archives).map(formatUri)
  t.strictSame(places('http://one.example.org/debian/x'), [
    'http://one.example.org/debian/x',
    'https://two.example.org/pub/x',
    'http://three.example.org/x',
  ])
  t.strictSame(places('https://two.example.org/pub/x'), [
    'https://two.example.org/pub/x',
    'https://one.example.org/debian/x',
    'https://three.example.org/x',
  ])
  t.strictSame(places('http://other.example.org/x'), ['http://other.example.org/x'])
})
