import t from 'tap'
import { compilePolicy, tunnelMode } from '../../../lib/cache/policy/policy.ts'
import { config } from '../../fixtures/cache/cache-config.ts'
import { pattern } from '../../fixtures/cache/operations.ts'

const defaults = config('{}')
const own = { names: new Set<string>(), addresses: new Set<string>(), ports: new Set<number>() }

type Lists = Partial<Record<'intercept' | 'tunnel' | 'refuse' | 'passthrough', readonly string[]>>

const rules = (intercept: boolean, lists: Lists) =>
  compilePolicy(
    {
      ...defaults,
      ...{ ports: [80, 443, 8443], connectPorts: [443, 8443] },
      domains: ['.example.com', '.example.org', 'badexample.org', '.example.net', '192.0.2.1'].map(
        pattern,
      ),
      passthroughDomains: (lists.passthrough ?? []).map(pattern),
      https: {
        ...defaults.https,
        intercept,
        interceptDomains: (lists.intercept ?? []).map(pattern),
        tunnelDomains: (lists.tunnel ?? []).map(pattern),
        refuseDomains: (lists.refuse ?? []).map(pattern),
      },
    },
    own,
  )

t.test('the closest pattern decides, and of two alike the more careful', async t => {
  const all = rules(true, {
    intercept: ['in.example.org', '.example.net', 'both.example.com:8443', 'both.example.com'],
    tunnel: ['.example.org', 'deep.example.net', 'both.example.com'],
    refuse: ['.bad.example.org', 'worse.example.com', '192.0.2.1'],
  })
  for (const [host, port, mode, rule] of [
    ['archive.example.com', 443, 'intercept', undefined],
    ['a.example.org', 443, 'tunnel', '.example.org'],
    ['example.org', 443, 'tunnel', '.example.org'],
    ['in.example.org', 443, 'intercept', 'in.example.org'],
    ['x.bad.example.org', 443, 'refuse', '.bad.example.org'],
    ['badexample.org', 443, 'intercept', undefined],
    ['a.example.net', 443, 'intercept', '.example.net'],
    ['deep.example.net', 443, 'tunnel', 'deep.example.net'],
    ['both.example.com', 443, 'tunnel', 'both.example.com'],
    ['both.example.com', 8443, 'intercept', 'both.example.com:8443'],
    ['192.0.2.1', 443, 'refuse', '192.0.2.1'],
  ] as const) {
    t.strictSame(tunnelMode({ host, port }, all), { mode, rule }, `${host}:${port}`)
  }
})

t.test('without lists the general rule, and passthrough hosts stay closed', async t => {
  const at = { host: 'archive.example.org', port: 443 }
  const passthrough = ['archive.example.org']
  t.equal(tunnelMode(at, rules(false, {})).mode, 'tunnel')
  t.equal(tunnelMode(at, rules(true, {})).mode, 'intercept')
  t.equal(tunnelMode(at, rules(true, { passthrough })).mode, 'tunnel')
  const listed = rules(false, { passthrough, intercept: ['archive.example.org'] })
  t.equal(tunnelMode(at, listed).mode, 'intercept')
})

t.test('what the policy would refuse inside is not intercepted', async t => {
  const elsewhere = { host: 'archive.test', port: 443 }
  t.equal(tunnelMode(elsewhere, rules(true, { intercept: ['archive.test'] })).mode, 'tunnel')
  t.equal(tunnelMode(elsewhere, rules(true, { refuse: ['archive.test'] })).mode, 'refuse')
})
