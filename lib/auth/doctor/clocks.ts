/**
 * Compares another server's clock with ours by the Date of its answer (RFC 9110 section 6.6.1). Pure.
 */
import type { Milliseconds } from '../../async/clock.ts'
import { parseDate } from '../../http/message/date.ts'
import type { Answered } from './ask.ts'
import { doubtful, type Finding, right, wrong } from './check.ts'

/**
 * Judges the other clock when it answered, against the middle of the exchange. Beyond `wrong` the difference keeps users out,
 * beyond `doubtful` it deserves attention. An answer out of a cache (Age) has an old Date, which is not used.
 */
export function judgeClock(
  { fields, asked, answered }: Pick<Answered, 'fields' | 'asked' | 'answered'>,
  limit: { readonly doubtful: Milliseconds; readonly wrong: Milliseconds; readonly mend: string },
): Finding {
  const date = fields.has('Age') ? undefined : parseDate(fields.get('Date') ?? '', answered)
  if (date === undefined) {
    return doubtful('its answer names no time of its own', 'compare the clocks by hand: date -u')
  }
  // A Date is cut to the second: the moment lies half a second behind it on average, and as far from that at most.
  const ahead = date + 500 - (asked + answered) / 2
  const off = Math.max(0, Math.abs(ahead) - 500 - (answered - asked) / 2)
  const seconds = Math.round(off / 1000)
  const found =
    seconds === 0 ? 'the same' : `ours is ${seconds} s ${ahead < 0 ? 'ahead' : 'behind'}`
  if (off > limit.wrong) return wrong(found, limit.mend)
  return off > limit.doubtful ? doubtful(found, limit.mend) : right(found)
}
