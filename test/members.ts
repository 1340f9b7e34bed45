/**
 * What is under way, held against a Set doing the same.
 */
import fc from 'fast-check'
import t from 'tap'
import { type Member, Members } from '../lib/members.ts'
import { settings } from './fixtures/chance/properties.ts'

const things = Array.from({ length: 12 }, (_, name) => ({ name, place: 0 }))

t.test('holds what a Set would, in the same order, whatever comes and goes', async () => {
  const step = fc.record({
    act: fc.constantFrom('add', 'delete', 'add', 'delete', 'clear'),
    of: fc.nat(things.length - 1),
  })
  fc.assert(
    fc.property(fc.array(step, { maxLength: 200 }), steps => {
      const members = new Members<(typeof things)[number]>()
      const set = new Set<Member>()
      for (const { act, of } of steps) {
        const thing = things[of]
        if (thing === undefined) continue
        if (act === 'clear') {
          members.clear()
          set.clear()
        } else if (act === 'add') {
          members.add(thing)
          set.add(thing)
        } else if (members.delete(thing) !== set.delete(thing)) return false
        const all = [...set]
        if (members.has(thing) !== set.has(thing) || members.size !== set.size) return false
        if (members.newest !== all.at(-1)) return false
        if ([...members].some((member, at) => member !== all[at])) return false
      }
      return true
    }),
    settings(),
  )
})

t.test('what leaves while all are visited is not visited, and all others are', async t => {
  const members = new Members<(typeof things)[number]>()
  for (const thing of things) members.add(thing)
  const visited: number[] = []
  for (const thing of members) {
    visited.push(thing.name)
    members.delete(thing)
    const next = things[thing.name + 1]
    if (thing.name % 2 === 0 && next !== undefined) members.delete(next)
  }
  t.strictSame(visited, [0, 2, 4, 6, 8, 10])
  t.equal(members.size, 0)
})
