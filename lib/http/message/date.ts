/**
 * Dates in fields, RFC 9110 section 5.6.7. Strict: the three formats exactly, case included, and only days that exist. The name
 * of the day must be valid but is not compared with the date, because some servers send a wrong one.
 */
import type { Milliseconds } from '../../async/clock.ts'

/**
 * The moment an HTTP-date names, milliseconds since the epoch; undefined for any other text. `now` is needed because RFC 850
 * years have two digits.
 */
export function parseDate(text: string, now: Milliseconds): Milliseconds | undefined {
  return parseImfFixdate(text) ?? parseRfc850(text, now) ?? parseAsctime(text)
}

/**
 * IMF-fixdate, `Sun, 06 Nov 1994 08:49:37 GMT`, cut to the whole second: the only format one may write. Throws RangeError for
 * a moment outside the years 0 to 9999, which the format cannot express.
 */
export function formatDate(moment: Milliseconds): string {
  const date = new Date(moment)
  const year = date.getUTCFullYear()
  // Not a number, too: both comparisons with NaN are false.
  if (!(year >= 0 && year <= 9999)) throw new RangeError(`no HTTP-date can express ${moment}`)
  return date.toUTCString()
}

const MONTHS = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec']
const MONTH = `(${MONTHS.join('|')})`
const DAY_NAME = '(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)'
const LONG_DAY_NAME = '(?:Monday|Tuesday|Wednesday|Thursday|Friday|Saturday|Sunday)'
const TIME = '([0-9]{2}):([0-9]{2}):([0-9]{2})'

const IMF_FIXDATE = new RegExp(`^${DAY_NAME}, ([0-9]{2}) ${MONTH} ([0-9]{4}) ${TIME} GMT$`)
const RFC850 = new RegExp(`^${LONG_DAY_NAME}, ([0-9]{2})-${MONTH}-([0-9]{2}) ${TIME} GMT$`)
const ASCTIME = new RegExp(`^${DAY_NAME} ${MONTH} ([0-9]{2}| [0-9]) ${TIME} ([0-9]{4})$`)

/** `Sun, 06 Nov 1994 08:49:37 GMT` */
function parseImfFixdate(text: string): Milliseconds | undefined {
  const found = IMF_FIXDATE.exec(text)
  if (found === null) return undefined
  const [, day, month, year, hour, minute, second] = found
  return momentOf({ year: Number(year), month, day, hour, minute, second })
}

/**
 * `Sunday, 06-Nov-94 08:49:37 GMT`. A moment that appears to be more than 50 years in the future is the most recent one in
 * the past with the same last two digits.
 */
function parseRfc850(text: string, now: Milliseconds): Milliseconds | undefined {
  const found = RFC850.exec(text)
  if (found === null) return undefined
  const [, day, month, digits, hour, minute, second] = found
  const horizon = new Date(now)
  horizon.setUTCFullYear(horizon.getUTCFullYear() + 50)
  const last = horizon.getUTCFullYear()
  // The latest year with these digits that is not after the horizon's, or a century less when the day of the year is.
  const year = last - ((((last - Number(digits)) % 100) + 100) % 100)
  const parts = { month, day, hour, minute, second }
  const latest = momentOf({ ...parts, year })
  return latest !== undefined && latest <= horizon.getTime()
    ? latest
    : momentOf({ ...parts, year: year - (year === last ? 100 : 0) })
}

/** `Sun Nov  6 08:49:37 1994` */
function parseAsctime(text: string): Milliseconds | undefined {
  const found = ASCTIME.exec(text)
  if (found === null) return undefined
  const [, month, day, hour, minute, second, year] = found
  return momentOf({ year: Number(year), month, day, hour, minute, second })
}

interface Parts {
  readonly year: number
  readonly month: string | undefined
  readonly day: string | undefined
  readonly hour: string | undefined
  readonly minute: string | undefined
  readonly second: string | undefined
}

function momentOf(parts: Parts): Milliseconds | undefined {
  const month = MONTHS.indexOf(parts.month ?? '')
  const [day, hour, minute, second] = [
    Number(parts.day),
    Number(parts.hour),
    Number(parts.minute),
    Number(parts.second),
  ]
  // The grammar allows 60 for a leap second; it counts as the second after 59.
  if (hour > 23 || minute > 59 || second > 60) return undefined
  const date = new Date(0)
  // Not Date.UTC, which reads the years 0 to 99 as 1900 to 1999.
  date.setUTCFullYear(parts.year, month, day)
  // A day the month does not have would have moved on to another month.
  if (day < 1 || date.getUTCDate() !== day || date.getUTCMonth() !== month) return undefined
  return date.setUTCHours(hour, minute, second)
}
