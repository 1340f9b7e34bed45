/**
 * Runs compiled tests, three processes at a time: `npm test` and `npm run test:sso`. Files share a process where they leave nothing
 * behind in it; a file that is named on the command line has one for itself, and so has one that did not end well among others.
 * What fails is printed when its file ends; off a terminal each file has a line then. At the end is a line for each test that failed or
 * was skipped. Ends with 1 when a test failed.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join, relative, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { packageRoot } from '../../lib/package.ts'
import { exitCodes, print, run } from '../../lib/program.ts'
import { canShare, processesFor } from './processes.ts'
import { numbersOf, type Report, summaryLines } from './summary.ts'
import { runTestFile, runTestFiles, type TestFile } from './test-file.ts'

const root = packageRoot()

/** What is no test, or is started by hand or by another command. */
const apart = ['fixtures', 'runner', 'sso', 'real', 'defences'].map(path => `dist/test/${path}`)

/** A program that a person starts, in a folder of tests. */
const byHand = 'dist/test/apt/compare/by-hand.js'

/** Seconds a file may take where --limit says nothing. A file that takes a tenth of it is a slow one. */
const limit = 900

const usage = `node dist/test/runner/main.js [OPTION ...] [PATH ...]

PATH is a test or a folder of tests, of the sources (test/http) or compiled (dist/test/http); without one, all tests of npm test.

  --coverage           record the coverage, and print it at the end
  --jobs=NUMBER        how many processes run at a time (3)
  --limit=SECONDS      how long a file may take (${limit})
  --json-file=FILE     write the results of all files into FILE, with the TAP of those that failed
`

await run('test', async () => {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      coverage: { type: 'boolean', default: false },
      jobs: { type: 'string', default: '3' },
      limit: { type: 'string', default: String(limit) },
      'json-file': { type: 'string' },
      help: { type: 'boolean', default: false },
    },
  })
  if (values.help) {
    await print(usage)
    return exitCodes.success
  }
  // Debian gives its users 002, and what tests write would then be open to a group.
  process.umask(0o022)
  const named = positionals.map(compiled).filter(path => path.endsWith('.js'))
  const files = positionals.length > 0 ? positionals.flatMap(testsOf) : allTests()
  const coverage = values.coverage ? emptyDirectory('.tap/coverage') : undefined
  const options = {
    cwd: root,
    nodeOptions: ['without-hooks', ...(coverage === undefined ? [] : ['coverage'])].map(
      name => `--import=${import.meta.dirname}/${name}.js`,
    ),
    env: {
      // tap gives up on a file after 30 seconds where nothing else is said.
      TAP_TIMEOUT: values.limit,
      // The authorities of this machine are no part of a test, and each process would read them.
      NODE_EXTRA_CA_CERTS: '',
      SSL_CERT_FILE: '/dev/null',
      ...(coverage !== undefined && { COVERAGE_DIRECTORY: coverage }),
    },
    limit: Number(values.limit) * 1000,
  }
  const results: TestFile[] = []
  const done = async (result: TestFile) => {
    results.push(result)
    if (!result.ok) await print(complaint(result))
    await showProgress(results, files.length)
  }
  const waiting = [...processesFor(files, path => !named.includes(path) && shares(path))]
  const worker = async () => {
    for (let paths = waiting.shift(); paths !== undefined; paths = waiting.shift()) {
      const [first = '', ...others] = paths
      if (others.length === 0) await done(await runTestFile(first, options))
      else {
        const { results, unfinished } = await runTestFiles(paths, options)
        for (const result of results) await done(result)
        for (const path of unfinished) await print(`\nrun again, alone: ${sourceOf(path)}\n`)
        waiting.push(...unfinished.map(path => [path]))
      }
    }
  }
  await Promise.all(Array.from({ length: Number(values.jobs) }, worker))
  results.sort((a, b) => files.indexOf(a.path) - files.indexOf(b.path))

  if (coverage !== undefined) await reportCoverage()
  const output = values['json-file']
  const report = reportOf(results)
  if (output !== undefined) writeFileSync(output, JSON.stringify(report))
  await print(summary(report))
  return results.every(({ ok }) => ok) ? exitCodes.success : exitCodes.failure
})

