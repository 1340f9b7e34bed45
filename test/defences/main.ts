/**
 * Switches the defences off, one at a time in a copy of the compiled program, and says whether a test notices.
 *
 *     node dist/test/defences/main.js [number of an attack, or a range such as 29-40 ...]
 *     node dist/test/defences/main.js --some=12 --lot=TEXT      twelve of them, which the text chooses
 *     node dist/test/defences/main.js --limit=180 --lot=TEXT    as many as begin within so many seconds, in the order that the text chooses
 *
 * Writes a table, and once more the rows that no test noticed, and those of which this run learnt nothing. Ends with 1 when no test
 * noticed a row, without a limit also when one is unclear. `--json-file` writes the results as those of a test file, for `.ci/run`.
 */
import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { packageRoot } from '../../lib/package.ts'
import type { Report } from '../runner/summary.ts'
import { type Defence, defences } from './list.ts'

const project = packageRoot()
const started = performance.now()
const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    some: { type: 'string' },
    lot: { type: 'string', default: '' },
    limit: { type: 'string' },
    'json-file': { type: 'string' },
  },
})
const wanted = positionals.map(range => range.split('-').map(Number))
/** Milliseconds for beginning rows, and for the end of the last one. */
const limit = values.limit === undefined ? undefined : Number(values.limit) * 1000
const end = limit === undefined ? undefined : started + limit + 90_000
const compiled = ['dist', 'templates', 'bin', 'package.json']
/** What tests read besides. */
const read = ['docs', 'man', 'lib', 'demo', 'test', 'package-lock.json']
const copy = mkdtempSync(join(tmpdir(), 'defences-'))
for (const name of [...compiled, ...read]) {
  cpSync(join(project, name), join(copy, name), { recursive: true })
}
symlinkSync(join(project, 'node_modules'), join(copy, 'node_modules'))

/**
 * How a run of a test ended. A test that hangs without a defence most likely waits for a refusal that does not come. `has no time`: the
 * end of the whole run came first.
 */
type Outcome = 'passes' | 'fails' | 'hangs' | 'has no time'

/** Milliseconds that a test may take. */
const LIMIT = 180_000

/** Runs a test, to its first failure; `only`: the tests in it whose names have this number. */
function outcomeOf(test: string, only?: number): Promise<Outcome> {
  const path = join('dist/test', `${test}.js`)
  const left = end === undefined ? Number.POSITIVE_INFINITY : Math.ceil(end - performance.now())
  if (left <= 0) return Promise.resolve('has no time')
  return new Promise(resolve => {
    const named = only === undefined ? {} : { TAP_GREP: `/\\b${only}\\b.*:/` }
    const env = { ...process.env, TAP_TIMEOUT: String(LIMIT / 1000), TAP_BAIL: '1', ...named }
    // A test in an endless loop does not hear other signals.
    const killSignal = 'SIGKILL'
    const timeout = Math.min(LIMIT + 10_000, left)
    const options = { cwd: copy, env, timeout, killSignal, maxBuffer: 1 << 28 } as const
    execFile(process.execPath, [path], options, (error, output) => {
      if (error === null) resolve('passes')
      else if (error.killed === true) resolve(timeout === left ? 'has no time' : 'hangs')
      else resolve(/timeout!/.test(output) ? 'hangs' : 'fails')
    })
  })
}

const good = new Map<string, Promise<Outcome>>()

/** How a test ends as things are. One that does not pass notices nothing. */
function asItIs(test: string, only?: number): Promise<Outcome> {
  const key = `${test} ${only ?? ''}`
  const known = good.get(key) ?? outcomeOf(test, only)
  good.set(key, known)
  return known
}

interface Row {
  readonly defence: Defence
  /** `unclear`: a test failed with the defence too, or did not come to its end. */
  readonly verdict: 'noticed' | 'not noticed' | 'unclear'
  /** The test that noticed, or why none did. */
  readonly by: string
}

