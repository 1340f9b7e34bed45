/**
 * The events of the store come one after another: no listener is called out of another one, while suites are adopted and updated.
 */
import t from 'tap'
import { type StoreEvent, StoreEvents } from '../../../lib/cache/store/events.ts'
import { changingArchive } from '../../fixtures/archive/changing-archive.ts'

t.test('no listener of the store is called out of another one', async t => {
  const told: string[] = []
  const under: string[] = []
  const { tell } = StoreEvents.prototype
  t.teardown(() => {
    StoreEvents.prototype.tell = tell
  })
  StoreEvents.prototype.tell = function <E extends keyof StoreEvent>(
    event: E,
    facts: StoreEvent[E],
  ) {
    told.push([...under, event].join(' > '))
    under.push(event)
    tell.call(this, event, facts)
    under.pop()
  }
  const archive = await changingArchive(t)
  for (const day of [1, 2, 3]) {
    archive.serve(await archive.ofDay(day, { byHash: true }))
    archive.clock.advance(3_600_000)
    await archive.update()
    await archive.settle()
  }
  t.ok(told.includes('arriving') && told.includes('named'), 'events were told')
  t.strictSame(
    told.filter(event => event.includes('>')),
    [],
  )
})
