/**
 * Prints the results of runs of tests, for `.ci/run`:
 *
 *     node dist/test/runner/report.js [--again] FILE.json ...    what failed, with its TAP, what was skipped, and as last line the numbers
 *     node dist/test/runner/report.js --failed FILE.json         the compiled files that failed, a line each
 *
 * `--again` says that what failed has passed since, `--also=TEXT` that something failed besides. Ends with 1 when a file cannot be read,
 * and `--failed` also when the coverage was too low.
 */
import { readFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { exitCodes, print, run } from '../../lib/program.ts'

/** The results of a run, as `--json-file` writes them. */
export interface Report {
  /** Whether the coverage was high enough, or not asked for. */
  readonly covered: boolean
  readonly files: readonly FileReport[]
}

interface FileReport {
  /** The compiled file and its source, relative to the directory of the package. */
  readonly path: string
  readonly source: string
  readonly ok: boolean
  /** Numbers and names of assertions. */
  readonly passed: number
  readonly failures: readonly string[]
  readonly skips: readonly string[]
  readonly milliseconds: number
  /** The TAP and the standard error of a file that failed. */
  readonly details: string
}

await run('report', async () => {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      again: { type: 'boolean', default: false },
      also: { type: 'string' },
      failed: { type: 'boolean', default: false },
    },
  })
  const reports = positionals.map(path => JSON.parse(readFileSync(path, 'utf8')) as Report)
  const files = reports.flatMap(({ files }) => files)
  const broken = files.filter(({ ok }) => !ok)
  if (values.failed) {
    await print(broken.map(({ path }) => `${path}\n`).join(''))
    return reports.every(({ covered }) => covered) ? exitCodes.success : exitCodes.failure
  }
  const word = values.again ? 'failed the first time' : 'failed'
  const lines = [
    ...broken.map(({ details }) => details),
    ...broken.flatMap(({ source, failures }) => failures.map(one => `${word}: ${source}: ${one}`)),
    ...(reports.every(({ covered }) => covered) ? [] : ['failed: the coverage is too low']),
    ...files.flatMap(({ source, skips }) => skips.map(one => `skipped: ${source}: ${one}`)),
  ]
  const sum = (of: (file: FileReport) => number) => files.reduce((all, file) => all + of(file), 0)
  const others = values.also === undefined ? 0 : 1
  const failed = values.again ? 0 : sum(({ failures }) => failures.length) + others
  const numbers = [
    `${sum(({ passed }) => passed)} passed`,
    `${failed} failed`,
    `${sum(({ skips }) => skips.length)} skipped`,
  ]
  await print([...lines, numbers.join(', '), ''].join('\n'))
  return exitCodes.success
})
