/** When checkpoints begin. */
import t from 'tap'
import { Checkpoints } from '../../../../lib/cache/store/upkeep/checkpoint.ts'
import { Gate } from '../../../fixtures/time/gate.ts'
import { ManualClock } from '../../../fixtures/time/manual-clock.ts'

type Parts = ConstructorParameters<typeof Checkpoints>[0]

/** With as many new contents as begin one early, over a log of which the test says what becomes of it. */
function checkpointsOver(journal: { flush(): Promise<void>; mark(): Promise<void> }) {
  const clock = new ManualClock(0)
  const blobs = {
    fresh: new Map<string, undefined>(),
    takeFresh() {
      const { fresh } = blobs
      blobs.fresh = new Map()
      return fresh
    },
    removed: () => [],
    marked: () => undefined,
    flushLater: (digest: string) => blobs.fresh.set(digest, undefined),
    flush: async () => undefined,
  }
  for (let n = 0; n < 256; n += 1) blobs.flushLater(`${n}`)
  let failures = 0
  const parts = {
    clock,
    blobs,
    checks: { unproven: new Set() },
    downloads: { save: async () => false },
    health: {
      failed() {
        failures += 1
      },
    },
    journal: { position: 0, tidy: async () => undefined, ...journal },
  }
  const checkpoints = new Checkpoints(parts as unknown as Parts)
  return { checkpoints, clock, blobs, failures: () => failures }
}

t.test('many new contents begin a checkpoint before its time, and only one', async t => {
  const gate = new Gate()
  let marks = 0
  const { checkpoints, blobs } = checkpointsOver({
    flush: () => gate.pass(),
    mark: async () => {
      marks += 1
    },
  })
  for (let n = 0; n < 10; n += 1) checkpoints.soon()
  gate.open()
  await checkpoints.run()
  t.equal(marks, 2, 'the one begun early, and the one asked for here')
  t.equal(blobs.fresh.size, 0)
  for (let n = 0; n < 256; n += 1) blobs.flushLater(`again ${n}`)
  checkpoints.soon()
  await checkpoints.run()
  t.equal(marks, 4, 'and early again when there are as many')
})

t.test('one that fails is tried again after its time, however many contents wait', async t => {
  const failing = async (): Promise<void> => {
    throw Object.assign(new Error('no space left'), { code: 'ENOSPC' })
  }
  const fine = async (): Promise<void> => undefined
  for (const journal of [
    { flush: failing, mark: fine },
    { flush: fine, mark: failing },
  ]) {
    const { checkpoints, clock, blobs, failures } = checkpointsOver(journal)
    const turns = async (): Promise<void> => {
      for (let n = 0; n < 50; n += 1) await new Promise(resolve => setImmediate(resolve))
    }
    checkpoints.soon()
    await turns()
    checkpoints.soon()
    await turns()
    t.equal(failures(), 1)
    clock.advance(5000)
    await turns()
    t.equal(failures(), 2)
    t.equal(blobs.fresh.size, 256, 'nothing is forgotten')
  }
})
