import t from 'tap'
import {
  binaryTicks,
  chart,
  dayPlaces,
  decimalTicks,
  hourPlaces,
} from '../../../../lib/cache/operations/views/chart.ts'

const data = {
  id: 'c',
  title: 'T',
  description: 'D',
  places: dayPlaces(['2025-02-27', '2025-02-28', '2025-03-01']),
  words: (value: number) => `${value} in words`,
  axis: String,
  series: [
    { name: 'one', colour: 'hits', values: [10, 0, 30] },
    { name: 'two', colour: 'misses', values: [5, 20, 10] },
  ],
} as const

t.test('decimal ticks start at 0, are even, and reach the highest value', async t => {
  for (const highest of [0, 1, 3, 4, 5, 9, 10, 99, 100, 101, 4550, 123_456, 9_999_999]) {
    const ticks = decimalTicks(highest)
    const step = ticks[1] ?? 0
    t.equal(ticks[0], 0)
    t.ok((ticks.at(-1) ?? 0) >= highest, `${highest}: ${ticks}`)
    t.ok((ticks.at(-1) ?? 0) - step < Math.max(1, highest))
    t.ok(ticks.length <= 6)
    t.ok(ticks.every((tick, i) => tick === i * step))
    t.match(String(step), /^[125]0*$/)
  }
})

t.test('binary ticks are whole powers of two apart', async t => {
  for (const highest of [0, 1, 1000, 1024, 5000, 1.2e9, 9.1e9, 1e15]) {
    const ticks = binaryTicks(highest)
    t.ok((ticks.at(-1) ?? 0) >= highest)
    t.ok(Number.isInteger(Math.log2(ticks[1] ?? 0)))
    t.ok(ticks.length <= 6)
  }
})

t.test('stacked bars stand on one another and end at their sum', async t => {
  const { bars } = chart('stacked', data, [0, 20, 40])
  t.strictSame(
    bars.map(bar => bar.words),
    [
      '2025-02-27, one: 10 in words',
      '2025-02-27, two: 5 in words',
      '2025-02-28, two: 20 in words',
      '2025-03-01, one: 30 in words',
      '2025-03-01, two: 10 in words',
    ],
    'a value of 0 has no bar',
  )
  const [one, two] = bars
  t.equal(one?.x, two?.x)
  t.equal(Number(two?.y) + Number(two?.height), Number(one?.y))
  t.equal(Number(one?.y) + Number(one?.height), 178)
  t.equal(bars.at(-1)?.y, '10', 'the highest sum reaches the highest tick')
})

t.test('grouped bars stand side by side on the ground', async t => {
  const { bars } = chart('grouped', data, [0, 15, 30])
  t.ok(bars.length > 1)
  for (const bar of bars) t.equal(Number(bar.y) + Number(bar.height), 178)
  const [one, two] = bars
  t.equal(Number(one?.x) + Number(one?.width), Number(two?.x))
})

t.test('everything stays inside the drawing, with one day or with seventy-five', async t => {
  for (const amount of [1, 2, 14, 75]) {
    const dates = daysFrom('2025-03-01', amount)
    const values = dates.map((_, i) => i)
    const series = [{ name: 'n', colour: 'hits', values }] as const
    for (const kind of ['stacked', 'grouped'] as const) {
      const drawn = chart(kind, { ...data, places: dayPlaces(dates), series }, decimalTicks(amount))
      t.equal(drawn.bars.length, amount - 1, 'a value of 0 has no bar')
      for (const bar of drawn.bars) {
        t.ok(Number(bar.x) >= 58 && Number(bar.x) + Number(bar.width) <= 396)
        t.ok(Number(bar.y) >= 10 && Number(bar.y) + Number(bar.height) <= 178.01)
      }
      t.ok(drawn.places.length <= 16, 'labels do not touch')
    }
  }
})

t.test('a tiny value can still be seen', async t => {
  const series = [{ name: 'n', colour: 'hits', values: [1, 1e9, 1] }] as const
  const [bar] = chart('grouped', { ...data, series }, [0, 1e9]).bars
  t.equal(bar?.height, '0.75')
})

t.test('the month stands below its first day', async t => {
  t.strictSame(
    chart('stacked', data, [0, 40]).places.map(({ label, below }) => [label, below]),
    [
      ['27', 'Feb'],
      ['28', ''],
      ['1', 'Mar'],
    ],
  )
})

t.test('a chart of no days has neither bars nor days', async t => {
  const drawn = chart('stacked', { ...data, places: [], series: [] }, [0, 1])
  t.strictSame([drawn.bars, drawn.places], [[], []])
})

function daysFrom(first: string, amount: number): string[] {
  const at = (i: number) => new Date(Date.parse(first) + i * 86_400_000).toISOString().slice(0, 10)
  return Array.from({ length: amount }, (_, i) => at(i))
}

t.test(
  'of many days some have a label, today among them, and each month is named once',
  async t => {
    const places = dayPlaces(daysFrom('2025-01-01', 75))
    const labelled = places.filter(({ label }) => label !== '')
    t.equal(labelled.length, 15)
    t.equal(labelled.at(-1)?.name, '2025-03-16')
    t.strictSame(
      labelled.map(({ below }) => below).filter(below => below !== ''),
      ['Jan', 'Feb', 'Mar'],
    )
  },
)

t.test('a day has 24 hours, every third with a label', async t => {
  const places = hourPlaces()
  t.equal(places.length, 24)
  t.match(places[23], { name: '23:00 to 24:00', label: '' })
  t.equal(places.filter(({ label }) => label !== '').length, 8)
})

t.test('a line has a dot for each value, and is broken where there is none', async t => {
  const values = [0.5, 1, undefined, 0, undefined, 0.25, 0.25]
  const places = dayPlaces(daysFrom('2025-03-01', 7))
  const series = [{ name: 'rate', colour: 'hits', values }] as const
  const { bars, curves, dots } = chart('line', { ...data, places, series }, [0, 0.5, 1])
  t.strictSame(bars, [])
  t.strictSame(
    dots.map(({ words }) => words.slice(8, 23)),
    ['01, rate: 0.5 i', '02, rate: 1 in ', '04, rate: 0 in ', '06, rate: 0.25 ', '07, rate: 0.25 '],
  )
  t.equal(dots[1]?.y, '10', 'the highest tick is the top')
  t.equal(dots[2]?.y, '178', '0 is the ground')
  t.strictSame(
    curves.map(({ points }) => points.split(' ').length),
    [2, 2],
    'a single day is a dot without a line',
  )
})
