/**
 * What a check of `authproxy doctor` is: a name, a question, and findings with how to mend them.
 */
import { printable } from '../../log/redact.ts'
import { type ExitCode, exitCodes } from '../../program.ts'
import type { Examination } from './facts.ts'

export interface Check {
  /** Begins the lines of the report. */
  readonly name: string
  readonly asks: string
  /** Never throws. `undefined`: an earlier finding leaves nothing to ask. An empty list: there is nothing to report. */
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

export function right(found: string): Finding {
  return { state: 'right', found }
}

export function doubtful(found: string, mend: string): Finding {
  return { state: 'doubtful', found, mend }
}

export function wrong(found: string, mend: string): Finding {
  return { state: 'wrong', found, mend }
}

const MARKS = { right: 'ok   ', doubtful: 'doubt', wrong: 'WRONG', 'not asked': '-    ' } as const
/** Characters of a finding that are printed. It may repeat what another server sent. */
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
