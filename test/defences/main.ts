/**
 * Switches the defences off, one at a time in a copy of the compiled program, and says whether a test notices.
 *
 *     node dist/test/defences/main.js [number of an attack, or a range such as 29-40 ...]
 *     node dist/test/defences/main.js --some=12 --lot=TEXT      twelve of them, which the text chooses
 *
 * Writes a table, and once more the rows that nothing noticed. Ends with 1 when there are any.
 */
import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { packageRoot } from '../../lib/package.ts'
import { type Defence, defences } from './list.ts'

const project = packageRoot()
const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { some: { type: 'string' }, lot: { type: 'string', default: '' } },
})
const wanted = positionals.map(range => range.split('-').map(Number))
const compiled = ['dist', 'templates', 'bin', 'package.json']
/** What tests read besides. */
const read = ['docs', 'man', 'lib', 'demo', 'test', 'package-lock.json']
const copy = mkdtempSync(join(tmpdir(), 'defences-'))
for (const name of [...compiled, ...read]) {
  cpSync(join(project, name), join(copy, name), { recursive: true })
}
symlinkSync(join(project, 'node_modules'), join(copy, 'node_modules'))

/** How a run of a test ended. A test that hangs without a defence most likely waits for a refusal that does not come. */
type Outcome = 'passes' | 'fails' | 'hangs'

/** Seconds that a test may take. */
const LIMIT = 180

/** Runs a test, to its first failure; `only`: the tests in it whose names have this number. */
function outcomeOf(test: string, only?: number): Promise<Outcome> {
  const path = join('dist/test', `${test}.js`)
  return new Promise(resolve => {
    const named = only === undefined ? {} : { TAP_GREP: `/\\b${only}\\b.*:/` }
    const env = { ...process.env, TAP_TIMEOUT: String(LIMIT), TAP_BAIL: '1', ...named }
    // A test in an endless loop does not hear other signals.
    const killSignal = 'SIGKILL'
    const timeout = (LIMIT + 10) * 1000
    const options = { cwd: copy, env, timeout, killSignal, maxBuffer: 1 << 28 } as const
    execFile(process.execPath, [path], options, (error, output) => {
      if (error === null) resolve('passes')
      else resolve(error.killed === true || /timeout!/.test(output) ? 'hangs' : 'fails')
    })
  })
}

const good = new Map<string, Promise<Outcome>>()

/** How a test ends as things are. One that does not pass notices nothing. */
function asItIs(test: string): Promise<Outcome> {
  const known = good.get(test) ?? outcomeOf(test)
  good.set(test, known)
  return known
}

/** The first test that notices, or why none does. */
async function noticedBy(defence: Defence): Promise<{ noticed: boolean; by: string }> {
  const { attack, file, from, to, tests } = defence
  const path = join(copy, 'dist/lib', file)
  const whole = readFileSync(path, 'utf8')
  if (whole.split(from).length !== 2) {
    return { noticed: false, by: `NOT ONE PLACE in ${file}: ${from}` }
  }
  const without = whole.replace(from, () => to)
  const useless: string[] = []
  for (const test of tests) {
    const before = await asItIs(test)
    if (before !== 'passes') {
      useless.push(`${test} ${before} as it is`)
      continue
    }
    writeFileSync(path, without)
    // The tests that are named for the attack are the quickest to notice.
    const named = await outcomeOf(test, attack)
    const outcome = named === 'passes' ? await outcomeOf(test) : named
    writeFileSync(path, whole)
    if (named !== 'passes' && (await outcomeOf(test, attack)) !== 'passes') {
      useless.push(`${test} fails by itself where the tests of ${attack} run alone`)
      continue
    }
    if (outcome !== 'passes') {
      return { noticed: true, by: outcome === 'hangs' ? `${test}, which hangs` : test }
    }
  }
  return { noticed: false, by: ['NOTHING', ...useless].join('; ') }
}

/** The order in which the text draws them. */
function placeOf({ attack, from }: Defence): string {
  return createHash('sha256').update(`${values.lot} ${attack} ${from}`).digest('hex')
}

try {
  const asked = defences.filter(
    ({ attack }) =>
      wanted.length === 0 ||
      wanted.some(([first = 0, last = first]) => first <= attack && attack <= last),
  )
  const drawn = asked.toSorted((a, b) => (placeOf(a) < placeOf(b) ? -1 : 1))
  const chosen = values.some === undefined ? asked : drawn.slice(0, Number(values.some))
  const unnoticed: string[] = []
  process.stdout.write(
    '| No | Defence | Switched off in | Noticed by |\n| --- | --- | --- | --- |\n',
  )
  for (const defence of chosen) {
    const { noticed, by } = await noticedBy(defence)
    const { attack, what, file } = defence
    const row = `| ${attack} | ${what} | ${file} | ${by} |\n`
    if (!noticed) unnoticed.push(row)
    process.stdout.write(row)
  }
  process.stdout.write(`\n${chosen.length - unnoticed.length} of ${chosen.length} noticed\n`)
  if (unnoticed.length > 0) process.stdout.write(`not noticed:\n${unnoticed.join('')}`)
  process.exitCode = unnoticed.length > 0 ? 1 : 0
} finally {
  rmSync(copy, { recursive: true, force: true })
}
