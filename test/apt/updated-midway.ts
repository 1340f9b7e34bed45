/**
 * The archive is published anew in the middle of apt's updates, over and over: no update fails. The seed is the first argument of a
 * run that repeats it.
 */
import t from 'tap'
import { awkwardPackages, updatedPackages } from '../fixtures/archive/archive.ts'
import { noLab, report, setUp } from '../fixtures/cache/lab.ts'
import { seeded } from '../fixtures/chance/seeded-random.ts'

const seed = Number(process.argv[2] ?? Date.now() % 2 ** 32)
const rounds = 10

t.setTimeout(600_000)

t.test('no update of apt fails', { skip: noLab }, async t => {
  t.comment(`seed ${seed}`)
  const chance = seeded(seed)
  const lab = await setUp(t)
  const clients = [await lab.apt('first'), await lab.apt('second')]
  for (const apt of clients) t.equal((await apt.update()).code, 0)
  for (let round = 1; round <= rounds; round += 1) {
    const publish = async (): Promise<undefined> => {
      await new Promise(resolve => setTimeout(resolve, chance.below(800)))
      await lab.archive.publish(round % 2 === 1 ? updatedPackages : awkwardPackages)
    }
    const updates = clients.map(async apt => {
      await new Promise(resolve => setTimeout(resolve, chance.below(400)))
      return apt.update()
    })
    const results = await Promise.all([publish(), ...updates])
    for (const update of results) {
      if (update === undefined) continue
      const found = [update.code, update.warnings, update.errors]
      t.strictSame(found, [0, [], []], report(update))
    }
  }
})
