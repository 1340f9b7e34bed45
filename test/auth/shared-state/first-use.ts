/**
 * Whether an answer of the identity provider is taken: what the shared store says of its IDs, and what the list of this instance says.
 */
import t from 'tap'
import type { SharedParts } from '../../../lib/auth/login/parts.ts'
import { UsedAnswers } from '../../../lib/auth/login/used-answers.ts'

type Said = 'first' | 'again' | 'away'

/** What came of it, and what was asked in which order. */
async function used(said: Said | undefined, own: boolean, alone: boolean) {
  const asked: string[] = []
  const store: Omit<SharedParts, 'forms'> = {
    async useIds() {
      asked.push('store')
      return said ?? 'away'
    },
    tellLater: () => void asked.push('later'),
    refillFrom: () => undefined,
    countTries: async () => undefined,
  }
  const shared = said === undefined ? undefined : store
  const list = {
    async consume() {
      asked.push('list')
      return own ? ('first' as const) : ('again' as const)
    },
    livingMarks: () => [],
    close: async () => undefined,
  }
  const answers = new UsedAnswers(list, shared)
  const outcome = await answers.use({ ids: ['a'], until: 1, ownListSuffices: alone })
  return [outcome, ...asked].join(' ')
}

t.test('89: the store first, then the list', async t => {
  for (const [said, own, alone, expected] of [
    [undefined, true, false, 'first list'],
    [undefined, false, true, 'again list'],
    ['first', true, false, 'first store list'],
    ['first', false, false, 'again store list'],
    ['again', true, true, 'again store'],
    // Not used up here: when the store is back, the same answer is taken.
    ['away', true, false, 'unsure store'],
    ['away', true, true, 'first store list later'],
    ['away', false, true, 'again store list'],
  ] as const) {
    t.equal(await used(said, own, alone), expected, `${said}, ${own}, ${alone}`)
  }
})
