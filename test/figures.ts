import t from 'tap'
import {
  count,
  countOf,
  duration,
  elapsedText,
  percent,
  rate,
  shortCount,
  shortSize,
  size,
} from '../lib/figures.ts'

const kibi = 1024

t.test('sizes are in binary units with three significant digits', async t => {
  const cases = [
    [0, '0 bytes'],
    [1, '1 byte'],
    [1023, '1023 bytes'],
    [kibi, '1.00 KiB'],
    [1536, '1.50 KiB'],
    [10 * kibi, '10.0 KiB'],
    [9.994 * kibi, '9.99 KiB'],
    [9.996 * kibi, '10.0 KiB'],
    [99.96 * kibi, '100 KiB'],
    [1023.4 * kibi, '1023 KiB'],
    [1023.6 * kibi, '1.00 MiB'],
    [kibi ** 2, '1.00 MiB'],
    [1.46 * kibi ** 3, '1.46 GiB'],
    [kibi ** 4, '1.00 TiB'],
    [Number.MAX_SAFE_INTEGER, '8.00 PiB'],
    [5000 * kibi ** 6, '5000 EiB'],
  ] as const
  for (const [bytes, words] of cases) t.equal(size(bytes), words)
})

t.test('an axis names sizes without idle zeros', async t => {
  const cases = [
    [0, '0'],
    [512, '512 bytes'],
    [kibi, '1 KiB'],
    [1.5 * kibi ** 3, '1.5 GiB'],
    [10 * kibi ** 2, '10 MiB'],
    [100 * kibi ** 2, '100 MiB'],
    [1.25 * kibi, '1.25 KiB'],
  ] as const
  for (const [bytes, words] of cases) t.equal(shortSize(bytes), words)
})

t.test('counts have their thousands apart', async t => {
  const cases = [
    [0, '0'],
    [999, '999'],
    [1000, '1,000'],
    [123456, '123,456'],
    [9007199254740991, '9,007,199,254,740,991'],
  ] as const
  for (const [value, words] of cases) t.equal(count(value), words)
  t.equal(countOf(1, 'day'), '1 day')
  t.equal(countOf(1000, 'day'), '1,000 days')
})

t.test('an axis names counts in few characters', async t => {
  const cases = [
    [0, '0'],
    [2000, '2,000'],
    [15_000, '15k'],
    [250_000, '250k'],
    [1_500_000, '1.5M'],
    [20_000_000, '20M'],
  ] as const
  for (const [value, words] of cases) t.equal(shortCount(value), words)
})

t.test('only all is 100%, and only nothing 0%', async t => {
  const cases = [
    [0, '0%'],
    [0.00001, '0.1%'],
    [0.5, '50.0%'],
    [0.876, '87.6%'],
    [0.99999, '99.9%'],
    [1, '100%'],
  ] as const
  for (const [rate, words] of cases) t.equal(percent(rate), words)
})

t.test('durations are named in their largest whole unit', async t => {
  const cases = [
    [0, '0 milliseconds'],
    [1500, '1,500 milliseconds'],
    [30_000, '30 seconds'],
    [60_000, '1 minute'],
    [90_000, '90 seconds'],
    [7_200_000, '2 hours'],
    [86_400_000, '1 day'],
  ] as const
  for (const [milliseconds, words] of cases) t.equal(duration(milliseconds), words)
})

t.test('how long something has lasted is told in two units', async t => {
  const minute = 60_000
  const cases = [
    [59_999, 'less than a minute'],
    [minute, '1 minute'],
    [61 * minute, '1 hour 1 minute'],
    [120 * minute, '2 hours'],
    [(26 * 60 + 5) * minute, '1 day 2 hours'],
    [(24 * 60 + 5) * minute, '1 day'],
  ] as const
  for (const [milliseconds, words] of cases) t.equal(elapsedText(milliseconds), words)
})

t.test('rates have as many digits as are of use', async t => {
  const cases = [
    [0, '0'],
    [0.004, '0'],
    [0.0166, '0.02'],
    [3.2, '3.2'],
    [41.28, '41.3'],
    [1240.4, '1,240'],
  ] as const
  for (const [value, words] of cases) t.equal(rate(value), words)
})
