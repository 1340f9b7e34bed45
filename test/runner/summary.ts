/**
 * The results of a run of tests, and the lines that sum them up, for a person at the end of a run and for `.ci/run`.
 */

/** The results of a run, as `--json-file` writes them. */
export interface Report {
  readonly files: readonly FileReport[]
}

interface FileReport {
  /** The compiled file and its source, relative to the directory of the package. */
  readonly path: string
  readonly source: string
  readonly ok: boolean
  /** The number of assertions that passed. */
  readonly passed: number
  /** A line for each assertion that failed, or that says how the process ended. */
  readonly failures: readonly string[]
  /** A line with the reason for each test that was skipped. */
  readonly skips: readonly string[]
  readonly milliseconds: number
  /** The TAP and the standard error of a file that failed. */
  readonly details: string
}

/** What was skipped, and what failed, a line each; `word` stands before the latter. */
export function summaryLines({ files }: Report, word = 'failed'): readonly string[] {
  return [
    ...files.flatMap(({ source, skips }) => skips.map(one => `skipped: ${source}: ${one}`)),
    ...files.flatMap(({ source, failures }) => failures.map(one => `${word}: ${source}: ${one}`)),
  ]
}

/** `N passed, N failed, N skipped`. */
export function numbersOf({ files }: Report, failed = failuresOf(files)): string {
  const passed = files.reduce((sum, file) => sum + file.passed, 0)
  const skipped = files.reduce((sum, { skips }) => sum + skips.length, 0)
  return `${passed} passed, ${failed} failed, ${skipped} skipped`
}

/** How many assertions failed. */
export function failuresOf(files: Report['files']): number {
  return files.reduce((sum, { failures }) => sum + failures.length, 0)
}
