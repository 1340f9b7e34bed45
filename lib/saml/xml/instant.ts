/**
 * Reads and writes instants as SAML has them: xs:dateTime in UTC (saml-core-2.0-os section 1.3.3). Reads durations (xs:duration).
 */

import type { Milliseconds } from '../../async/clock.ts'
import { trimXml } from './xml.ts'

const INSTANT = /^(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)?$/

/**
 * The moment of a dateTime, since the epoch; undefined when the text is not one. A dateTime without a zone is UTC, as the
 * standard says. An offset is understood although the standard does not allow it.
 */
export function parseInstant(text: string): Milliseconds | undefined {
  const match = INSTANT.exec(trimXml(text))
  if (match === null) return undefined
  const [, year, month, day, hour, minute, second, fraction = '', zone = 'Z'] = match
  const millis = fraction.slice(0, 3).padEnd(3, '0')
  const canonical = `${year}-${month}-${day}T${hour}:${minute}:${second}.${millis}`
  const moment = Date.parse(`${canonical}${zone}`)
  // Date.parse reads the 30th of February as the 1st or 2nd of March.
  const sameDay = Date.parse(`${canonical}Z`)
  if (Number.isNaN(moment) || new Date(sameDay).toISOString() !== `${canonical}Z`) return undefined
  return moment
}

/** The moment in the form of SAML, to the second, because some IdPs refuse fractions. */
export function formatInstant(moment: Milliseconds): string {
  return `${new Date(moment).toISOString().slice(0, 19)}Z`
}

const DURATION =
  /^P(?=\d|T\d)(?:(\d{1,9})Y)?(?:(\d{1,9})M)?(?:(\d{1,9})D)?(?:T(?=\d)(?:(\d{1,9})H)?(?:(\d{1,9})M)?(?:(\d{1,9})(?:\.\d{1,9})?S)?)?$/

/**
 * The duration of a text, to the second; undefined for other text and for negative durations. A month counts 30 days and a year
 * 365, which is exact enough for a bound.
 */
export function parseXmlDuration(text: string): Milliseconds | undefined {
  const match = DURATION.exec(trimXml(text))
  if (match === null) return undefined
  const [years = 0, months = 0, days = 0, hours = 0, minutes = 0, seconds = 0] = match
    .slice(1)
    .map(part => Number(part ?? 0))
  const whole = years * 365 + months * 30 + days
  return (((whole * 24 + hours) * 60 + minutes) * 60 + seconds) * 1000
}
