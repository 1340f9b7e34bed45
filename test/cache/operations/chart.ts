import t from 'tap'
import {
  binaryTicks,
  decimalTicks,
  groupedChart,
  stackedChart,
} from '../../../lib/cache/operations/chart.ts'

const data = {
  id: 'c',
  title: 'T',
  description: 'D',
  dates: ['2025-02-27', '2025-02-28', '2025-03-01'],
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
  const { bars } = stackedChart(data, [0, 20, 40])
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
  const { bars } = groupedChart(data, [0, 15, 30])
  for (const bar of bars) t.equal(Number(bar.y) + Number(bar.height), 178)
  const [one, two] = bars
  t.equal(Number(one?.x) + Number(one?.width), Number(two?.x))
})

t.test('everything stays inside the drawing, with one day or with fourteen', async t => {
  for (const amount of [1, 2, 14]) {
    const dates = Array.from(
      { length: amount },
      (_, i) => `2025-03-${String(i + 1).padStart(2, '0')}`,
    )
    const values = dates.map((_, i) => i)
    const series = [{ name: 'n', colour: 'hits', values }] as const
    for (const draw of [stackedChart, groupedChart]) {
      const chart = draw({ ...data, dates, series }, decimalTicks(amount))
      for (const bar of chart.bars) {
        t.ok(Number(bar.x) >= 58 && Number(bar.x) + Number(bar.width) <= 396)
        t.ok(Number(bar.y) >= 10 && Number(bar.y) + Number(bar.height) <= 178.01)
      }
      t.equal(chart.days.length, amount)
    }
  }
})

t.test('a tiny value can still be seen', async t => {
  const series = [{ name: 'n', colour: 'hits', values: [1, 1e9, 1] }] as const
  const [bar] = groupedChart({ ...data, series }, [0, 1e9]).bars
  t.equal(bar?.height, '0.75')
})

t.test('the month stands below its first day', async t => {
  t.strictSame(
    stackedChart(data, [0, 40]).days.map(({ day, month }) => [day, month]),
    [
      ['27', 'Feb'],
      ['28', ''],
      ['1', 'Mar'],
    ],
  )
})

t.test('a chart of no days has neither bars nor days', async t => {
  const chart = stackedChart({ ...data, dates: [], series: [] }, [0, 1])
  t.strictSame([chart.bars, chart.days], [[], []])
})
