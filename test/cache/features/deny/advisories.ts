import t from 'tap'
import { advisoryRows } from '../../../../lib/cache/features/deny/advisories.ts'
import { isWithin } from '../../../../lib/cache/features/deny/row.ts'

/** The versions of these that the only row denies, in a release or where none is known. */
function denied(json: unknown, release: string | undefined, ...versions: readonly string[]) {
  const [row, ...more] = advisoryRows(json) ?? []
  if (row === undefined || more.length > 0) throw new Error('one row was expected')
  const ranges = row.byRelease?.get(release ?? '') ?? row.ranges
  return versions.filter(version => isWithin(version, ranges))
}

const osv = {
  id: 'DSA-1-1',
  summary: 'a hole',
  affected: [
    {
      package: { ecosystem: 'Debian:12', name: 'hello' },
      ranges: [
        { type: 'ECOSYSTEM', events: [{ introduced: '0' }, { fixed: '1.2-3+deb12u1' }] },
        { type: 'GIT', events: [{ introduced: 'abc' }] },
      ],
      versions: ['1.2-3'],
    },
    {
      package: { ecosystem: 'Debian:13', name: 'hello' },
      ranges: [{ type: 'ECOSYSTEM', events: [{ introduced: '1.3' }, { last_affected: '1.4-1' }] }],
    },
    { package: { ecosystem: 'PyPI', name: 'hello' }, versions: ['1.0'] },
  ],
}

t.test('OSV: each release has its own ranges', async t => {
  const all = ['1.1', '1.2-3', '1.2-3+deb12u1', '1.3', '1.4-1', '1.4-2'] as const
  t.strictSame(denied(osv, 'bookworm', ...all), ['1.1', '1.2-3'])
  t.strictSame(denied(osv, 'trixie', ...all), ['1.3', '1.4-1'])
  t.strictSame(denied(osv, undefined, ...all), [], 'nothing that one of them calls fixed')
  t.match(advisoryRows(osv), [{ package: 'hello', source: true, reason: 'DSA-1-1: a hole' }])
  t.match(advisoryRows([osv, { ...osv, withdrawn: '2026-01-01T00:00:00Z' }]), { length: 1 })
  t.match(advisoryRows({ vulns: [osv] }), { length: 1 })
  const [row] = advisoryRows({ ...osv, summary: 'a\n\u001b[2Jb\u202e' }) ?? []
  t.equal(row?.reason, 'DSA-1-1: a [2Jb', 'one line for a terminal')
  t.match(advisoryRows([{ id: 'X', withdrawn: 'x' }, osv]), { length: 1 }, 'one without packages')
  t.strictSame(advisoryRows({ vulns: [] }), [], 'the answer about a package without any')
})

t.test('OSV: versions without ranges, what is not fixed, Ubuntu', async t => {
  const of = (ecosystem: string, more: object) => ({
    id: 'X',
    affected: [{ package: { ecosystem, name: 'hello' }, ...more }],
  })
  const listed = of('Ubuntu:22.04:LTS', { versions: ['1.0', 'not one', '1.1'] })
  t.strictSame(denied(listed, 'jammy', '1.0', '1.05', '1.1'), ['1.0', '1.1'])
  const open = of('Ubuntu:Pro:18.04:LTS', {
    ranges: [{ type: 'ECOSYSTEM', events: [{ introduced: '2.0' }] }],
  })
  t.strictSame(denied(open, undefined, '1.9', '2.0', '9'), ['2.0', '9'])
  t.strictSame(advisoryRows(of('npm', { versions: ['1'] })), [])
})

t.test('the security tracker', async t => {
  const releases = {
    bookworm: { status: 'resolved', fixed_version: '0' },
    trixie: { status: 'resolved', fixed_version: '5.6.1+really5.4.5-1' },
    sid: { status: 'open' },
    forky: { status: 'undetermined' },
  }
  const tracker = { 'xz-utils': { 'CVE-2024-3094': { description: 'a back door', releases } } }
  t.strictSame(denied(tracker, 'bookworm', '5.4.1-0.2', '5.6.0-0.2'), [])
  t.strictSame(denied(tracker, 'trixie', '5.6.0-0.2', '5.6.1+really5.4.5-1'), ['5.6.0-0.2'])
  t.strictSame(denied(tracker, 'sid', '5.6.0-0.2', '9'), ['5.6.0-0.2', '9'])
  t.strictSame(denied(tracker, 'forky', '5.6.0-0.2'), [])
  t.strictSame(denied(tracker, undefined, '5.6.0-0.2', '9'), ['5.6.0-0.2'])
  t.match(advisoryRows(tracker), [{ reason: 'CVE-2024-3094: a back door' }])
  const fine = {
    hello: { 'CVE-1': { releases: { sid: { status: 'resolved', fixed_version: '0' } } } },
  }
  t.strictSame(advisoryRows(fine), [])
})

t.test('what is no advisory, and what is made to be one', async t => {
  for (const value of [
    undefined,
    null,
    1,
    'x',
    [],
    {},
    [1],
    { a: 1 },
    { a: { b: 1 } },
    { vulns: 1 },
  ])
    t.equal(advisoryRows(value), undefined, JSON.stringify(value))
  const wrong = [{ package: 1 }, 1, null, { package: { ecosystem: 'Debian', name: '' }, ranges: 1 }]
  t.strictSame(advisoryRows({ id: 1, affected: wrong }), [])
  // Each release alone has few ranges, and together they have too many combinations.
  const many = Array.from({ length: 9 }, (_, release) => ({
    package: { ecosystem: `Debian:${release}`, name: 'hello' },
    versions: Array.from({ length: 100 }, (_, n) => `${n}`),
  }))
  t.equal(advisoryRows({ id: 'X', affected: many })?.[0]?.ranges.length, 10_000)
})
