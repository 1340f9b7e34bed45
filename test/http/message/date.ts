import t from 'tap'
import { formatDate, parseDate } from '../../../lib/http/message/date.ts'
import { hostilePieces, seeded } from '../../fixtures/chance/seeded-random.ts'

const now = Date.UTC(2025, 10, 20, 12, 0, 0)
const example = Date.UTC(1994, 10, 6, 8, 49, 37)

t.test('the three formats of RFC 9110 section 5.6.7', t => {
  const table: ReadonlyArray<readonly [text: string, moment: number]> = [
    ['Sun, 06 Nov 1994 08:49:37 GMT', example],
    ['Sunday, 06-Nov-94 08:49:37 GMT', example],
    ['Sun Nov  6 08:49:37 1994', example],
    ['Wed Nov 16 08:49:37 1994', Date.UTC(1994, 10, 16, 8, 49, 37)],
    ['Thu, 01 Jan 1970 00:00:00 GMT', 0],
    ['Thu, 29 Feb 2024 23:59:59 GMT', Date.UTC(2024, 1, 29, 23, 59, 59)],
    ['Sat, 31 Dec 2016 23:59:60 GMT', Date.UTC(2017, 0, 1)],
    ['Sun, 13 Jul 0069 23:59:60 GMT', Date.parse('0069-07-14T00:00:00Z')],
    ['Fri, 31 Dec 9999 23:59:59 GMT', Date.UTC(9999, 11, 31, 23, 59, 59)],
    // The zero time of some servers is a date like any other.
    ['Mon, 01 Jan 0001 00:00:00 GMT', -62_135_596_800_000],
    // A wrong name of the day changes nothing.
    ['Mon, 06 Nov 1994 08:49:37 GMT', example],
  ]
  for (const [text, moment] of table) t.equal(parseDate(text, now), moment, text)
  t.end()
})

t.test('two digits of a year mean the latest one that is not more than 50 years ahead', t => {
  const table: ReadonlyArray<readonly [today: string, text: string, expected: string]> = [
    ['2025-11-20T12:00:00Z', 'Friday, 20-Nov-75 12:00:00 GMT', '2075-11-20T12:00:00Z'],
    ['2025-11-20T12:00:00Z', 'Friday, 20-Nov-75 12:00:01 GMT', '1975-11-20T12:00:01Z'],
    ['2025-11-20T12:00:00Z', 'Friday, 01-Jan-76 00:00:00 GMT', '1976-01-01T00:00:00Z'],
    ['2025-11-20T12:00:00Z', 'Friday, 01-Jan-26 00:00:00 GMT', '2026-01-01T00:00:00Z'],
    ['2025-11-20T12:00:00Z', 'Friday, 01-Jan-00 00:00:00 GMT', '2000-01-01T00:00:00Z'],
    ['1995-01-01T00:00:00Z', 'Friday, 01-Jan-45 00:00:00 GMT', '2045-01-01T00:00:00Z'],
    ['1995-01-01T00:00:00Z', 'Friday, 01-Jan-46 00:00:00 GMT', '1946-01-01T00:00:00Z'],
    ['2090-01-01T00:00:00Z', 'Friday, 01-Jan-05 00:00:00 GMT', '2105-01-01T00:00:00Z'],
  ]
  for (const [today, text, expected] of table) {
    const moment = parseDate(text, Date.parse(today))
    t.equal(moment, Date.parse(expected), `${text} seen from ${today}`)
  }
  t.equal(parseDate('Friday, 29-Feb-75 00:00:00 GMT', now), undefined)
  t.end()
})

t.test('anything else is no date', t => {
  const refused = [
    '',
    '0',
    '1994-11-06T08:49:37Z',
    'Sun, 06 Nov 1994 08:49:37',
    'Sun, 06 Nov 1994 08:49:37 UTC',
    'Sun, 06 Nov 1994 08:49:37 +0000',
    'Sun, 06 Nov 1994 08:49:37 gmt',
    'sun, 06 nov 1994 08:49:37 GMT',
    'Sun, 6 Nov 1994 08:49:37 GMT',
    'Sun,06 Nov 1994 08:49:37 GMT',
    'Sun, 06 Nov 94 08:49:37 GMT',
    'Sun, 06 Nov 01994 08:49:37 GMT',
    'Sun, 06-Nov-1994 08:49:37 GMT',
    'Sun, 06-Nov-94 08:49:37 GMT',
    'Sunday, 06 Nov 1994 08:49:37 GMT',
    'Sun, 00 Nov 1994 08:49:37 GMT',
    'Sun, 31 Nov 1994 08:49:37 GMT',
    'Sun, 30 Feb 2024 08:49:37 GMT',
    'Wed, 29 Feb 2023 08:49:37 GMT',
    'Sun, 06 Nov 1994 24:00:00 GMT',
    'Sun, 06 Nov 1994 08:60:00 GMT',
    'Sun, 06 Nov 1994 08:49:61 GMT',
    'Sun, 06 Nov 1994 8:49:37 GMT',
    'Xyz, 06 Nov 1994 08:49:37 GMT',
    'Sun, 06 Nop 1994 08:49:37 GMT',
    'Sun Nov 06 08:49:37 94',
    'Sun Nov 6 08:49:37 1994',
    'Sun Nov 00 08:49:37 1994',
    ' Sun, 06 Nov 1994 08:49:37 GMT',
    'Sun, 06 Nov 1994 08:49:37 GMT\n',
    'Sun, 06 Nov 1994 08:49:37 GMT, Sun, 06 Nov 1994 08:49:37 GMT',
    'Sun, \u0660\u0666 Nov 1994 08:49:37 GMT',
  ]
  for (const text of refused) t.equal(parseDate(text, now), undefined, JSON.stringify(text))
  t.end()
})

t.test('dates are written as IMF-fixdate, cut to the second', t => {
  t.equal(formatDate(example), 'Sun, 06 Nov 1994 08:49:37 GMT')
  t.equal(formatDate(example + 999), 'Sun, 06 Nov 1994 08:49:37 GMT')
  t.equal(formatDate(-62_135_596_800_000), 'Mon, 01 Jan 0001 00:00:00 GMT')
  for (const moment of [Number.NaN, Number.POSITIVE_INFINITY, 253_402_300_800_000, -9e15, -1e14]) {
    t.throws(() => formatDate(moment), RangeError, String(moment))
  }
  t.end()
})

t.test('every moment survives writing and reading, and hostile text never throws', t => {
  const chance = seeded(3)
  const samples = [
    'Sun, 06 Nov 1994 08:49:37 GMT',
    'Sunday, 06-Nov-94 08:49:37 GMT',
    'Sun Nov  6 08:49:37 1994',
  ]
  for (let i = 0; i < 4000; i += 1) {
    const moment = (chance.below(2 ** 31) - 2 ** 29) * 1000
    if (parseDate(formatDate(moment), now) !== moment) t.fail(String(moment))
    const text = chance.mutate(chance.pick(samples), hostilePieces)
    const parsed = parseDate(text, now)
    if (parsed !== undefined && !Number.isSafeInteger(parsed)) t.fail(JSON.stringify(text))
  }
  t.end()
})
