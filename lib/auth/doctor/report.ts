/**
 * Diagnoses as lines for a terminal, and what a script is told. Pure.
 */

import { printable } from '../../log/redact.ts'
import { type ExitCode, exitCodes } from '../../program.ts'
import type { Diagnosis } from './check.ts'

const MARKS = { right: 'ok   ', doubtful: 'doubt', wrong: 'WRONG' } as const

/** Much of what is found was said by others: it must not move the cursor, nor fill the screen. */
const LONGEST = 600

/** The lines of one diagnosis: mark, what and found, then the mend. */
export function linesOf({ what, state, found, mend }: Diagnosis): readonly string[] {
  const text = printable(found)
  const short = text.length > LONGEST ? `${text.slice(0, LONGEST)}…` : text
  const lines = [`${MARKS[state]}  ${what}: ${short}`]
  return mend === undefined ? lines : [...lines, `       ${printable(mend)}`]
}

/** The last line, and the exit code: a failure when anything is wrong. */
export function sumUp(diagnoses: readonly Diagnosis[]): {
  readonly line: string
  readonly exitCode: ExitCode
} {
  const count = (state: Diagnosis['state']) => diagnoses.filter(one => one.state === state).length
  const [wrong, doubtful] = [count('wrong'), count('doubtful')]
  const line =
    wrong + doubtful === 0
      ? `Nothing is wrong: ${diagnoses.length} checks.`
      : `${wrong} wrong, ${doubtful} doubtful, ${count('right')} right.`
  return { line, exitCode: wrong === 0 ? exitCodes.success : exitCodes.failure }
}
