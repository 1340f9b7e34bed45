import t from 'tap'
import { sharedFindings } from '../../../../lib/cache/features/shared/report.ts'
import type { SharedState } from '../../../../lib/cache/features/shared/shared-store.ts'

t.test('a file that is too large for the shared store is said to be', async t => {
  const of = (bytes: number, isShared = true) =>
    sharedFindings(sharedState(), isShared, bytes).map(({ answer }) => answer)
  t.match(of(5 * 1024 ** 3 + 1), [/larger than 5 GiB/])
  t.strictSame(of(5 * 1024 ** 3), [])
  t.strictSame(of(6 * 1024 ** 3, false), [], 'another sentence says why')
  t.match(sharedFindings(sharedState(), false, undefined), [{ answer: /^not asked/ }])
})

function sharedState(): SharedState {
  return {
    ...{ url: 'https://s3.example.org/apt', resting: undefined, unwritable: undefined },
    ...{
      conditionalWrites: 'on',
      requests: new Map(),
      received: 0,
      sent: 0,
      wrong: 0,
      renewed: 0,
      ahead: 0,
    },
    largest: 5 * 1024 ** 3,
    uploads: { waiting: 0, done: 0, dropped: 0 },
  }
}
