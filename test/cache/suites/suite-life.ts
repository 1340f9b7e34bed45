/**
 * The table of a suite's life: what each event makes of each state, and what clients get in each.
 */
import t from 'tap'
import {
  type Adoption,
  afterEvent,
  clientAnswers,
  lifeAfterStart,
  type Standing,
  type SuiteEvent,
  unknownSuite,
} from '../../../lib/cache/suites/suite-life.ts'

const standings: readonly Standing[] = [
  ...(['same', 'slow', 'failed', 'gone', 'preparing', 'held', 'refused', 'waits'] as const),
  ...(['denied', 'lapsed'] as const),
]

/** The standing after each event, in the order of `standings`. */
const steps: ReadonlyArray<readonly [event: SuiteEvent, after: string]> = [
  [
    'another-came',
    'preparing preparing preparing preparing preparing held refused waits preparing preparing',
  ],
  ['prepared', 'same same same same same same same same same same'],
  ['confirmed', 'same same same same same same same same same same'],
  ['missing', 'held held held held held held held held held held'],
  ['refused', 'refused refused refused refused refused refused refused refused refused refused'],
  ['restrained', 'waits waits waits waits waits waits waits waits waits waits'],
  // What was let through is the newest that waited; the origin may have a newer one still.
  ['ripe', 'same slow failed gone preparing held refused same denied lapsed'],
  ['released', 'same slow failed gone preparing held refused same denied lapsed'],
  ['expiring', 'same slow failed gone preparing held refused same denied lapsed'],
  ['origin-slow', 'slow slow slow slow held held slow slow slow slow'],
  ['origin-failed', 'failed failed failed gone failed failed failed failed failed failed'],
  ['origin-gone', 'gone gone gone gone gone gone gone gone gone gone'],
  ['origin-denies', 'denied denied denied denied denied denied denied denied denied lapsed'],
  ['lapsed', 'same slow failed gone preparing held refused waits lapsed lapsed'],
  ['removed', 'same same same same same same same same same same'],
  ['index-came', 'same slow failed gone preparing held refused waits denied lapsed'],
  ['adopted', 'same slow failed gone preparing held refused waits denied lapsed'],
]

for (const [event, after] of steps) {
  t.test(`the standing of a suite after ${event}`, async t => {
    const all = standings.map(
      standing => afterEvent({ adoption: 'adopted', standing }, event).standing,
    )
    t.equal(all.join(' '), after)
  })
}

t.test('a suite is adopted, adopted again, and forgotten', async t => {
  const walks: ReadonlyArray<readonly [events: string, after: Adoption]> = [
    ['release-came', 'adopting'],
    ['release-came unadoptable', 'unknown'],
    ['release-came adopted', 'adopted'],
    ['index-came', 'unknown'],
    ['release-came adopted index-came', 'adopting-again'],
    ['release-came adopted release-came unadoptable', 'adopted'],
    ['release-came adopted release-came adopted', 'adopted'],
    ['release-came adopted removed', 'unknown'],
    ['release-came removed', 'unknown'],
    ['release-came adopted origin-failed confirmed', 'adopted'],
  ]
  for (const [events, after] of walks) {
    const life = (events.split(' ') as SuiteEvent[]).reduce(afterEvent, unknownSuite)
    t.equal(life.adoption, after, events)
  }
})

t.test('what clients get in each state', async t => {
  const rows: ReadonlyArray<readonly [adoption: Adoption, standing: Standing, gets: string]> = [
    ['unknown', 'same', 'any-file any-file any-file any-file gone named'],
    ['adopting', 'same', 'whole any-file awaited awaited gone named'],
    ['adopted', 'same', 'whole adopted named named gone named'],
    ['adopting-again', 'same', 'whole adopted awaited awaited gone named'],
    ['adopted', 'preparing', 'earlier adopted named named gone named'],
    ['adopted', 'waits', 'earlier adopted named named gone named'],
    ['adopted', 'slow', 'earlier withheld named named may-come named'],
    ['adopted', 'failed', 'earlier withheld named named may-come named'],
    ['adopted', 'gone', 'earlier withheld named named may-come named'],
    ['adopted', 'held', 'earlier withheld named named may-come named'],
    ['adopted', 'refused', 'earlier withheld named named may-come named'],
    ['adopted', 'denied', 'any-file adopted named named gone named'],
    ['adopted', 'lapsed', 'any-file adopted named named gone any-file'],
    // An index of the adopted Release file has come meanwhile.
    ['adopting-again', 'held', 'earlier withheld awaited awaited may-come named'],
  ]
  for (const [adoption, standing, gets] of rows) {
    const {
      release,
      signature,
      index,
      package: pool,
      unnamed,
      unreleased,
    } = clientAnswers({
      adoption,
      standing,
    })
    t.equal(
      [release, signature, index, pool, unnamed, unreleased].join(' '),
      gets,
      `${adoption} ${standing}`,
    )
  }
})

t.test('after a start, what was held back or waited still is', async t => {
  const cases = [
    [{ isHeld: false, waits: false }, 'same'],
    [{ isHeld: true, waits: false }, 'held'],
    [{ isHeld: false, waits: true }, 'waits'],
    [{ isHeld: true, waits: true }, 'held'],
  ] as const
  for (const [facts, standing] of cases) {
    t.strictSame(lifeAfterStart(facts), { adoption: 'adopted', standing })
  }
})
