/**
 * A few histories with the real apt, through the cache and without it; without it the scripted client comes to the same. by-hand.ts
 * runs hundreds.
 */
import t from 'tap'
import { noApt } from '../../fixtures/archive/apt.ts'
import { noCertificates } from '../../fixtures/certificates/openssl-authority.ts'
import { Comparison } from '../../fixtures/compare/comparison.ts'
import { generated } from '../../fixtures/compare/generate.ts'
import { namedHistories } from '../../fixtures/compare/named-histories.ts'
import { realClients } from '../../fixtures/compare/real-apt.ts'

/** Of a suite, a flat repository, one without Release, https, and a roll-back among them. */
const seeds = [50, 51, 52, 53, 54]
/** What the real apt makes of refused Release files decides what the cache has to give. */
const named = (namedHistories['releases'] ?? []).filter(({ name }) =>
  name.startsWith('an archive refuses'),
)

t.setTimeout(600_000)

t.test(
  'the real apt is no worse off than without a cache',
  { skip: noApt || noCertificates },
  async t => {
    const comparison = await Comparison.start(t)
    comparison.client = realClients(comparison)
    t.equal(named.length, 2)
    for (const history of [...seeds.map(seed => generated(seed, { short: true })), ...named]) {
      const [violation] = (await comparison.run(history)).violations
      t.equal(violation?.aspect, undefined, history.name, {
        violation: violation?.text.split('\n'),
      })
    }
  },
)
