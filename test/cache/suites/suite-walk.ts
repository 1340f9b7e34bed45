/**
 * Suites whose origin publishes, lags, loses files and fails while clients, other nodes and an operator want something of them at the
 * same time: clients never go back, a mix of generations never leaves, a delayed generation never leaves early, the forms of a Release
 * file do not cancel each other, and nothing is left of a removed suite (test/fixtures/suites/walked-suites.ts).
 *
 * More by hand: `FIRST=1 SEEDS=1000 EVENTS=1000 node --enable-source-maps dist/test/cache/suites/suite-walk.js`
 */
import t from 'tap'
import { WalkedSuites } from '../../fixtures/suites/walked-suites.ts'

const { FIRST = '1', SEEDS = '12', EVENTS = '1500' } = process.env

t.test('the invariants hold, whatever happens to a suite in any order', async t => {
  let events = 0
  for (let seed = Number(FIRST); seed < Number(FIRST) + Number(SEEDS); seed += 1) {
    const walk = new WalkedSuites(seed)
    await walk.run(Number(EVENTS))
    events += walk.events
    if (walk.faults.length > 0) t.fail(`seed ${seed}, event ${walk.events}: ${walk.faults[0]}`)
  }
  t.pass(`${events} events`)
})
