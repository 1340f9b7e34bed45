import t from 'tap'
import { inForce, needRestart } from '../../../../lib/cache/config/config.ts'
import { plainConfig } from '../../../fixtures/cache/operations.ts'

t.test('the region of the bucket waits for a restart, and its expiry does not', async t => {
  const { sharedStore } = plainConfig
  const elsewhere = { ...plainConfig, sharedStore: { ...sharedStore, region: 'other' } }
  t.strictSame(needRestart(plainConfig, elsewhere), ['shared_store.region'])
  t.strictSame(inForce(plainConfig, elsewhere), plainConfig)
  const longer = { ...plainConfig, sharedStore: { ...sharedStore, expire: 1 } }
  t.strictSame(needRestart(plainConfig, longer), [])
  t.strictSame(inForce(plainConfig, longer), longer)
})
