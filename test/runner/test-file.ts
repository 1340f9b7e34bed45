/**
 * Runs compiled test files, in a process of their own or several in one, and reads the TAP it prints: how many assertions passed, what failed, what was
 * skipped and why. tap-parser knows the format.
 */
import { spawn } from 'node:child_process'
import { join } from 'node:path'
import { Parser, type Result } from 'tap-parser'

export interface TestFile {
  /** Path of the compiled file, relative to the directory of the package. */
  readonly path: string
  /** Whether its process ended with 0 before the limit, and printed a plan. */
  readonly ok: boolean
  /** Its standard output: TAP. */
  readonly tap: string
  /** Its standard error, the last 64 KiB. */
  readonly errors: string
  readonly milliseconds: number
  readonly passed: number
  /** A line for each assertion that failed, or one that says how the process ended. Empty when `ok`. */
  readonly failures: readonly string[]
  /** A line with the reason for each test that was skipped. */
  readonly skips: readonly string[]
}

interface RunOptions {
  readonly cwd: string
  /** Options of Node for the process. */
  readonly nodeOptions: readonly string[]
  readonly env: Readonly<Record<string, string>>
  /** Milliseconds until the process is ended. */
  readonly limit: number
}

/** The program that runs several files. */
const together = join(import.meta.dirname, 'together.js')

/** Takes the names of the files from the command line first. */
const taken = join(import.meta.dirname, 'arguments.js')

const mostOutput = 64 * 1024 * 1024
const mostErrors = 64 * 1024

/** Runs the file to its end, or to the limit. Rejects when no process can be started. */
export async function runTestFile(path: string, options: RunOptions): Promise<TestFile> {
  const { tap, errors, milliseconds, stopped, ended } = await runProcess([path], options)
  const { planned, ...seen } = readTap(tap)
  const ending = ended ?? (planned ? undefined : 'ran no test')
  const ok = ending === undefined && seen.failures.length === 0
  // A process with a failed assertion ends with 1, which says nothing more.
  const more = ending !== undefined && (stopped || seen.failures.length === 0)
  const failures = more ? [...seen.failures, ending] : seen.failures
  return { path, ok, tap, errors, milliseconds, ...seen, failures }
}

/**
 * Runs the files one after the other in one process. Those that passed, or failed by an assertion, have a result; the others, which were
 * not run to their end or spoilt the end of the process, have to be run alone. Rejects when no process can be started.
 */
export async function runTestFiles(
  paths: readonly string[],
  options: RunOptions,
): Promise<{ readonly results: readonly TestFile[]; readonly unfinished: readonly string[] }> {
  const { tap, errors, ended } = await runProcess(
    [`--import=${taken}`, together, ...paths],
    options,
  )
  const results = resultsWithin(tap).map(one => ({ ...one, errors }))
  const failed = results.some(({ ok }) => !ok)
  const complete = results.length === paths.length && (ended === undefined || failed)
  const kept = complete ? results : results.filter(({ ok }) => ok)
  const unfinished = paths.filter(path => !kept.some(result => result.path === path))
  // All passed, and yet the process did not end well: nobody knows by whose fault.
  if (unfinished.length === 0 && ended !== undefined && !failed)
    return { results: [], unfinished: paths }
  return { results: kept, unfinished }
}

interface WithinResult {
  readonly path: string
  readonly reading: Reading
}

/** What the TAP of several files says of each that was run to its end. */
function resultsWithin(tap: string): Omit<TestFile, 'errors'>[] {
  const children: WithinResult[] = []
  const points = new Map<string, Result>()
  const parser = new Parser()
  parser.on('child', (child: Parser) => {
    children.push({ path: child.name, reading: watch(child, []) })
  })
  parser.on('assert', (point: Result) => points.set(point.name, point))
  parser.end(tap)
  return children.flatMap(({ path, reading }) => {
    const point = points.get(path)
    if (point === undefined) return []
    const { planned, empty, passed, skips, lines } = reading
    const ran = planned && !empty
    const ended = point.ok && ran
    const last = `${point.ok ? '' : 'not '}ok - ${path}${ran ? '' : ': ran no test'}`
    const failures = ended || reading.failures.length > 0 ? reading.failures : [last]
    const text = lines.join('')
    return {
      ...{ path, ok: failures.length === 0, passed, skips, failures },
      tap: failures.length > 0 ? `${text}${last}\n${described(point.diag)}` : text,
      milliseconds: point.time ?? 0,
    }
  })
}

