/** When checkpoints begin. */
import t from 'tap'
import { Checkpoints } from '../../../../lib/cache/store/upkeep/checkpoint.ts'
import { Gate } from '../../../fixtures/time/gate.ts'
import { ManualClock } from '../../../fixtures/time/manual-clock.ts'

t.test('many new contents begin a checkpoint before its time, and only one', async t => {
  const gate = new Gate()
  const clock = new ManualClock(0)
  let marks = 0
  const blobs = {
    fresh: new Set(Array.from({ length: 256 }, (_, n) => `${n}`)),
    removed: new Map(),
    flush: async () => undefined,
  }
  const parts = {
    clock,
    blobs,
    checks: { unproven: new Set() },
    downloads: { save: async () => false },
    health: { failed: () => t.fail('nothing fails') },
    journal: {
      position: 0,
      flush: () => gate.pass(),
      tidy: async () => undefined,
      mark: async () => {
        marks += 1
      },
    },
  }
  const checkpoints = new Checkpoints(
    parts as unknown as ConstructorParameters<typeof Checkpoints>[0],
  )
  for (let n = 0; n < 10; n += 1) checkpoints.soon()
  gate.open()
  await checkpoints.run()
  t.equal(marks, 2, 'the one begun early, and the one asked for here')
  t.equal(blobs.fresh.size, 0)
  for (let n = 0; n < 256; n += 1) blobs.fresh.add(`again ${n}`)
  checkpoints.soon()
  await checkpoints.run()
  t.equal(marks, 4, 'and early again when there are as many')
})
