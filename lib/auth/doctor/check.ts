/**
 * Defines a check of `authproxy doctor`: a name, a question, and findings with their remedies. The file also holds the
 * judgements that several checks share: the end of a certificate, and the clocks of other servers. Pure.
 */
import { day, type Milliseconds } from '../../async/clock.ts'
import { parseDate } from '../../http/message/date.ts'
import { printable } from '../../log/redact.ts'
import { type ExitCode, exitCodes } from '../../program.ts'
import type { AnsweredRequest } from './ask.ts'
import type { Examination } from './facts.ts'

export interface Check {
  /** The name at the start of each line of the report. */
  readonly name: string
  readonly asks: string
  /**
   * Never throws. It answers `undefined` when an earlier finding leaves nothing to ask, and an empty list when there is nothing
   * to report.
   */
  readonly answer: (of: Examination) => Answer | Promise<Answer>
}

export type Answer = Finding | readonly Finding[] | undefined

export interface Finding {
  /** `wrong` keeps users out or puts them at risk; `doubtful` may do so, or could not be found out. */
  readonly state: 'right' | 'doubtful' | 'wrong' | 'not asked'
  readonly found: string
  readonly mend?: string
}

/** A finding under the name of its check. */
export interface Diagnosis extends Finding {
  readonly what: string
}

export function check(name: string, asks: string, answer: Check['answer']): Check {
  return { name, asks, answer }
}

export function goodFinding(found: string): Finding {
  return { state: 'right', found }
}

export function doubtfulFinding(found: string, mend: string): Finding {
  return { state: 'doubtful', found, mend }
}

export function wrongFinding(found: string, mend: string): Finding {
  return { state: 'wrong', found, mend }
}

/** The day of a moment, in UTC. */
export function dayOf(moment: Milliseconds): string {
  return Number.isFinite(moment) ? new Date(moment).toISOString().slice(0, 10) : 'an unknown day'
}

/** Judges the end of a certificate: within `soon` of it the finding is doubtful. */
export function judgeEnd(
  ends: Milliseconds,
  by: { readonly now: Milliseconds; readonly warnWithin: Milliseconds; readonly mend: string },
): Finding {
  const { now, warnWithin, mend } = by
  if (ends <= now) return wrongFinding(`expired on ${dayOf(ends)}`, mend)
  const found = `until ${dayOf(ends)}, ${Math.floor((ends - now) / day)} days`
  return ends - now < warnWithin ? doubtfulFinding(found, mend) : goodFinding(found)
}

/**
 * Judges the other clock when it answered, against the middle of the exchange. Beyond `wrong` the difference keeps users out,
 * beyond `doubtful` it deserves attention. An answer out of a cache (Age) has an old Date, which is not used.
 */
export function judgeClock(
  { fields, askedAt, answeredAt }: Pick<AnsweredRequest, 'fields' | 'askedAt' | 'answeredAt'>,
  limit: { readonly doubtful: Milliseconds; readonly wrong: Milliseconds; readonly mend: string },
): Finding {
  const date = fields.has('Age') ? undefined : parseDate(fields.get('Date') ?? '', answeredAt)
  if (date === undefined) {
    return doubtfulFinding(
      'its answer names no time of its own',
      'compare the clocks by hand: date -u',
    )
  }
  // A Date is cut to the second, so the real moment is half a second later on average.
  const ahead = date + 500 - (askedAt + answeredAt) / 2
  const off = Math.max(0, Math.abs(ahead) - 500 - (answeredAt - askedAt) / 2)
  const seconds = Math.round(off / 1000)
  const found =
    seconds === 0 ? 'the same' : `ours is ${seconds} s ${ahead < 0 ? 'ahead' : 'behind'}`
  if (off > limit.wrong) return wrongFinding(found, limit.mend)
  return off > limit.doubtful ? doubtfulFinding(found, limit.mend) : goodFinding(found)
}

const MARKS = { right: 'ok   ', doubtful: 'doubt', wrong: 'WRONG', 'not asked': '-    ' } as const
/** The most characters of a finding that are printed. A finding may repeat text of another server. */
const LONGEST = 600

/** A diagnosis as lines for a terminal: mark, name and finding, then how to mend it. */
export function linesOf({ what, state, found, mend }: Diagnosis): readonly string[] {
  const text = printable(found)
  const short = text.length > LONGEST ? `${text.slice(0, LONGEST)}…` : text
  const lines = [`${MARKS[state]}  ${what}: ${short}`]
  return mend === undefined ? lines : [...lines, `       ${printable(mend)}`]
}

/** The last line of the report, and the exit code: a failure when anything is wrong. */
export function sumUp(diagnoses: readonly Diagnosis[]): {
  readonly line: string
  readonly exitCode: ExitCode
} {
  const count = (state: Finding['state']) => diagnoses.filter(one => one.state === state).length
  const [wrong, doubtful, unasked] = [count('wrong'), count('doubtful'), count('not asked')]
  const rest = unasked === 0 ? '' : `, ${unasked} not asked`
  const line =
    wrong + doubtful + unasked === 0
      ? `Nothing is wrong: ${diagnoses.length} checks.`
      : `${wrong} wrong, ${doubtful} doubtful, ${count('right')} right${rest}.`
  return { line, exitCode: wrong === 0 ? exitCodes.success : exitCodes.failure }
}
