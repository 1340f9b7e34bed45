/**
 * `explain` and the answer agree about a suite with a delay or a hold.
 */
import t from 'tap'
import { agreeAll, sceneOf, seen } from '../../../fixtures/cache/agreement.ts'

t.setTimeout(600_000)

const hour = 3_600_000

for (const [how, about] of Object.entries({
  delayed: { delay: '24h' },
  held: { hold: '2024-12-31' },
})) {
  t.test(`a suite that is ${how}`, async t => {
    const scene = await sceneOf(t, about)
    const { archive } = scene
    const { suite, release, index, clock } = archive
    for (const day of [1, 2]) {
      archive.serve(await archive.ofDay(day, { byHash: true }))
      clock.advance(hour)
      await archive.update()
    }
    const paths = [release, `${suite}/Release`, `${suite}/Release.gpg`, index]
    await agreeAll(t, scene, paths)
    // Old enough, and the next look has not come yet.
    for (let waited = 0; waited < 24 * hour + 30_000; waited += 30_000) {
      clock.advance(30_000)
      if (waited > 23.9 * hour && waited % 60_000 === 0) await agreeAll(t, scene, [release])
    }
    await agreeAll(t, scene, paths)
  })
}

t.test('every decision was compared', t => {
  for (const word of ['hit suite-delayed', 'hit suite-held', 'failed suite-withheld', 'asks stale'])
    t.ok(seen.has(word), word)
  t.end()
})
