import t from 'tap'
import { compileModes, tunnelMode } from '../../../lib/cache/intercept/tunnel-mode.ts'
import { pattern } from '../../fixtures/cache/operations.ts'

const rules = (
  intercept: boolean,
  lists: Partial<Record<'intercept' | 'tunnel' | 'refuse', readonly string[]>>,
) =>
  compileModes({
    intercept,
    interceptDomains: (lists.intercept ?? []).map(pattern),
    tunnelDomains: (lists.tunnel ?? []).map(pattern),
    refuseDomains: (lists.refuse ?? []).map(pattern),
  })

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
    t.strictSame(tunnelMode({ host, port }, all, false), { mode, rule }, `${host}:${port}`)
  }
})

t.test('without lists the general rule, and passthrough hosts stay closed', async t => {
  const at = { host: 'archive.example.org', port: 443 }
  t.equal(tunnelMode(at, rules(false, {}), false).mode, 'tunnel')
  t.equal(tunnelMode(at, rules(true, {}), false).mode, 'intercept')
  t.equal(tunnelMode(at, rules(true, {}), true).mode, 'tunnel')
  t.equal(
    tunnelMode(at, rules(false, { intercept: ['archive.example.org'] }), true).mode,
    'intercept',
  )
})