function allTests(): string[] {
  return testsBelow('dist/test').filter(
    path => !apart.some(excluded => path === excluded || path.startsWith(`${excluded}/`)),
  )
}

/** The compiled tests that a path on the command line names. Throws when there are none. */
function testsOf(path: string): string[] {
  const inside = compiled(path)
  const found = inside.endsWith('.js') ? [inside] : testsBelow(inside)
  if (found.length === 0) throw new Error(`${path} has no tests`)
  for (const file of found) statSync(join(root, file))
  return found
}

/** The compiled file or folder that a path names. */
function compiled(path: string): string {
  const inside = relative(root, resolve(path)).replace(/^test\b/, 'dist/test')
  return inside.replace(/\.ts$/, '.js')
}

function shares(path: string): boolean {
  return canShare(readFileSync(join(root, path), 'utf8'))
}

function testsBelow(folder: string): string[] {
  return readdirSync(join(root, folder), { withFileTypes: true })
    .flatMap(entry => {
      const path = join(folder, entry.name)
      if (entry.isDirectory()) return testsBelow(path)
      return path.endsWith('.js') && path !== byHand ? [path] : []
    })
    .sort()
}

function emptyDirectory(path: string): string {
  const directory = join(root, path)
  rmSync(directory, { recursive: true, force: true })
  mkdirSync(directory, { recursive: true })
  return directory
}

/** The name a reader knows: that of the source. */
function sourceOf(path: string): string {
  return path.replace(/^dist\//, '').replace(/\.js$/, '.ts')
}

/** Everything about a file that failed. */
function complaint({ path, tap, errors, failures }: TestFile): string {
  const said = errors === '' ? '' : `--- standard error\n${errors.trimEnd()}\n`
  return `\n=== ${sourceOf(path)}: ${failures.length} failed\n${tap.trimEnd()}\n${said}\n`
}

/** On a terminal one line that says how far the run is, else a line for each file. */
async function showProgress(done: readonly TestFile[], all: number): Promise<void> {
  const last = done.at(-1)
  if (!process.stdout.isTTY && last !== undefined) {
    const took = `${(last.milliseconds / 1000).toFixed(1)} s, ${done.length} of ${all}`
    return print(`${last.ok ? 'passed' : 'FAILED'}: ${sourceOf(last.path)} (${took})\n`)
  }
  const failed = done.filter(({ ok }) => !ok).length
  await print(`\r\u001b[K${done.length} of ${all} files, ${failed} failed\r`)
}

function reportOf(results: readonly TestFile[]): Report {
  const files = results.map(result => {
    const { path, ok, passed, failures, skips, milliseconds } = result
    const details = ok ? '' : complaint(result)
    return { path, source: sourceOf(path), ok, passed, failures, skips, milliseconds, details }
  })
  return { files }
}

/** Prints the coverage of all processes. */
async function reportCoverage(): Promise<void> {
  const report = spawn(
    process.execPath,
    [join(root, 'node_modules/tap/dist/esm/run.mjs'), 'report'],
    {
      cwd: root,
      stdio: ['ignore', 'inherit', 'inherit'],
    },
  )
  await once(report, 'close')
}

/** A line for each test that was skipped or failed, the files that were slow, and the numbers. */
function summary(report: Report): string {
  const { files } = report
  const slow = files
    .filter(({ milliseconds }) => milliseconds > limit * 100)
    .map(({ source, milliseconds }) => `slow: ${source}: ${Math.round(milliseconds / 1000)} s`)
  const end = `${files.length} files: ${numbersOf(report)}`
  return ['', ...slow, ...summaryLines(report), end, ''].join('\n')
}
