import t from 'tap'
import { Holdings } from '../../../lib/cache/stats/activity.ts'
import { ManualClock } from '../../fixtures/time/manual-clock.ts'

const entry = (key: string, size: number) => ({ key, size, digest: '', lastUsed: 0 })

t.test('files and bytes of each archive, most bytes first, counted once a minute', async t => {
  const clock = new ManualClock(0)
  const stored = [
    entry('http://a.example/debian/x', 10),
    entry('https://a.example/debian/y', 20),
    entry('http://b.example:8080/z', 40),
  ]
  let walks = 0
  async function* list() {
    walks += 1
    yield stored.slice(0, 2)
    yield stored.slice(2)
  }
  const counting = new Holdings({ list }, clock)
  const expected = [
    { name: 'b.example:8080', files: 1, bytes: 40 },
    { name: 'a.example', files: 2, bytes: 30 },
  ]
  t.strictSame((await counting.counted())?.archives, expected)
  stored.length = 0
  const twice = await Promise.all([counting.counted(), counting.counted()])
  t.strictSame(
    twice.map(counted => counted?.archives),
    [expected, expected],
  )
  t.equal(walks, 1)
  clock.advance(60_000)
  t.strictSame((await counting.counted())?.archives, [])
})

t.test('a page does not wait for a long count, and a failing one is told', async t => {
  const clock = new ManualClock(0)
  let go: (() => void) | undefined
  const wait = new Promise<void>(resolve => {
    go = resolve
  })
  async function* slow() {
    await wait
    yield [entry('http://a.example/x', 1)]
  }
  const counting = new Holdings({ list: slow }, clock)
  const asked = counting.counted()
  clock.advance(2000)
  t.equal(await asked, undefined)
  go?.()
  t.strictSame((await counting.counted())?.archives, [{ name: 'a.example', files: 1, bytes: 1 }])
  async function* broken() {
    yield []
    throw new Error('the disk')
  }
  await t.rejects(new Holdings({ list: broken }, clock).counted(), { message: 'the disk' })
})

t.test('a few files are named, the largest first', async t => {
  async function* list() {
    for (let part = 0; part < 3; part += 1) {
      yield Array.from({ length: 20 }, (_, i) =>
        entry(`http://a.example/${part}-${i}`, i * 3 + part),
      )
    }
  }
  const counted = await new Holdings({ list }, new ManualClock(0)).counted()
  t.strictSame(
    counted?.largest.map(({ size }) => size),
    [59, 58, 57, 56, 55, 54, 53, 52, 51, 50],
  )
})