/** Looks for a test that passes with the defence and does not without it. Those that are named for the attack are the quickest to notice. */
async function rowOf(defence: Defence): Promise<Row> {
  const { attack, file, from, to, tests } = defence
  const path = join(copy, 'dist/lib', file)
  const whole = readFileSync(path, 'utf8')
  if (whole.split(from).length !== 2) {
    return { defence, verdict: 'not noticed', by: `NOT ONE PLACE in ${file}: ${from}` }
  }
  const switchedOff = async (test: string, only?: number) => {
    writeFileSync(
      path,
      whole.replace(from, () => to),
    )
    try {
      return await outcomeOf(test, only)
    } finally {
      writeFileSync(path, whole)
    }
  }
  const doubts = new Map<string, Outcome>()
  for (const test of tests) {
    for (const only of [attack, undefined]) {
      const outcome = await switchedOff(test, only)
      // All of its tests have passed without the defence.
      if (outcome === 'passes' && only === undefined) doubts.delete(test)
      if (outcome === 'passes') continue
      const before = outcome === 'has no time' ? outcome : await asItIs(test, only)
      if (before !== 'passes') {
        doubts.set(test, before)
        continue
      }
      const by = outcome === 'hangs' ? `${test}, which hangs` : test
      return { defence, verdict: 'noticed', by }
    }
  }
  if (doubts.size === 0) return { defence, verdict: 'not noticed', by: 'NOTHING' }
  const why = [...doubts].map(([test, outcome]) => `${test} ${outcome} as it is`)
  return { defence, verdict: 'unclear', by: ['NOTHING', ...why].join('; ') }
}

/** The order in which the text draws them. */
function placeOf({ attack, from }: Defence): string {
  return createHash('sha256').update(`${values.lot} ${attack} ${from}`).digest('hex')
}

function asLine({ defence: { attack, what, file }, by }: Row): string {
  return `| ${attack} | ${what} | ${file} | ${by} |`
}

/** The rows as the results of one test file. */
function reportOf(rows: readonly Row[]): Report {
  const source = 'test/defences/list.txt'
  const linesOf = (verdict: Row['verdict']) =>
    rows.filter(row => row.verdict === verdict).map(row => asLine(row))
  const [failures, skips] = [linesOf('not noticed'), linesOf('unclear')]
  const passed = rows.length - failures.length - skips.length
  const milliseconds = performance.now() - started
  const ok = failures.length === 0
  const file = { path: source, source, ok, passed, failures, skips, milliseconds, details: '' }
  return { files: [file] }
}

try {
  const asked = defences.filter(
    ({ attack }) =>
      wanted.length === 0 ||
      wanted.some(([first = 0, last = first]) => first <= attack && attack <= last),
  )
  const drawn = asked.toSorted((a, b) => (placeOf(a) < placeOf(b) ? -1 : 1))
  const isDrawn = values.some !== undefined || limit !== undefined
  const chosen = isDrawn ? drawn.slice(0, Number(values.some ?? drawn.length)) : asked
  const rows: Row[] = []
  process.stdout.write(
    '| No | Defence | Switched off in | Noticed by |\n| --- | --- | --- | --- |\n',
  )
  for (const defence of chosen) {
    if (limit !== undefined && performance.now() - started > limit) break
    const row = await rowOf(defence)
    rows.push(row)
    process.stdout.write(`${asLine(row)}\n`)
  }
  const report = reportOf(rows)
  const [{ passed, failures, skips } = { passed: 0, failures: [], skips: [] }] = report.files
  process.stdout.write(`\n${passed} of ${rows.length} noticed\n`)
  if (failures.length > 0) process.stdout.write(`not noticed:\n${failures.join('\n')}\n`)
  if (skips.length > 0) process.stdout.write(`unclear:\n${skips.join('\n')}\n`)
  const output = values['json-file']
  if (output !== undefined) writeFileSync(output, JSON.stringify(report))
  // Who runs all of them has the time to look at the unclear ones.
  const isGood = failures.length === 0 && (limit !== undefined || skips.length === 0)
  process.exitCode = isGood ? 0 : 1
} finally {
  rmSync(copy, { recursive: true, force: true })
}
