/**
 * Prints the results of runs of tests, for `.ci/run`:
 *
 *     node dist/test/runner/report.js [--again] FILE.json ...    what failed, with its TAP, what was skipped, and as last line the numbers
 *     node dist/test/runner/report.js --failed FILE.json         the compiled files that failed, a line each
 *
 * `--again` says that what failed has passed since, `--also=TEXT` that something else failed. Ends with 1 when a file cannot be read.
 */
import { readFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { exitCodes, print, run } from '../../lib/program.ts'
import { failuresOf, numbersOf, type Report, summaryLines } from './summary.ts'

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
  const all: Report = { files: reports.flatMap(({ files }) => files) }
  const broken = all.files.filter(({ ok }) => !ok)
  if (values.failed) {
    await print(broken.map(({ path }) => `${path}\n`).join(''))
    return exitCodes.success
  }
  const others = values.also === undefined ? 0 : 1
  const failed = values.again ? 0 : failuresOf(all.files) + others
  const lines = [
    ...broken.map(({ details }) => details),
    ...summaryLines(all, values.again ? 'failed the first time' : 'failed'),
    numbersOf(all, failed),
  ]
  await print(`${lines.join('\n')}\n`)
  return exitCodes.success
})
