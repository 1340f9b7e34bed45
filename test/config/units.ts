import t from 'tap'
import { formatDuration, formatSize, parseDuration, parseSize } from '../../lib/config/units.ts'

const problem = (read: { ok: boolean; problem?: string }) => (read.ok ? undefined : read.problem)

t.test('durations are read with their units', t => {
  const table: ReadonlyArray<readonly [string, number]> = [
    ['0', 0],
    ['30', 30_000],
    ['1.5', 1500],
    ['500ms', 500],
    ['30s', 30_000],
    ['5m', 300_000],
    ['1h', 3_600_000],
    ['7d', 604_800_000],
    ['2w', 1_209_600_000],
    ['1h30m', 5_400_000],
    ['1h 30m', 5_400_000],
    [' 10 s ', 10_000],
    ['0.5d', 43_200_000],
  ]
  for (const [text, value] of table) t.strictSame(parseDuration(text), { ok: true, value }, text)
  t.end()
})

t.test('a bad duration is answered with what to write', t => {
  const table: ReadonlyArray<readonly [string, RegExp]> = [
    ['', /a number and a unit/],
    ['soon', /a number and a unit/],
    ['8 parsecs', /"parsecs" is not a unit of time/],
    ['30M', /write 30m/],
    ['5min', /write 5m/],
    ['2 hours', /write 2h/],
    ['1h30', /which unit/],
    ['-5s', /no sign/],
    ['1.2.3s', /unit/],
    ['9'.repeat(40), /too large/],
    [`1${'x'.repeat(100_000)}`, /^.{1,120}$/],
  ]
  for (const [text, expected] of table)
    t.match(problem(parseDuration(text)), expected, text.slice(0, 20))
  t.end()
})

t.test('sizes are binary', t => {
  const table: ReadonlyArray<readonly [string, number]> = [
    ['0', 0],
    ['512', 512],
    ['64K', 65_536],
    ['64k', 65_536],
    ['10MiB', 10 * 2 ** 20],
    ['1.5G', 1.5 * 2 ** 30],
    ['2Ti', 2 ** 41],
    ['3 M', 3 * 2 ** 20],
  ]
  for (const [text, value] of table) t.strictSame(parseSize(text), { ok: true, value }, text)
  t.match(problem(parseSize('64KB')), /1000 or 1024: write 64K/)
  t.match(problem(parseSize('64kB')), /write 64K/)
  t.match(problem(parseSize('5P')), /not a unit of size/)
  t.match(problem(parseSize('large')), /a number and a unit/)
  t.match(problem(parseSize('-1K')), /no sign/)
  t.match(problem(parseSize('99999999T')), /too large/)
  t.end()
})

t.test('what is written is read back exactly', t => {
  for (const value of [0, 1, 250, 1000, 5_400_000, 86_400_000, 90_061_001, 31_536_000_000]) {
    t.strictSame(parseDuration(formatDuration(value)), { ok: true, value }, formatDuration(value))
  }
  for (const value of [0, 1, 1023, 1024, 1536, 65_536, 2 ** 30, 2 ** 40, 2 ** 30 + 1]) {
    t.strictSame(parseSize(formatSize(value)), { ok: true, value }, formatSize(value))
  }
  t.equal(formatDuration(90_061_001), '1d1h1m1s1ms')
  t.equal(formatSize(65_536), '64K')
  t.end()
})
