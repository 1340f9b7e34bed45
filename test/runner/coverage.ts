/**
 * Records which code of a test's process ran: `node --import .../coverage.js test.js`. Writes a file for each process and thread
 * into the directory that COVERAGE_DIRECTORY names, in the form of V8, which `tap report` reads.
 *
 * Only compiled code below dist/lib, dist/bin and dist/demo is recorded. A block of code counts as run or not run: V8 spends less on
 * that than on numbers. A process that is killed records nothing.
 */
import { writeFileSync } from 'node:fs'
import { Session } from 'node:inspector'
import { join } from 'node:path'
import { threadId } from 'node:worker_threads'

const directory = process.env['COVERAGE_DIRECTORY']
/** The compiled program: this file is dist/test/runner/coverage.js. */
const covered = ['lib/', 'bin/', 'demo/'].map(
  folder => new URL(`../../${folder}`, import.meta.url).href,
)

if (directory !== undefined) {
  const session = new Session()
  session.connect()
  session.post('Profiler.enable')
  session.post('Profiler.startPreciseCoverage', { callCount: false, detailed: true })
  process.on('exit', () => {
    session.post('Profiler.takePreciseCoverage', (error, coverage) => {
      if (error !== null) throw error
      const result = coverage.result.filter(({ url }) => covered.some(at => url.startsWith(at)))
      const name = `${process.pid}-${threadId}-${Date.now()}.json`
      writeFileSync(join(directory, name), JSON.stringify({ result }))
    })
  })
}
