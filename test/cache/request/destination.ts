import t from 'tap'
import type { HostPattern } from '../../../lib/cache/config/setting-kinds.ts'
import { compilePolicy, type Rules } from '../../../lib/cache/policy/policy.ts'
import type { OwnIdentity } from '../../../lib/cache/policy/routing.ts'
import { rememberedDestinations } from '../../../lib/cache/request/destination.ts'
import { Fields } from '../../../lib/http/message/field.ts'
import { parseTarget, type Target } from '../../../lib/http/message/target.ts'
import { config as configOf } from '../../fixtures/cache/cache-config.ts'

const own: OwnIdentity = {
  names: new Set(['cache']),
  addresses: new Set(['192.0.2.1']),
  ports: new Set([3142]),
}

function rules(
  lists: { domains?: readonly string[]; passthrough?: readonly string[] } = {},
): Rules {
  const pattern = (host: string): HostPattern => ({
    text: host,
    host,
    subdomains: false,
    port: undefined,
  })
  const surroundings = {
    environment: {},
    root: false,
    home: '/home/ann',
    systemCacheWritable: false,
  }
  const config = {
    ...configOf('', {}, surroundings),
    domains: (lists.domains ?? []).map(pattern),
    privateDomains: [],
    passthroughDomains: (lists.passthrough ?? []).map(pattern),
  }
  return { config, policy: compilePolicy(config, own), routes: [], confinements: [] }
}

function target(text: string): Target {
  const parsed = parseTarget('GET', text)
  if ('problem' in parsed) throw new Error(parsed.problem)
  return parsed
}

interface From {
  readonly host?: string
  readonly method?: string
  readonly secure?: boolean
  readonly local?: { readonly address: string; readonly port: number }
  readonly tunnelEnd?: { readonly host: string; readonly port: number }
}

function asked(of: Target, { host = 'archive.example.org', ...from }: From = {}) {
  const local = { address: '192.0.2.1', port: 3142 }
  return {
    method: 'GET',
    secure: false,
    local,
    ...from,
    target: of,
    fields: Fields.of(['Host', host]),
  }
}

function destinationsUnder(of: Rules) {
  const destinationOf = rememberedDestinations()
  return (request: ReturnType<typeof asked>) => destinationOf(request, of)
}

const deb = '/debian/pool/main/a/alpha/alpha_1.0_amd64.deb'

t.test('a file is worked out once and is one object from then on', t => {
  const destinationOf = destinationsUnder(rules())
  const one = target(`http://Archive.Example.org/debian/./pool${deb.slice(12)}`)
  const first = destinationOf(asked(one))
  t.match(first, {
    kind: 'file',
    key: `http://archive.example.org${deb}`,
    archive: { kind: 'pool', immutable: true },
    about: { key: `http://archive.example.org${deb}`, kind: 'pool', origin: 'archive.example.org' },
    admission: { allow: 'cache', trusted: false },
  })
  t.equal(destinationOf(asked(one)), first)
  t.equal(destinationOf(asked(one, { method: 'HEAD' })), first)
  t.end()
})

/** In a tunnel that was opened. */
function through(host: string, port: number): From {
  return { secure: true, tunnelEnd: { host, port } }
}

t.test('whatever else it depends on is asked for anew', t => {
  const one = target(deb)
  // By a prefix of a known archive.
  const known = `http://deb.debian.org${deb}`
  const cases: ReadonlyArray<readonly [From, string]> = [
    [{}, `http://archive.example.org${deb}`],
    [{ host: 'mirror.example.org' }, `http://mirror.example.org${deb}`],
    [{ secure: true }, `https://archive.example.org${deb}`],
    [{ host: 'archive.example.org:8080' }, `http://archive.example.org:8080${deb}`],
    [{ host: 'archive.example.org:8080', local: { address: '192.0.2.1', port: 8080 } }, known],
    [{ host: '192.0.2.9' }, `http://192.0.2.9${deb}`],
    [{ host: '192.0.2.9', local: { address: '192.0.2.9', port: 80 } }, known],
    [{ host: 'cache:3142' }, known],
    [{ method: 'CONNECT' }, 'refuse'],
    [through('archive.example.org', 443), `https://archive.example.org${deb}`],
    [through('archive.example.org', 8443), `https://archive.example.org:8443${deb}`],
    [through('mirror.example.org', 443), 'refuse'],
    [{}, `http://archive.example.org${deb}`],
  ]
  const destinationOf = destinationsUnder(rules())
  for (const [from, wanted] of [...cases, ...cases.toReversed()]) {
    const found = destinationOf(asked(one, from))
    t.equal(found.kind === 'file' ? found.key : found.kind, wanted, JSON.stringify(from))
  }
  t.end()
})

t.test('refusals and pages are not remembered', t => {
  const destinationOf = destinationsUnder(rules())
  for (const [text, kind] of [
    ['http://archive.example.org/../x', 'refuse'],
    ['http://archive.example.org/%00', 'refuse'],
    ['/', 'operations'],
    ['/_cachesvc/stats', 'operations'],
  ] as const) {
    const one = target(text)
    t.equal(destinationOf(asked(one)).kind, kind)
    t.equal(destinationOf(asked(one, { host: 'cache:3142' })).kind, kind)
  }
  t.end()
})

t.test('other rules are another answer', t => {
  const one = target(`http://archive.example.org${deb}`)
  const destinationOf = rememberedDestinations()
  const admission = (of: Rules) => {
    const found = destinationOf(asked(one), of)
    return found.kind === 'file' ? found.admission : undefined
  }
  t.match(admission(rules({ domains: ['archive.example.org'] })), { allow: 'cache', trusted: true })
  t.match(admission(rules({ passthrough: ['archive.example.org'] })), { allow: 'passthrough' })
  t.match(admission(rules({ domains: ['mirror.example.org'] })), { deny: 'domains' })
  t.end()
})
