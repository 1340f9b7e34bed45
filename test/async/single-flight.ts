import t from 'tap'
import { SingleFlight } from '../../lib/async/single-flight.ts'

t.test('callers at the same time share one run, later ones get their own', async t => {
  const flight = new SingleFlight<number>()
  let runs = 0
  const start = async () => {
    runs += 1
    return runs
  }
  t.strictSame(await Promise.all([flight.run('a', start), flight.run('a', start)]), [1, 1])
  t.equal(flight.size, 0)
  t.equal(await flight.run('a', start), 2)
})

t.test('a failure is shared once and forgotten', async t => {
  const flight = new SingleFlight<string>()
  const failing = async () => {
    throw new Error('no')
  }
  const both = await Promise.allSettled([flight.run('a', failing), flight.run('a', failing)])
  t.strictSame(
    both.map(one => one.status),
    ['rejected', 'rejected'],
  )
  t.equal(await flight.run('a', async () => 'yes'), 'yes')
})

t.test('a task that is forgotten is joined no more, and learns of it', async t => {
  const flight = new SingleFlight<boolean>()
  const slow = async (isCurrent: () => boolean) => {
    await new Promise(resolve => setImmediate(resolve))
    return isCurrent()
  }
  const first = flight.run('a', slow)
  flight.forget('a')
  const second = flight.run('a', slow)
  t.strictSame(await Promise.all([first, second]), [false, true])
  t.equal(flight.size, 0)
})
