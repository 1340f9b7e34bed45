/**
 * The order of requests that wait: by how many connections their clients hold, and nobody for ever.
 */
import t from 'tap'
import { Line } from '../../lib/async/line.ts'

function lineOf(...clients: readonly string[]) {
  const line = new Line<{ readonly client: string; readonly n: number }>()
  const requests = clients.map((client, n) => ({ client, n }))
  for (const request of requests) line.add(request)
  const turns = (count = line.size) =>
    Array.from({ length: count }, () => line.take()?.client ?? '-').join('')
  return { line, requests, turns }
}

t.test('clients that hold nothing take turns, each in the order of its requests', async t => {
  const { line, requests } = lineOf('a', 'a', 'a', 'b', 'c', 'c')
  const taken = requests.map(() => line.take())
  t.strictSame(
    taken.map(one => one && `${one.client}${one.n}`),
    ['a0', 'b3', 'c4', 'a1', 'c5', 'a2'],
  )
  t.equal(line.take(), undefined)
  t.equal(line.size, 0)
  t.equal(lineOf(...'aaabcb').turns(), 'abcaba')
})

t.test('a client that comes waits for one turn of each other, not for two', async t => {
  const { line, turns } = lineOf('a', 'a', 'a', 'b', 'b')
  t.equal(turns(1), 'a')
  line.add({ client: 'new', n: 5 })
  t.equal(turns(4), 'banewb')
})

t.test('who holds few goes before who holds many, in proportion', async t => {
  const { line, turns } = lineOf(...'mmmmmmmmmm', ...'ffffffffff')
  line.weigh(new Map([['m', 3]]))
  t.equal(turns(10), 'fffmffffmf', 'one turn of m for four of f')
})

t.test('those that come later do not put off for ever one that holds many', async t => {
  const { line } = lineOf('m')
  line.weigh(new Map([['m', 5]]))
  const order = []
  for (let n = 0; n < 10; n += 1) {
    line.add({ client: `new ${n}`, n })
    order.push(line.take()?.client)
  }
  t.equal(order.indexOf('m'), 5)
})

t.test('a request that leaves is not given a turn, and its client not forgotten', async t => {
  const { line, requests, turns } = lineOf('a', 'a', 'b')
  const [first] = requests
  t.ok(first && line.delete(first))
  t.notOk(first && line.delete(first), 'it is taken out once')
  t.equal(line.size, 2)
  t.equal(line.of('a'), 1)
  t.strictSame(
    [...line.waiting()],
    [
      ['a', 1],
      ['b', 1],
    ],
  )
  t.equal(line.next(), requests[1])
  t.equal(turns(), 'ab')
})

t.test('the newest of the client with the most is dropped', async t => {
  const { line } = lineOf('a', 'b', 'b', 'b', 'a')
  t.strictSame(
    Array.from({ length: 6 }, () => line.drop()?.n),
    [3, 4, 2, 0, 1, undefined],
  )
  t.equal(line.size, 0)
})
