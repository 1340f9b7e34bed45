/**
 * Dates in fields, RFC 9110 section 5.6.7. The parser takes exactly the three formats, case included, and only days that exist. The name of
 * the day must be valid but is not compared with the date, because some servers send a wrong one.
 */
import type { Milliseconds } from '../../async/clock.ts'

/** The moment an HTTP-date names; undefined for any other text. `now` is for the years of RFC 850, which have two digits. */
export function parseDate(text: string, now: Milliseconds): Milliseconds | undefined {
  const found = IMF_FIXDATE.exec(text) ?? RFC850.exec(text)
  if (found === null) return parseAsctime(text)
  const [, day, month, year = '', time] = found
  return year.length === 4
    ? momentOf(Number(year), { month, day, time })
    : momentNear(now, Number(year), { month, day, time })
}

/**
 * IMF-fixdate, `Sun, 06 Nov 1994 08:49:37 GMT`, cut to the whole second: the only format that a sender may write. Throws a RangeError for a
 * moment outside the years 0 to 9999, which the format cannot express.
 */
export function formatDate(moment: Milliseconds): string {
  const date = new Date(moment)
  const year = date.getUTCFullYear()
  // The condition refuses NaN, too: both comparisons with it are false.
  if (!(year >= 0 && year <= 9999)) throw new RangeError(`no HTTP-date can express ${moment}`)
  return date.toUTCString()
}

const MONTHS = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec']
const MONTH = `(${MONTHS.join('|')})`
const DAY_NAME = '(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)'
const LONG_DAY_NAME = '(?:Monday|Tuesday|Wednesday|Thursday|Friday|Saturday|Sunday)'
const TIME = '([0-9]{2}:[0-9]{2}:[0-9]{2})'

/** `Sun, 06 Nov 1994 08:49:37 GMT` */
const IMF_FIXDATE = new RegExp(`^${DAY_NAME}, ([0-9]{2}) ${MONTH} ([0-9]{4}) ${TIME} GMT$`)
/** `Sunday, 06-Nov-94 08:49:37 GMT` */
const RFC850 = new RegExp(`^${LONG_DAY_NAME}, ([0-9]{2})-${MONTH}-([0-9]{2}) ${TIME} GMT$`)
/** `Sun Nov  6 08:49:37 1994` */
const ASCTIME = new RegExp(`^${DAY_NAME} ${MONTH} ([0-9]{2}| [0-9]) ${TIME} ([0-9]{4})$`)

function parseAsctime(text: string): Milliseconds | undefined {
  const [, month, day, time, year] = ASCTIME.exec(text) ?? []
  return year === undefined ? undefined : momentOf(Number(year), { month, day, time })
}

interface Parts {
  readonly month: string | undefined
  readonly day: string | undefined
  readonly time: string | undefined
}

/** A moment more than 50 years in the future is the latest one in the past whose year ends with the same two `digits`. */
function momentNear(now: Milliseconds, digits: number, parts: Parts): Milliseconds | undefined {
  const horizon = new Date(now)
  horizon.setUTCFullYear(horizon.getUTCFullYear() + 50)
  const last = horizon.getUTCFullYear()
  // The latest year with these digits that is not after the horizon. If the day is after the horizon's, it is a century earlier.
  const year = last - ((((last - digits) % 100) + 100) % 100)
  const latest = momentOf(year, parts)
  return latest !== undefined && latest <= horizon.getTime()
    ? latest
    : momentOf(year - (year === last ? 100 : 0), parts)
}

function momentOf(year: number, { month, day, time = '' }: Parts): Milliseconds | undefined {
  const months = MONTHS.indexOf(month ?? '')
  const days = Number(day)
  const hours = Number(time.slice(0, 2))
  const minutes = Number(time.slice(3, 5))
  const seconds = Number(time.slice(6))
  // The grammar allows 60 for a leap second; it counts as the second after 59.
  if (hours > 23 || minutes > 59 || seconds > 60) return undefined
  if (days < 1 || days > daysOf(year, months)) return undefined
  if (year > 99) return Date.UTC(year, months, days, hours, minutes, seconds)
  // Date.UTC reads these years as 1900 to 1999.
  const date = new Date(0)
  date.setUTCFullYear(year, months, days)
  return date.setUTCHours(hours, minutes, seconds)
}

/** The number of days of a month in the proleptic Gregorian calendar. */
function daysOf(year: number, month: number): number {
  if (month !== 1) return [3, 5, 8, 10].includes(month) ? 30 : 31
  return year % 4 === 0 && (year % 100 !== 0 || year % 400 === 0) ? 29 : 28
}
