/** A memory of what was used last: its bound, and what it forgets. */
import t from 'tap'
import { recentEntries } from '../lib/recent.ts'

t.test('the entry that was not used for the longest time is forgotten', async t => {
  const memory = recentEntries<string, number>(3)
  for (const [n, key] of [...'abc'].entries()) memory.set(key, n)
  t.equal(memory.get('a'), 0)
  memory.set('b', 7)
  memory.set('d', 3)
  t.strictSame([...memory.keys()], ['d', 'b', 'a'])
  t.equal(memory.size, 3)
  t.equal(memory.delete('b'), true)
  memory.set('e', 4)
  memory.set('f', 5)
  t.strictSame([...memory.keys()], ['f', 'e', 'd'])
})