/** What a point says of its failure, as in TAP. */
function described(details: unknown): string {
  if (details === null || details === undefined) return ''
  return `  ---\n${JSON.stringify(details, undefined, 2).replace(/^/gm, '  ')}\n  ...\n`
}

interface ProcessResult {
  readonly tap: string
  readonly errors: string
  readonly milliseconds: number
  /** Whether it had to be ended. */
  readonly stopped: boolean
  /** How it ended; undefined when that was with 0. */
  readonly ended: string | undefined
}

function runProcess(args: readonly string[], options: RunOptions): Promise<ProcessResult> {
  const { cwd, nodeOptions, env, limit } = options
  const started = performance.now()
  const child = spawn(process.execPath, ['--enable-source-maps', ...nodeOptions, ...args], {
    cwd,
    env: { ...process.env, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let tap = ''
  let errors = ''
  let stopped: string | undefined
  const stop = (why: string) => {
    stopped ??= why
    // tap answers SIGALRM with a list of what is still open.
    child.kill('SIGALRM')
    timers.push(setTimeout(() => child.kill('SIGKILL'), 5000))
  }
  const timers = [setTimeout(() => stop(`did not end within ${limit / 1000} s`), limit)]
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    if (tap.length <= mostOutput) tap += text
    else if (stopped === undefined) stop(`printed more than ${mostOutput} characters`)
  })
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    errors = (errors + text).slice(-mostErrors)
  })
  return new Promise((resolve, reject) => {
    child.on('error', reject)
    child.on('close', (code, signal) => {
      for (const timer of timers) clearTimeout(timer)
      const ended = stopped ?? howItEnded(code, signal)
      const milliseconds = performance.now() - started
      resolve({ tap, errors, milliseconds, stopped: stopped !== undefined, ended })
    })
  })
}

/** Undefined when the process ended with 0. */
function howItEnded(code: number | null, signal: string | null): string | undefined {
  if (signal !== null) return `ended by ${signal}`
  return code === 0 ? undefined : `ended with exit code ${code}`
}

/** What a TAP stream says. Each failure and each skip is named by the tests it is in, from the outside in. */
export function readTap(
  tap: string,
): Pick<TestFile, 'passed' | 'failures' | 'skips'> & { readonly planned: boolean } {
  const parser = new Parser()
  const reading = watch(parser, [])
  parser.end(tap)
  const { passed, failures, skips, planned } = reading
  return { passed, failures, skips, planned }
}

interface Reading {
  passed: number
  readonly failures: string[]
  readonly skips: string[]
  planned: boolean
  /** Whether the plan says that nothing is to come. */
  empty: boolean
  /** The lines of the stream. */
  readonly lines: string[]
}

/** Gathers what a parser reads. A test counts by its assertions, and by its own point only where none of them has failed. */
function watch(parser: Parser, names: readonly string[]): Reading {
  const reading: Reading = {
    ...{ passed: 0, failures: [], skips: [], planned: false, empty: false, lines: [] },
  }
  gather(parser, { names, reading })
  parser.on('line', (line: string) => reading.lines.push(line))
  // A stream without a plan has one all the same for tap-parser, with this comment.
  parser.on('plan', ({ end, comment }: { end: number; comment: string }) => {
    reading.planned = comment !== 'no tests found'
    reading.empty = end === 0
  })
  return reading
}

interface Place {
  /** The tests that the parser is in. */
  readonly names: readonly string[]
  readonly reading: Pick<Reading, 'passed' | 'failures' | 'skips'>
}

function gather(parser: Parser, { names, reading }: Place): void {
  let child: { readonly name: string; readonly before: number } | undefined
  parser.on('child', (test: Parser) => {
    child = { name: test.name, before: reading.failures.length }
    gather(test, { names: [...names, test.name], reading })
  })
  parser.on('assert', ({ ok, name, skip, todo }: Result) => {
    const ended = child?.name === name ? child : undefined
    child = undefined
    const whole = [...names, name].join(' > ')
    if (skip !== false) reading.skips.push(`${whole}: ${skip === true ? '' : skip}`)
    else if (todo !== false) return
    else if (ok) reading.passed += ended === undefined ? 1 : 0
    // The `not ok` of a subtest adds nothing to those of its assertions.
    else if (ended === undefined || ended.before === reading.failures.length)
      reading.failures.push(whole)
  })
}
