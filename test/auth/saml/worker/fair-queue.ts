import t from 'tap'
import { FairQueue } from '../../../../lib/auth/saml/worker/fair-queue.ts'

function filled(
  ...pushed: ReadonlyArray<readonly [item: string, address: string, known?: boolean]>
) {
  const queue = new FairQueue<string>()
  for (const [item, address, known = false] of pushed) queue.push(item, { address, known })
  return queue
}

function drained(queue: FairQueue<string>): readonly string[] {
  const items: string[] = []
  for (let item = queue.shift(); item !== undefined; item = queue.shift()) items.push(item)
  return items
}

t.test('addresses take turns', async t => {
  const queue = filled(['a1', 'a'], ['a2', 'a'], ['a3', 'a'], ['b1', 'b'], ['c1', 'c'], ['b2', 'b'])
  t.strictSame(drained(queue), ['a1', 'b1', 'c1', 'a2', 'b2', 'a3'])
})

t.test('those who began a login go first', async t => {
  const queue = filled(['x', 'a'], ['y', 'b'], ['own', 'a', true])
  t.strictSame(drained(queue), ['own', 'x', 'y'])
})

t.test('the newest of the longest line is dropped, of strangers first', async t => {
  const queue = filled(['k1', 'k', true], ['k2', 'k', true], ['a1', 'a'], ['b1', 'b'], ['b2', 'b'])
  t.strictSame(
    Array.from({ length: 6 }, () => queue.drop()),
    ['b2', 'a1', 'b1', 'k2', 'k1', undefined],
  )
})

t.test('an item is taken out once', async t => {
  const queue = filled(['a1', 'a'], ['k1', 'k', true])
  t.equal(queue.delete('k1'), true)
  t.equal(queue.delete('k1'), false)
  t.equal(queue.delete('a1'), true)
  t.strictSame(drained(queue), [])
})
