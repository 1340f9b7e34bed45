/**
 * Which Release file of a suite counts.
 */
import t from 'tap'
import { currentReleases } from '../../../lib/cache/archive/suite-layout.ts'

const release = (date: number) => ({ date, files: new Map() }) as never
const base = 'http://archive.example.org/debian/dists/stable'

t.test('of two Release files the better signed one counts, then the newer one', async t => {
  const cases = [
    [
      'an unsigned newer one does not outrank a signed one',
      { rank: 1, date: 1 },
      { rank: 0, date: 2 },
      'InRelease',
    ],
    ['nor one with a good signature', { rank: 2, date: 1 }, { rank: 0, date: 2 }, 'InRelease'],
    ['a signed newer one', { rank: 1, date: 1 }, { rank: 1, date: 2 }, 'Release'],
    ['the signed one is not in place', { rank: 0, date: 2 }, { rank: 1, date: 1 }, 'Release'],
    ['the same', { rank: 1, date: 1 }, { rank: 1, date: 1 }, 'InRelease'],
  ] as const
  for (const [what, inPlace, detached, expected] of cases) {
    const both = [
      { base, inPlace: true, rank: inPlace.rank, release: release(inPlace.date) },
      { base, inPlace: false, rank: detached.rank, release: release(detached.date) },
    ]
    for (const found of [currentReleases(both), currentReleases(both.reverse())]) {
      t.strictSame(
        found.map(one => (one.inPlace ? 'InRelease' : 'Release')),
        [expected],
        what,
      )
    }
  }
})
