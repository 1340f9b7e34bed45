/**
 * Which Release files may be adopted, by policy, signature and dates.
 */
import t from 'tap'
import type { Generation, Signature } from '../../../lib/cache/suites/generation.ts'
import { type ReleaseFacts, refusalReason, suitePolicy } from '../../../lib/cache/suites/policy.ts'
import { config as configOf } from '../../fixtures/cache/cache-config.ts'

const day = 24 * 3600 * 1000
const now = Date.parse('2025-03-14T12:00:00Z')

const adopted: Generation = {
  release: { name: 'InRelease', digest: 'a'.repeat(64), size: 1 },
  date: now - day,
  validUntil: undefined,
  byHash: true,
  signature: { is: 'good', by: 'ab' },
  adopted: now - day,
  indexes: [],
  contents: [],
}

const release: ReleaseFacts = {
  date: now,
  validUntil: now + day,
  signature: { is: 'good', by: 'ab' },
}

t.test('what each policy says', async t => {
  const signatures = ['good', 'unknown-key', 'bad', 'unsigned', 'unchecked'] as const
  const cases: ReadonlyArray<
    readonly [
      what: string,
      changes: Partial<ReleaseFacts>,
      before: Partial<Generation> | undefined,
      require: boolean,
      prefer: boolean,
    ]
  > = [
    ['good', {}, undefined, true, true],
    ['unknown key', { signature: { is: 'unknown-key' } }, undefined, false, true],
    ['bad', { signature: { is: 'bad', by: 'ab' } }, undefined, false, false],
    ['unsigned', { signature: { is: 'unsigned' } }, undefined, false, true],
    ['no keyring', { signature: { is: 'unchecked' } }, undefined, false, true],
    ['expired', { validUntil: now - 1 }, undefined, false, true],
    ['from the future', { date: now + 2 * day }, undefined, false, false],
    ['a little ahead', { date: now + day / 2 }, undefined, true, true],
    ['without a date', { date: undefined }, {}, true, true],
    ['newer', {}, {}, true, true],
    ['of the same moment', { date: adopted.date }, {}, true, true],
    ['older', { date: now - 2 * day }, {}, false, false],
    ['older, better', { date: now - 2 * day }, { signature: { is: 'unsigned' } }, true, true],
    ['unsigned after good', { signature: { is: 'unsigned' } }, {}, false, false],
    [
      'older, signed by an unknown key, after an unsigned one',
      { date: now - 2 * day, signature: { is: 'unknown-key' } },
      { signature: { is: 'unsigned' } },
      false,
      true,
    ],
    [
      'older, signed and not checked, after an unsigned one',
      { date: now - 2 * day, signature: { is: 'unchecked' } },
      { signature: { is: 'unsigned' } },
      false,
      true,
    ],
    [
      'older and unsigned after an unsigned one',
      { date: now - 2 * day, signature: { is: 'unsigned' } },
      { signature: { is: 'unsigned' } },
      false,
      false,
    ],
    ['a new key after good', { signature: { is: 'unknown-key' } }, {}, false, true],
  ]
  for (const [what, changes, before, ...expected] of cases) {
    const found = (['require', 'prefer'] as const).map(verify => {
      const generation = before && { ...adopted, ...before }
      const policy = { verify, keyrings: [] }
      return refusalReason({ ...release, ...changes }, { policy, adopted: generation, now })
    })
    t.strictSame(
      found.map(because => because === undefined),
      expected,
      `${what}: ${found.join('; ')}`,
    )
  }
  t.equal(signatures.length, new Set<Signature['is']>(signatures).size)
})

t.test('the policy of an archive is that of the place it is stored under', async t => {
  const config = configOf('')
  const place = { text: '', scheme: undefined, subdomains: false, port: undefined }
  const origin = { ...place, host: 'archive.example.org', path: '/debian' }
  const archive = {
    verify: 'require',
    signedBy: ['/key.gpg'],
    redirects: undefined,
    ...{ connections: undefined, addressFamily: undefined },
    clients: [],
    credentials: undefined,
    store: 'permitted',
    delay: 0,
    hold: undefined,
    except: [],
  } as const
  const archives = [{ origins: [origin], ...archive }]
  const of = (at: string, verify: 'require' | 'off' = 'require') =>
    suitePolicy(at, { ...config, archives: archives.map(one => ({ ...one, verify })) })
  t.strictSame(of('http://archive.example.org/debian/dists/stable'), {
    verify: 'require',
    keyrings: ['/key.gpg'],
    listed: true,
  })
  t.equal(of('http://archive.example.org/debian/dists/stable', 'off'), undefined)
  t.equal(of('http://archive.example.org/other/dists/stable')?.verify, 'prefer')
  t.strictSame(of('http://other.example.org/debian')?.keyrings, config.suites.keyrings)
})
