/**
 * Clocks of others against ours, by the Date of their answers (RFC 9110 section 6.6.1). Pure.
 */
import type { Milliseconds } from '../../async/clock.ts'
import { parseDate } from '../../http/message/date.ts'
import type { Fields } from '../../http/message/field.ts'
import { type Diagnosis, doubtful, right, wrong } from './check.ts'

/** By how much another clock is ahead of ours; how far off that may be. */
export interface Apart {
  readonly by: Milliseconds
  readonly give: Milliseconds
}

/**
 * The other clock when it answered, against the middle of the exchange; undefined when the answer names no time, or comes out
 * of a cache, whose Date is old.
 */
export function clockOf(answer: {
  readonly fields: Fields
  readonly asked: Milliseconds
  readonly answered: Milliseconds
}): Apart | undefined {
  const { fields, asked, answered } = answer
  if (fields.has('Age')) return undefined
  const date = parseDate(fields.get('Date') ?? '', answered)
  if (date === undefined) return undefined
  // Dates are cut to the second: half of one more on the average.
  return { by: date + 500 - (asked + answered) / 2, give: 500 + (answered - asked) / 2 }
}

/** What a difference means: beyond `wrong` it keeps people out, beyond `doubtful` somebody ought to look. */
export function judgeClock(
  what: string,
  apart: Apart | undefined,
  limit: {
    readonly doubtful: Milliseconds
    readonly wrong: Milliseconds
    readonly mend: string
  },
): Diagnosis {
  if (apart === undefined) {
    return doubtful(
      what,
      'its answer names no time of its own',
      'compare the clocks by hand: date -u',
    )
  }
  const off = Math.max(0, Math.abs(apart.by) - apart.give)
  const seconds = Math.round(off / 1000)
  const found =
    seconds === 0 ? 'the same' : `ours is ${seconds} s ${apart.by < 0 ? 'ahead' : 'behind'}`
  if (off > limit.wrong) return wrong(what, found, limit.mend)
  return off > limit.doubtful ? doubtful(what, found, limit.mend) : right(what, found)
}
